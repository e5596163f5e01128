//! Compacting a conversation, and searching for tools, as Codex does both, at providers that only chat: the requests that such a provider
//! gets, the responses that Codex reads, and what the gateway does with them besides.
//!
//! The forms themselves are unit-tested in the dialect (`words::api::responses`).

use crate::guardrails::none_of;
use crate::support::client::{client, new_trace};
use crate::support::gateway;
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::sse::events;
use serde_json::{Value, json};

/// What the model writes in each response.
const SUMMARY: &str = "They want tea.";

/// A provider of Anthropic's API, or of chat completions, that writes this text, whole or streamed.
async fn writing(text: &'static str) -> Provider {
    Provider::start(move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let is_messages = request.start.contains("/messages");
        match (is_messages, body["stream"] == true) {
            (true, true) => response("text/event-stream", &message_events(text)),
            (true, false) => response("application/json", &message(text).to_string()),
            (false, true) => response("text/event-stream", &chat_events(text)),
            (false, false) => response("application/json", &chat(text).to_string()),
        }
    })
    .await
}

fn response(media: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

fn message(text: &str) -> Value {
    let content = if text.is_empty() { json!([]) } else { json!([{"type": "text", "text": text}]) };
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn", "stop_sequence": null,
        "content": content, "usage": {"input_tokens": 20, "output_tokens": 5}})
}

fn message_events(text: &str) -> String {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "c",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 1}}});
    let list = [
        start,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    list.iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn chat(text: &str) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "k", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": text}}], "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}})
}

fn chat_events(text: &str) -> String {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "k",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let text = chunk(json!({"role": "assistant", "content": text}), Value::Null);
    format!("data: {text}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(json!({}), json!("stop")))
}

fn target(provider: &str, upstream: &Provider) -> Value {
    json!({"provider": provider, "api_key": "k", "custom_host": upstream.base_url()})
}

/// What the client got.
struct Received {
    status: u16,
    text: String,
    trace: String,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The data of the events of a stream.
    fn events(&self) -> Vec<Value> {
        events(&self.text).iter().filter_map(|event| serde_json::from_str(&event.data).ok()).collect()
    }
}

async fn post(path: &str, config: &Value, body: &Value) -> Received {
    let trace = new_trace();
    let call = client().post(format!("{}/{path}", gateway().base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-config", config.to_string()).header("x-gateway-trace-id", &trace);
    let response = call.json(body).send().await.unwrap();
    let status = response.status().as_u16();
    Received { status, text: response.text().await.unwrap(), trace }
}

fn sent(upstream: &Provider) -> Vec<Value> {
    let body = |message: &Message| serde_json::from_slice(&message.body).unwrap();
    upstream.received().iter().map(body).collect()
}

fn codex_body(input: &Value) -> Value {
    json!({"model": "m", "instructions": "You are Codex.", "input": input, "store": false, "parallel_tool_calls": true,
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]})
}

#[tokio::test]
async fn a_conversation_is_compacted_by_path_and_goes_on() {
    for (provider, path) in [("anthropic", "/messages"), ("together-ai", "/chat/completions")] {
        let upstream = writing(SUMMARY).await;
        let config = target(provider, &upstream);
        let history = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A long story"}]},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x"}]);
        let received = post("responses/compact", &config, &codex_body(&history)).await;
        assert_eq!(received.status, 200, "{provider} {}", received.text);
        let compacted = received.json();
        assert_eq!(compacted["object"], "response.compaction");
        assert_eq!(compacted["usage"]["output_tokens"], 5, "{compacted}");
        let kinds: Vec<_> =
            compacted["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
        assert_eq!(kinds, ["message", "compaction"]);
        assert_eq!(compacted["output"][0]["content"][0]["text"], "A long story");
        let line = gateway().access_line(&received.trace).await;
        assert_eq!(line["operation"], "responses_compact", "{line}");
        // The next request has the summary.
        let mut next = compacted["output"].as_array().unwrap().clone();
        next.push(json!({"role": "user", "content": "Go on."}));
        let received = post("responses", &config, &codex_body(&json!(next))).await;
        assert_eq!(received.status, 200, "{}", received.text);
        let requests = sent(&upstream);
        assert!(upstream.received().iter().all(|request| request.start.contains(path)), "{provider}");
        assert!(requests[0].to_string().contains("Write that summary now"), "{}", requests[0]);
        assert!(requests[0].to_string().contains("none"), "no tool may be called: {}", requests[0]);
        assert!(requests[1].to_string().contains(SUMMARY), "{}", requests[1]);
        assert!(!requests[1].to_string().contains("Write that summary now"));
    }
}

#[tokio::test]
async fn a_trigger_is_answered_with_exactly_one_item() {
    for provider in ["anthropic", "together-ai"] {
        let upstream = writing(SUMMARY).await;
        let config = target(provider, &upstream);
        let input = json!([{"role": "user", "content": "A long story"}, {"type": "compaction_trigger"}]);
        let mut body = codex_body(&input);
        let received = post("responses", &config, &body).await;
        assert_eq!(received.json()["output"][0]["encrypted_content"], format!("turnpike:summary:{SUMMARY}"));
        body["stream"] = json!(true);
        let events = post("responses", &config, &body).await.events();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        let done = of("response.output_item.done");
        assert_eq!(done.len(), 1, "{events:?}");
        assert_eq!(done[0]["item"]["type"], "compaction");
        let completed = of("response.completed");
        assert_eq!(completed[0]["response"]["output"].as_array().unwrap().len(), 1, "{events:?}");
        assert!(of("response.output_text.delta").is_empty());
    }
}

/// A model that writes nothing has made no summary: a failing status, which a fallback sees.
#[tokio::test]
async fn a_model_that_writes_nothing_has_compacted_nothing() {
    let silent = writing("").await;
    let writes = writing(SUMMARY).await;
    let alone = target("anthropic", &silent);
    let body = codex_body(&json!([{"role": "user", "content": "A long story"}]));
    let received = post("responses/compact", &alone, &body).await;
    assert_eq!(received.status, 502, "{}", received.text);
    let both = json!({"strategy": {"mode": "fallback"}, "targets": [alone, target("together-ai", &writes)]});
    let received = post("responses/compact", &both, &body).await;
    assert_eq!(received.status, 200, "{}", received.text);
}

#[tokio::test]
async fn guardrails_judge_summaries_on_both_ways() {
    let upstream = writing(SUMMARY).await;
    let mut config = target("anthropic", &upstream);
    config["input_guardrails"] = none_of("FORBIDDEN", true);
    config["output_guardrails"] = none_of("coffee", true);
    let summary =
        |text: &str| json!([{"type": "compaction", "encrypted_content": format!("turnpike:summary:{text}")}]);
    assert_eq!(post("responses", &config, &codex_body(&summary("FORBIDDEN"))).await.status, 446);
    assert_eq!(post("responses", &config, &codex_body(&summary("fine"))).await.status, 200);
    let story = json!([{"role": "user", "content": "A long story"}]);
    assert_eq!(post("responses/compact", &config, &codex_body(&story)).await.status, 200);
    config["output_guardrails"] = none_of("tea", true);
    assert_eq!(post("responses/compact", &config, &codex_body(&story)).await.status, 446);
}

#[tokio::test]
async fn openai_gets_what_the_client_sent_and_reads_a_summary_of_ours() {
    let compacted = r#"{"id":"resp_1","object":"response.compaction","created_at":1,"output":[{"type":"compaction","id":"cmp_1","encrypted_content":"gAAAAAB"}],"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}}"#;
    let upstream = Provider::start(move |_| response("application/json", compacted)).await;
    let config = target("openai", &upstream);
    let body = codex_body(&json!([{"role": "user", "content": "A long story"}]));
    let received = post("responses/compact", &config, &body).await;
    assert_eq!((received.status, received.text.as_str()), (200, compacted));
    let ours = codex_body(&json!([{"type": "compaction", "encrypted_content": "turnpike:summary:tea"}]));
    post("responses/compact", &config, &ours).await;
    let requests = sent(&upstream);
    assert!(upstream.received().iter().all(|request| request.start.contains("/responses/compact")));
    assert_eq!(requests[0], body);
    assert_eq!(requests[1]["input"][0]["role"], "user");
}

/// Codex searches for tools itself: the call, the tools that it found, and a call of one of them.
#[tokio::test]
async fn a_search_for_tools_goes_through_a_host_that_only_chats() {
    let call = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "k", "choices": [{"index": 0,
        "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "tool_search", "arguments": "{\"query\":\"mail\"}"}}]}}]});
    let upstream = Provider::start(move |_| response("application/json", &call.to_string())).await;
    let config = target("together-ai", &upstream);
    let search = json!({"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object"}});
    let body = |input: Value| json!({"model": "m", "input": input, "tools": [search]});
    let first = post("responses", &config, &body(json!([{"role": "user", "content": "mail"}]))).await.json();
    let item = &first["output"][0];
    assert_eq!(
        (&item["type"], &item["execution"], &item["arguments"]),
        (&json!("tool_search_call"), &json!("client"), &json!({"query": "mail"}))
    );
    let found = json!({"type": "tool_search_output", "call_id": "call_1", "execution": "client", "status": "completed", "tools": [
        {"type": "namespace", "name": "mcp__mail", "tools": [{"type": "function", "name": "send", "defer_loading": true, "parameters": {}}]}]});
    let received =
        post("responses", &config, &body(json!([{"role": "user", "content": "mail"}, item, found]))).await;
    assert_eq!(received.status, 200, "{}", received.text);
    let request = sent(&upstream).pop().unwrap();
    let names: Vec<_> =
        request["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].clone()).collect();
    assert_eq!(names, ["tool_search", "mcp__mail__send"]);
    assert_eq!(request["messages"][2]["content"], "Found, and can be called now: mcp__mail__send.");
}
