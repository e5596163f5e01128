//! Text filters over responses that keep their provider's own shape: completions and responses at a provider that serves them itself.
//!
//! Not what filters and layers do in general (`stages`).

use crate::memory_engine::MemoryEngine;
use crate::stages::{COMPLETIONS, HOLD, RESPONSES, UPPER_CASE, body, provider, target};
use serde_json::{Value, json};

pub(crate) const WHOLE_COMPLETION: &str = r#"{"id":"c","object":"text_completion","created":1,"model":"m","unknown":[1.0],"choices":[{"text":"hello world","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;
pub(crate) const COMPLETION_EVENTS: &str = concat!(
    "data: {\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"text\":\"hello\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"text\":\" world\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}\n\n",
    "data: [DONE]\n\n",
);

/// A response object: reasoning that only its provider can read, a call of a kind that nobody knows, and a message.
pub(crate) fn response_object() -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": null,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "secret world"},
            {"id": "xx_1", "type": "unheard_of_call", "status": "completed", "world": {"a": 1.5}},
            {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "final",
             "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "hello world"}]},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}, "metadata": {"world": "x"},
    })
}

/// The events of that response, named and numbered.
pub(crate) fn response_events() -> String {
    let response = response_object();
    let part = &response["output"][2]["content"][0];
    let mut begun = response.clone();
    (begun["output"], begun["status"], begun["usage"]) = (json!([]), "in_progress".into(), Value::Null);
    let place = json!({"item_id": "msg_1", "output_index": 2, "content_index": 0});
    let delta = |text: &str| json!({"type": "response.output_text.delta", "delta": text, "logprobs": [], "obfuscation": "x"});
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": response["output"][0]}),
        json!({"type": "response.unheard_of_call.world", "output_index": 1, "item_id": "xx_1", "delta": "world"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": response["output"][1]}),
        json!({"type": "response.content_part.added", "part": {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}}),
        delta("hello"),
        delta(" world"),
        json!({"type": "response.output_text.done", "text": part["text"], "logprobs": []}),
        json!({"type": "response.content_part.done", "part": part}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": response["output"][2]}),
        json!({"type": "response.completed", "response": response}),
    ];
    for event in &mut events[4..=8] {
        event.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
    }
    let numbered = (0..).zip(events).map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    });
    numbered.collect()
}

/// Only text is changed: ids, reasoning, unknown items, events and members are the provider's.
#[tokio::test]
async fn what_is_no_text_stays_as_the_provider_sent_it() {
    let changed = |text: String| text.replace("hello world", "HELLO WORLD").replace("\"hello\"", "\"HELLO\"");
    let changed = |text: String| changed(text).replace("\"delta\":\" world\"", "\"delta\":\" WORLD\"");
    for (path, stream, sent) in [
        (RESPONSES, false, response_object().to_string()),
        (RESPONSES, true, response_events()),
        (COMPLETIONS, false, WHOLE_COMPLETION.to_owned()),
    ] {
        let provider = provider(&sent).await;
        let config = target("openai", provider.port);
        let observed =
            MemoryEngine::new(const { &[UPPER_CASE] }).send(path, &config, &body(stream), "stage-own").await;
        assert_eq!(observed.body, changed(sent), "{path} {stream}");
    }
}

/// The texts held back to the end come before what follows them, and what the stream says of them later agrees.
#[tokio::test]
async fn held_text_of_a_response_comes_before_its_end_and_events_are_numbered_anew() {
    let provider = provider(&response_events()).await;
    let engine = MemoryEngine::new(const { &[HOLD, UPPER_CASE] });
    let observed = engine.send(RESPONSES, &target("openai", provider.port), &body(true), "stage-held").await;
    let data = observed.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds[5..],
        [
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    assert!(
        (0..).zip(&events).all(|(number, event)| event["sequence_number"] == number),
        "{}",
        observed.body
    );
    let delta = json!({
        "type": "response.output_text.delta", "item_id": "msg_1", "output_index": 2, "content_index": 0,
        "delta": "HELLO WORLD", "logprobs": [], "sequence_number": 5,
    });
    assert_eq!(events[5], delta);
    for (event, place) in events[6..].iter().zip([
        "/text",
        "/part/text",
        "/item/content/0/text",
        "/response/output/2/content/0/text",
    ]) {
        assert_eq!(event.pointer(place).unwrap(), "HELLO WORLD", "{event}");
    }
    assert_eq!(events[9]["response"]["id"], "resp_1");
}
