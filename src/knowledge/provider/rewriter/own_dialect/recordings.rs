//! Filters the text of recorded responses of the Responses API and compares the result with the recordings. Skipped when the
//! recordings are not in the folder beside the checkout.

use super::{OwnDialect, OwnShape};
use crate::provider::rewriter::TextFilters;
use serde_json::Value;
use words::api::chat::{FilterFlow, TextFilter};
use words::api::responses::{is_listed_event, is_listed_item, is_listed_part};

/// What the filters of these tests do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Lets everything pass.
    Pass,
    /// Gives out nothing before the end.
    Hold,
    Upper,
}

#[derive(Debug)]
struct Filter(Kind, String);

impl TextFilter for Filter {
    fn text(&mut self, _: u32, text: &str, out: &mut String) -> FilterFlow {
        match self.0 {
            Kind::Pass => out.push_str(text),
            Kind::Hold => self.1.push_str(text),
            Kind::Upper => out.push_str(&text.to_uppercase()),
        }
        FilterFlow::Continue
    }

    fn finish(&mut self, _: u32, out: &mut String) -> FilterFlow {
        out.push_str(&std::mem::take(&mut self.1));
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        self.1.len()
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

fn recordings() -> Option<Vec<Value>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        eprintln!("SKIPPED: responses recordings: no ../shared/traffic/recorded.jsonl beside this checkout");
        return None;
    };
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_response = |line: &Value| {
        let path = line["uri"].as_str().unwrap().split(['?', '#']).next().unwrap();
        path.ends_with("/responses") && line["status"] == 200
    };
    Some(lines.filter(is_response).collect())
}

/// What the client gets of a response that arrives in chunks of `size`.
fn filtered(kind: Kind, body: &str, streamed: bool, size: usize) -> String {
    sent(kind, body, [streamed, streamed], size)
}

/// What the client gets of a response that is a stream or not, and that it wants as one or not.
fn sent(kind: Kind, body: &str, [streamed, wants_stream]: [bool; 2], size: usize) -> String {
    let mut filters = TextFilters::default();
    filters.add(Box::new(Filter(kind, String::new())));
    let mut own = OwnDialect::new(OwnShape::Responses, streamed, wants_stream);
    let mut out = Vec::new();
    for chunk in body.as_bytes().chunks(size) {
        own.push(chunk, &mut filters, &mut out).unwrap();
    }
    own.finish(&mut filters, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Visits every text of a message in a response, an item, a part or an event.
fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    match value["type"].as_str() {
        Some("response.output_text.delta") => visit(&mut value["delta"]),
        Some("output_text" | "response.output_text.done") => visit(&mut value["text"]),
        _ => {}
    }
    for (name, inner) in value.as_object_mut().into_iter().flatten() {
        match inner {
            Value::Array(list) if matches!(name.as_str(), "output" | "content") => {
                list.iter_mut().for_each(|inner| each_text(inner, visit));
            }
            Value::Object(_) if matches!(name.as_str(), "response" | "item" | "part") => {
                each_text(inner, visit);
            }
            _ => {}
        }
    }
}

/// The value with its texts in capitals, and without what describes them.
fn in_capitals(mut value: Value) -> Value {
    each_text(&mut value, &mut |text| *text = text.as_str().unwrap().to_uppercase().into());
    without_places(value)
}

/// The value without citations and probabilities: those of changed texts are left out.
fn without_places(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|name, _| name != "annotations" && name != "logprobs");
            members.values_mut().for_each(|inner| *inner = without_places(inner.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = without_places(inner.take())),
        _ => {}
    }
    value
}

/// What providers send has its texts where they are looked for: no event, item or part of the recordings is of a kind that is in no list.
#[test]
fn recordings_have_listed_kinds_alone() {
    let Some(recordings) = recordings() else { return };
    let mut events_read = 0;
    let kind = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
    for recording in &recordings {
        let events = recording["sse"].as_str().map(events).unwrap_or_default();
        let unlisted = events.iter().map(kind).find(|kind| !is_listed_event(kind));
        assert_eq!(unlisted, None, "{}", recording["id"]);
        events_read += events.len();
        let whole = events.iter().map(|event| &event["response"]).chain([&recording["response"]]);
        for item in whole.flat_map(|response| response["output"].as_array().into_iter().flatten()) {
            assert!(is_listed_item(&kind(item)), "{}: {item}", recording["id"]);
            for part in item["content"].as_array().into_iter().flatten() {
                assert!(is_listed_part(&kind(part)), "{}: {part}", recording["id"]);
            }
        }
    }
    assert!(events_read > 300, "{events_read}");
}

#[test]
fn recorded_responses_keep_everything_but_their_text() {
    let Some(recordings) = recordings() else { return };
    let mut texts = 0;
    for recording in recordings.iter().filter(|recording| recording["sse"].is_null()) {
        let id = &recording["id"];
        let body = recording["response"].to_string();
        for kind in [Kind::Pass, Kind::Hold] {
            let got: Value = serde_json::from_str(&filtered(kind, &body, false, 1000)).unwrap();
            let expected = match kind {
                Kind::Pass => recording["response"].clone(),
                _ => without_places(recording["response"].clone()),
            };
            let got = if kind == Kind::Pass { got } else { without_places(got) };
            assert_eq!(got, expected, "{id} {kind:?}");
        }
        assert_eq!(filtered(Kind::Pass, &body, false, 1000), body, "{id}");
        let got: Value = serde_json::from_str(&filtered(Kind::Upper, &body, false, 1000)).unwrap();
        assert_eq!(without_places(got), in_capitals(recording["response"].clone()), "{id}");
        each_text(&mut recording["response"].clone(), &mut |_| texts += 1);
    }
    assert!(texts > 90, "only {texts} texts");
}

#[test]
fn recorded_streams_keep_everything_but_their_text() {
    let Some(recordings) = recordings() else { return };
    let mut streams = 0;
    for recording in recordings.iter().filter(|recording| recording["sse"].is_string()) {
        let id = &recording["id"];
        let stream = recording["sse"].as_str().unwrap();
        streams += 1;
        for size in [1, 100, stream.len()] {
            assert_eq!(filtered(Kind::Pass, stream, true, size), stream, "{id} {size}");
        }
        let capitals = filtered(Kind::Upper, stream, true, 100);
        let kept = |event: &Value| event["type"] != "response.output_text.annotation.added";
        let numberless = |mut event: Value| {
            event.as_object_mut().unwrap().remove("sequence_number");
            event
        };
        let got: Vec<Value> = events(&capitals).into_iter().map(without_places).map(numberless).collect();
        let expected = events(stream).into_iter().filter(kept).map(in_capitals).map(numberless);
        let expected: Vec<Value> = expected.collect();
        assert_eq!(got, expected, "{id}");
        held_text_agrees(id, &events(&filtered(Kind::Hold, stream, true, 100)), &events(stream));
    }
    assert!(streams > 12, "only {streams} streams");
}

/// Everything held back is given out before its end, the numbers have no gap, and the last events are the recorded ones.
fn held_text_agrees(id: &Value, got: &[Value], recorded: &[Value]) {
    let deltas = |events: &[Value]| -> String {
        let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
        deltas.map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(deltas(got), deltas(recorded), "{id}");
    let numbers: Vec<i64> = got.iter().filter_map(|event| event["sequence_number"].as_i64()).collect();
    let first = numbers.first().copied().unwrap_or_default();
    assert!((first..).zip(&numbers).all(|(expected, got)| expected == *got), "{id} {numbers:?}");
    for kind in ["response.output_text.done", "response.output_item.done", "response.completed"] {
        let of_kind = |events: &[Value]| -> Vec<Value> {
            let events = events.iter().filter(|event| event["type"] == kind).cloned();
            let mut events: Vec<Value> = events.map(without_places).collect();
            events.iter_mut().for_each(|event| event["sequence_number"] = Value::Null);
            events
        };
        assert_eq!(of_kind(got), of_kind(recorded), "{id} {kind}");
    }
}

#[test]
fn recorded_responses_are_converted_without_loss() {
    let Some(recordings) = recordings() else { return };
    for recording in &recordings {
        let id = &recording["id"];
        let Some(stream) = recording["sse"].as_str() else {
            if recording["response"]["status"] == "queued" {
                continue;
            }
            let body = recording["response"].to_string();
            let stream = sent(Kind::Pass, &body, [false, true], 1000);
            assert_eq!(sent(Kind::Pass, &stream, [true, false], 7), body, "{id}");
            let deltas =
                events(&stream).into_iter().filter(|event| event["type"] == "response.output_text.delta");
            let deltas: String = deltas.map(|event| event["delta"].as_str().unwrap().to_owned()).collect();
            let mut texts = String::new();
            each_text(&mut recording["response"].clone(), &mut |text| texts.push_str(text.as_str().unwrap()));
            assert_eq!(deltas, texts, "{id}");
            continue;
        };
        let last = events(stream).pop().unwrap();
        for size in [1, 100, stream.len()] {
            let whole: Value = serde_json::from_str(&sent(Kind::Pass, stream, [true, false], size)).unwrap();
            assert_eq!(whole, last["response"], "{id}");
        }
    }
}
