//! An MCP server of a test, in raw HTTP, so that it can lie: of either era, with sessions that it forgets, and calls that the test answers.

use super::message::Message;
use super::provider::Provider;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a test makes of a call, by the message: the bytes of the whole HTTP response.
type Answer = dyn Fn(&Value) -> Option<Vec<u8>> + Send + Sync;

/// How a server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FakeEra {
    /// With `Mcp-Session-Id`; responses are events.
    Sessions,
    /// With `initialize` and without sessions.
    Sessionless,
    /// 2026-07-28.
    Stateless,
}

/// A listening server.
pub(crate) struct McpFake {
    pub(crate) provider: Provider,
    session: Arc<AtomicU64>,
    is_down: Arc<AtomicBool>,
    tools: Arc<Mutex<Value>>,
}

impl McpFake {
    /// With the tools `echo`, which repeats its arguments, and `write`, which is not marked as reading only.
    pub(crate) async fn start(era: FakeEra) -> Self {
        Self::with_answer(era, |_| None).await
    }

    /// The same; `answer` answers calls for which it has bytes.
    pub(crate) async fn with_answer(
        era: FakeEra,
        answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let session = Arc::new(AtomicU64::new(1));
        let is_down = Arc::new(AtomicBool::new(false));
        let schema = json!({"type": "object"});
        let tools = Arc::new(Mutex::new(json!([
            {"name": "write", "inputSchema": schema},
            {"name": "echo", "inputSchema": schema, "x-unknown": 1, "annotations": {"readOnlyHint": true}},
        ])));
        let answer: Arc<Answer> = Arc::new(answer);
        let (current, down, listed) = (Arc::clone(&session), Arc::clone(&is_down), Arc::clone(&tools));
        let provider = Provider::start(move |message| {
            if down.load(Ordering::Relaxed) {
                return http("503 Service Unavailable", "", "text/plain", "down");
            }
            respond(era, message, current.load(Ordering::Relaxed), &listed.lock(), &*answer)
        })
        .await;
        Self { provider, session, is_down, tools }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.provider.port)
    }

    /// Forgets all sessions.
    pub(crate) fn lose_sessions(&self) {
        self.session.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    pub(crate) fn set_tools(&self, tools: Value) {
        *self.tools.lock() = tools;
    }

    /// The messages of a method that it received.
    pub(crate) fn received(&self, method: &str) -> Vec<Message> {
        let is_of = |message: &Message| body(message)["method"] == method;
        self.provider.received().into_iter().filter(is_of).collect()
    }
}

pub(crate) fn body(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap_or_default()
}

/// A response of HTTP. `headers`: lines, each with its end.
pub(crate) fn http(status: &str, headers: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A response of JSON-RPC.
pub(crate) fn result(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Why a server of this era refuses a message: the status of HTTP, and the code of the error.
fn refusal(era: FakeEra, message: &Message, session: &str) -> Option<(&'static str, i64)> {
    let sent = body(message);
    let method = sent["method"].as_str().unwrap_or_default();
    let is_stateless = era == FakeEra::Stateless;
    let is_of_other_era = if is_stateless { method == "initialize" } else { method == "server/discover" };
    if is_of_other_era {
        return Some(("400 Bad Request", -32601));
    }
    if era == FakeEra::Sessions && method != "initialize" && message.header("mcp-session-id") != Some(session)
    {
        return Some(("404 Not Found", -32001));
    }
    let meta = &sent["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let is_mirrored = meta == "2026-07-28"
        && message.header("mcp-protocol-version") == Some("2026-07-28")
        && message.header("mcp-method") == Some(method);
    (is_stateless && !is_mirrored).then_some(("400 Bad Request", -32020))
}

fn respond(era: FakeEra, message: &Message, session: u64, tools: &Value, answer: &Answer) -> Vec<u8> {
    let sent = body(message);
    let id = &sent["id"];
    let current = format!("s-{session}");
    let refused = |status: &str, code: i64| {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "refused"}});
        http(status, "", "application/json", &error.to_string())
    };
    if let Some((status, code)) = refusal(era, message, &current) {
        return refused(status, code);
    }
    if id.is_null() {
        return http("202 Accepted", "", "application/json", "");
    }
    if sent["method"] == "tools/call"
        && let Some(bytes) = answer(&sent)
    {
        return bytes;
    }
    let Some(found) = content(&sent, tools) else { return refused("200 OK", -32601) };
    let text = result(id, &found);
    if era != FakeEra::Sessions {
        return http("200 OK", "", "application/json", &text);
    }
    let is_first = sent["method"] == "initialize";
    let headers = if is_first { format!("mcp-session-id: {current}\r\n") } else { String::new() };
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}});
    http(
        "200 OK",
        &headers,
        "text/event-stream",
        &format!("data: {progress}\n\nevent: message\ndata: {text}\n\n"),
    )
}

/// The result of a request; `None`: there is no such method.
fn content(sent: &Value, tools: &Value) -> Option<Value> {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
    let params = &sent["params"];
    Some(match sent["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": capabilities,
            "serverInfo": {"name": "fake", "version": "1"}}),
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}),
        "tools/list" => match params["cursor"].as_str() {
            // Two pages.
            None => json!({"tools": [tools[0]], "nextCursor": "2"}),
            Some(_) => json!({"tools": tools.as_array().unwrap()[1..]}),
        },
        "prompts/list" => json!({"prompts": [{"name": "greet"}, {"name": "hidden"}]}),
        "prompts/get" => json!({"messages": [], "description": params["name"]}),
        "resources/list" => json!({"resources": [{"uri": "file:///a", "name": "a"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "item://{id}", "name": "i"}]})
        }
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "read"}]}),
        "completion/complete" => {
            let of = params["ref"]["name"].as_str().or(params["ref"]["uri"].as_str()).unwrap_or_default();
            let values = [format!("{of}: {}", params["argument"]["value"].as_str().unwrap_or_default())];
            json!({"completion": {"values": values, "hasMore": false}})
        }
        "tools/call" => {
            let text = params["arguments"].to_string();
            let failed = params["arguments"]["fail"] == true;
            json!({"content": [{"type": "text", "text": text}], "x-unknown": [1.5], "isError": failed})
        }
        _ => return None,
    })
}
