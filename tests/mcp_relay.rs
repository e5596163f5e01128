//! What an MCP server sends within the stream of a call before its response, on the running binary: progress and log messages for the call's
//! client, and for nobody else.

use crate::support::client::{client, new_trace};
use crate::support::mcp_client::{ALL, NEW, SETTINGS, call, deny_leaks, old, post, save};
use crate::support::mcp_events::Events;
use crate::support::mcp_fake::{FakeEra, McpFake, body, http, result};
use crate::support::mcp_streaming::McpStreaming;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};

/// No test waits so long: what ends by it fails.
const TIMEOUT: &str = "limits: {request_timeout_ms: 20000}\n";

fn progress(token: &str, progress: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": progress, "total": 9, "message": "working"}})
}

fn logged(level: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": {"a": 1.0}}})
}

/// A call of a client up to 2025-11-25.
fn message(arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "c-9", "method": "tools/call",
        "params": {"name": "tools__work", "arguments": arguments, "_meta": {"progressToken": "p-1", "k": 1}}})
}

async fn started() -> (Gateway, McpStreaming) {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    (gateway, server)
}

#[tokio::test]
async fn progress_and_log_messages_arrive_while_the_call_is_carried_out() {
    let (gateway, server) = started().await;
    let notes = json!([progress("OWN", 1), progress("p-1", 2), progress("other", 3), logged("debug"), logged("info"),
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, progress("OWN", 4)]);
    let trace = new_trace();
    let sent = message(&json!({"notes": notes, "waits": true, "text": "done"}));
    let mut events = Events::post(&gateway, &[("x-gateway-trace-id", &trace)], &sent).await;
    assert_eq!(events.headers()["x-gateway-trace-id"], *trace);
    assert_eq!(events.next().await.unwrap(), progress("p-1", 1));
    assert_eq!(events.next().await.unwrap(), logged("info"));
    assert_eq!(events.next().await.unwrap(), progress("p-1", 4));
    let meta = &server.last_call()["params"]["_meta"];
    assert!(meta["progressToken"].is_u64() && meta["k"] == 1, "{meta}");
    server.release();
    let rest = events.rest().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!("c-9")), "{rest:?}");
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&json!(200), &Value::Null), "{line}");
    gateway.idle().await;
}

/// A server that refuses a call has nothing to tell its client meanwhile.
#[tokio::test]
async fn what_comes_with_an_error_status_is_not_passed_on() {
    let answer = |sent: &Value| {
        (sent["method"] == "tools/call").then(|| {
            let reply = result(&sent["id"], &json!({"content": []}));
            let stream = format!("data: {}\n\ndata: {reply}\n\n", logged("error"));
            http("503 Service Unavailable", "", "text/event-stream", &stream)
        })
    };
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpFake::with_answer(FakeEra::Sessions, answer).await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let mut sent = message(&json!({}));
    sent["params"]["name"] = json!("tools__echo");
    let got = post(&gateway, "/mcp", &[], sent.to_string()).await;
    assert_eq!(got.headers["content-type"], "application/json", "{}", got.body);
    assert!(!got.body.to_string().contains("notifications/message"), "{}", got.body);
    assert_eq!(server.received("tools/call").len(), 1);
}

/// A response of which nothing else comes is one document, and so is one to a client that takes no events.
#[tokio::test]
async fn without_messages_or_events_the_response_is_a_document() {
    let (gateway, server) = started().await;
    let arguments = json!({"notes": [progress("OWN", 1), logged("error")], "text": "done"});
    let sent = client().post(format!("{}/mcp", gateway.data_url())).header("accept", "application/json");
    let response = sent.json(&message(&arguments)).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    let got: Value = response.json().await.unwrap();
    assert_eq!(got["result"]["content"][0]["text"], "done", "{got}");
    assert_eq!(server.last_call()["params"]["_meta"], json!({"k": 1}), "nobody gets its progress");
    let text = message(&json!({"notes": [progress("other", 1)], "text": "done"})).to_string();
    assert_eq!(post(&gateway, "/mcp", &[], text).await.result()["content"][0]["text"], "done");
    // Without a token of the client there is no progress.
    let plain = call("tools__work", json!({"notes": [progress("OWN", 1)], "text": "done"}));
    let got = old(&gateway, "/mcp", "tools/call", plain).await;
    assert_eq!(got.result()["content"][0]["text"], "done");
}

/// What ends without its response says so, and its status is that of the log.
#[tokio::test]
async fn a_stream_that_is_cut_off_ends_with_an_error() {
    let (gateway, server) = started().await;
    let trace = new_trace();
    let sent = message(&json!({"notes": [progress("OWN", 1)], "cuts": true}));
    let rest = Events::post(&gateway, &[("x-gateway-trace-id", &trace)], &sent).await.rest().await;
    assert_eq!((rest.len(), &rest[0]), (2, &progress("p-1", 1)), "{rest:?}");
    assert_eq!((&rest[1]["id"], rest[1]["error"]["code"].is_i64()), (&json!("c-9"), true), "{rest:?}");
    let line = gateway.access_line(&trace).await;
    assert!(line["error_code"].is_string(), "{line}");
    // An error before the first message is a document.
    let text = message(&json!({"cuts": true})).to_string();
    assert!(post(&gateway, "/mcp", &[], text).await.code() < 0);
    drop(server);
}

#[tokio::test]
async fn a_client_that_leaves_the_stream_ends_the_call() {
    let (gateway, server) = started().await;
    let trace = new_trace();
    let sent = message(&json!({"notes": [progress("OWN", 1)], "waits": true}));
    let mut events = Events::post(&gateway, &[("x-gateway-trace-id", &trace)], &sent).await;
    assert_eq!(events.next().await.unwrap(), progress("p-1", 1));
    let id = server.last_call()["id"].clone();
    drop(events);
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "caller_left", "{line}");
    wait::until("the stream to be closed", async || (server.open_streams() == 0).then_some(())).await;
    wait::until("the cancellation", async || (server.cancelled() == [id.clone()]).then_some(())).await;
    gateway.idle().await;
}

/// A check judges the result as a whole; the texts of what goes before it are not sent at all.
#[tokio::test]
async fn where_checks_decide_about_results_nothing_but_numbers_goes_before_them() {
    let (gateway, server) = started().await;
    deny_leaks(&gateway, "output_guardrails").await;
    for (text, is_denied) in [("fine", false), ("it is leaked", true)] {
        let sent = message(&json!({"notes": [progress("OWN", 1), logged("error")], "text": text}));
        let rest = Events::post(&gateway, &[], &sent).await.rest().await;
        let numbers = json!({"progressToken": "p-1", "progress": 1, "total": 9});
        assert_eq!((rest.len(), &rest[0]["params"]), (2, &numbers), "{rest:?}");
        assert_eq!((&rest[1]["id"], rest[1]["error"].is_object()), (&json!("c-9"), is_denied), "{rest:?}");
        assert!(!rest[1].to_string().contains("leaked"));
    }
    drop(server);
}

/// Clients of 2026-07-28 say in each request which log messages they want; one up to 2025-11-25 gets those from `info` on.
#[tokio::test]
async fn log_messages_cross_the_eras() {
    let (gateway, _server) = started().await;
    let arguments = json!({"notes": [logged("info"), logged("warning")], "text": "done"});
    for (level, count) in [(Some("warning"), 2), (Some("debug"), 3), (None, 1)] {
        let mut meta = json!({"io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 5});
        if let Some(level) = level {
            meta["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        let sent = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "tools__work", "arguments": arguments, "_meta": meta}});
        let headers =
            [("mcp-protocol-version", NEW), ("mcp-method", "tools/call"), ("mcp-name", "tools__work")];
        if count == 1 {
            assert!(post(&gateway, "/mcp", &headers, sent.to_string()).await.body["result"].is_object());
            continue;
        }
        let rest = Events::post(&gateway, &headers, &sent).await.rest().await;
        assert_eq!(rest.len(), count, "{rest:?}");
        assert_eq!(rest[count - 2], logged("warning"));
        assert_eq!(rest[count - 1]["result"]["resultType"], "complete");
    }
    // A server of 2026-07-28 sends what the request wants.
    let answer = |sent: &Value| {
        let response = result(&sent["id"], &json!({"content": [{"type": "text", "text": "done"}]}));
        let meta = &sent["params"]["_meta"];
        let mut note = progress("OWN", 1);
        note["params"]["progressToken"] = meta["progressToken"].clone();
        let level = logged(meta["io.modelcontextprotocol/logLevel"].as_str().unwrap_or("none"));
        let events = format!("data: {note}\n\ndata: {level}\n\ndata: {response}\n\n");
        Some(http("200 OK", "", "text/event-stream", &events))
    };
    let server = McpFake::with_answer(FakeEra::Stateless, answer).await;
    save(&gateway, "newer", &server.url(), &ALL()).await;
    let mut sent = message(&json!({}));
    sent["params"]["name"] = json!("newer__echo");
    let rest = Events::post(&gateway, &[], &sent).await.rest().await;
    assert_eq!(rest[..2], [progress("p-1", 1), logged("info")], "{rest:?}");
    assert_eq!(body(&server.received("tools/call")[0])["params"]["_meta"]["k"], 1);
}
