//! Streams with events, items, parts and blocks of kinds that the gateway has in no list. A vendor may have added them, and a model may have
//! written what stands in them: it is judged, or the client does not get it.

use crate::guarded_texts::{MESSAGES, body, both_ways, events, is_denied, speaking};
use crate::guardrails::{CHAT, none_of, send, with};
use crate::stages::RESPONSES;
use serde_json::{Value, json};

/// A stream of the Responses API with this event, and this item of its output.
fn with_event(event: Value, item: Option<&Value>) -> String {
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
    let output: Vec<&Value> = item.into_iter().collect();
    let response =
        json!({"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage});
    events(&[
        json!({"type": "response.created", "response": {"id": "r", "output": []}}),
        event,
        json!({"type": "response.completed", "response": response}),
    ])
}

fn done(item: &Value) -> String {
    with_event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}), Some(item))
}

fn anthropic(block: &Value) -> String {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    let list = [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
        json!({"type": "message_stop"}),
    ];
    let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    list.iter().map(named).collect()
}

/// What a stream has in a place that no list names, with this text in it.
fn ways(text: &str) -> Vec<(&'static str, &'static str, String)> {
    let arguments = json!({"to": text}).to_string();
    let audio = json!({"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_audio", "transcript": text}]});
    let transcript =
        json!({"type": "response.output_audio_transcript.done", "item_id": "i", "transcript": text});
    let shell = json!({"type": "response.shell_call_command.done", "output_index": 0, "command_index": 0, "command": text});
    let dotted = json!({"type": "response.mcp_call.arguments.done", "item_id": "i", "arguments": arguments});
    let with_error = json!({"type": "response.zzz", "zzz": text, "error": null});
    vec![
        ("openai", RESPONSES, with_event(shell, None)),
        ("openai", RESPONSES, with_event(dotted, None)),
        ("openai", RESPONSES, with_event(with_error, None)),
        ("openai", RESPONSES, with_event(json!({"type": "response.reasoningzzz", "text": text}), None)),
        ("openai", RESPONSES, with_event(transcript, None)),
        (
            "openai",
            RESPONSES,
            with_event(json!({"type": "response.zzz.done", "zzz": {"deep": [text]}}), None),
        ),
        (
            "openai",
            RESPONSES,
            done(&json!({"type": "mcp_approval_request", "id": "i", "arguments": arguments})),
        ),
        ("openai", RESPONSES, done(&json!({"type": "zzz", "id": "i", "zzz": [text]}))),
        ("openai", RESPONSES, done(&json!({"type": "message", "id": "i", "content": [], "refusal": text}))),
        ("openai", RESPONSES, done(&audio)),
        ("anthropic", MESSAGES, anthropic(&json!({"type": "zzz", "text": text}))),
    ]
}

#[tokio::test]
async fn what_no_list_names_in_a_stream_is_judged() {
    for ((vendor, path, bad), (_, _, fine)) in ways("a bomb x").into_iter().zip(ways("a boat x")) {
        let (_bomb, target) = speaking(vendor, &bad).await;
        for guardrails in both_ways(&none_of("bomb", true)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, true)).await;
            assert!(is_denied(&answer), "{bad} {guardrails}: {}", answer.text);
            assert!(!answer.text.contains("a bomb"), "{bad} {guardrails}: {}", answer.text);
        }
        let (_boat, target) = speaking(vendor, &fine).await;
        for guardrails in both_ways(&none_of("bomb", true)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(path, &config, &body(path, true)).await;
            assert_eq!(answer.status, 200, "{fine} {guardrails}: {}", answer.text);
            assert!(
                path != RESPONSES || answer.text.contains("a boat x"),
                "{fine} {guardrails}: {}",
                answer.text
            );
        }
    }
}

/// A text in pieces that nobody puts together is not passed on in pieces; where no check reads it, it is.
#[tokio::test]
async fn pieces_of_an_unlisted_kind_are_left_out_where_a_check_reads_them() {
    let stream = with_event(json!({"type": "response.zzz.delta", "delta": "a bo"}), None).replace(
        "response.completed",
        "response.zzz.delta\",\"delta\":\"mb x\"}\n\ndata: {\"type\":\"response.completed",
    );
    let (_upstream, target) = speaking("openai", &stream).await;
    for guardrails in both_ways(&none_of("bomb", true)) {
        let config = with(&target, json!({"output_guardrails": guardrails}));
        let answer = send(RESPONSES, &config, &body(RESPONSES, true)).await;
        let is_left_out = !answer.text.contains("zzz") && answer.text.contains("response.completed");
        assert!(answer.status == 200 && is_left_out, "{guardrails}: {}", answer.text);
    }
    let answer = send(RESPONSES, &target, &body(RESPONSES, true)).await;
    assert!(answer.text.contains("a bo") && answer.text.contains("mb x"), "{}", answer.text);
}

/// Chunks of a chat where events of responses are expected have texts without a place: nothing of them is passed on.
#[tokio::test]
async fn a_stream_of_another_api_is_not_passed_on_unread() {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "bomb"}}]});
    let (_upstream, target) = speaking("openai", &events(&[chunk])).await;
    for guardrails in both_ways(&none_of("bomb", true)) {
        let config = with(&target, json!({"output_guardrails": guardrails}));
        let answer = send(RESPONSES, &config, &body(RESPONSES, true)).await;
        assert!(
            answer.text.contains("error") && !answer.text.contains("\"bomb\"}"),
            "{guardrails}: {} {}",
            answer.status,
            answer.text
        );
    }
    let whole = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": {"index": 0, "message": {"content": "bomb"}}});
    let (_upstream, target) = speaking("openai", &whole.to_string()).await;
    let config = with(&target, json!({"output_guardrails": none_of("bomb", true)}));
    let answer = send(CHAT, &config, &body(CHAT, false)).await;
    assert!(!answer.text.contains("content\":\"bomb"), "{} {}", answer.status, answer.text);
}

/// What a check changes in an unlisted kind stays JSON, and keeps what names, seals and counts.
#[tokio::test]
async fn what_is_changed_in_an_unlisted_kind_stays_json() {
    let event = json!({"type": "response.vendor", "id": "5555555555554444", "ok": true, "count": 12345, "card": 5_555_555_555_554_444_u64,
                       "encrypted_content": "5555555555554444", "deep": [{"text": "my card 5555555555554444"}]});
    let (_upstream, target) = speaking("openai", &with_event(event, None)).await;
    for guardrails in both_ways(&json!([{"pii": {"redact": true, "categories": ["CREDIT_CARD"]}}])) {
        let config = with(&target, json!({"output_guardrails": guardrails}));
        let answer = send(RESPONSES, &config, &body(RESPONSES, true)).await;
        let line = answer.text.lines().find(|line| line.contains("response.vendor")).unwrap().to_owned();
        let got: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        let kept = (&got["id"], &got["ok"], &got["count"], &got["encrypted_content"]);
        let wanted = (&json!("5555555555554444"), &json!(true), &json!(12345), &json!("5555555555554444"));
        assert_eq!(kept, wanted, "{line}");
        assert!(got["card"].is_string() && !got["deep"].to_string().contains("5555"), "{line}");
    }
}
