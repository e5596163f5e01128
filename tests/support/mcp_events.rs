//! A client of a test that reads the response to a call at the MCP endpoint event by event.

use super::Gateway;
use super::client::client;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// A stream of events, as far as it was read.
pub(crate) struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    /// Sends a message, and waits for the head of the response, which must be a stream.
    pub(crate) async fn post(gateway: &Gateway, headers: &[(&str, &str)], message: &Value) -> Self {
        let mut call = client().post(format!("{}/mcp", gateway.data_url()));
        call = call.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        let response = call.json(message).send().await.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        if !kind.starts_with("text/event-stream") {
            panic!("{kind}: {}", response.text().await.unwrap());
        }
        assert_eq!(response.status(), 200);
        Self { response, buffer: String::new() }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next message; `None`: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data = event.strip_prefix("event: message\ndata: ").unwrap_or_else(|| panic!("{event}"));
                let message = serde_json::from_str(data).unwrap_or_else(|_| panic!("{data}"));
                self.buffer = rest.to_owned();
                return Some(message);
            }
            let Some(chunk) = self.response.chunk().await.unwrap() else {
                assert_eq!(self.buffer, "");
                return None;
            };
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// All that is left of it.
    pub(crate) async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}
