//! Calls of MCP servers that respond with streams, on the running binary: servers that request something meanwhile, that leave their stream
//! open, that hang; and clients that leave.

use crate::support::client::{client, new_trace};
use crate::support::mcp_client::{ALL, SETTINGS, call, deny_leaks, old, post, save};
use crate::support::mcp_fake::{FakeEra, McpFake, body};
use crate::support::mcp_streaming::McpStreaming;
use crate::support::sdk_server::SdkServer;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};

/// No test waits so long: what ends by it fails.
const TIMEOUT: &str = "limits: {request_timeout_ms: 20000}\n";

/// The gateway has nobody whom it could ask, and says so at once: the server goes on with its call.
#[tokio::test]
async fn what_a_server_requests_during_a_call_is_refused_at_once() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let requests = ["ping", "sampling/createMessage", "elicitation/create", "roots/list"];
    let arguments = json!({"requests": requests, "text": "done", "ends": true});
    let called = old(&gateway, "/mcp", "tools/call", call("tools__work", arguments)).await;
    assert_eq!(called.result()["content"][0]["text"], "done", "{}", called.body);
    let responses = server.responses();
    assert_eq!(responses.len(), requests.len(), "{responses:?}");
    assert_eq!(responses[0], json!({"jsonrpc": "2.0", "id": "r-0", "result": {}}));
    for (number, response) in responses.iter().enumerate().skip(1) {
        assert_eq!(response["id"], format!("r-{number}"));
        assert_eq!(response["error"]["code"], -32601, "{response}");
        let why = response["error"]["message"].as_str().unwrap();
        assert!(why.contains(requests[number]), "{why}");
    }
}

/// The same of a server by the official SDK, which sends its requests in the stream of the call and waits for the response to each.
#[tokio::test]
async fn a_server_by_the_official_sdk_goes_on_without_what_it_requests() {
    let Some(server) = SdkServer::start() else { return };
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    save(&gateway, "sdk", &server.url("consulting"), &ALL()).await;
    let called = old(&gateway, "/mcp", "tools/call", call("sdk__consult", json!({}))).await;
    assert_eq!(called.result()["content"][0]["text"], "[-32601, -32601]", "{}", called.body);
}

/// Behind the response nothing of the call can follow, so the gateway ends it, and closes the stream.
#[tokio::test]
async fn a_call_ends_with_its_response_whether_its_stream_does_or_not() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    for (requests, times) in [(json!([]), 1), (json!(["ping"]), 10_000), (json!([]), 600_000)] {
        let trace = new_trace();
        let arguments = json!({"requests": requests, "text": "0123456789", "times": times});
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("tools__work", arguments)});
        let called = post(&gateway, "/mcp", &[("x-gateway-trace-id", &trace)], text.to_string()).await;
        assert_eq!(called.result()["content"][0]["text"].as_str().unwrap().len(), 10 * times);
        let line = gateway.access_line(&trace).await;
        assert_eq!((&line["status"], &line["error_code"]), (&json!(200), &Value::Null), "{line}");
        assert_eq!(line["attempts"].as_array().map(Vec::len), Some(1), "{line}");
        wait::until("the stream to be closed", async || (server.open_streams() == 0).then_some(())).await;
    }
    gateway.idle().await;
}

/// The result is judged before the client has any of it, also where its stream stays open.
#[tokio::test]
async fn the_result_in_an_open_stream_is_judged() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    deny_leaks(&gateway, "output_guardrails").await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let work = async |text: &str| {
        old(&gateway, "/mcp", "tools/call", call("tools__work", json!({"text": text}))).await
    };
    let passed = work("fine").await;
    assert_eq!(passed.result()["content"][0]["text"], "fine");
    let denied = work("it is leaked").await;
    assert_eq!(denied.code(), -32000, "{}", denied.body);
    assert!(!denied.body.to_string().contains("leaked"), "{}", denied.body);
    wait::until("the streams to be closed", async || (server.open_streams() == 0).then_some(())).await;
}

/// A server that hangs: whether it has begun its response or not.
const HANGING: [&[u8]; 2] =
    [b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"];

#[tokio::test]
async fn the_error_of_a_timeout_names_the_setting() {
    let gateway = Gateway::start(&format!("{SETTINGS}limits: {{request_timeout_ms: 700}}\n"));
    for (number, bytes) in HANGING.into_iter().enumerate() {
        let server = McpFake::with_answer(FakeEra::Stateless, |_| Some(bytes.to_vec())).await;
        let slug = format!("slow-{number}");
        save(&gateway, &slug, &server.url(), &ALL()).await;
        let got = old(&gateway, "/mcp", "tools/call", call(&format!("{slug}__echo"), json!({}))).await;
        let why = got.body["error"]["message"].as_str().unwrap();
        assert!(why.contains(&slug) && why.contains("700 ms (limits.request_timeout_ms"), "{why}");
        assert!(why.contains("60 seconds") && !why.contains("sent in the request"), "{why}");
    }
}

/// Whoever has had a server carry out a call pays for it, whether they wait for its result or not.
#[tokio::test]
async fn a_client_that_leaves_pays_for_its_call() {
    let keys = "auth:\n  keys:\n    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n    \
        - {name: soft, key: tp-soft-0123456789, workspace: default, usage_limits: [{credit_limit: 0.01}]}\n";
    let gateway = Gateway::start(&format!("{SETTINGS}{keys}"));
    for (number, bytes) in HANGING.into_iter().enumerate() {
        let server = McpFake::with_answer(FakeEra::Sessions, |_| Some(bytes.to_vec())).await;
        let slug = format!("slow-{number}");
        let object = json!({"name": slug, "slug": slug, "url": server.url(), "access": ALL(), "prices": {"echo": 0.5}});
        gateway.create("/v1/mcp-servers", &object).await;
        let trace = new_trace();
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call(&format!("{slug}__echo"), json!({}))});
        let sent = client().post(format!("{}/mcp", gateway.data_url()));
        let sent =
            sent.header("x-gateway-api-key", "tp-soft-0123456789").header("x-gateway-trace-id", &trace);
        let sent = tokio::spawn(sent.json(&text).send());
        wait::until("the call", async || server.received("tools/call").pop()).await;
        sent.abort();
        let line = gateway.access_line(&trace).await;
        assert_eq!((&line["status"], &line["cost_usd"]), (&json!(499), &json!(0.005)), "{line}");
        let cancelled =
            wait::until("the cancellation", async || server.received("notifications/cancelled").pop());
        let called = body(&server.received("tools/call").pop().unwrap());
        assert_eq!(body(&cancelled.await)["params"]["requestId"], called["id"]);
    }
    // The two have used up the budget.
    gateway.idle().await;
    let text =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("slow-0__echo", json!({}))});
    let refused =
        post(&gateway, "/mcp", &[("x-gateway-api-key", "tp-soft-0123456789")], text.to_string()).await;
    assert_eq!(refused.body["error"]["data"]["type"], "usage_limits_exhaust_error", "{}", refused.body);
}
