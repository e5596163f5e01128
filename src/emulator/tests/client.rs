//! An emulator on a free port and two clients for it: reqwest, and bytes on a socket.

use crate::{Emulator, Options, Recordings};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Far longer than anything here takes: a test that waits this long has failed.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) http: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(super) async fn replaying(lines: &str) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        let recordings = Some(Recordings::load(file.path()).unwrap());
        Self::start_with(Options { recordings, ..Options::default() }).await
    }

    async fn start_with(options: Options) -> Self {
        // Another test may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let emulator = Emulator::new(options);
            emulator.serve(listener, async { stopped.await.unwrap_or_default() }).await;
        });
        let http = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        Self { address, http, stop: Some(stop), task }
    }

    pub(super) fn shut_down(&mut self) {
        self.stop.take();
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends JSON and returns status and body.
    pub(super) async fn post(&self, path: &str, body: Value) -> (u16, String) {
        let response = self.http.post(self.url(path)).json(&body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Sends JSON, expects 200 and returns the JSON of the response.
    pub(super) async fn post_ok(&self, path: &str, body: Value) -> Value {
        let (status, text) = self.post(path, body).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect(&text)
    }

    pub(super) async fn fetch(&self, path: &str) -> Value {
        self.http.get(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    pub(super) async fn delete(&self, path: &str) -> (u16, Value) {
        let response = self.http.delete(self.url(path)).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The log entries of a tag, once all its requests have ended.
    pub(super) async fn log(&self, tag: &str) -> Vec<Value> {
        let log = self.fetch(&format!("/_emulator/requests?tag={tag}&wait=5000")).await;
        log.as_array().unwrap().clone()
    }
}

/// A chat request as bytes on a socket.
pub(super) fn chat_bytes(model: &str, stream: bool) -> Vec<u8> {
    let body =
        format!(r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"Hi"}}]}}"#);
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// What was received, and how the connection ended: `None` if nothing arrived for `idle_timeout`.
pub(super) async fn exchange(
    tcp: &mut TcpStream,
    request: &[u8],
    idle_timeout: Duration,
) -> (Vec<u8>, Option<io::Result<()>>) {
    tcp.write_all(request).await.unwrap();
    let mut got = Vec::new();
    loop {
        match tokio::time::timeout(idle_timeout, tcp.read_buf(&mut got)).await {
            Err(_) => return (got, None),
            Ok(Ok(0)) => return (got, Some(Ok(()))),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return (got, Some(Err(error))),
        }
    }
}

/// The JSON of each event's data.
pub(super) fn events(sse: &str) -> Vec<Value> {
    let data = sse.split("\n\n").filter_map(|event| event.split_once("data: "));
    data.filter(|(_, data)| *data != "[DONE]")
        .map(|(_, data)| serde_json::from_str(data).expect(data))
        .collect()
}
