//! The text filters of one response, one after the other, and the place where they stand: between its decoder and the
//! rules of the rewriter.
//!
//! They come before a second response is compared with the first (`rescue::aligner`): what is compared is what the
//! client gets. What a filter looks for is its own matter.

use crate::api::chat::{Event, FilterFlow, TextFilter};
use crate::error::Error;

/// More choices than any real response has; those beyond share one state.
const MAX_CHOICES: usize = 128;

/// The filters of one response.
#[derive(Debug, Default)]
pub struct TextFilters {
    filters: Vec<Box<dyn TextFilter>>,
    choices: Vec<ChoiceText>,
    /// What has passed the filters up to one, and what that one lets pass. Kept for their memory.
    passed: String,
    scratch: String,
}

/// The text of one choice.
#[derive(Debug, Clone, Copy, Default)]
struct ChoiceText {
    /// Some of it may be held back.
    open: bool,
    /// Not all of it was passed on as it came.
    changed: bool,
}

impl TextFilters {
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Adds a filter behind the others.
    pub fn add(&mut self, filter: Box<dyn TextFilter>) {
        self.filters.push(filter);
    }

    /// Takes one event of the response, and gives what is left of it to `next`.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn take(&mut self, event: Event<'_>, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        match event {
            Event::Text { choice, text } if !text.is_empty() => self.text(choice, text, next),
            // They hold or describe text that the client does not get in this form.
            Event::Logprobs { choice, .. } | Event::Annotation { choice, .. }
                if self.choice(choice).changed =>
            {
                Ok(())
            }
            Event::Refusal { choice, .. }
            | Event::Reasoning { choice, .. }
            | Event::Signature { choice, .. }
            | Event::Redacted { choice, .. }
            | Event::ToolCall { choice, .. }
            | Event::Media { choice, .. }
            | Event::Block { choice, .. }
            | Event::Finish { choice, .. } => {
                self.finish(choice, next)?;
                next(event);
                Ok(())
            }
            event => {
                next(event);
                Ok(())
            }
        }
    }

    /// Filters a text that stays where it stands: what is left of it is appended to `out`.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_text(&mut self, choice: u32, text: &str, out: &mut String) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.text(choice, text, &mut |event| push_text(&event, out))
    }

    /// Appends what is held back of a choice to `out`: its text is interrupted or ends.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_rest(&mut self, choice: u32, out: &mut String) -> Result<(), Error> {
        self.finish(choice, &mut |event| push_text(&event, out))
    }

    /// Whether not all of the text of a choice was passed on as it came.
    pub(super) fn has_changed(&mut self, choice: u32) -> bool {
        self.choice(choice).changed
    }

    fn text(&mut self, choice: u32, text: &str, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        self.passed.clear();
        self.passed.push_str(text);
        for filter in &mut self.filters {
            if self.passed.is_empty() {
                break;
            }
            self.scratch.clear();
            check(filter.text(choice, &self.passed, &mut self.scratch))?;
            std::mem::swap(&mut self.passed, &mut self.scratch);
        }
        let changed = self.passed != text;
        let state = self.choice(choice);
        state.open = true;
        state.changed |= changed;
        self.pass(choice, next);
        Ok(())
    }

    /// Has the filters give out what they hold back of a choice: what one gives out, the ones behind it see.
    fn finish(&mut self, choice: u32, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        if !std::mem::take(&mut self.choice(choice).open) {
            return Ok(());
        }
        self.passed.clear();
        for filter in &mut self.filters {
            self.scratch.clear();
            if !self.passed.is_empty() {
                check(filter.text(choice, &self.passed, &mut self.scratch))?;
            }
            check(filter.finish(choice, &mut self.scratch))?;
            std::mem::swap(&mut self.passed, &mut self.scratch);
        }
        self.pass(choice, next);
        Ok(())
    }

    fn pass(&self, choice: u32, next: &mut dyn FnMut(Event<'_>)) {
        if !self.passed.is_empty() {
            next(Event::Text { choice, text: &self.passed });
        }
    }

    fn choice(&mut self, choice: u32) -> &mut ChoiceText {
        let at = (choice as usize).min(MAX_CHOICES - 1);
        if self.choices.len() <= at {
            self.choices.resize(at + 1, ChoiceText::default());
        }
        #[expect(clippy::indexing_slicing, reason = "made just above")]
        &mut self.choices[at]
    }
}

fn push_text(event: &Event<'_>, out: &mut String) {
    if let Event::Text { text, .. } = event {
        out.push_str(text);
    }
}

fn check(flow: FilterFlow) -> Result<(), Error> {
    match flow {
        FilterFlow::Continue => Ok(()),
        FilterFlow::Deny(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
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
}
