//! Responses written from events: by example, and for any events.

use crate::api::chat::{EncodeContext, Encoder, Event, Finish, ProviderError, Start};
use crate::api::gemini::encoder;
use crate::api::sse::SseParser;
use crate::api::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

fn context(is_own_dialect: bool) -> EncodeContext {
    EncodeContext {
        id: "made".into(),
        created: 0,
        model: "asked".into(),
        provider: "anthropic",
        strict: true,
        is_own_dialect,
        include_usage: true,
        request: None,
    }
}

fn written(mut encoder: Box<dyn Encoder>, events: &[Event<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.write(event, &mut out));
    encoder.close(&mut out);
    out
}

fn whole(events: &[Event<'_>]) -> Value {
    serde_json::from_slice(&written(encoder(false, context(false)), events)).unwrap()
}

fn chunks(bytes: &[u8]) -> Vec<Value> {
    let mut parser = SseParser::default();
    let mut chunks = Vec::new();
    for run in [parser.push(bytes), parser.finish()] {
        for event in run.events() {
            assert_eq!(event.name, None);
            chunks.extend(event.data.as_ref().map(|data| serde_json::from_slice::<Value>(data).unwrap()));
        }
    }
    chunks
}

fn streamed(events: &[Event<'_>]) -> Vec<Value> {
    chunks(&written(encoder(true, context(false)), events))
}

const USAGE: Usage = Usage {
    input: 10,
    output: 7,
    total: 17,
    cached: 4,
    cache_write: 0,
    cache_write_1h: 0,
    reasoning: 3,
    input_audio: 0,
    output_audio: 0,
    input_image: 0,
    output_image: 0,
    input_video: 0,
    cached_audio: 0,
    cached_image: 0,
    web_searches: 0,
    rerank_searches: 0,
    characters: 0,
};

fn conversation() -> Vec<Event<'static>> {
    vec![
        Event::Start(Start { id: Some("r-1"), model: Some("m-1"), created: None }),
        Event::Reasoning { choice: 0, text: "let me" },
        Event::Reasoning { choice: 0, text: " see" },
        Event::Signature { choice: 0, signature: "sig-1" },
        Event::Text { choice: 0, text: "Hel" },
        Event::Text { choice: 0, text: "lo." },
        Event::ToolCall { choice: 0, index: 0, id: "c1", name: "f", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "{\"a\":" },
        Event::ToolCall { choice: 0, index: 1, id: "c2", name: "g", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "1.0}" },
        Event::Arguments { choice: 0, index: 1, fragment: "not json" },
        Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "tool_use" },
        Event::Usage(USAGE),
        Event::End,
    ]
}

#[test]
fn a_whole_response_has_all_parts_in_order() {
    let response = whole(&conversation());
    let wanted = json!({
        "candidates": [{"content": {"role": "model", "parts": [
            {"text": "let me see", "thought": true, "thoughtSignature": "dHVybnBpa2U6c2lnbmF0dXJlOnNpZy0x"},
            {"text": "Hello."},
            {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1.0}}},
            {"functionCall": {"id": "c2", "name": "g", "args": {"INVALID_JSON": "not json"}}},
        ]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 4, "totalTokenCount": 17},
        "modelVersion": "m-1", "responseId": "r-1",
    });
    assert_eq!(response, wanted);
}

#[test]
fn a_stream_has_a_chunk_for_each_part_and_ends_with_the_finish() {
    let chunks = streamed(&conversation());
    let part = |chunk: &Value| chunk["candidates"][0]["content"]["parts"][0].clone();
    assert_eq!(part(&chunks[0]), json!({"text": "let me", "thought": true}));
    assert_eq!(
        part(&chunks[2]),
        json!({"text": "", "thought": true, "thoughtSignature": "dHVybnBpa2U6c2lnbmF0dXJlOnNpZy0x"})
    );
    assert_eq!(part(&chunks[3]), json!({"text": "Hel"}));
    assert_eq!(part(&chunks[5]), json!({"functionCall": {"id": "c1", "name": "f", "args": {"a": 1.0}}}));
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 17);
    for chunk in before {
        assert!(chunk["candidates"][0].get("finishReason").is_none() && chunk.get("usageMetadata").is_none());
        assert_eq!((&chunk["modelVersion"], &chunk["responseId"]), (&json!("m-1"), &json!("r-1")));
    }
}

#[test]
fn arguments_over_several_lines_stay_in_one_event() {
    let events = [
        Event::ToolCall { choice: 0, index: 0, id: "c", name: "f", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "{\n  \"a\": 1.0\r\n}" },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" },
    ];
    let chunks = streamed(&events);
    assert_eq!(chunks[0]["candidates"][0]["content"]["parts"][0]["functionCall"]["args"], json!({"a": 1.0}));
}

#[test]
fn a_failure_is_googles_error_and_no_finish() {
    let error = ProviderError::new(503, "Overloaded.");
    let mut out = Vec::new();
    let mut stream = encoder(true, context(false));
    stream.write(&Event::Text { choice: 0, text: "a" }, &mut out);
    stream.fail(&error, &mut out);
    let chunks = chunks(&out);
    let wanted = json!({"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"});
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(&chunks[1]["error"][name], value);
    }
    assert!(chunks[0]["candidates"][0].get("finishReason").is_none());
}

#[test]
fn finish_reasons_are_googles() {
    for (reason, native, wanted) in [
        (Finish::Stop, "end_turn", "STOP"),
        (Finish::Length, "length", "MAX_TOKENS"),
        (Finish::ContentFilter, "content_filter", "SAFETY"),
        (Finish::ContentFilter, "PROHIBITED_CONTENT", "PROHIBITED_CONTENT"),
        (Finish::Stop, "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        (Finish::ToolCalls, "STOP", "STOP"),
    ] {
        let response = whole(&[Event::Finish { choice: 0, reason, native }]);
        assert_eq!(response["candidates"][0]["finishReason"], wanted, "{native}");
    }
    let refused = [
        Event::Refusal { choice: 0, text: "No." },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" },
    ];
    assert_eq!(whole(&refused)["candidates"][0]["finishReason"], "SAFETY");
    assert_eq!(whole(&refused)["candidates"][0]["content"]["parts"][0]["text"], "No.");
}

#[test]
fn googles_own_signatures_stay_where_they_were() {
    let events = [
        Event::Reasoning { choice: 0, text: "hm" },
        Event::Text { choice: 0, text: "a" },
        Event::Signature { choice: 0, signature: "R29vZ2xl" },
        Event::ToolCall { choice: 0, index: 0, id: "c", name: "f", signature: Some("Q2FsbA==") },
        Event::Block {
            choice: 0,
            json: r#"{"type":"server_tool_use","id":"x","name":"code_execution","input":{"code":"1","language":"PYTHON"},"signature":"QmxvY2s="}"#,
        },
        Event::Block {
            choice: 0,
            json: r#"{"type":"web_search_tool_result","tool_use_id":"x","content":[]}"#,
        },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "STOP" },
    ];
    let out = written(encoder(false, context(true)), &events);
    let response: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        response["candidates"][0]["content"]["parts"],
        json!([
            {"text": "hm", "thought": true},
            {"text": "a", "thoughtSignature": "R29vZ2xl"},
            {"functionCall": {"id": "c", "name": "f", "args": {}}, "thoughtSignature": "Q2FsbA=="},
            {"executableCode": {"id": "x", "language": "PYTHON", "code": "1"}, "thoughtSignature": "QmxvY2s="},
        ])
    );
}

#[test]
fn citations_logprobs_and_members_are_on_the_candidate() {
    let events = [
        Event::Text { choice: 0, text: "Zürich" },
        Event::Annotation {
            choice: 0,
            json: r#"{"type":"url_citation","url_citation":{"start_index":0,"end_index":6,"url":"https://a","title":"A"}}"#,
        },
        Event::Logprobs {
            choice: 0,
            json: r#"{"content":[{"token":"Z","logprob":-0.5,"top_logprobs":[]}]}"#,
        },
        Event::Member { name: "safety_ratings", json: "[]" },
        Event::Member { name: "system_fingerprint", json: "\"x\"" },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" },
    ];
    for candidate in [&whole(&events)["candidates"][0], &streamed(&events)[1]["candidates"][0]] {
        assert_eq!(candidate["groundingMetadata"]["groundingSupports"][0]["segment"]["endIndex"], 7);
        assert_eq!(candidate["logprobsResult"]["chosenCandidates"][0]["token"], "Z");
        assert_eq!(candidate["safetyRatings"], json!([]));
    }
    assert!(!whole(&events).to_string().contains("fingerprint"));
}

#[derive(Debug, Clone)]
enum Step {
    Text(u32, String),
    Thought(u32, String),
    Signature(u32, String),
    Redacted(u32, String),
    Call(u32, String, String),
    Media(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let choice = 0..3u32;
    let step = prop_oneof![
        (choice.clone(), ".{1,5}").prop_map(|(choice, text)| Step::Text(choice, text)),
        (choice.clone(), ".{1,5}").prop_map(|(choice, text)| Step::Thought(choice, text)),
        (choice.clone(), ".{0,5}").prop_map(|(choice, text)| Step::Signature(choice, text)),
        (choice.clone(), ".{0,5}").prop_map(|(choice, text)| Step::Redacted(choice, text)),
        (choice.clone(), "[a-z]{1,5}", "\\{\\}|\\{\"a\":1\\}|\\{\"a\"|")
            .prop_map(|(choice, name, args)| Step::Call(choice, name, args)),
        choice.prop_map(Step::Media),
    ];
    prop::collection::vec(step, 0..12)
}

fn events(steps: &[Step]) -> Vec<Event<'_>> {
    let mut events = Vec::new();
    let mut calls = 0;
    for step in steps {
        match step {
            Step::Text(choice, text) => events.push(Event::Text { choice: *choice, text }),
            Step::Thought(choice, text) => events.push(Event::Reasoning { choice: *choice, text }),
            Step::Signature(choice, signature) => {
                events.push(Event::Signature { choice: *choice, signature });
            }
            Step::Redacted(choice, data) => events.push(Event::Redacted { choice: *choice, data }),
            Step::Media(choice) => {
                events.push(Event::Media { choice: *choice, media_type: "image/png", data: "aGk=" });
            }
            Step::Call(choice, name, arguments) => {
                events.push(Event::ToolCall {
                    choice: *choice,
                    index: calls,
                    id: "c",
                    name,
                    signature: None,
                });
                events.push(Event::Arguments { choice: *choice, index: calls, fragment: arguments });
                calls += 1;
            }
        }
    }
    (0..3).for_each(|choice| events.push(Event::Finish { choice, reason: Finish::Stop, native: "stop" }));
    events
}

/// The parts of one candidate over all chunks, adjacent texts of one kind joined.
fn parts(chunks: &[Value], index: u64) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let candidates = chunks.iter().flat_map(|chunk| chunk["candidates"].as_array().unwrap());
    for candidate in candidates.filter(|candidate| candidate["index"] == index) {
        for part in candidate["content"]["parts"].as_array().unwrap() {
            let joins = |last: &Value| {
                last.get("text").is_some()
                    && part.get("text").is_some()
                    && last.get("thought") == part.get("thought")
                    && last.get("thoughtSignature").is_none()
            };
            if *part == json!({"text": ""}) {
                continue;
            }
            match all.last_mut().filter(|last| joins(last)) {
                Some(last) => {
                    let text =
                        format!("{}{}", last["text"].as_str().unwrap(), part["text"].as_str().unwrap());
                    last["text"] = text.into();
                    if let Some(signature) = part.get("thoughtSignature") {
                        last["thoughtSignature"] = signature.clone();
                    }
                }
                None => all.push(part.clone()),
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn streamed_and_whole_responses_have_the_same_content(steps in steps()) {
        let events = events(&steps);
        let whole = vec![whole(&events)];
        let chunks = streamed(&events);
        for index in 0..3 {
            prop_assert_eq!(parts(&whole, index), parts(&chunks, index));
        }
        let (last, before) = chunks.split_last().unwrap();
        for candidate in last["candidates"].as_array().unwrap() {
            prop_assert_eq!(&candidate["finishReason"], "STOP");
        }
        for chunk in before {
            // Google's SDKs take a content without parts for a broken response.
            prop_assert!(!chunk["candidates"][0]["content"]["parts"].as_array().unwrap().is_empty());
        }
    }
}
