//! A provider made of one closure per connection, for what the emulator cannot do: exact bytes, exact closes.
//!
//! Not an HTTP server: it reads requests, and the closure writes anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listener on the loopback.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
}

/// One accepted connection, counted from 0.
pub(crate) struct Connection {
    pub(crate) number: usize,
    tcp: TcpStream,
    read: Vec<u8>,
}

impl Upstream {
    /// Serves every connection with `serve`; the connection closes when that returns.
    pub(crate) async fn start<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(Connection) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(Connection { number, tcp, read: Vec::new() }));
            }
        });
        Self { port, connections }
    }

    /// The number of connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Connection {
    /// Reads one request with its body (by Content-Length or chunked); `None` if the gateway closed.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(length) = whole(&self.read) {
                let request = self.read.drain(..length).collect::<Vec<u8>>();
                return Some(String::from_utf8_lossy(&request).into_owned());
            }
            match self.tcp.read_buf(&mut self.read).await {
                Ok(count) if count > 0 => {}
                _ => return None,
            }
        }
    }

    /// The address that the connection comes from.
    pub(crate) fn peer(&self) -> std::net::IpAddr {
        self.tcp.peer_addr().unwrap().ip()
    }

    pub(crate) async fn write(&mut self, text: &str) {
        // Errors are ignored: the gateway may have closed, and the test checks what follows.
        let _ = self.tcp.write_all(text.as_bytes()).await;
    }

    /// Sends a 200 with this JSON and keeps the connection open.
    pub(crate) async fn send_json(&mut self, json: &str) {
        let length = json.len();
        self.write(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
        ))
        .await;
    }
}

/// The length of the first whole request in `bytes`.
fn whole(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if head.contains("\r\ntransfer-encoding: chunked") {
        let last = bytes[end..].windows(5).position(|five| five == b"0\r\n\r\n")?;
        return Some(end + last + 5);
    }
    let length = head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    (bytes.len() >= end + length).then_some(end + length)
}
