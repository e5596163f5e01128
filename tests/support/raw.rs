//! Bytes on a socket, for requests and answers no HTTP client would send or show.
//!
//! Not a parser: what came is given as it came.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer in this time is a failure of the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub(crate) struct Raw(TcpStream);

/// Sends these bytes on a connection of their own and reads until the other side closes it.
pub(crate) async fn send(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut raw = Raw::connect(port).await;
    raw.write(bytes).await.unwrap();
    raw.read_to_end().await
}

impl Raw {
    /// Connects to a port on the loopback.
    pub(crate) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// # Errors
    /// When the other side has closed the connection.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Sends byte by byte, this far apart, until all is sent or the other side has had enough; says which.
    pub(crate) async fn write_slowly(&mut self, bytes: &[u8], pause: Duration) -> bool {
        for byte in bytes {
            if self.write(&[*byte]).await.is_err() {
                return false;
            }
            tokio::time::sleep(pause).await;
        }
        true
    }

    /// Reads what is there, waiting for it; nothing when the other side has closed.
    pub(crate) async fn read_some(&mut self) -> Vec<u8> {
        let mut read = Vec::with_capacity(16 << 10);
        let some = tokio::time::timeout(PATIENCE, self.0.read_buf(&mut read)).await;
        assert!(some.is_ok(), "nothing within {PATIENCE:?}");
        read
    }

    /// Reads until the other side closes; a reset ends it as well.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = async { while matches!(self.0.read_buf(&mut read).await, Ok(count) if count > 0) {} };
        let ended = tokio::time::timeout(PATIENCE, reading).await;
        assert!(ended.is_ok(), "still open after {PATIENCE:?}");
        read
    }
}
