//! The grammar every stream must satisfy, tested with random sequences of events.

use super::super::encoder;
use crate::api::body::Body;
use crate::api::chat::{EncodeContext, Event, Finish, ProviderError, Start};
use crate::api::sse::SseParser;
use crate::api::usage::Usage;
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};
use serde_json::{Value, json};

/// An encode context with the given request.
pub(super) fn context(request: &str) -> EncodeContext {
    EncodeContext {
        id: "0197".to_owned(),
        created: 1_700_000_000,
        model: "requested".to_owned(),
        provider: "anthropic",
        strict: false,
        is_own_dialect: false,
        include_usage: false,
        request: Some(Body::parse(request.to_owned().into()).unwrap()),
    }
}

/// What the encoder writes for the events.
pub(super) fn encode(streamed: bool, request: &str, events: &[Event<'_>]) -> Vec<u8> {
    let mut encoder = encoder(streamed, context(request));
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.write(event, &mut out));
    encoder.close(&mut out);
    out
}

/// The data of a stream's events. Checks that each event's name equals its type and that they are numbered.
pub(super) fn events_of(stream: &[u8]) -> Vec<Value> {
    let mut all = Vec::new();
    let mut parser = SseParser::default();
    for event in parser.push(stream).events() {
        let Some(data) = &event.data else { continue };
        let data: Value = serde_json::from_slice(data).unwrap();
        assert_eq!(event.name, data["type"].as_str());
        all.push(data);
    }
    for (number, event) in all.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    all
}

/// A part of an item, assembled from its deltas.
#[derive(Default)]
struct ReceivedPart {
    text: String,
    annotations: Vec<Value>,
    logprobs: Vec<Value>,
    done: bool,
}

#[derive(Default)]
struct ReceivedItem {
    id: Value,
    kind: String,
    parts: Vec<ReceivedPart>,
    done: Option<Value>,
}

/// Checks a finished stream against the grammar and returns its last response.
pub(super) fn check(stream: &[u8]) -> Value {
    let events = events_of(stream);
    assert!(events.len() >= 3);
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events[1]["type"], "response.in_progress");
    let last = events.last().unwrap();
    assert!(["response.completed", "response.incomplete"].contains(&last["type"].as_str().unwrap()));
    let mut items: Vec<ReceivedItem> = Vec::new();
    for event in &events[2..events.len() - 1] {
        step(&mut items, event);
    }
    let output = last["response"]["output"].as_array().unwrap();
    let done: Vec<Value> = items.into_iter().map(|item| item.done.expect("every item is finished")).collect();
    assert_eq!(&done, output);
    for response in [&events[0]["response"], &events[1]["response"]] {
        assert_eq!((&response["status"], &response["output"]), (&json!("in_progress"), &json!([])));
        assert_eq!(response["id"], last["response"]["id"]);
    }
    last["response"].clone()
}

fn step(items: &mut Vec<ReceivedItem>, event: &Value) {
    let kind = event["type"].as_str().unwrap().strip_prefix("response.").unwrap();
    let at = usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
    if kind == "output_item.added" {
        assert_eq!(at, items.len());
        let item = &event["item"];
        let kind = item["type"].as_str().unwrap().to_owned();
        // A call has no parts in the stream: its arguments, or its input, count as one.
        let is_call = matches!(kind.as_str(), "function_call" | "custom_tool_call");
        let parts = if is_call { vec![ReceivedPart::default()] } else { Vec::new() };
        assert!(items.iter().all(|other| other.id != item["id"]));
        items.push(ReceivedItem { id: item["id"].clone(), kind, parts, done: None });
        return;
    }
    let item = &mut items[at];
    assert!(item.done.is_none(), "{event}");
    if kind == "output_item.done" {
        assert!(item.parts.iter().all(|part| part.done), "{event}");
        assert_eq!(event["item"]["id"], item.id);
        check_item(item, &event["item"]);
        item.done = Some(event["item"].clone());
        return;
    }
    assert_eq!(event["item_id"], item.id);
    let number = event.get("content_index").or_else(|| event.get("summary_index")).and_then(Value::as_u64);
    let number = usize::try_from(number.unwrap_or_default()).unwrap();
    if kind.ends_with("part.added") {
        assert_eq!(number, item.parts.len());
        assert!(item.parts.iter().all(|part| part.done));
        return item.parts.push(ReceivedPart::default());
    }
    if kind.starts_with("image_generation_call") || kind.starts_with("web_search_call") {
        return;
    }
    let part = &mut item.parts[number];
    let whole = ["text", "refusal", "arguments", "input"].iter().find_map(|name| event.get(*name));
    match (kind.rsplit_once('.').unwrap().1, whole) {
        // The end of the part follows the end of its text.
        ("done", None) => assert!(part.done, "{event}"),
        (_, _) if part.done => panic!("the part has ended before: {event}"),
        ("done", Some(whole)) => {
            assert_eq!(whole, &part.text);
            assert_eq!(event.get("logprobs").unwrap_or(&json!([])), &json!(part.logprobs));
            part.done = true;
        }
        ("delta", None) => {
            part.text.push_str(event["delta"].as_str().unwrap());
            part.logprobs
                .extend(event.get("logprobs").iter().flat_map(|list| list.as_array().unwrap()).cloned());
        }
        ("added", None) => {
            assert_eq!(event["annotation_index"], part.annotations.len());
            part.annotations.push(event["annotation"].clone());
        }
        _ => panic!("not in the grammar: {event}"),
    }
}

/// Checks that the finished item contains what its deltas contained.
fn check_item(item: &ReceivedItem, done: &Value) {
    assert_eq!(done["type"], item.kind);
    match item.kind.as_str() {
        "message" => {
            let content = done["content"].as_array().unwrap();
            assert_eq!(content.len(), item.parts.len());
            for (part, received) in content.iter().zip(&item.parts) {
                assert_eq!(part.get("text").or_else(|| part.get("refusal")).unwrap(), &received.text);
                assert_eq!(part.get("annotations").unwrap_or(&json!([])), &json!(received.annotations));
                assert_eq!(part.get("logprobs").unwrap_or(&json!([])), &json!(received.logprobs));
            }
        }
        "reasoning" => {
            let summary: Vec<Value> =
                item.parts.iter().map(|part| json!({"type": "summary_text", "text": part.text})).collect();
            assert_eq!(done["summary"], json!(summary));
        }
        "function_call" => assert_eq!(done["arguments"], item.parts[0].text),
        "custom_tool_call" => assert_eq!(done["input"], item.parts[0].text),
        _ => {}
    }
}

const ANNOTATION: &str = r#"{"type":"url_citation","url_citation":{"url":"https://a.example/"}}"#;
const LOGPROBS: &str = r#"{"content":[{"token":"t","logprob":-0.5,"bytes":[116],"top_logprobs":[]}]}"#;
const SEARCH: &str = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#;

/// Makes one event from a few numbers.
fn event(kind: u8, index: u32, text: &str) -> Event<'_> {
    let choice = u32::from(index == 3);
    match kind {
        0..=3 => Event::Text { choice, text },
        4 => Event::Refusal { choice, text },
        5 | 6 => Event::Reasoning { choice, text },
        7 => Event::Signature { choice, signature: text },
        8 => Event::Redacted { choice, data: text },
        9 => Event::ToolCall {
            choice,
            index,
            id: text,
            name: "f",
            signature: Some(text).filter(|_| index == 1),
        },
        10..=12 => {
            Event::Arguments { choice, index, fragment: ["{", "}", r#"{"a":1}"#, text][index as usize] }
        }
        13 => Event::Media { choice, media_type: ["image/png", "audio/wav"][index as usize % 2], data: text },
        14 => Event::Annotation { choice, json: ANNOTATION },
        15 => Event::Logprobs { choice, json: LOGPROBS },
        16 => Event::Block { choice, json: SEARCH },
        17 => Event::Usage(Usage { input: 3, output: 4, total: 7, ..Usage::default() }),
        18 => Event::Member { name: "system_fingerprint", json: r#""fp""# },
        _ => Event::Start(Start { id: Some("x"), model: Some("upstream-model"), created: Some(5) }),
    }
}

fn event_sequence() -> impl Strategy<Value = Vec<(u8, u32, String)>> {
    prop::collection::vec(
        (0..20_u8, 0..4_u32, prop::sample::select(vec!["", "a", "ä \"b\"\n", "{}", "gAAAA"])),
        0..40,
    )
    .prop_map(|list| list.into_iter().map(|(kind, index, text)| (kind, index, text.to_owned())).collect())
}

proptest! {
    /// Any sequence of events yields a stream that satisfies the grammar and ends with the same response as
    /// the whole one.
    #[test]
    fn any_sequence_streams_to_the_same_response_as_the_whole_one(
        sequence in event_sequence(), wants_logprobs in any::<bool>(), end in 0..4_usize,
    ) {
        let request = if wants_logprobs {
r#"{"model":"m","input":"i","include":["message.output_text.logprobs"]}"#
} else {
r#"{"model":"m","input":"i"}"#
};
        let mut events: Vec<Event<'_>> = sequence.iter().map(|(kind, index, text)| event(*kind, *index, text)).collect();
        let reason = [Finish::Stop, Finish::ToolCalls, Finish::Length, Finish::ContentFilter][end];
        events.push(Event::Finish { choice: 0, reason, native: "n" });
        let mut streamed = check(&encode(true, request, &events));
        let mut whole: Value = serde_json::from_slice(&encode(false, request, &events)).unwrap();
        // Model and time are fixed when a stream starts. A real decoder sends them first; random events may
        // not.
        for response in [&mut streamed, &mut whole] {
            response["model"] = Value::Null;
            response["created_at"] = Value::Null;
        }
        prop_assert_eq!(streamed, whole);
    }

    /// A broken stream ends with an error event and leaves its items open.
    #[test]
    fn a_broken_stream_ends_in_an_error(sequence in event_sequence()) {
        let mut encoder = encoder(true, context(r#"{"model":"m","input":"i"}"#));
        let mut out = Vec::new();
        for (kind, index, text) in &sequence {
            encoder.write(&event(*kind, *index, text), &mut out);
        }
        encoder.fail(&ProviderError::new(529, "overloaded").with_kind("overloaded_error"), &mut out);
        let events = events_of(&out);
        let [.., error, failed] = events.as_slice() else { panic!("{events:?}") };
        prop_assert_eq!(&error["type"], "error");
        prop_assert_eq!(&error["message"], "overloaded");
        prop_assert_eq!(&error["error"]["code"], "server_is_overloaded");
        prop_assert_eq!(&error["error"]["provider_code"], "overloaded_error");
        prop_assert_eq!(&failed["type"], "response.failed");
        prop_assert_eq!(&failed["response"]["status"], "failed");
        let reason = json!({"code": "server_is_overloaded", "message": "overloaded"});
        prop_assert_eq!(&failed["response"]["error"], &reason);
        let ends = events.iter().filter(|event| event.to_string().contains("response.completed")).count();
        prop_assert_eq!(ends, 0);
    }
}
