//! The text filters of one response, one after the other, and the place where they stand: between its decoder and the
//! rules of the rewriter.
//!
//! They come before a second response is compared with the first (`rescue::aligner`): what is compared is what the
//! client gets. What a filter looks for is its own matter.
//!
//! What stands between two texts of a choice (reasoning, a tool call, an image) does not end what a filter looks for: it waits behind
//! the text that is held back, and keeps its place. Where text was changed that place is counted from the end of what was sent.
//!
//! Arguments of a call are held back until the call is complete, where a filter looks at them (`calls`).
//!
//! ```text
//! "a bo", a tool call, "mb x"    denied: nothing but "a" was sent
//! "a bo", a tool call, "at x"    "a bo", the tool call, "at x": when "boat" is complete
//! ```

mod calls;
mod waiting;

use calls::OpenCalls;
use waiting::Waiting;
use words::api::chat::{Event, FilterFlow, TextFilter};
use words::error::Error;
use words::json::splice::{Object, Splice};

/// More choices than any real response has; those beyond share one state.
const MAX_CHOICES: usize = 128;
/// The most that waits behind held text, bytes. With more, what waits is sent before that text.
const MAX_WAITING: usize = 1 << 20;

/// The filters of one response.
#[derive(Debug, Default)]
pub struct TextFilters {
    filters: Vec<Box<dyn TextFilter>>,
    choices: Vec<ChoiceText>,
    /// Bytes of the events that wait.
    waiting: usize,
    /// What has passed the filters up to one, and what that one lets pass. Kept for their memory.
    passed: String,
    scratch: String,
}

/// The text of one choice.
#[derive(Debug, Default)]
struct ChoiceText {
    /// It has ended, and nothing has come since.
    ended: bool,
    /// Not all of it was passed on as it came.
    changed: bool,
    /// Bytes of text that the filters were given.
    given: u64,
    /// The events behind text that is held back.
    waiting: Waiting,
    /// The calls whose arguments are not complete yet.
    calls: OpenCalls,
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
            Event::Text { choice, text } if !text.is_empty() => {
                self.pass_calls(choice, false, next)?;
                return self.text(choice, text, next);
            }
            // They hold or describe text that the client does not get in this form.
            Event::Logprobs { choice, .. } | Event::Annotation { choice, .. }
                if self.choice(choice).changed => {}
            Event::Arguments { choice, index, fragment } if self.reads_calls() => {
                self.choice(choice).calls.push(index, fragment)?;
            }
            Event::Block { choice, json } if self.reads_calls() => {
                self.pass_calls(choice, false, next)?;
                let changed = self.block(choice, json)?;
                let json = changed.as_deref().unwrap_or(json);
                self.in_its_place(choice, Event::Block { choice, json }, next);
            }
            Event::Refusal { choice, .. }
            | Event::Reasoning { choice, .. }
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
                self.finish(choice, next)?;
                next(event);
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
        self.text(choice, text, &mut |event| push_text(&event, out))
    }

    /// Appends what is held back of a choice to `out`: its text ends.
    ///
    /// # Errors
    /// The response is denied.
    pub(super) fn pass_rest(&mut self, choice: u32, out: &mut String) -> Result<(), Error> {
        self.finish(choice, &mut |event| push_text(&event, out))
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

    /// Filters a block that is a call of a provider's own tool; what it is then, if it has changed.
    fn block(&mut self, choice: u32, json: &str) -> Result<Option<String>, Error> {
        let Some(block) = Object::read(json.trim()) else { return Ok(None) };
        let is_call = block.string("type").is_some_and(|kind| kind.ends_with("tool_use"));
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

    /// Passes on the arguments that are held back. `is_end`: also those that are no complete JSON.
    fn pass_calls(
        &mut self,
        choice: u32,
        is_end: bool,
        next: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        while let Some((index, mut arguments)) = self.choice(choice).calls.take(is_end) {
            self.pass_arguments(choice, &mut arguments)?;
            self.in_its_place(choice, Event::Arguments { choice, index, fragment: &arguments }, next);
        }
        Ok(())
    }

    /// The text of a new choice goes on where that of another one stands.
    pub(super) fn follow(&mut self, choice: u32, before: u32) {
        self.filters.iter_mut().for_each(|filter| filter.follow(choice, before));
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
        state.ended = false;
        state.changed |= changed;
        state.given += text.len() as u64;
        let held = if state.waiting.is_empty() { 0 } else { self.held(choice) };
        self.pass(choice, held, next);
        Ok(())
    }

    /// Has the filters give out what they hold back of a choice: what one gives out, the ones behind it see.
    fn finish(&mut self, choice: u32, next: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        if std::mem::replace(&mut self.choice(choice).ended, true) {
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
        self.pass(choice, 0, next);
        Ok(())
    }

    /// Passes an event on, or has it wait for the text before it.
    fn in_its_place(&mut self, choice: u32, event: Event<'_>, next: &mut dyn FnMut(Event<'_>)) {
        let is_first = self.choice(choice).waiting.is_empty();
        if is_first && self.held(choice) == 0 {
            return next(event);
        }
        let state = self.choice(choice);
        match state.waiting.push(state.given, choice, &event) {
            Some(bytes) => self.waiting += bytes,
            None => next(event),
        }
        if self.waiting > MAX_WAITING {
            for state in &mut self.choices {
                while !state.waiting.is_empty() {
                    state.waiting.pass_first(next);
                }
            }
            self.waiting = 0;
        }
    }

    /// Bytes of a choice's text that the filters hold back.
    fn held(&self, choice: u32) -> u64 {
        self.filters.iter().map(|filter| filter.held(choice) as u64).sum()
    }

    /// Passes on what has passed the filters, with the events that wait for no text any more. `held`: bytes that are still held back.
    fn pass(&mut self, choice: u32, held: u64, next: &mut dyn FnMut(Event<'_>)) {
        let passed = std::mem::take(&mut self.passed);
        let mut at = 0;
        let state = self.choice(choice);
        let mut bytes = 0;
        while let Some(place) = state.waiting.first() {
            // Bytes of text behind the event: all that came after it, without what is held back.
            let Some(behind) = state.given.saturating_sub(place).checked_sub(held) else { break };
            let behind = usize::try_from(behind).unwrap_or(usize::MAX);
            let end = passed.floor_char_boundary(passed.len().saturating_sub(behind)).max(at);
            pass_text(choice, passed.get(at..end), next);
            at = end;
            bytes += state.waiting.pass_first(next);
        }
        pass_text(choice, passed.get(at..), next);
        self.waiting -= bytes;
        self.passed = passed;
    }

    fn choice(&mut self, choice: u32) -> &mut ChoiceText {
        let at = (choice as usize).min(MAX_CHOICES - 1);
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, ChoiceText::default);
        }
        #[expect(clippy::indexing_slicing, reason = "made just above")]
        &mut self.choices[at]
    }
}

fn pass_text(choice: u32, text: Option<&str>, next: &mut dyn FnMut(Event<'_>)) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        next(Event::Text { choice, text });
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
