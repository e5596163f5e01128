//! Streamed responses: the order of their events, and the same content as whole responses.

use super::client::{Server, events};
use serde_json::{Value, json};

fn hello() -> Value {
    json!([{"role": "user", "content": "Hello there"}])
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])
}

fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[tokio::test]
async fn a_chat_stream_has_fifty_events_and_done() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "messages": hello(), "stream": true});
    let (_, sse) = server.post("/v1/chat/completions", body.clone()).await;
    assert!(sse.ends_with("data: [DONE]\n\n"));
    let chunks = events(&sse);
    assert_eq!(chunks.len(), 50);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[49]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[49].get("usage"), None);
    let text = joined(&chunks, "/choices/0/delta/content");
    let mut whole = body.clone();
    whole["stream"] = false.into();
    let whole = server.post_ok("/v1/chat/completions", whole).await;
    assert_eq!(whole["choices"][0]["message"]["content"], text.as_str());

    let mut counted = body;
    counted["stream_options"] = json!({"include_usage": true});
    counted["n"] = 3.into();
    let chunks = events(&server.post("/v1/chat/completions", counted).await.1);
    assert_eq!(chunks.len(), 151);
    assert_eq!(chunks[0]["usage"], Value::Null);
    assert_eq!(chunks[150]["choices"], json!([]));
    assert_eq!(chunks[150]["usage"]["completion_tokens"], 144);
    assert_eq!(chunks[149]["choices"][0]["index"], 2);
}

#[tokio::test]
async fn chat_streams_tool_calls_in_fragments() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "messages": hello(), "stream": true, "tools": tools(), "tool_choice": "required"});
    let chunks = events(&server.post("/v1/chat/completions", body).await.1);
    let call = &chunks[1]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(
        (&call["index"], &call["type"], &call["function"]["name"]),
        (&json!(0), &json!("function"), &json!("weather"))
    );
    assert!(chunks.len() > 6);
    let arguments = joined(&chunks, "/choices/0/delta/tool_calls/0/function/arguments");
    assert_eq!(arguments, r#"{"city":"quick brown"}"#);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn completions_stream_each_choice() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "prompt": "x", "n": 2, "stream": true, "max_tokens": 4, "stream_options": {"include_usage": true}});
    let chunks = events(&server.post("/v1/completions", body).await.1);
    assert_eq!(joined(&chunks, "/choices/0/text"), "The quick brown foxThe quick brown fox");
    assert_eq!(chunks[4]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks.last().unwrap()["usage"]["completion_tokens"], 8);
}

#[tokio::test]
async fn anthropic_streams_its_events() {
    let server = Server::start().await;
    let mut body = json!({"model": "emulator", "max_tokens": 5, "messages": hello(), "stream": true, "thinking": {"type": "enabled"}});
    let (_, sse) = server.post("/v1/messages", body.clone()).await;
    let names: Vec<&str> = sse.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let list = events(&sse);
    assert!(names.iter().zip(&list).all(|(name, event)| event["type"] == *name));
    assert_eq!(names[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(names[names.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(joined(&list, "/delta/text"), "The quick brown fox jumps");
    assert!(joined(&list, "/delta/thinking").contains("quick brown"));
    assert!(!joined(&list, "/delta/signature").is_empty());
    assert_eq!(list[list.len() - 2]["delta"]["stop_reason"], "max_tokens");

    body["tools"] = json!([{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]);
    body["messages"] = json!([{"role": "user", "content": "call the tool"}]);
    let list = events(&server.post("/v1/messages", body).await.1);
    assert_eq!(joined(&list, "/delta/partial_json"), r#"{"city":"quick brown"}"#);
    assert_eq!(list[list.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn responses_stream_typed_numbered_events() {
    let server = Server::start().await;
    let body = json!({"model": "emulator?tokens=3", "input": "Hello", "stream": true});
    let list = events(&server.post("/v1/responses", body).await.1);
    let names: Vec<&str> = list.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert!(list.iter().enumerate().all(|(number, event)| event["sequence_number"] == number));
    assert_eq!(joined(&list, "/delta"), "The quick brown");
    let id = list[0]["response"]["id"].as_str().unwrap();
    assert_eq!(server.fetch(&format!("/v1/responses/{id}")).await, list[10]["response"]);

    let tools = json!([{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]);
    let body = json!({"model": "emulator", "input": [{"role": "user", "content": "call the tool"}], "stream": true, "tools": tools});
    let list = events(&server.post("/v1/responses", body).await.1);
    assert_eq!(joined(&list, "/delta"), r#"{"n":1}"#);
    assert_eq!(list.last().unwrap()["response"]["output"][0]["type"], "function_call");
}
