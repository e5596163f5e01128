//! Bytes on a socket, for requests and responses that no HTTP client would send or show.
//!
//! Nothing is parsed: bytes are returned as received.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A test fails if it waits longer than this for a response.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Raw(TcpStream);

/// Sends these bytes on a new connection and reads until the other side closes it.
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

    /// One that the other side can send little to before it is read.
    pub(crate) async fn connect_with_window(port: u16, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self(socket.connect(std::net::SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap())
    }

    /// # Errors
    /// If the other side has closed the connection.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Sends byte by byte with this pause; returns false if the other side closed the connection before the
    /// end.
    pub(crate) async fn write_slowly(&mut self, bytes: &[u8], pause: Duration) -> bool {
        for byte in bytes {
            if self.write(&[*byte]).await.is_err() {
                return false;
            }
            tokio::time::sleep(pause).await;
        }
        true
    }

    /// Waits for data and reads what is available; empty if the other side has closed.
    pub(crate) async fn read_some(&mut self) -> Vec<u8> {
        let mut read = Vec::with_capacity(16 << 10);
        let some = tokio::time::timeout(READ_TIMEOUT, self.0.read_buf(&mut read)).await;
        assert!(some.is_ok(), "nothing within {READ_TIMEOUT:?}");
        read
    }

    /// Reads until the other side closes or resets the connection.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let reading = async { while matches!(self.0.read_buf(&mut read).await, Ok(count) if count > 0) {} };
        let ended = tokio::time::timeout(READ_TIMEOUT, reading).await;
        assert!(ended.is_ok(), "still open after {READ_TIMEOUT:?}");
        read
    }
}

impl Raw {
    /// Closes the write side; the other side may still respond.
    pub(crate) async fn close_write(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads one response with its body; a body without framing is read until the other side closes.
    pub(crate) async fn read_response(&mut self) -> String {
        self.read_response_to("GET").await
    }

    /// Reads the response to a request of this method: one to HEAD has no body.
    pub(crate) async fn read_response_to(&mut self, method: &str) -> String {
        let mut read = Vec::new();
        let reading = async {
            loop {
                if complete(&read, method == "HEAD") {
                    break;
                }
                let mut byte = [0; 1];
                match self.0.read(&mut byte).await {
                    Ok(count) if count > 0 => read.push(byte[0]),
                    _ => break,
                }
            }
        };
        let ended = tokio::time::timeout(READ_TIMEOUT, reading).await;
        let read = String::from_utf8_lossy(&read).into_owned();
        assert!(ended.is_ok(), "no complete response after {READ_TIMEOUT:?}: {read}");
        read
    }
}

/// Whether these bytes are a complete response.
fn complete(read: &[u8], bodiless: bool) -> bool {
    let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
        return false;
    };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    if bodiless {
        return true;
    }
    if head.contains("transfer-encoding: chunked") {
        return read.ends_with(b"0\r\n\r\n");
    }
    let bare = ["http/1.1 1", "http/1.1 204", "http/1.1 304"];
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => read.len() >= end + length,
        None => bare.iter().any(|start| head.starts_with(start)),
    }
}
