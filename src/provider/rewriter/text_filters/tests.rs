//! Filters between decoders and encoders, and in the dialects that are filtered in their own shape.

use super::*;
use crate::api::body::Body;
use crate::api::chat::Finish;
use crate::api::operation::Operation;
use crate::provider::translation::Translation;
use serde_json::json;

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
        match text.contains("bad") {
            true => FilterFlow::Deny(Error::bad_request("bad")),
            false => FilterFlow::Continue,
        }
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
    let (mut filters, mut out) = (TextFilters { filters, ..TextFilters::default() }, String::new());
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

#[test]
fn text_held_back_comes_out_before_what_interrupts_it_and_passes_the_filters_behind() {
    let media = || Event::Media { choice: 0, media_type: "m", data: "d" };
    let events = [text(0, "a"), text(0, "b"), media(), text(0, "c"), STOP];
    let (out, _) = run(vec![Box::new(HoldAll::default())], &events);
    let shown = format!("{:?}", media());
    assert_eq!(out, format!("0:ab {shown} 0:c Finish "));
    let (out, _) = run(vec![Box::new(HoldAll::default()), Box::new(Brackets)], &events);
    assert_eq!(out, format!("0:[0ab][0end] {shown} 0:[0c][0end] Finish "));
    let (out, _) = run(vec![Box::new(Brackets), Box::new(HoldAll::default())], &events);
    assert_eq!(out, format!("0:[0a][0b][0end] {shown} 0:[0c][0end] Finish "));
}

#[test]
fn choices_are_kept_apart() {
    let events = [text(0, "a"), text(1, "b"), text(200, "c"), STOP];
    let (out, _) = run(vec![Box::new(Brackets)], &events);
    assert_eq!(out, "0:[0a] 1:[1b] 200:[200c] 0:[0end] Finish ");
}

#[test]
fn probabilities_and_citations_of_changed_text_are_left_out() {
    let logprobs = Event::Logprobs { choice: 0, json: "LOGPROBS " };
    let citation = Event::Annotation { choice: 0, json: "CITATION " };
    let events = [text(0, "a"), logprobs, citation, STOP];
    assert_eq!(run(vec![Box::new(HoldAll::default())], &events).0, "0:a Finish ");
    assert_eq!(run(Vec::new(), &events).0, "0:a LOGPROBS CITATION Finish ");
}

/// Replaces "secret", and holds back what may be its beginning.
#[derive(Debug, Default)]
struct Redact(String);

impl TextFilter for Redact {
    fn text(&mut self, _choice: u32, text: &str, out: &mut String) -> FilterFlow {
        self.0.push_str(text);
        self.0 = self.0.replace("secret", "***");
        let is_beginning = |at: &usize| self.0.get(*at..).is_some_and(|rest| "secret".starts_with(rest));
        let held = (0..self.0.len()).filter(|at| self.0.is_char_boundary(*at)).find(is_beginning);
        let rest = self.0.split_off(held.unwrap_or(self.0.len()));
        out.push_str(&std::mem::replace(&mut self.0, rest));
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

/// A stream with these texts, whose whole text some of its last events have once more.
fn stream_of(operation: Operation, texts: &[String]) -> String {
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
        Operation::Responses => event(json!({"type": "response.output_text.delta", "delta": text})),
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
            let part = json!({"type": "output_text", "text": all});
            let item = json!({"id": "m", "type": "message", "content": [part]});
            let end = vec![
                json!({"type": "response.output_text.done", "text": all}),
                json!({"type": "response.content_part.done", "part": part}),
                json!({"type": "response.output_item.done", "item": item}),
                json!({"type": "response.completed", "response": {"output": [item], "output_text": all}}),
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
    [events(start), texts.iter().map(text_event).collect(), events(end)].concat()
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
            let stream = stream_of(operation, &texts);
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
fn nothing_of_a_denied_text_passes() {
    let (out, denied) = run(vec![Box::new(Brackets)], &[text(0, "good"), text(0, "bad")]);
    assert_eq!((out.as_str(), denied), ("0:[0good] ", true));
    // Denied by a filter that sees it late.
    let events = [text(0, "b"), text(0, "ad"), STOP];
    let (out, denied) = run(vec![Box::new(HoldAll::default()), Box::new(Brackets)], &events);
    assert_eq!((out.as_str(), denied), ("", true));
}
