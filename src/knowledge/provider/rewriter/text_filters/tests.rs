//! Filters between decoders and encoders, and in the dialects that are filtered in their own shape.

use super::*;
use crate::provider::translation::Translation;
use serde_json::json;
use std::collections::HashMap;
use words::api::body::Body;
use words::api::chat::Finish;
use words::api::operation::Operation;

/// Gives out nothing before the end.
#[derive(Debug, Default)]
struct HoldAll(String);

impl TextFilter for HoldAll {
    fn text(&mut self, _choice: u32, text: &str, _out: &mut String) -> FilterFlow {
        self.0.push_str(text);
        FilterFlow::Continue
    }

    fn finish(&mut self, _choice: u32, out: &mut String) -> FilterFlow {
        out.push_str(&std::mem::take(&mut self.0));
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        self.0.len()
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

/// Puts brackets around each text, and denies "bad".
#[derive(Debug)]
struct Brackets;

impl TextFilter for Brackets {
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow {
        out.push_str(&format!("[{choice}{text}]"));
        if text.contains("bad") { FilterFlow::Deny(Error::bad_request("bad")) } else { FilterFlow::Continue }
    }

    fn finish(&mut self, choice: u32, out: &mut String) -> FilterFlow {
        out.push_str(&format!("[{choice}end]"));
        FilterFlow::Continue
    }

    fn held(&self, _: u32) -> usize {
        0
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

fn run(filters: Vec<Box<dyn TextFilter>>, events: &[Event<'_>]) -> (String, bool) {
    let mut filters = TextFilters { filters, ..TextFilters::default() };
    let mut out = String::new();
    let mut denied = false;
    for event in events {
        let taken = filters.take(event.clone(), &mut |event| match event {
            Event::Text { choice, text } => out.push_str(&format!("{choice}:{text} ")),
            Event::Finish { .. } => out.push_str("Finish "),
            Event::Logprobs { json, .. } | Event::Annotation { json, .. } => out.push_str(json),
            other => out.push_str(&format!("{other:?} ")),
        });
        denied |= taken.is_err();
    }
    (out, denied)
}

fn text(choice: u32, text: &str) -> Event<'_> {
    Event::Text { choice, text }
}

const STOP: Event<'_> = Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" };

fn media(data: &str) -> Event<'_> {
    Event::Media { choice: 0, media_type: "m", data }
}

#[test]
fn what_stands_between_texts_waits_behind_the_text_that_is_held_back() {
    let shown = format!("{:?}", media("d"));
    let events = [text(0, "a"), text(0, "b"), media("d"), text(0, "c"), STOP];
    let (out, _) = run(vec![Box::new(HoldAll::default())], &events);
    assert_eq!(out, format!("0:ab {shown} 0:c Finish "));
    let events = [text(0, "a se"), media("d"), text(0, "t b"), media("d"), STOP];
    let (out, _) = run(vec![Box::<Redact>::default()], &events);
    assert_eq!(out, format!("0:a  0:se {shown} 0:t b {shown} Finish "));
    let (out, _) = run(vec![Box::<Redact>::default(), Box::<HoldAll>::default()], &events);
    assert_eq!(out, format!("0:a se {shown} 0:t b {shown} Finish "));
    // What is found across it has no place inside, and comes behind it.
    let events = [text(0, "a sec"), media("d"), text(0, "ret b"), STOP];
    let (out, _) = run(vec![Box::<Redact>::default()], &events);
    assert_eq!(out, format!("0:a  {shown} 0:*** b Finish "));
}

/// A client whose dialect has no refusals gets them as text: they are filtered as the text that they go on with.
#[test]
fn a_refusal_is_filtered_and_stays_one() {
    let refusal = |text| Event::Refusal { choice: 0, text };
    let events = [refusal("a sec"), refusal("ret b"), STOP];
    let (out, _) = run(vec![Box::<Redact>::default()], &events);
    assert_eq!(out, format!("{:?} {:?} Finish ", refusal("a "), refusal("*** b")));
    // A text by itself, behind which the other one goes on.
    let events = [text(0, "a se"), refusal("b se"), text(0, "cret c"), STOP];
    let (out, _) = run(vec![Box::<Redact>::default()], &events);
    assert_eq!(out, format!("0:a  {:?} 0:*** c {:?} Finish ", refusal("b "), refusal("se")));
    // Probabilities hold the text that is held back.
    let logprobs = Event::Logprobs { choice: 0, json: "LOGPROBS " };
    let (out, _) = run(vec![Box::<Redact>::default()], &[refusal("a se"), logprobs, STOP]);
    assert!(!out.contains("LOGPROBS"), "{out}");
    // One text with it, where the client has no other place for it.
    let mut merging = TextFilters { filters: vec![Box::<Redact>::default()], ..TextFilters::default() };
    merging.merge_refusals();
    let mut out = String::new();
    for event in [text(0, "a se"), refusal("cret b"), STOP] {
        let taken = merging.take(event, &mut |event| {
            if let Event::Text { text, .. } | Event::Refusal { text, .. } = event {
                out.push_str(text);
            }
        });
        assert!(taken.is_ok());
    }
    assert_eq!(out, "a *** b");
    let (out, denied) = run(vec![Box::new(Brackets)], &[refusal("so bad")]);
    assert_eq!((out.as_str(), denied), ("", true));
}

#[test]
fn too_much_does_not_wait() {
    let data = "d".repeat(MAX_WAITING);
    let call = Event::ToolCall { choice: 0, index: 0, id: "i", name: "n", signature: None };
    let events = [text(0, "se"), call.clone(), media(&data), text(0, "cret"), STOP];
    let (out, _) = run(vec![Box::<Redact>::default()], &events);
    assert_eq!(out, format!("{call:?} {:?} 0:*** Finish ", media(&data)));
}

#[test]
fn a_choice_that_goes_on_behind_its_end_is_filtered() {
    let (out, _) = run(vec![Box::<HoldAll>::default()], &[text(0, "a"), STOP, STOP, text(0, "b"), STOP]);
    assert_eq!(out, "0:a Finish Finish 0:b Finish ");
}

#[test]
fn choices_are_kept_apart() {
    let events = [text(0, "a"), text(1, "b"), text(200, "c"), STOP];
    let (out, _) = run(vec![Box::new(Brackets)], &events);
    assert_eq!(out, "0:[0a] 1:[1b] 200:[127c] 0:[0end] Finish ");
}

#[test]
fn probabilities_and_citations_of_changed_text_are_left_out() {
    let logprobs = Event::Logprobs { choice: 0, json: "LOGPROBS " };
    let citation = Event::Annotation { choice: 0, json: "CITATION " };
    let events = [text(0, "a"), logprobs, citation, STOP];
    assert_eq!(run(vec![Box::new(HoldAll::default())], &events).0, "0:a Finish ");
    assert_eq!(run(Vec::new(), &events).0, "0:a LOGPROBS CITATION Finish ");
}

/// Replaces "secret" in each choice, and holds back what may be its beginning.
#[derive(Debug, Default)]
struct Redact(HashMap<u32, String>);

impl TextFilter for Redact {
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow {
        let held = self.0.entry(choice).or_default();
        held.push_str(text);
        *held = held.replace("secret", "***");
        let is_beginning = |at: &usize| held.get(*at..).is_some_and(|rest| "secret".starts_with(rest));
        let from = (0..held.len()).filter(|at| held.is_char_boundary(*at)).find(is_beginning);
        let rest = held.split_off(from.unwrap_or(held.len()));
        out.push_str(&std::mem::replace(held, rest));
        FilterFlow::Continue
    }

    fn finish(&mut self, choice: u32, out: &mut String) -> FilterFlow {
        out.push_str(&self.0.remove(&choice).unwrap_or_default());
        FilterFlow::Continue
    }

    fn held(&self, choice: u32) -> usize {
        self.0.get(&choice).map_or(0, String::len)
    }

    fn follow(&mut self, _: u32, _: u32) {}
}

/// What the client gets of a stream that arrives in chunks of one size.
fn redacted(operation: Operation, stream: &str, size: usize) -> String {
    let body = Body::parse(br#"{"stream":true}"#.as_slice().into()).unwrap();
    let translation = Translation::own_dialect(operation, "openai", "m", false, Some(&body)).unwrap();
    let mut rewriter = translation.rewriter(true, "id", 0);
    let filters = TextFilters { filters: vec![Box::<Redact>::default()], ..TextFilters::default() };
    rewriter.set_filters(Some(Box::new(filters)));
    let mut out = Vec::new();
    for chunk in stream.as_bytes().chunks(size) {
        rewriter.push(chunk, &mut out);
    }
    rewriter.finish(&mut out);
    assert!(rewriter.is_complete() && rewriter.error().is_none(), "{rewriter:?}");
    String::from_utf8(out).unwrap()
}

/// Events that do not end a text of a chat or of a response.
fn between(operation: Operation) -> Vec<serde_json::Value> {
    match operation {
        Operation::ChatCompletions => {
            let call = json!({"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
            let deltas = [json!({"reasoning_content": "r"}), json!({"tool_calls": [call]})];
            deltas.map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).to_vec()
        }
        Operation::Messages => vec![
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "t"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ],
        Operation::Responses => vec![
            json!({"type": "response.in_progress", "response": {"id": "r", "output": []}}),
            json!({"type": "response.web_search_call.searching"}),
            json!({"type": "response.reasoning_summary_text.delta", "delta": ["no text"]}),
        ],
        _ => Vec::new(),
    }
}

/// A stream with these texts and with `between` behind each, whose whole text some of its last events have once more.
fn stream_of(operation: Operation, texts: &[String], between: &[serde_json::Value]) -> String {
    stream_of_kind(operation, "output_text", texts, between)
}

/// The same; `kind`: of a part of the Responses API.
fn stream_of_kind(
    operation: Operation,
    kind: &str,
    texts: &[String],
    between: &[serde_json::Value],
) -> String {
    let member = if kind == "refusal" { "refusal" } else { "text" };
    let all = texts.concat();
    let place = json!({"item_id": "m", "output_index": 0, "content_index": 0});
    let event = |mut value: serde_json::Value| {
        if operation == Operation::Responses {
            value.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        }
        format!("data: {value}\n\n")
    };
    let text_event = |text: &String| match operation {
        Operation::ChatCompletions => {
            let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
            event(json!({"id": "c", "model": "m", "choices": [choice]}))
        }
        Operation::Completions => {
            let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": null});
            event(json!({"id": "c", "model": "m", "choices": [choice]}))
        }
        Operation::Responses => event(json!({"type": format!("response.{kind}.delta"), "delta": text})),
        _ => {
            let delta = json!({"type": "text_delta", "text": text});
            event(json!({"type": "content_block_delta", "index": 0, "delta": delta}))
        }
    };
    let (start, end) = match operation {
        Operation::ChatCompletions => {
            (vec![], vec![json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})])
        }
        Operation::Completions => {
            (vec![], vec![json!({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})])
        }
        Operation::Responses => {
            let part = json!({"type": kind, member: all});
            let item = json!({"id": "m", "type": "message", "content": [part]});
            let end = vec![
                json!({"type": format!("response.{kind}.done"), member: all}),
                json!({"type": "response.content_part.done", "part": part}),
                json!({"type": "response.output_item.done", "item": item}),
                json!({"type": "response.completed", "response": {"output": [item], "output_text": if kind == "refusal" { "" } else { &*all }}}),
            ];
            (vec![], end)
        }
        _ => (
            vec![
                json!({"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ],
            vec![
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
                json!({"type": "message_stop"}),
            ],
        ),
    };
    let events = |list: Vec<serde_json::Value>| list.into_iter().map(event).collect::<String>();
    let texts = texts.iter().map(|text| text_event(text) + &events(between.to_vec())).collect();
    [events(start), texts, events(end)].concat()
}

#[test]
fn a_word_is_found_wherever_texts_and_chunks_cut_it() {
    let text = "The sécrets: secret, secse";
    let texts_in = |out: &str, place: &str| -> String {
        let data = out.lines().filter_map(|line| line.strip_prefix("data: "));
        let values = data.filter_map(|data| serde_json::from_str::<serde_json::Value>(data).ok());
        values.filter_map(|value| value.pointer(place)?.as_str().map(str::to_owned)).collect()
    };
    for (operation, places) in [
        (Operation::ChatCompletions, &["/choices/0/delta/content"][..]),
        (Operation::Messages, &["/delta/text"]),
        (Operation::Completions, &["/choices/0/text"]),
        (
            Operation::Responses,
            &[
                "/delta",
                "/text",
                "/part/text",
                "/item/content/0/text",
                "/response/output/0/content/0/text",
                "/response/output_text",
            ],
        ),
    ] {
        for length in 1..8 {
            let letters: Vec<char> = text.chars().collect();
            let texts: Vec<String> = letters.chunks(length).map(|part| part.iter().collect()).collect();
            let interrupted = stream_of(operation, &texts, &between(operation));
            let out = redacted(operation, &interrupted, interrupted.len());
            for place in places {
                assert_eq!(texts_in(&out, place), "The sécrets: ***, secse", "{operation:?} {place}: {out}");
            }
            let stream = stream_of(operation, &texts, &[]);
            let at_once = redacted(operation, &stream, stream.len());
            for place in places {
                assert_eq!(texts_in(&at_once, place), "The sécrets: ***, secse", "{operation:?} {place}");
            }
            for size in [1, 2, 3, 7, 64, 101] {
                assert_eq!(redacted(operation, &stream, size), at_once, "{operation:?} {length} {size}");
            }
        }
    }
}

#[test]
fn a_refusal_of_the_responses_api_is_filtered_in_each_event_that_has_it() {
    for texts in [["a sec", "ret b"], ["a se", "cret b"], ["a secret", " b"]] {
        let texts = texts.map(str::to_owned);
        let stream = stream_of_kind(Operation::Responses, "refusal", &texts, &[]);
        for size in [1, 7, stream.len()] {
            let out = redacted(Operation::Responses, &stream, size);
            assert!(!out.contains("sec") && !out.contains("ret b"), "{out}");
            assert_eq!(out.matches(r#""refusal":"a *** b""#).count(), 4, "{out}");
            assert!(out.contains("response.refusal.delta") && !out.contains("output_text.delta"), "{out}");
        }
    }
}

#[test]
fn nothing_of_a_denied_text_passes() {
    let (out, denied) = run(vec![Box::new(Brackets)], &[text(0, "good"), text(0, "bad")]);
    assert_eq!((out.as_str(), denied), ("0:[0good] ", true));
    // Denied by a filter that sees it late.
    let events = [text(0, "b"), text(0, "ad"), STOP];
    let (out, denied) = run(vec![Box::new(HoldAll::default()), Box::new(Brackets)], &events);
    assert_eq!((out.as_str(), denied), ("", true));
}

/// Two parts of a response whose deltas take turns, and one that is no text.
#[test]
fn parts_of_a_response_are_filtered_each_by_itself() {
    let event = |value: serde_json::Value| format!("data: {value}\n\n");
    let delta = |index: u32, text: serde_json::Value| {
        event(
            json!({"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text}),
        )
    };
    let item = |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let output = json!([item("a secret"), item("so secret")]);
    let completed = event(json!({"type": "response.completed", "response": {"output": output}}));
    let deltas = [(0, "a sec"), (1, "so se"), (0, "ret"), (1, "cret")];
    let stream: String = deltas.map(|(index, text)| delta(index, json!(text))).concat() + &completed;
    let out = redacted(Operation::Responses, &stream, stream.len());
    let texts: Vec<_> = out.lines().filter(|line| line.contains(".delta")).collect();
    assert_eq!(texts.len(), 4, "{out}");
    assert!(!out.contains("sec") && !out.contains("ret"), "{out}");
    assert!(out.contains(r#""text":"a ***""#) && out.contains(r#""text":"so ***""#), "{out}");

    let body = Body::parse(br#"{"stream":true}"#.as_slice().into()).unwrap();
    let translation =
        Translation::own_dialect(Operation::Responses, "openai", "m", false, Some(&body)).unwrap();
    for unreadable in [json!(["secret"]), json!({"text": "secret"}), json!(7)] {
        let mut rewriter = translation.rewriter(true, "id", 0);
        rewriter.set_filters(Some(Box::new(TextFilters {
            filters: vec![Box::<Redact>::default()],
            ..TextFilters::default()
        })));
        let mut out = Vec::new();
        rewriter.push(delta(0, unreadable.clone()).as_bytes(), &mut out);
        assert!(out.is_empty() && rewriter.error().is_some(), "{unreadable}");
    }
}
