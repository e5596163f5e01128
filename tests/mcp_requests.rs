//! What MCP servers request of clients while they carry out a call, on the running binary: elicitation, sampling and roots reach the client whose
//! call it is, if that can be asked, and nobody else.

use crate::support::client::new_trace;
use crate::support::mcp_client::{ALL, SETTINGS, deny_leaks, old, post, save};
use crate::support::mcp_events::{Events, SESSION, VERSION, requested, respond, session};
use crate::support::mcp_streaming::McpStreaming;
use crate::support::sdk_server::SdkServer;
use crate::support::{Gateway, packages, wait};
use serde_json::{Value, json};

/// No test waits so long: what ends by it fails.
const TIMEOUT: &str = "limits: {request_timeout_ms: 20000}\n";
fn message(arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "tools__work", "arguments": arguments}})
}

#[tokio::test]
async fn a_server_requests_what_its_client_can_do() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let id = session(&gateway, &[], json!({"elicitation": {"form": {}}, "roots": {"listChanged": true}}))
        .await
        .unwrap();
    let headers = [VERSION, (SESSION, &*id)];
    let params =
        json!({"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}, "x-own": 1.5});
    let requests = json!([{"method": "elicitation/create", "params": params}, "sampling/createMessage",
        {"method": "elicitation/create", "params": {"mode": "url"}}, "ping", "roots/list"]);
    let trace = new_trace();
    let sent = message(&json!({"requests": requests, "text": "done"}));
    let mut events =
        Events::post(&gateway, &[VERSION, (SESSION, &id), ("x-gateway-trace-id", &trace)], &sent).await;
    let first = events.next().await.unwrap();
    let first_id = requested(&first, "elicitation/create");
    assert_eq!(first["params"], params);
    respond(&gateway, &headers, &first_id, json!({"action": "accept", "content": {"a": 1.0}})).await;
    let second = events.next().await.unwrap();
    let second_id = requested(&second, "roots/list");
    assert_ne!(first_id, second_id);
    // The first was responded to, and nobody waits for it.
    respond(&gateway, &headers, &first_id, json!({"roots": []})).await;
    let refusal = json!({"jsonrpc": "2.0", "id": second_id, "error": {"code": -1, "message": "not now"}});
    assert_eq!(post(&gateway, "/mcp", &headers, refusal.to_string()).await.status, 202);
    let rest = events.rest().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!(5)), "{rest:?}");
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
    let responses = server.responses();
    let ids: Vec<&Value> = responses.iter().map(|response| &response["id"]).collect();
    assert_eq!(ids, ["r-0", "r-1", "r-2", "r-3", "r-4"]);
    assert_eq!(responses[0]["result"], json!({"action": "accept", "content": {"a": 1.0}}));
    assert_eq!(
        (&responses[1]["error"]["code"], &responses[2]["error"]["code"]),
        (&json!(-32601), &json!(-32601))
    );
    assert_eq!((&responses[3]["result"], &responses[4]["error"]["message"]), (&json!({}), &json!("not now")));
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&json!(200), &Value::Null), "{line}");
    // A server is told what each client can, in a session for each.
    let got = old(
        &gateway,
        "/mcp",
        "tools/call",
        json!({"name": "tools__work", "arguments": {"requests": ["roots/list"]}}),
    );
    got.await.result();
    assert_eq!(server.responses()[5]["error"]["code"], -32601);
    let mut clients = server.clients();
    clients.sort_by_key(|client| client.to_string().len());
    assert_eq!(clients, [json!({}), json!({"elicitation": {}, "roots": {}})]);
    gateway.idle().await;
}

#[tokio::test]
async fn no_client_responds_in_the_place_of_another() {
    let keys = "auth:\n  keys:\n    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n    \
        - {name: ann, key: tp-ann-0123456789, workspace: default}\n    - {name: bob, key: tp-bob-0123456789, workspace: default}\n";
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}{keys}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let [ann, bob] = ["tp-ann-0123456789", "tp-bob-0123456789"].map(|key| ("x-gateway-api-key", key));
    let id = session(&gateway, &[ann], json!({"elicitation": {}})).await.unwrap();
    let sent = message(&json!({"requests": ["elicitation/create"], "text": "done"}));
    let mut events = Events::post(&gateway, &[ann, VERSION, (SESSION, &id)], &sent).await;
    let request_id = requested(&events.next().await.unwrap(), "elicitation/create");
    respond(&gateway, &[bob, VERSION, (SESSION, &id)], &request_id, json!({"action": "accept", "by": "bob"}))
        .await;
    respond(&gateway, &[ann, VERSION], &json!("r-0"), json!({"action": "accept", "by": "guess"})).await;
    respond(&gateway, &[ann, VERSION], &json!(5), json!({"action": "accept", "by": "guess"})).await;
    respond(&gateway, &[ann, VERSION, (SESSION, &id)], &request_id, json!({"action": "decline"})).await;
    let rest = events.rest().await;
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done", "{rest:?}");
    assert_eq!(server.responses(), [json!({"jsonrpc": "2.0", "id": "r-0", "result": {"action": "decline"}})]);
}

/// A client has a session if it can be asked for something; its id is one that the gateway has made.
#[tokio::test]
async fn sessions_are_their_ids() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    for none in [json!({}), json!({"elicitation": null}), json!({"experimental": {}})] {
        assert_eq!(session(&gateway, &[], none).await, None);
    }
    let id = session(&gateway, &[], json!({"sampling": {}})).await.unwrap();
    assert_ne!(session(&gateway, &[], json!({"sampling": {}})).await.unwrap(), id);
    let sent = message(&json!({"requests": ["sampling/createMessage"], "text": "done"})).to_string();
    for bad in ["s-1", "tp1-04-0", &id.replace("-04-", "-00-")] {
        let refused = post(&gateway, "/mcp", &[VERSION, (SESSION, bad)], sent.clone()).await;
        assert_eq!((refused.status, &refused.body["id"]), (404, &json!(5)), "{bad}: {}", refused.body);
    }
    assert!(server.responses().is_empty());
    // What takes no events cannot be asked.
    let url = format!("{}/mcp", gateway.data_url());
    let call =
        crate::support::client::client().post(url).header(SESSION, &id).header("accept", "application/json");
    let got: Value = call.body(sent).send().await.unwrap().json().await.unwrap();
    assert_eq!(got["result"]["content"][0]["text"], "done", "{got}");
    assert_eq!(server.responses()[0]["error"]["code"], -32601);
    assert_eq!(server.clients(), [json!({})]);
}

/// No check sees what a server requests, nor the response: where checks decide about a call, there is neither.
#[tokio::test]
async fn where_checks_decide_about_a_call_its_server_requests_nothing() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    deny_leaks(&gateway, "input_guardrails").await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let id = session(&gateway, &[], json!({"elicitation": {}})).await.unwrap();
    let sent = message(&json!({"requests": ["elicitation/create"], "text": "done"}));
    let got = post(&gateway, "/mcp", &[VERSION, (SESSION, &id)], sent.to_string()).await;
    assert_eq!(got.result()["content"][0]["text"], "done");
    assert_eq!(server.responses()[0]["error"]["code"], -32601);
    assert_eq!(server.clients(), [json!({})]);
}

#[tokio::test]
async fn what_is_requested_ends_with_its_call() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let id = session(&gateway, &[], json!({"elicitation": {}})).await.unwrap();
    let headers = [VERSION, (SESSION, &*id)];
    let sent = message(&json!({"requests": ["elicitation/create"], "text": "done"}));
    let mut events = Events::post(&gateway, &headers, &sent).await;
    let request_id = requested(&events.next().await.unwrap(), "elicitation/create");
    drop(events);
    wait::until("the stream to be closed", async || (server.open_streams() == 0).then_some(())).await;
    wait::until("the cancellation", async || (!server.cancelled().is_empty()).then_some(())).await;
    gateway.idle().await;
    respond(&gateway, &headers, &request_id, json!({"action": "accept"})).await;
    gateway.idle().await;
    assert!(server.responses().is_empty());
}

/// A server that requests without end has 16 requests wait, and its call ends all the same.
#[tokio::test]
async fn only_so_many_requests_of_a_call_wait() {
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    let server = McpStreaming::start().await;
    save(&gateway, "tools", &server.url(), &ALL()).await;
    let id = session(&gateway, &[], json!({"roots": {}})).await.unwrap();
    let headers = [VERSION, (SESSION, &*id)];
    let arguments =
        json!({"requests": vec!["roots/list"; 100], "at_once": true, "waits": true, "text": "done"});
    let mut events = Events::post(&gateway, &headers, &message(&arguments)).await;
    let mut ids = Vec::new();
    for _ in 0..16 {
        ids.push(requested(&events.next().await.unwrap(), "roots/list"));
    }
    server.release();
    let rest = events.rest().await;
    assert_eq!((rest.len(), &rest[0]["result"]["content"][0]["text"]), (1, &json!("done")), "{rest:?}");
    for id in &ids {
        respond(&gateway, &headers, id, json!({"roots": []})).await;
    }
    gateway.idle().await;
    assert!(server.responses().is_empty());
}

/// The official SDK on both sides: its server reports progress, elicits and samples; its client has callbacks for each.
#[tokio::test]
async fn a_client_by_the_official_sdk_responds_to_a_server_by_it() {
    let Some(server) = SdkServer::start() else { return };
    let gateway = Gateway::start(&format!("{SETTINGS}{TIMEOUT}"));
    save(&gateway, "sdk", &server.url("consulting"), &ALL()).await;
    let mut command = packages::python("mcp", "mcp_callbacks.py").expect("its server has started");
    let ran = command.args([&format!("{}/mcp", gateway.data_url()), "sdk__consult"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {err}"));
    let wanted =
        json!({"result": "[0, 0]", "progress": [[1.0, 4.0]], "elicited": ["Which?"], "sampled": ["Hello"]});
    assert_eq!(found, wanted, "{err}");
}
