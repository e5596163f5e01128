//! Scripted models that call tools, for requests whose MCP tools the gateway calls.

use super::Gateway;
use super::client::chat_at;
use super::mcp_fake::{body, http};
use super::provider::Provider;
use serde_json::{Value, json};

pub(crate) const USAGE: fn() -> Value =
    || json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});

pub(crate) fn json_response(value: &Value) -> Vec<u8> {
    http("200 OK", "", "application/json", &value.to_string())
}

pub(crate) fn event_stream(events: &[Value], end: &str) -> Vec<u8> {
    let named = |event: &Value| {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {event}\n\n")
    };
    let text: String = events.iter().map(named).collect();
    http("200 OK", "", "text/event-stream", &format!("{text}{end}"))
}

/// How many results of tools a chat's messages have.
pub(crate) fn results(request: &Value) -> usize {
    request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count()
}

pub(crate) fn call(index: usize, id: &str, name: &str, arguments: &Value) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
}

/// A model of chats: it calls `first` until there is a result, then says so.
pub(crate) async fn chat_model(first: fn() -> Value) -> Provider {
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

pub(crate) fn chat(stream: bool, more: &Value) -> Value {
    let mut body = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "Find it."}],
        "tools": [{"type": "mcp", "server_label": "files", "require_approval": "never"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(crate) async fn sent(gateway: &Gateway, trace: &str, provider: &Provider, body: &Value) -> (u16, Value) {
    let response = chat_at(gateway, trace, &provider.base_url(), body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The tool's call, with two of the arguments that must reach the server as the model wrote them.
pub(crate) const ECHO: fn() -> Value =
    || json!([call(0, "c1", "files__echo", &json!({"path": "a", "n": 1.5}))]);

/// A chunk of a chat's stream.
pub(crate) fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}
