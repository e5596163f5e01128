//! The request that resumes a response, and which models support a prefill.

use crate::provider::find;
use crate::provider::rescue::{Prefill, Transcript, request};
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::Event;
use words::api::operation::Operation;

fn transcript(text: &str) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.take(&Event::Text { choice: 0, text });
    transcript
}

fn resume_request(
    operation: Operation,
    body: &Value,
    transcript: &Transcript,
    prefill: Prefill,
) -> Option<Value> {
    let body = Body::parse(body.to_string().into()).unwrap();
    request(operation, &body, transcript, prefill).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

fn body() -> Value {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi ]"}]})
}

#[test]
fn the_sent_text_becomes_the_last_message() {
    let user = json!({"role": "user", "content": "Hi ]"});
    let prefilled = json!({"role": "assistant", "content": "Hello \"you\""});
    let flagged = json!({"role": "assistant", "content": "Hello \"you\"", "prefix": true});
    let transcript = transcript("Hello \"you\" \n");
    let messages = |operation, prefill| {
        Some(resume_request(operation, &body(), &transcript, prefill)?["messages"].clone())
    };
    let chat = Operation::ChatCompletions;
    let own = Operation::Messages;
    assert_eq!(messages(chat, Prefill::Plain), Some(json!([user, prefilled])));
    assert_eq!(messages(own, Prefill::Plain), Some(json!([user, prefilled])));
    assert_eq!(messages(chat, Prefill::Flag("prefix")), Some(json!([user, flagged])));
    assert_eq!(messages(own, Prefill::Flag("prefix")), None);
    assert_eq!(messages(chat, Prefill::No), None);
    assert_eq!(messages(Operation::Responses, Prefill::Plain), None);
}

#[test]
fn requests_incompatible_with_a_prefill_get_none() {
    let chat = Operation::ChatCompletions;
    let with = |name: &str, value: Value| {
        let mut body = body();
        body[name] = value;
        resume_request(chat, &body, &transcript("Hello"), Prefill::Plain).is_some()
    };
    let compatible = [
        ("tool_choice", json!("auto")),
        ("tool_choice", json!({"type": "auto"})),
        ("response_format", json!({"type": "text"})),
        ("thinking", json!({"type": "disabled"})),
        ("reasoning_effort", json!("none")),
        ("output_config", json!({"effort": "low"})),
        ("n", json!(1)),
        ("thinking", Value::Null),
    ];
    let incompatible = [
        ("tool_choice", json!("required")),
        ("tool_choice", json!({"type": "function", "function": {"name": "f"}})),
        ("tool_choice", json!({"type": "any"})),
        ("response_format", json!({"type": "json_object"})),
        ("thinking", json!({"type": "enabled", "budget_tokens": 1024})),
        ("reasoning_effort", json!("low")),
        ("reasoning", json!({"max_tokens": 1})),
        ("output_config", json!({"format": {"type": "json_schema"}})),
        ("n", json!(2)),
        ("messages", json!([])),
        ("messages", json!("Hi")),
        ("messages", json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}])),
    ];
    for (name, value) in compatible {
        assert!(with(name, value.clone()), "{name} {value}");
    }
    for (name, value) in incompatible {
        assert!(!with(name, value.clone()), "{name} {value}");
    }
    let mut calling = transcript("Hello");
    calling.take(&Event::ToolCall { choice: 0, index: 0, id: "", name: "f", signature: None });
    for transcript in [calling, transcript(" \n"), Transcript::default()] {
        assert_eq!(resume_request(chat, &body(), &transcript, Prefill::Plain), None);
    }
}

#[test]
fn prefill_support_by_model() {
    let flag = Prefill::Flag("prefix");
    for (provider, model, prefill) in [
        ("anthropic", "claude-sonnet-4-5", Prefill::Plain),
        ("anthropic", "claude-opus-4-6", Prefill::No),
        ("vertex-ai", "anthropic.claude-3-5-haiku@20241022", Prefill::Plain),
        ("vertex-ai", "claude-sonnet-4-6", Prefill::No),
        ("vertex-ai", "gemini-2.5-pro", Prefill::No),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Prefill::Plain),
        ("bedrock", "us.amazon.nova-lite-v1:0", Prefill::No),
        ("mistral-ai", "mistral-large-latest", flag),
        ("mistral-ai", "magistral-medium-latest", Prefill::No),
        ("openrouter", "anthropic/claude-sonnet-4.5", Prefill::Plain),
        ("openrouter", "anthropic/claude-opus-4.6", Prefill::No),
        ("openrouter", "mistralai/mistral-large", Prefill::Plain),
        ("openrouter", "openai/gpt-5", Prefill::No),
        ("deepseek", "deepseek-chat", Prefill::No),
        ("openai", "gpt-5", Prefill::No),
        ("vllm", "mine", Prefill::No),
    ] {
        assert_eq!(find(provider).unwrap().prefill(model), prefill, "{provider} {model}");
    }
}
