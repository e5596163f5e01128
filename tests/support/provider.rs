//! A provider defined by a test: it keeps every byte it receives and responds with bytes the test chose.
//!
//! The emulator responds as real providers do; this is for what no HTTP server would show or send. It runs on
//! the runtime of its test and ends with it.

use super::message::Message;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Responder = dyn Fn(&Message) -> Vec<u8> + Send + Sync;

/// A listening provider.
pub(crate) struct Provider {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<Message>>>,
}

impl Provider {
    /// Responds to each request with the bytes that `respond` returns; if they are empty, it closes the
    /// connection.
    pub(crate) async fn start(respond: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::<Mutex<Vec<Message>>>::default();
        let respond: Arc<Responder> = Arc::new(respond);
        let log = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&respond), Arc::clone(&log)));
            }
        });
        Self { port, received }
    }

    /// Its base URL with the version segment, for `x-gateway-custom-host`.
    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The requests received so far, oldest first.
    pub(crate) fn received(&self) -> Vec<Message> {
        self.received.lock().clone()
    }
}

async fn serve(mut stream: TcpStream, respond: Arc<Responder>, log: Arc<Mutex<Vec<Message>>>) {
    let mut buffer = Vec::new();
    loop {
        while let Some((message, length)) = Message::parse(&buffer, false) {
            buffer.drain(..length);
            let bytes = respond(&message);
            log.lock().push(message);
            if bytes.is_empty() || stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(count) if count > 0) {
            return;
        }
    }
}

/// The body of a whole chat completion, with usage.
pub(crate) fn chat_completion() -> String {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}})
    .to_string()
}
