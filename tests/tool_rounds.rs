//! Chats with tools of MCP servers that the gateway calls for a model (`tools: [{"type": "mcp"}]`), on the running binary: whole and streamed,
//! bounds, limits and the log.
//!
//! The servers are `support::mcp_fake`; responses are `response_rounds`.

use crate::support::client::{chat_at, client, new_trace};
use crate::support::expected::data;
use crate::support::mcp_client::{ALL, SETTINGS, save};
use crate::support::mcp_fake::{FakeEra, McpFake, body, http};
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::round_models::{
    ECHO, call, chat, chat_model, chunk, event_stream, json_response, results, sent,
};
use crate::support::settings::KEY;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};

#[tokio::test]
async fn a_chat_has_its_tools_called_and_one_answer() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessions).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = chat_model(ECHO).await;
    let trace = new_trace();
    let own = json!({"type": "function", "function": {"name": "mine", "parameters": {"type": "object"}}});
    let mcp = json!({"type": "mcp", "server_label": "files", "require_approval": "never", "allowed_tools": ["echo"]});
    let (status, answer) =
        sent(&gateway, &trace, &provider, &chat(false, &json!({"tools": [own, mcp]}))).await;
    assert_eq!(status, 200, "{answer}");
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["content"], &message["tool_calls"]), (&json!("Looking.\n\nFound."), &Value::Null));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}));
    let arguments = r#"{"n":1.5,"path":"a"}"#;
    let reported =
        json!({"server_label": "files", "name": "echo", "arguments": arguments, "status": "completed"});
    assert_eq!(answer["mcp_calls"], json!([reported]));

    let requests: Vec<Value> = provider.received().iter().map(body).collect();
    assert_eq!(requests.len(), 2);
    let offered = &requests[0]["tools"];
    assert_eq!((&offered[0], &offered[1]["function"]["name"]), (&own, &json!("files__echo")));
    assert_eq!((offered.as_array().unwrap().len(), &offered[1]["type"]), (2, &json!("function")));
    let messages = requests[1]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[1]["tool_calls"]), (3, &ECHO()));
    assert_eq!(
        messages[2],
        json!({"role": "tool", "tool_call_id": "c1", "content": r#"{"n":1.5,"path":"a"}"#})
    );
    let called = server.received("tools/call");
    assert_eq!((called.len(), &body(&called[0])["params"]["arguments"]["n"]), (1, &json!(1.5)));

    // Each round and each call is a request of its own in the log, and the whole is none.
    wait::until("the lines", async || {
        (gateway.log().matches(&format!("\"trace_id\":\"{trace}")).count() >= 3).then_some(())
    })
    .await;
    let lines: Vec<Value> =
        gateway.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut of: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["trace_id"].as_str().is_some_and(|id| id.starts_with(&trace)))
        .map(|line| (line["operation"].as_str().unwrap(), line["trace_id"].as_str().unwrap()))
        .collect();
    of.sort_unstable();
    let second = format!("{trace}-2");
    let chats = ("chat", trace.as_str());
    assert_eq!(of, [chats, ("chat", &second), ("mcp_call", &trace)]);
}

#[tokio::test]
async fn a_streamed_chat_is_one_stream() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = chat_model(ECHO).await;
    let with_usage = json!({"stream_options": {"include_usage": true}});
    let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &with_usage));
    let text = call.send().await.unwrap().text().await.unwrap();
    assert_eq!(text.matches("[DONE]").count(), 1, "{text}");
    let chunks = data(text.as_bytes());
    assert!(chunks.iter().all(|chunk| chunk["id"] == "chatcmpl-false"), "{text}");
    let deltas = || chunks.iter().map(|chunk| &chunk["choices"][0]);
    let content: String = deltas().filter_map(|choice| choice["delta"]["content"].as_str()).collect();
    assert_eq!(content, "Looking.\n\nFound.");
    assert!(!text.contains("tool_calls"), "{text}");
    assert_eq!(deltas().filter(|choice| choice["delta"]["role"] == "assistant").count(), 1);
    let finishes: Vec<&Value> =
        deltas().map(|choice| &choice["finish_reason"]).filter(|finish| !finish.is_null()).collect();
    assert_eq!(finishes, ["stop"]);
    let usages: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["usage"]).filter(|usage| !usage.is_null()).collect();
    assert_eq!(usages, [&json!({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30})]);
    let calls: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["mcp_calls"][0]["name"]).filter(|name| !name.is_null()).collect();
    assert_eq!(calls, ["echo"]);
    let messages = body(&provider.received()[1])["messages"].clone();
    assert_eq!(
        (&messages[1]["content"], &messages[1]["tool_calls"][0]["id"]),
        (&json!("Looking."), &json!("c1"))
    );
}

#[tokio::test]
async fn a_call_of_the_clients_ends_a_chat() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let both = || json!([call(0, "c1", "files__echo", &json!({})), call(1, "c2", "mine", &json!({"a": 1}))]);
    let provider = chat_model(both).await;
    let (status, answer) = sent(&gateway, &new_trace(), &provider, &chat(false, &json!({}))).await;
    let choice = &answer["choices"][0];
    assert_eq!((status, &choice["finish_reason"]), (200, &json!("tool_calls")), "{answer}");
    assert_eq!(choice["message"]["tool_calls"], json!([call(1, "c2", "mine", &json!({"a": 1}))]));
    let text =
        chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &json!({}))).send().await.unwrap();
    let text = text.text().await.unwrap();
    let calls: Vec<Value> = data(text.as_bytes())
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"].get("tool_calls").cloned())
        .collect();
    assert_eq!(
        (calls.len(), &calls[0][0]["index"], &calls[0][0]["id"]),
        (2, &json!(0), &json!("c2")),
        "{text}"
    );
    assert!(!text.contains("files__echo") && text.contains("\"finish_reason\":\"tool_calls\""), "{text}");
    assert!(server.received("tools/call").is_empty(), "what the client cannot keep is not called");
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_before_a_provider_is_called() {
    let keys = format!(
        "auth:\n  keys:\n    - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}\n    \
        - {{name: all, key: {KEY}, workspace: default}}\n    \
        - {{name: chats, key: tp-chats-0123456789, workspace: default, scopes: [completions.write]}}\n"
    );
    let gateway = Gateway::start(&format!("{SETTINGS}{keys}"));
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    save(&gateway, "closed", &server.url(), &Value::Null).await;
    let provider = chat_model(ECHO).await;
    let mcp = |label: &str| json!([{"type": "mcp", "server_label": label, "require_approval": "never"}]);
    let mut collision = mcp("files");
    collision.as_array_mut().unwrap().push(json!({"type": "function", "function": {"name": "files__echo"}}));
    for (more, param) in [
        (json!({"tools": mcp("closed")}), "tools[0].server_label"),
        (json!({"tools": mcp("none")}), "tools[0].server_label"),
        (json!({"tools": [{"type": "mcp", "server_label": "files"}]}), "tools"),
        (json!({"tools": collision}), "tools"),
        (json!({"n": 2}), "n"),
        (json!({"tool_choice": {"type": "mcp", "server_label": "other"}}), "tool_choice"),
    ] {
        let (status, answer) = sent(&gateway, &new_trace(), &provider, &chat(false, &more)).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{answer}");
    }
    let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(false, &json!({})));
    let mut request = call.build().unwrap();
    request.headers_mut().insert("x-gateway-api-key", "tp-chats-0123456789".parse().unwrap());
    assert_eq!(client().execute(request).await.unwrap().status(), 403);
    server.set_down(true);
    save(&gateway, "down", &server.url(), &ALL()).await;
    let (status, answer) =
        sent(&gateway, &new_trace(), &provider, &chat(false, &json!({"tools": mcp("down")}))).await;
    assert_eq!((status, &answer["error"]["param"]), (502, &json!("tools[0].server_label")), "{answer}");
    assert!(provider.received().is_empty());
}

#[tokio::test]
async fn rounds_end_and_are_under_the_limits_of_the_client() {
    let keys = format!(
        "auth:\n  keys:\n    - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}\n    \
        - {{name: all, key: {KEY}, workspace: default}}\n    \
        - {{name: slow, key: tp-slow-0123456789, workspace: default, rate_limits: [{{type: requests, unit: rph, value: 2}}]}}\n"
    );
    let gateway = Gateway::start(&format!("{SETTINGS}{keys}mcp: {{max_rounds: 3}}\n"));
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    // It never stops to call.
    let endless = Provider::start(|_| {
        json_response(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": null, "tool_calls": ECHO()}, "finish_reason": "tool_calls"}]}))
    })
    .await;
    let (status, answer) =
        sent(&gateway, &new_trace(), &endless, &chat(false, &json!({"tool_choice": "required"}))).await;
    let choice = &answer["choices"][0];
    assert_eq!(
        (status, &choice["finish_reason"], &choice["message"]["tool_calls"]),
        (200, &json!("stop"), &Value::Null),
        "{answer}"
    );
    let choices: Vec<Value> =
        endless.received().iter().map(|request| body(request)["tool_choice"].clone()).collect();
    assert_eq!(choices, ["required", "auto", "none"]);
    assert_eq!(server.received("tools/call").len(), 2);

    // A round, and a call: the second round is one too many.
    let call = chat_at(&gateway, &new_trace(), &endless.base_url(), &chat(false, &json!({})));
    let mut request = call.build().unwrap();
    request.headers_mut().insert("x-gateway-api-key", "tp-slow-0123456789".parse().unwrap());
    let refused = client().execute(request).await.unwrap();
    assert_eq!(refused.status(), 429, "{}", refused.text().await.unwrap());
    assert_eq!((endless.received().len(), server.received("tools/call").len()), (4, 3));
}

#[tokio::test]
async fn failures_of_tools_reach_the_model() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::with_answer(FakeEra::Stateless, |sent| {
        let result = json!({"resultType": "complete", "isError": true, "content": [{"type": "text", "text": "no such file"}]});
        let reply = crate::support::mcp_fake::result(&sent["id"], &result);
        Some(http("200 OK", "", "application/json", &reply))
    })
    .await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let broken = || {
        json!([call(0, "c1", "files__echo", &json!({})), {"index": 1, "id": "c2", "type": "function",
        "function": {"name": "files__write", "arguments": "{\"cut"}}])
    };
    let provider = chat_model(broken).await;
    let (status, answer) = sent(&gateway, &new_trace(), &provider, &chat(false, &json!({}))).await;
    assert_eq!(
        (status, &answer["mcp_calls"][0]["status"], &answer["mcp_calls"][1]["status"]),
        (200, &json!("failed"), &json!("failed"))
    );
    let messages = body(&provider.received()[1])["messages"].clone();
    assert_eq!(messages[2]["content"], "Error: no such file");
    assert_eq!(messages[3]["content"], "Error: The arguments are no JSON object.");
}

#[tokio::test]
async fn a_later_round_without_a_response_ends_the_stream_with_an_error() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let failing = Provider::start(|message| {
        let request = body(message);
        if results(&request) > 0 {
            return http(
                "400 Bad Request",
                "",
                "application/json",
                r#"{"error":{"message":"too long","type":"invalid_request_error"}}"#,
            );
        }
        let chunk = |delta: Value, finish: Value| {
            json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let events = [
            chunk(json!({"role": "assistant", "tool_calls": ECHO()}), Value::Null),
            chunk(json!({}), json!("tool_calls")),
        ];
        event_stream(&events, "data: [DONE]\n\n")
    })
    .await;
    let text =
        chat_at(&gateway, &new_trace(), &failing.base_url(), &chat(true, &json!({}))).send().await.unwrap();
    let text = text.text().await.unwrap();
    assert!(text.contains("too long") && !text.contains("[DONE]"), "{text}");
}

#[tokio::test]
async fn a_round_that_breaks_is_not_gone_on_with() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let called = chunk(&json!({"role": "assistant", "tool_calls": ECHO()}), &Value::Null);
    let error = json!({"error": {"message": "overloaded", "type": "server_error"}});
    let length = chunk(&json!({}), &json!("length"));
    // As OpenRouter ends a stream that breaks.
    let mut broken = chunk(&json!({"content": ""}), &json!("error"));
    broken["error"] = json!({"code": 502, "message": "gone"});
    for (events, end) in [
        (vec![called.clone(), error], ""),
        (vec![called.clone(), broken], "data: [DONE]\n\n"),
        (vec![called.clone()], ""),
        (vec![called, length], "data: [DONE]\n\n"),
    ] {
        let provider = Provider::start(move |_| event_stream(&events, end)).await;
        let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &json!({})));
        let text = call.send().await.unwrap().text().await.unwrap();
        assert_eq!(text.contains("[DONE]"), !end.is_empty(), "{text}");
        assert_eq!((provider.received().len(), text.contains("\"stop\"")), (1, false), "{text}");
    }
    assert!(server.received("tools/call").is_empty());
}

#[tokio::test]
async fn names_that_come_late_are_the_gateways_too() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = Provider::start(|message| {
        if results(&body(message)) > 0 {
            return event_stream(&[chunk(&json!({"content": "Found."}), &Value::Null), chunk(&json!({}), &json!("stop"))], "data: [DONE]\n\n");
        }
        let part = |part: Value| chunk(&json!({"tool_calls": [part]}), &Value::Null);
        let events = [
            part(json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "", "arguments": ""}})),
            part(json!({"index": 1, "id": "c2", "type": "function", "function": {"arguments": "{"}})),
            part(json!({"index": 0, "function": {"name": "files__echo", "arguments": "{}"}})),
            part(json!({"index": 1, "function": {"name": "files__write", "arguments": "}"}})),
            chunk(&json!({}), &json!("tool_calls")),
        ];
        event_stream(&events, "data: [DONE]\n\n")
    })
    .await;
    let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &json!({})));
    let text = call.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("Found.") && !text.contains("tool_calls") && text.contains("[DONE]"), "{text}");
    assert_eq!(server.received("tools/call").len(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_round() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    // Much more than waits in any buffer of a connection.
    let events: Vec<Value> =
        (0..2_000).map(|_| chunk(&json!({"content": "x".repeat(16_000)}), &Value::Null)).collect();
    let provider = Provider::start(move |_| event_stream(&events, "data: [DONE]\n\n")).await;
    let traces: Vec<String> = (0..4).map(|_| new_trace()).collect();
    for trace in &traces {
        let mut response =
            chat_at(&gateway, trace, &provider.base_url(), &chat(true, &json!({}))).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());
        drop(response);
    }
    gateway.idle().await;
    for trace in &traces {
        assert_eq!(gateway.access_line(trace).await["error_code"], "caller_left");
    }
}

#[tokio::test]
async fn an_explanation_names_the_servers_whose_tools_are_called() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let explain = async |label: &str| {
        let body = chat(
            false,
            &json!({"tools": [{"type": "mcp", "server_label": label, "require_approval": "never"}]}),
        );
        let headers = json!({"x-gateway-provider": "anthropic", "authorization": "Bearer sk-callers-own"});
        let call = gateway.control(reqwest::Method::POST, "/v1/explain");
        let answer = call.json(&json!({"headers": headers, "body": body})).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let explained = explain("files").await;
    let note = explained["notes"][0].as_str().unwrap_or_default();
    assert!(note.starts_with("the gateway calls the tools of files"), "{explained}");
    assert_eq!(explained["problems"], json!([]), "{explained}");
    assert!(!explained.to_string().contains("left out"), "{explained}");
    let refused = explain("none").await;
    assert_eq!(refused["problems"][0]["path"], "tools[0].server_label", "{refused}");
    assert!(server.provider.received().is_empty(), "nobody is called");
}

/// A config of two targets, with who calls MCP servers for each.
fn calling(provider: &Provider, by: [Option<&str>; 2]) -> Value {
    let target = |by: Option<&str>| {
        let host = format!("{}/v1", provider.base_url());
        let mut target = json!({"provider": "openai", "api_key": "k", "custom_host": host});
        if let Some(by) = by {
            target["mcp_tools"] = json!(by);
        }
        target
    };
    json!({"strategy": {"mode": "fallback"}, "targets": by.map(target)})
}

/// A chat that names a server by its URL.
fn at_url(url: &str) -> Value {
    json!({"tools": [{"type": "mcp", "server_label": "docs", "server_url": url, "require_approval": "never",
        "authorization": "sk-clients-own"}]})
}

async fn with_config(gateway: &Gateway, config: &Value, more: &Value) -> (u16, Value) {
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-config", config.to_string()).json(&chat(false, more));
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_config_has_the_gateway_call_servers_that_are_named_by_their_url() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = chat_model(|| json!([call(0, "c1", "docs__echo", &json!({"n": 1}))])).await;
    let ours = calling(&provider, [Some("gateway"); 2]);
    // As the URL is saved, and as others write it.
    let same = server.url().replace("http://", "HTTP://") + "/";
    for url in [server.url(), same] {
        let (status, answer) = with_config(&gateway, &ours, &at_url(&url)).await;
        assert_eq!((status, &answer["mcp_calls"][0]["server_label"]), (200, &json!("docs")), "{answer}");
        assert_eq!(answer["mcp_calls"][0]["status"], "completed", "{answer}");
    }
    assert_eq!(server.received("tools/call").len(), 2);
    let has_key = |request: &Message| {
        let in_headers = request.headers.iter().any(|(_, value)| value.contains("sk-clients-own"));
        in_headers || String::from_utf8_lossy(&request.body).contains("sk-clients-own")
    };
    assert!(!server.provider.received().iter().any(has_key));
    assert!(!provider.received().iter().any(has_key));
    let offered = body(&provider.received()[0]);
    assert_eq!(offered["tools"][0]["function"]["name"], "docs__echo", "{offered}");

    let connector =
        json!({"tools": [{"type": "mcp", "server_label": "a", "connector_id": "connector_gmail"}]});
    let sent = provider.received().len();
    let elsewhere = at_url("http://127.0.0.1:9/mcp");
    for (more, param) in [(elsewhere, "tools[0].server_url"), (connector, "tools[0].connector_id")] {
        let (status, answer) = with_config(&gateway, &ours, &more).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)), "{answer}");
    }
    assert_eq!(provider.received().len(), sent, "nothing was sent");
}

#[tokio::test]
async fn servers_at_urls_are_the_providers_unless_all_targets_have_the_gateway_call_them() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = chat_model(ECHO).await;
    let more = at_url(&server.url());
    // One target that leaves them to the provider may get any round.
    for by in [[Some("gateway"), None], [Some("provider"), Some("gateway")], [None, None]] {
        let (status, answer) = with_config(&gateway, &calling(&provider, by), &more).await;
        assert_eq!((status, answer.get("mcp_calls")), (200, None), "{answer}");
        assert_eq!(body(provider.received().last().unwrap())["tools"], more["tools"]);
    }
    assert!(server.provider.received().is_empty());
    let config = calling(&provider, [Some("gateway"); 2]);
    let question = json!({"headers": {"x-gateway-config": config.to_string()}, "body": chat(false, &more)});
    let explained =
        gateway.control(reqwest::Method::POST, "/v1/explain").json(&question).send().await.unwrap();
    let explained: Value = explained.json().await.unwrap();
    let note = explained["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("calls the tools of docs"), "{explained}");
    assert_eq!(explained["tree"]["targets"][0]["mcp_tools"], "gateway", "{explained}");
}

#[tokio::test]
async fn a_stream_ends_with_a_last_chunk() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = chat_model(ECHO).await;
    let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &json!({})));
    let response = call.send().await.unwrap();
    assert_eq!(response.headers()["transfer-encoding"], "chunked");
    assert!(response.text().await.unwrap().ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_stream_of_a_round_counts_to_the_memory_of_all_requests() {
    let gateway = Gateway::start(&format!("{SETTINGS}limits: {{max_held_bytes: 8388608}}\n"));
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let events: Vec<Value> =
        (0..2_000).map(|_| chunk(&json!({"content": "x".repeat(16_000)}), &Value::Null)).collect();
    let provider = Provider::start(move |_| event_stream(&events, "data: [DONE]\n\n")).await;
    let call = chat_at(&gateway, &new_trace(), &provider.base_url(), &chat(true, &json!({})));
    let text = call.send().await.unwrap().text().await.unwrap();
    let end = text.lines().rev().find(|line| !line.is_empty()).unwrap();
    assert!(end.contains("limits.max_held_bytes") && !text.contains("[DONE]"), "{end}");
    gateway.idle().await;
}
