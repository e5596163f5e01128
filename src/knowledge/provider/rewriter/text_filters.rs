//! The text filters of one response, one after the other, and the place where they stand: between its decoder and the
//! rules of the rewriter.
//!
//! They come before a second response is compared with the first (`rescue::aligner`): what is compared is what the
//! client gets. What a filter looks for is its own matter.
//!
//! What stands between two texts of a choice (reasoning, a tool call, an image) does not end what a filter looks for: it waits behind
//! the text that is held back, and keeps its place. Where text was changed that place is counted from the end of what was sent.
//!
//! A refusal is a text of its own where the client's dialect has it in a place of its own, and else one with the text of its choice.
//!
//! Arguments of a call are held back until the call is complete, where a filter looks at them (`calls`).
//!
//! ```text
//! "a bo", a tool call, "mb x"    denied: nothing but "a" was sent
//! "a bo", a tool call, "at x"    "a bo", the tool call, "at x": when "boat" is complete
//! ```

mod calls;
mod waiting;

use super::own_dialect::unlisted;
use calls::OpenCalls;
use waiting::Waiting;
use words::api::chat::{Event, FilterFlow, REFUSALS, TextFilter};
use words::api::messages::is_listed_block;
use words::api::unlisted::is_seal;
use words::error::Error;
use words::json::splice::{Object, Splice, apply};

/// More choices than any real response has; those beyond share one state. As many refusals have one each.
const MAX_CHOICES: u32 = REFUSALS;
/// The most that waits behind held text, bytes. With more, what waits is sent before that text.
const MAX_WAITING: usize = 1 << 20;

/// The filters of one response.
#[derive(Debug, Default)]
pub struct TextFilters {
    filters: Vec<Box<dyn TextFilter>>,
    /// By their numbers.
    states: Vec<ChoiceText>,
    /// The client gets a refusal as text.
    merges_refusals: bool,
    /// Bytes of the events that wait.
    waiting: usize,
    /// What has passed the filters up to one, and what that one lets pass. Kept for their memory.
    passed: String,
    scratch: String,
}

/// A text of a choice.
#[derive(Debug, Clone, Copy)]
struct Track {
    /// Its number, as filters have it.
    number: u32,
    choice: u32,
}

/// What is known of one text of a choice.
#[derive(Debug, Default)]
struct ChoiceText {
    /// It has ended, and nothing has come since.
    ended: bool,
    /// A refusal is a part of it.
    has_refusal: bool,
    /// Not all of it was passed on as it came.
    changed: bool,
    /// Bytes of text that the filters were given.
    given: u64,
    /// The events behind text that is held back.
    waiting: Waiting,
    /// The calls whose arguments are not complete yet.
    calls: OpenCalls,
}

impl Track {
    /// The text of a choice.
    fn of(choice: u32) -> Self {
        Self { number: choice.min(MAX_CHOICES - 1), choice }
    }

    /// Its refusal.
    fn refusal_of(choice: u32) -> Self {
        Self { number: choice.min(MAX_CHOICES - 1) + REFUSALS, choice }
    }

    /// Of a response that keeps its provider's shape: its parts have numbers, and refusals none of their own.
    fn in_place(number: u32) -> Self {
        Self { number, choice: number }
    }
}

impl TextFilters {
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Adds a filter behind the others.
    pub fn add(&mut self, filter: Box<dyn TextFilter>) {
        self.filters.push(filter);
    }

    /// The client gets a refusal as text: it is filtered with the text that it is a part of.
    pub(super) fn merge_refusals(&mut self) {
        self.merges_refusals = true;
    }

    /// Takes one event of the response, and gives what is left of it to `next`.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn take(&mut self, event: Event<'_>, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        match event {
            Event::Text { choice, text } if !text.is_empty() => {
                self.pass_calls(choice, false, next)?;
                return self.text(Track::of(choice), text, next);
            }
            Event::Refusal { choice, text } if !text.is_empty() => {
                self.pass_calls(choice, false, next)?;
                let track = if self.merges_refusals { Track::of(choice) } else { Track::refusal_of(choice) };
                self.state(track.number).has_refusal = true;
                return self.text(track, text, next);
            }
            // They hold or describe text that the client does not get in this form.
            Event::Logprobs { choice, .. } | Event::Annotation { choice, .. }
                if self.has_changed_of(choice) => {}
            Event::Arguments { choice, index, fragment } if self.reads_calls() => {
                self.state(Track::of(choice).number).calls.push(index, fragment)?;
            }
            Event::Block { choice, json } if self.reads_calls() => {
                self.pass_calls(choice, false, next)?;
                let changed = self.block(choice, json)?;
                let json = changed.as_deref().unwrap_or(json);
                self.in_its_place(choice, Event::Block { choice, json }, next);
            }
            Event::Reasoning { choice, .. }
            | Event::Signature { choice, .. }
            | Event::Redacted { choice, .. }
            | Event::ToolCall { choice, .. }
            | Event::Arguments { choice, .. }
            | Event::Media { choice, .. }
            | Event::Block { choice, .. } => {
                self.pass_calls(choice, false, next)?;
                self.in_its_place(choice, event, next);
            }
            Event::Finish { choice, .. } => {
                self.pass_calls(choice, true, next)?;
                // First: each filter has had a text of the choice then, where there is one.
                let refusal = Track::refusal_of(choice);
                if self.states.get(refusal.number as usize).is_some_and(|state| state.given > 0) {
                    self.finish(refusal, next)?;
                }
                self.finish(Track::of(choice), next)?;
                next(event);
            }
            // Why the model stopped, in its provider's words.
            Event::Member { name: "stop_details", json } if self.reads_calls() => {
                let changed = unlisted::filtered("", json, self)?;
                let json = changed.as_deref().unwrap_or(json);
                next(Event::Member { name: "stop_details", json });
            }
            event => next(event),
        }
        Ok(())
    }

    /// Filters a text that stays where it stands: what is left of it is appended to `out`.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_text(&mut self, choice: u32, text: &str, out: &mut String) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.text(Track::in_place(choice), text, &mut |event| push_text(&event, out))
    }

    /// Appends what is held back of a choice to `out`: its text ends.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_rest(&mut self, choice: u32, out: &mut String) -> Result<(), Error> {
        self.finish(Track::in_place(choice), &mut |event| push_text(&event, out))
    }

    /// Whether a filter looks at the arguments of calls.
    pub(super) fn reads_calls(&self) -> bool {
        self.filters.iter().any(|filter| filter.reads_calls())
    }

    /// Filters the arguments of a call, which are complete.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_arguments(&mut self, choice: u32, arguments: &mut String) -> Result<(), Error> {
        self.filters.iter_mut().try_for_each(|filter| check(filter.arguments(choice, arguments)))
    }

    /// Filters a block that is a call of a provider's own tool, or of a type that is in no list; what it is then, if it has changed.
    fn block(&mut self, choice: u32, json: &str) -> Result<Option<String>, Error> {
        let Some(block) = Object::read(json.trim()) else { return Ok(None) };
        let kind = block.string("type").unwrap_or_default();
        if !is_listed_block(&kind) {
            return unlisted::filtered("", json.trim(), self);
        }
        if kind == "compaction" {
            return self.compaction(json, &block);
        }
        let is_call = kind.ends_with("tool_use");
        let Some(input) = block.json_of("input").filter(|_| is_call) else { return Ok(None) };
        let mut changed = input.to_owned();
        self.pass_arguments(choice, &mut changed)?;
        if changed == input {
            return Ok(None);
        }
        let mut splice = Splice::new(json);
        splice.replace(&block, "input", changed);
        Ok(splice.finish().and_then(|json| String::from_utf8(json).ok()))
    }

    /// Filters the summary of a conversation. One that its provider has sealed stays as it is, or is denied.
    fn compaction(&mut self, json: &str, block: &Object<'_>) -> Result<Option<String>, Error> {
        let Some(content) = block.json_of("content") else { return Ok(None) };
        let changed = unlisted::filtered("content", content, self)?;
        let is_sealed = block.names().any(is_seal);
        let Some(changed) = changed.filter(|_| !is_sealed) else { return Ok(None) };
        let start = (content.as_ptr() as usize).saturating_sub(json.as_ptr() as usize);
        let bytes = apply(json.as_bytes(), &[(start..start + content.len(), changed)]);
        Ok(String::from_utf8(bytes).ok())
    }

    /// Passes on the arguments that are held back. `is_end`: also those that are no complete JSON.
    fn pass_calls(
        &mut self,
        choice: u32,
        is_end: bool,
        next: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        while let Some((index, mut arguments)) = self.state(Track::of(choice).number).calls.take(is_end) {
            self.pass_arguments(choice, &mut arguments)?;
            self.in_its_place(choice, Event::Arguments { choice, index, fragment: &arguments }, next);
        }
        Ok(())
    }

    /// The text of a new choice goes on where that of another one stands.
    pub(super) fn follow(&mut self, choice: u32, before: u32) {
        self.filters.iter_mut().for_each(|filter| filter.follow(choice, before));
    }

    /// Whether not all of a choice's text and refusal was passed on as it came.
    fn has_changed_of(&self, choice: u32) -> bool {
        [Track::of(choice), Track::refusal_of(choice)]
            .iter()
            .any(|track| self.states.get(track.number as usize).is_some_and(|state| state.changed))
    }

    /// Whether not all of the text of a choice was passed on as it came.
    pub(super) fn has_changed(&mut self, choice: u32) -> bool {
        self.state(choice).changed
    }

    fn text(&mut self, track: Track, text: &str, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        self.passed.clear();
        self.passed.push_str(text);
        for filter in &mut self.filters {
            if self.passed.is_empty() {
                break;
            }
            self.scratch.clear();
            check(filter.text(track.number, &self.passed, &mut self.scratch))?;
            std::mem::swap(&mut self.passed, &mut self.scratch);
        }
        let changed = self.passed != text;
        let state = self.state(track.number);
        state.ended = false;
        state.changed |= changed;
        state.given += text.len() as u64;
        let held = if state.waiting.is_empty() { 0 } else { self.held(track.number) };
        self.pass(track, held, next);
        Ok(())
    }

    /// Has the filters give out what they hold back of a choice: what one gives out, the ones behind it see.
    fn finish(&mut self, track: Track, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        if std::mem::replace(&mut self.state(track.number).ended, true) {
            return Ok(());
        }
        self.passed.clear();
        for filter in &mut self.filters {
            self.scratch.clear();
            if !self.passed.is_empty() {
                check(filter.text(track.number, &self.passed, &mut self.scratch))?;
            }
            check(filter.finish(track.number, &mut self.scratch))?;
            std::mem::swap(&mut self.passed, &mut self.scratch);
        }
        self.pass(track, 0, next);
        Ok(())
    }

    /// Passes an event on, or has it wait for the text before it.
    fn in_its_place(&mut self, choice: u32, event: Event<'_>, next: &mut dyn FnMut(Event<'_>)) {
        let number = Track::of(choice).number;
        let is_first = self.state(number).waiting.is_empty();
        if is_first && self.held(number) == 0 {
            return next(event);
        }
        let state = self.state(number);
        match state.waiting.push(state.given, choice, &event) {
            Some(bytes) => self.waiting += bytes,
            None => next(event),
        }
        if self.waiting > MAX_WAITING {
            for state in &mut self.states {
                while !state.waiting.is_empty() {
                    state.waiting.pass_first(next);
                }
            }
            self.waiting = 0;
        }
    }

    /// Bytes of a text that the filters hold back.
    fn held(&self, number: u32) -> u64 {
        self.filters.iter().map(|filter| filter.held(number) as u64).sum()
    }

    /// Passes on what has passed the filters, with the events that wait for no text any more. `held`: bytes that are still held back.
    fn pass(&mut self, track: Track, held: u64, next: &mut dyn FnMut(Event<'_>)) {
        let passed = std::mem::take(&mut self.passed);
        let mut at = 0;
        let state = self.state(track.number);
        let is_refusal = state.has_refusal;
        let mut bytes = 0;
        while let Some(place) = state.waiting.first() {
            // Bytes of text behind the event: all that came after it, without what is held back.
            let Some(behind) = state.given.saturating_sub(place).checked_sub(held) else { break };
            let behind = usize::try_from(behind).unwrap_or(usize::MAX);
            let end = passed.floor_char_boundary(passed.len().saturating_sub(behind)).max(at);
            pass_text(track.choice, is_refusal, passed.get(at..end), next);
            at = end;
            bytes += state.waiting.pass_first(next);
        }
        pass_text(track.choice, is_refusal, passed.get(at..), next);
        self.waiting -= bytes;
        self.passed = passed;
    }

    fn state(&mut self, number: u32) -> &mut ChoiceText {
        let at = number.min(REFUSALS + MAX_CHOICES - 1) as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, ChoiceText::default);
        }
        #[expect(clippy::indexing_slicing, reason = "made just above")]
        &mut self.states[at]
    }
}

fn pass_text(choice: u32, is_refusal: bool, text: Option<&str>, next: &mut dyn FnMut(Event<'_>)) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        next(if is_refusal { Event::Refusal { choice, text } } else { Event::Text { choice, text } });
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
mod tests;
