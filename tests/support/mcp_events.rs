//! A client of a test that reads the response to a call at the MCP endpoint event by event, and responds to what it is asked for.

use super::Gateway;
use super::client::client;
use super::mcp_client::post;
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

pub(crate) const VERSION: (&str, &str) = ("mcp-protocol-version", "2025-11-25");
pub(crate) const SESSION: &str = "mcp-session-id";

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

/// Begins a session. Its id, if the client gets one.
pub(crate) async fn session(
    gateway: &Gateway,
    headers: &[(&str, &str)],
    capabilities: Value,
) -> Option<String> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
    let text = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let begun = post(gateway, "/mcp", headers, text).await;
    assert_eq!(begun.result()["protocolVersion"], "2025-11-25");
    begun.headers.get(SESSION).map(|id| id.to_str().unwrap().to_owned())
}

pub(crate) async fn respond(gateway: &Gateway, headers: &[(&str, &str)], id: &Value, result: Value) {
    let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let accepted = post(gateway, "/mcp", headers, text).await;
    assert_eq!((accepted.status, accepted.body), (202, json!("")));
}

/// A request of the gateway to its client. Its id.
pub(crate) fn requested(message: &Value, method: &str) -> Value {
    assert_eq!((&message["jsonrpc"], &message["method"]), (&json!("2.0"), &json!(method)), "{message}");
    let id = message["id"].as_str().unwrap();
    assert!(id.len() == 35 && id.starts_with("tp-"), "{id}");
    message["id"].clone()
}
