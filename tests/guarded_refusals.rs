//! Refusals of models: a client reads one in a place of its own, or as text, by its dialect. It is judged and changed there.

use crate::guarded_texts::{GEMINI, GEMINI_EVENTS, MESSAGES, body, both_ways, events, is_denied, speaking};
use crate::guardrails::{CHAT, none_of, send, with};
use crate::stages::RESPONSES;
use serde_json::{Value, json};

/// Chunks of a chat whose deltas are these.
fn chat_stream(deltas: &[Value]) -> String {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let mut list: Vec<Value> = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    list.push(chunk(&json!({}), "stop".into()));
    events(&list) + "data: [DONE]\n\n"
}

fn refusals(texts: &[&str]) -> String {
    chat_stream(&texts.iter().map(|text| json!({"refusal": text})).collect::<Vec<_>>())
}

fn whole(texts: &[&str]) -> String {
    let message = json!({"role": "assistant", "content": null, "refusal": texts.concat()});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        .to_string()
}

/// Events of the Responses API with a refusal.
fn response_events(texts: &[&str]) -> String {
    let place = json!({"item_id": "i", "output_index": 0, "content_index": 0});
    let part = json!({"type": "refusal", "refusal": texts.concat()});
    let item = json!({"type": "message", "id": "i", "role": "assistant", "content": [part]});
    let delta = |text: &&str| with(&place, json!({"type": "response.refusal.delta", "delta": text}));
    let mut list: Vec<Value> = texts.iter().map(delta).collect();
    list.push(with(&place, json!({"type": "response.refusal.done", "refusal": texts.concat()})));
    list.push(with(&place, json!({"type": "response.content_part.done", "part": part})));
    list.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
    list.push(json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}}));
    events(&list)
}

#[tokio::test]
async fn a_refusal_is_judged_and_changed_whole_and_streamed() {
    type Written = fn(&[&str]) -> String;
    let ways: [(&str, bool, Written); 7] = [
        (CHAT, true, refusals),
        (MESSAGES, true, refusals),
        (GEMINI_EVENTS, true, refusals),
        (RESPONSES, true, response_events),
        (CHAT, false, whole),
        (MESSAGES, false, whole),
        (GEMINI, false, whole),
    ];
    for (path, stream, written) in ways {
        let (_bomb, target) = speaking("openai", &written(&["a bo", "mb x"])).await;
        for guardrails in both_ways(&none_of("bomb", true)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, stream)).await;
            assert!(is_denied(&answer), "{path} {stream} {guardrails}: {}", answer.text);
            assert!(!answer.text.contains("mb x"), "{path} {stream} {guardrails}: {}", answer.text);
        }
        let (_card, target) = speaking("openai", &written(&["card 4111 1111 ", "1111 1111 ok"])).await;
        for guardrails in both_ways(&json!([{"pii": {"redact": true, "categories": ["CREDIT_CARD"]}}])) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, stream)).await;
            assert_eq!(answer.status, 200, "{path} {stream} {guardrails}: {}", answer.text);
            let is_redacted = answer.text.contains("ok") && !answer.text.contains("1111");
            assert!(is_redacted, "{path} {stream} {guardrails}: {}", answer.text);
        }
    }
}

/// Where a client gets a refusal as text, it hides nothing of the text that it is a part of, and it is no way around.
#[tokio::test]
async fn a_refusal_that_is_text_for_the_client_is_judged_with_the_text() {
    let cut = chat_stream(&[json!({"content": "a bo"}), json!({"refusal": "mb x"})]);
    for (path, denies) in [(MESSAGES, true), (GEMINI_EVENTS, true), (CHAT, false)] {
        let (_upstream, target) = speaking("openai", &cut).await;
        let [windowed, _] = both_ways(&none_of("bomb", true));
        let config = with(&target, json!({"output_guardrails": windowed}));
        let answer = send(path, &config, &body(path, true)).await;
        assert_eq!(is_denied(&answer), denies, "{path}: {}", answer.text);
    }
}
