//! How calls are prepared: bounds, thinking, names of tools.

use super::*;
use crate::provider::find;
use http::Method;

const STRICT: PrepareOptions<'static> = PrepareOptions {
    strict: true,
    stream_usage: false,
    client_betas: None,
    learned: None,
    prompt_cache: None,
};

#[test]
fn a_request_of_too_many_values_is_refused() {
    let prepared = |messages: usize, content: &str| {
        let messages = vec![format!(r#"{{"role":"user","content":"{content}"}}"#); messages].join(",");
        let body = Body::parse(format!(r#"{{"model":"m","messages":[{messages}]}}"#).into()).unwrap();
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some("m"),
            streamed: false,
        };
        let provider = find("anthropic").unwrap();
        let mut notes = TranslationNotes::default();
        prepare(provider, &call, &Account::default(), Some(&body), STRICT, &mut notes)
    };
    // Braces and commas in texts do not count.
    assert!(prepared(1, &"{,".repeat(MAX_VALUES)).is_ok());
    // Three for each message, three for the members around them.
    assert!(prepared(MAX_VALUES / 3 - 1, "").is_ok());
    let error = prepared(MAX_VALUES / 3 + 1, "").unwrap_err();
    assert_eq!((error.status(), error.param.as_deref()), (400, Some("messages")));
}

#[test]
fn a_strict_chat_is_sent_without_thinking() {
    let body = {
        let body = serde_json::json!({"model": "claude-sonnet-4-5", "max_tokens": 2000, "thinking": {"type": "enabled",
            "budget_tokens": 1024}, "messages": [{"role": "user", "content": "x"}]});
        Body::parse(body.to_string().into()).unwrap()
    };
    let rows = [
        (Operation::ChatCompletions, "bedrock", true, true),
        (Operation::ChatCompletions, "bedrock", false, false),
        (Operation::ChatCompletions, "anthropic", true, true),
        // Its own bytes, and a dialect that has thinking, stay as they are.
        (Operation::ChatCompletions, "z-ai", true, false),
        (Operation::Messages, "bedrock", true, false),
    ];
    for (operation, provider, strict, dropped) in rows {
        let path = if operation == Operation::Messages { "messages" } else { "chat/completions" };
        let model = Some("claude-sonnet-4-5");
        let call = Call { operation, method: &Method::POST, path, query: None, model, streamed: false };
        let mut account = Account::default();
        account.cloud_a.region = Some("us-east-1".into());
        let mut notes = TranslationNotes::default();
        let provider = find(provider).unwrap();
        let prepared =
            prepare(provider, &call, &account, Some(&body), PrepareOptions { strict, ..STRICT }, &mut notes)
                .unwrap();
        let sent = prepared.body.unwrap_or_default();
        let has_budget = sent.is_empty() || String::from_utf8_lossy(&sent).contains("1024");
        let warned = notes.warnings.iter().any(|warning| warning.contains("strict_std_compliance"));
        assert_eq!((!has_budget, warned), (dropped, dropped), "{operation:?} {} {strict}", provider.id());
    }
}

#[test]
fn a_long_tool_name_is_sent_short_and_comes_back() {
    let name = format!("mcp__{}", "a_long_name_".repeat(8));
    let body = serde_json::json!({"model": "m", "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": name}});
    let body = Body::parse(body.to_string().into()).unwrap();
    let call = Call {
        operation: Operation::Messages,
        method: &Method::POST,
        path: "messages",
        query: None,
        model: Some("m"),
        streamed: false,
    };
    let provider = find("groq").unwrap();
    let mut notes = TranslationNotes::default();
    let prepared = prepare(provider, &call, &Account::default(), Some(&body), STRICT, &mut notes).unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&prepared.body.unwrap()).unwrap();
    let short = sent.pointer("/tools/0/function/name").and_then(|name| name.as_str()).unwrap();
    assert_eq!(short.len(), 64);
    assert_eq!(sent.pointer("/tool_choice/function/name").and_then(|name| name.as_str()), Some(short));
    let response = serde_json::json!({"id": "r", "model": "m", "choices": [{"finish_reason": "tool_calls",
        "message": {"tool_calls": [{"id": "c", "function": {"name": short, "arguments": "{}"}}]}}]});
    let mut rewriter = prepared.translation.unwrap().rewriter(false, "1", 0);
    let mut out = Vec::new();
    rewriter.push(response.to_string().as_bytes(), &mut out);
    rewriter.finish(&mut out);
    let message: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(message.pointer("/content/0/name").and_then(|name| name.as_str()), Some(name.as_str()));
}
