//! Tools of MCP servers that the gateway calls for a model (`tools: [{"type": "mcp"}]`), on the running binary: chats and responses, whole and
//! streamed, approvals, bounds, limits and the log.
//!
//! The providers are scripted; the servers are `support::mcp_fake`.

use crate::support::client::{chat_at, client, new_trace};
use crate::support::expected::data;
use crate::support::mcp_client::{ALL, SETTINGS, save};
use crate::support::mcp_fake::{FakeEra, McpFake, body, http};
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::{Gateway, wait};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const USAGE: fn() -> Value = || json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});

fn json_response(value: &Value) -> Vec<u8> {
    http("200 OK", "", "application/json", &value.to_string())
}

fn event_stream(events: &[Value], end: &str) -> Vec<u8> {
    let named = |event: &Value| {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {event}\n\n")
    };
    let text: String = events.iter().map(named).collect();
    http("200 OK", "", "text/event-stream", &format!("{text}{end}"))
}

/// How many results of tools a chat's messages have.
fn results(request: &Value) -> usize {
    request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count()
}

fn call(index: usize, id: &str, name: &str, arguments: &Value) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
}

/// A model of chats: it calls `first` until there is a result, then says so.
async fn chat_model(first: fn() -> Value) -> Provider {
    Provider::start(move |message| {
        let request = body(message);
        let is_last = results(&request) > 0;
        let (message, finish) = match is_last {
            false => (json!({"role": "assistant", "content": "Looking.", "tool_calls": first()}), "tool_calls"),
            true => (json!({"role": "assistant", "content": "Found."}), "stop"),
        };
        if request["stream"] != true {
            return json_response(&json!({"id": format!("chatcmpl-{is_last}"), "object": "chat.completion", "created": 1,
                "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE()}));
        }
        let chunk = |delta: Value, finish: Value| {
            json!({"id": format!("chatcmpl-{is_last}"), "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let mut events = vec![
            chunk(json!({"role": "assistant", "content": ""}), Value::Null),
            chunk(json!({"content": message["content"]}), Value::Null),
        ];
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let (mut begun, arguments) = (call.clone(), call["function"]["arguments"].clone());
            begun["function"]["arguments"] = json!("");
            events.push(chunk(json!({"tool_calls": [begun]}), Value::Null));
            let part = json!({"index": call["index"], "function": {"arguments": arguments}});
            events.push(chunk(json!({"tool_calls": [part]}), Value::Null));
        }
        events.push(chunk(json!({}), json!(finish)));
        let usage = json!({"id": format!("chatcmpl-{is_last}"), "object": "chat.completion.chunk", "created": 1,
            "model": "m", "choices": [], "usage": USAGE()});
        events.extend(Some(usage).filter(|_| request["stream_options"]["include_usage"] == true));
        event_stream(&events, "data: [DONE]\n\n")
    })
    .await
}

fn chat(stream: bool, more: &Value) -> Value {
    let mut body = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "Find it."}],
        "tools": [{"type": "mcp", "server_label": "files", "require_approval": "never"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn sent(gateway: &Gateway, trace: &str, provider: &Provider, body: &Value) -> (u16, Value) {
    let response = chat_at(gateway, trace, &provider.base_url(), body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The tool's call, with two of the arguments that must reach the server as the model wrote them.
const ECHO: fn() -> Value = || json!([call(0, "c1", "files__echo", &json!({"path": "a", "n": 1.5}))]);

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

/// A model of responses: it calls a tool until there is an output, then says so.
async fn responses_model() -> Provider {
    let number = Arc::new(AtomicU64::new(0));
    Provider::start(move |message| {
        let request = body(message);
        let number = number.fetch_add(1, Ordering::Relaxed);
        let has_output = request["input"].as_array().unwrap().iter().any(|item| item["type"] == "function_call_output");
        let items = match has_output {
            false => vec![
                json!({"type": "reasoning", "id": "rs_1", "summary": []}),
                json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "files__echo",
                    "arguments": "{\"path\":\"a\"}"}),
            ],
            true => vec![json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "Found.", "annotations": []}]})],
        };
        let response = |status: &str, output: &[Value]| {
            json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "m", "status": status,
                "output": output, "tools": request["tools"], "tool_choice": "auto",
                "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
        };
        if request["stream"] != true {
            return json_response(&response("completed", &items));
        }
        let mut events = vec![
            json!({"type": "response.created", "response": response("in_progress", &[])}),
            json!({"type": "response.in_progress", "response": response("in_progress", &[])}),
        ];
        for (at, item) in items.iter().enumerate() {
            let mut begun = item.clone();
            begun["status"] = json!("in_progress");
            events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
            if item["type"] == "function_call" {
                let of = json!({"output_index": at, "item_id": item["id"], "delta": item["arguments"], "arguments": item["arguments"]});
                for kind in ["delta", "done"] {
                    let mut event = of.clone();
                    event["type"] = json!(format!("response.function_call_arguments.{kind}"));
                    events.push(event);
                }
            }
            events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        }
        events.push(json!({"type": "response.completed", "response": response("completed", &items)}));
        for (at, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = json!(at);
        }
        event_stream(&events, "")
    })
    .await
}

async fn respond(gateway: &Gateway, provider: &Provider, body: &Value) -> reqwest::Response {
    let call = client().post(format!("{}/responses", gateway.base_url())).bearer_auth("sk-callers-own-0123");
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "openai");
    call.header("x-gateway-custom-host", provider.base_url()).json(body).send().await.unwrap()
}

fn request(stream: bool, approval: &str, input: &Value) -> Value {
    json!({"model": "m", "stream": stream, "input": input, "store": false,
        "tools": [{"type": "mcp", "server_label": "files", "require_approval": approval, "allowed_tools": ["echo"]}]})
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_response_has_the_items_of_its_calls() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessionless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let first = request(false, "never", &json!("Find it."));
    let answer: Value = respond(&gateway, &provider, &first).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["mcp_list_tools", "reasoning", "mcp_call", "message"], "{answer}");
    let call = &answer["output"][2];
    assert_eq!(
        (&call["name"], &call["server_label"], &call["status"]),
        (&json!("echo"), &json!("files"), &json!("completed"))
    );
    assert_eq!((&call["output"], &call["error"]), (&json!(r#"{"path":"a"}"#), &Value::Null));
    assert_eq!((&answer["tools"], &answer["usage"]["total_tokens"]), (&first["tools"], &json!(30)));
    let second = body(&provider.received()[1]);
    let items: Vec<&Value> = second["input"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    // The provider does not store the response, so it knows no reasoning without its content, and no ids.
    assert_eq!(items, ["message", "function_call", "function_call_output"]);
    assert_eq!(second["input"][1].get("id"), None);

    // The client's next turn has the items of this one.
    let mut input = answer["output"].as_array().unwrap().clone();
    input.retain(|item| item["type"] != "reasoning");
    input.push(json!({"role": "user", "content": "Again."}));
    let next = request(false, "never", &json!(input));
    let answer: Value = respond(&gateway, &provider, &next).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["message"], "its list is known, and the result is there: {answer}");
    let sent = body(&provider.received()[2])["input"].clone();
    let sent: Vec<&Value> = sent.as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(
        sent,
        [&json!("function_call"), &json!("function_call_output"), &json!("message"), &Value::Null]
    );
}

#[tokio::test]
async fn a_streamed_response_has_the_events_of_its_calls() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let text =
        respond(&gateway, &provider, &request(true, "never", &json!("Find it."))).await.text().await.unwrap();
    let events = data(text.as_bytes());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.mcp_list_tools.in_progress",
            "response.mcp_list_tools.completed",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.completed",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ],
        "{text}"
    );
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at, "{event}");
    }
    let places: Vec<u64> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["output_index"].as_u64().unwrap())
        .collect();
    assert_eq!(places, [0, 1, 2, 3]);
    let response = &events.last().unwrap()["response"];
    let of = response["output"].as_array().unwrap();
    assert_eq!(
        (of.len(), &of[2]["output"], &response["usage"]["total_tokens"]),
        (4, &json!(r#"{"path":"a"}"#), &json!(30))
    );
    assert!(!text.contains("files__echo"), "{text}");
}

#[tokio::test]
async fn a_call_waits_for_approval() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let user = json!({"role": "user", "content": "Find it."});
    let answer: Value =
        respond(&gateway, &provider, &request(false, "always", &json!([user]))).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["mcp_list_tools", "reasoning", "mcp_approval_request"], "{answer}");
    let waiting = &answer["output"][2];
    assert_eq!((&waiting["name"], &waiting["arguments"]), (&json!("echo"), &json!(r#"{"path":"a"}"#)));
    assert!(server.received("tools/call").is_empty());

    let answer_to = |approve: bool| {
        let word = json!({"type": "mcp_approval_response", "approval_request_id": waiting["id"], "approve": approve});
        json!([user, answer["output"][0], waiting, word])
    };
    for stream in [false, true] {
        let response = respond(&gateway, &provider, &request(stream, "always", &answer_to(true))).await;
        let text = response.text().await.unwrap();
        let whole: Value = match stream {
            true => data(text.as_bytes()).last().unwrap()["response"].clone(),
            false => serde_json::from_str(&text).unwrap(),
        };
        assert_eq!(kinds(&whole), ["mcp_call", "message"], "{text}");
        assert_eq!(whole["output"][0]["output"], r#"{"path":"a"}"#);
    }
    assert_eq!(server.received("tools/call").len(), 2);
    let refused: Value = respond(&gateway, &provider, &request(false, "always", &answer_to(false)))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(kinds(&refused), ["message"], "{refused}");
    let sent = body(&provider.received().pop().unwrap())["input"].clone();
    assert_eq!(sent[2]["output"], "Error: The user has refused this call.");
    assert_eq!(server.received("tools/call").len(), 2);
    let unknown =
        json!([{"type": "mcp_approval_response", "approval_request_id": "mcpr_x", "approve": true}]);
    assert_eq!(respond(&gateway, &provider, &request(false, "always", &unknown)).await.status(), 400);
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
