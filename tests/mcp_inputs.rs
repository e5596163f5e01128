//! Input that MCP servers of 2026-07-28 need before they carry out a call, on the running binary: clients up to 2025-11-25 are asked for it, and
//! the call is sent again with it.

use crate::support::client::new_trace;
use crate::support::mcp_client::{ALL, SETTINGS, post, save};
use crate::support::mcp_events::{Events, SESSION, VERSION, requested, respond, session};
use crate::support::mcp_fake::{FakeEra, McpFake, body, http, result};
use crate::support::sdk_server::SdkServer;
use crate::support::{Gateway, packages, wait};
use serde_json::{Value, json};

/// No test waits so long: what ends by it fails.
const TIMEOUT: &str = "limits: {request_timeout_ms: 20000}\n";

fn message() -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "tools__echo", "arguments": {"a": 1.0}}})
}

/// What a server needs; its state is the number of the round.
fn needed(sent: &Value, round: u64, requests: Value) -> Vec<u8> {
    let result = result(
        &sent["id"],
        &json!({"resultType": "input_required", "inputRequests": requests, "requestState": round.to_string()}),
    );
    http("200 OK", "", "application/json", &result)
}

fn round_of(sent: &Value) -> u64 {
    sent["params"]["requestState"].as_str().map_or(0, |state| state.parse().unwrap())
}

fn elicitation() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object"}}})
}

async fn started(answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static) -> (Gateway, McpFake) {
    started_with("", answer).await
}

async fn started_with(
    more: &str,
    answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Gateway, McpFake) {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}{more}"));
    let server = McpFake::with_answer(FakeEra::Stateless, answer).await;
    let object = json!({"name": "tools", "slug": "tools", "url": server.url(), "access": ALL(), "prices": {"echo": 0.5}});
    gateway.create("/v1/mcp-servers", &object).await;
    (gateway, server)
}

#[tokio::test]
async fn a_call_is_sent_again_with_what_the_client_gives() {
    let answer = |sent: &Value| match round_of(sent) {
        0 => Some(needed(sent, 1, json!({"first": elicitation(), "second": {"method": "roots/list"}}))),
        1 => Some(needed(sent, 2, json!({"third": elicitation()}))),
        _ => None,
    };
    let (gateway, server) = started(answer).await;
    let id = session(&gateway, &[], json!({"elicitation": {}, "roots": {}})).await.unwrap();
    let trace = new_trace();
    let headers = [VERSION, (SESSION, &*id), ("x-gateway-trace-id", &*trace)];
    let mut events = Events::post(&gateway, &headers, &message()).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["params"], elicitation()["params"]);
    let second = events.next().await.unwrap();
    respond(
        &gateway,
        &[VERSION],
        &requested(&second, "roots/list"),
        json!({"roots": [{"uri": "file:///a"}]}),
    )
    .await;
    respond(
        &gateway,
        &[VERSION],
        &requested(&first, "elicitation/create"),
        json!({"action": "accept", "content": {"n": 1.0}}),
    )
    .await;
    let third = events.next().await.unwrap();
    respond(&gateway, &[VERSION], &requested(&third, "elicitation/create"), json!({"action": "decline"}))
        .await;
    let rest = events.rest().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!(5)), "{rest:?}");
    assert_eq!(rest[0]["result"]["content"][0]["text"], r#"{"a":1.0}"#);
    let calls: Vec<Value> = server.received("tools/call").iter().map(body).collect();
    assert_eq!(calls.len(), 3);
    let given: Vec<&Value> = calls.iter().map(|call| &call["params"]["inputResponses"]).collect();
    let both = json!({"first": {"action": "accept", "content": {"n": 1.0}}, "second": {"roots": [{"uri": "file:///a"}]}});
    assert_eq!(given, [&Value::Null, &both, &json!({"third": {"action": "decline"}})]);
    for call in &calls {
        assert_eq!(
            (&call["params"]["name"], &call["params"]["arguments"]),
            (&json!("echo"), &json!({"a": 1.0}))
        );
        let capabilities = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(capabilities, &json!({"elicitation": {}, "roots": {}}));
    }
    let line = gateway.access_line(&trace).await;
    assert_eq!(
        (&line["status"], &line["error_code"], &line["cost_usd"]),
        (&json!(200), &Value::Null, &json!(0.005)),
        "{line}"
    );
    gateway.idle().await;
}

/// However many rounds a call has, what is held for it is for one call.
#[tokio::test]
async fn a_budget_for_one_call_is_enough_for_all_its_rounds() {
    const KEYS: &str = "auth:\n  keys:\n    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n    \
        - {name: once, key: tp-once-0123456789, workspace: default, usage_limits: [{credit_limit: 0.005, hard: true}]}\n";
    let answer = |sent: &Value| match round_of(sent) {
        round @ 0..3 => Some(needed(sent, round + 1, json!({"a": elicitation()}))),
        _ => None,
    };
    let (gateway, server) = started_with(KEYS, answer).await;
    let key = ("x-gateway-api-key", "tp-once-0123456789");
    let id = session(&gateway, &[key], json!({"elicitation": {}})).await.unwrap();
    let headers = [key, VERSION, (SESSION, &*id)];
    let mut events = Events::post(&gateway, &headers, &message()).await;
    for _ in 0..3 {
        let id = requested(&events.next().await.unwrap(), "elicitation/create");
        respond(&gateway, &[key, VERSION], &id, json!({"action": "accept", "content": {}})).await;
    }
    let rest = events.rest().await;
    assert_eq!(rest[0]["result"]["content"][0]["text"], r#"{"a":1.0}"#, "{rest:?}");
    gateway.idle().await;
    let spent = post(&gateway, "/mcp", &headers, message().to_string()).await;
    assert!(spent.body["error"]["message"].is_string(), "{}", spent.body);
    assert_eq!(server.received("tools/call").len(), 4, "nothing is left for another call");
}

/// A server that never has enough, one that needs what the client cannot give, and a client that gives nothing.
#[tokio::test]
async fn a_call_ends_where_its_server_never_has_enough() {
    let answer = |sent: &Value| {
        let round = round_of(sent) + 1;
        let requests = match sent["params"]["arguments"]["needs"].as_str() {
            Some(method) => json!({"a": {"method": method}}),
            None => json!({}),
        };
        Some(needed(sent, round, requests))
    };
    let (gateway, server) = started(answer).await;
    let id = session(&gateway, &[], json!({"elicitation": {}})).await.unwrap();
    let headers = [VERSION, (SESSION, &*id)];
    let refused = post(&gateway, "/mcp", &headers, message().to_string()).await;
    assert_eq!((refused.code(), server.received("tools/call").len()), (-32603, 9), "{}", refused.body);
    let needs = |method: &str| {
        let mut message = message();
        message["params"]["arguments"]["needs"] = json!(method);
        message
    };
    for (headers, method) in [(&headers[..], "sampling/createMessage"), (&headers[..1], "elicitation/create")]
    {
        let before = server.received("tools/call").len();
        let refused = post(&gateway, "/mcp", headers, needs(method).to_string()).await;
        assert_eq!((refused.code(), server.received("tools/call").len()), (-32603, before + 1), "{method}");
    }
    let before = server.received("tools/call").len();
    let mut events = Events::post(&gateway, &headers, &needs("elicitation/create")).await;
    let request = requested(&events.next().await.unwrap(), "elicitation/create");
    let text = json!({"jsonrpc": "2.0", "id": request, "error": {"code": -1, "message": "no"}}).to_string();
    assert_eq!(post(&gateway, "/mcp", &headers, text).await.status, 202);
    let rest = events.rest().await;
    assert_eq!((rest.len(), &rest[0]["error"]["code"]), (1, &json!(-32603)), "{rest:?}");
    assert_eq!(server.received("tools/call").len(), before + 1);
}

#[tokio::test]
async fn a_client_that_leaves_is_waited_for_no_longer() {
    let answer = |sent: &Value| Some(needed(sent, 1, json!({"a": elicitation()})));
    let (gateway, server) = started(answer).await;
    let id = session(&gateway, &[], json!({"elicitation": {}})).await.unwrap();
    let trace = new_trace();
    let headers = [VERSION, (SESSION, &*id), ("x-gateway-trace-id", &*trace)];
    let mut events = Events::post(&gateway, &headers, &message()).await;
    requested(&events.next().await.unwrap(), "elicitation/create");
    drop(events);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["error_code"], &line["cost_usd"]), (&json!("caller_left"), &json!(0.005)), "{line}");
    gateway.idle().await;
    assert_eq!(server.received("tools/call").len(), 1);
}

/// A person who does not respond has as long as a server may take for a call.
#[tokio::test]
async fn input_that_never_comes_ends_the_call() {
    let gateway = Gateway::start(&format!("{SETTINGS}limits: {{request_timeout_ms: 500}}\n"));
    let server =
        McpFake::with_answer(FakeEra::Stateless, |sent| Some(needed(sent, 1, json!({"a": elicitation()}))))
            .await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let id = session(&gateway, &[], json!({"elicitation": {}})).await.unwrap();
    let rest = Events::post(&gateway, &[VERSION, (SESSION, &id)], &message()).await.rest().await;
    assert_eq!((rest.len(), &rest[1]["error"]["code"]), (2, &json!(-32603)), "{rest:?}");
    wait::until("the call", async || server.received("tools/call").pop()).await;
}

/// The official SDK on both sides, each of another era.
#[tokio::test]
async fn an_old_client_by_the_official_sdk_responds_to_a_new_server_by_it() {
    let Some(server) = SdkServer::start() else { return };
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    save(&gateway, "sdk", &server.url("inquiring"), &ALL()).await;
    let mut command = packages::python("mcp", "mcp_callbacks.py").expect("its server has started");
    let ran = command.args([&format!("{}/mcp", gateway.data_url()), "sdk__consult"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
    assert_eq!(
        (&found["result"], &found["elicited"]),
        (&json!("accept"), &json!(["Which?"])),
        "{found} {err}"
    );
}
