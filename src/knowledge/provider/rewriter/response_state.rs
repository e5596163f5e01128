//! What is known of one chat response, and which of its events are written: the rules for every provider.
//!
//! Comparing a second response with the first is the job of `rescue::aligner`.

use super::super::rescue::{Aligner, Alignment, ResumeMode, Transcript};
use super::super::tool_names::ToolNames;
use super::own_dialect::Refusal;
use super::text_filters::TextFilters;
use std::sync::Arc;
use words::api::chat::{Encoder, Event, Finish, ProviderError};
use words::api::error_names::ErrorNames;
use words::api::service_tier::ServiceTier;
use words::api::tap::ResponseSummary;
use words::error::Error;

/// What is known of the response so far.
#[derive(Debug, Default)]
pub(super) struct State {
    pub summary: ResponseSummary,
    choices: Vec<ChoiceState>,
    pub error: Option<ProviderError>,
    /// The output is ended; nothing more is written.
    pub closed: bool,
    /// An error of the provider is recorded but not written.
    pub holds_errors: bool,
    /// Nothing more of the current response is written; another one may continue the output.
    broken: bool,
    pub mismatch: bool,
    /// For the call ids of providers that have none.
    id: String,
    /// Boxed because few responses are recorded and this struct is moved often.
    transcript: Option<Box<Transcript>>,
    /// The tools whose names were changed for the provider.
    pub tool_names: Option<Arc<ToolNames>>,
    aligner: Option<Box<Aligner>>,
    /// Boxed for the same reason.
    filters: Option<Box<TextFilters>>,
    /// Why a filter denied the response.
    pub denial: Option<Box<Error>>,
}

/// The tool calls of one choice.
#[derive(Debug, Default)]
struct ChoiceState {
    /// Indexes of calls without arguments so far.
    bare: Vec<u32>,
    called: bool,
}

impl State {
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub fn keep_transcript(&mut self) {
        self.transcript.get_or_insert_default();
    }

    pub fn transcript(&self) -> Option<&Transcript> {
        self.transcript.as_deref()
    }

    /// Whether nothing more of the current response is written.
    pub fn is_done(&self) -> bool {
        self.closed || self.broken
    }

    pub fn set_filters(&mut self, filters: Option<Box<TextFilters>>) {
        self.filters = filters;
    }

    /// Filters a response in its own dialect.
    pub fn filter(&mut self, work: impl FnOnce(&mut TextFilters) -> Result<(), Refusal>) {
        match work(self.filters.get_or_insert_default()) {
            Ok(()) => {}
            Err(Refusal::Denied(error)) => {
                self.broken = true;
                self.denial = Some(error);
            }
            Err(Refusal::Unreadable(error)) => {
                self.broken = true;
                self.note_error(&error);
            }
        }
    }

    /// Continues with another response, which has no filters yet. Model, usage and finish are reset to come from it; the counts of what
    /// was already written are kept.
    pub fn resume(&mut self, mode: ResumeMode) {
        let ResponseSummary { events, content, .. } = self.summary;
        self.summary = ResponseSummary { events, content, ..ResponseSummary::default() };
        self.error = None;
        self.denial = None;
        self.filters = None;
        self.holds_errors = true;
        // Without a complete transcript no response can be compared with what the client got.
        self.mismatch = !self.transcript().is_some_and(Transcript::can_resume);
        self.broken = self.mismatch;
        self.aligner = self.transcript().map(|transcript| Box::new(Aligner::new(transcript, mode)));
    }

    /// Takes an event of the decoder.
    pub fn take(&mut self, event: Event<'_>, encoder: &mut dyn Encoder, out: &mut Vec<u8>) {
        if self.is_done() {
            // What follows in the same bytes is not written, but it was paid.
            return self.count(&event);
        }
        self.count(&event);
        let Some(mut filters) = self.filters.take() else { return self.accept(event, encoder, out) };
        let taken = filters.take(event, &mut |event| self.accept(event, encoder, out));
        self.filters = Some(filters);
        if let Err(error) = taken {
            self.broken = true;
            self.denial = Some(Box::new(error));
        }
    }

    /// Notes what the provider is paid for: all that it sent, whatever of it the client gets.
    fn count(&mut self, event: &Event<'_>) {
        match event {
            Event::Text { text, .. } | Event::Refusal { text, .. } | Event::Reasoning { text, .. } => {
                self.summary.text.push(text);
            }
            Event::Arguments { fragment, .. } => self.summary.text.push(fragment),
            Event::Usage(usage) => self.summary.usage = Some(*usage),
            Event::Member { name: "service_tier", json } => {
                self.summary.service_tier = ServiceTier::read(json.as_bytes());
            }
            _ => {}
        }
    }

    /// Takes an event that has passed the filters.
    fn accept(&mut self, event: Event<'_>, encoder: &mut dyn Encoder, out: &mut Vec<u8>) {
        if self.is_done() {
            return;
        }
        self.summary.events += 1;
        match &event {
            Event::Error(error) => {
                self.note_error(error);
                if self.holds_errors {
                    self.broken = true;
                } else {
                    self.closed = true;
                    encoder.fail(error, out);
                }
                return;
            }
            Event::ToolCall { name: "", .. } => {
                let error = ProviderError::unreadable("a tool call has no name");
                return self.accept(Event::Error(&error), encoder, out);
            }
            Event::Start(start) if self.summary.model.is_none() => {
                self.summary.id = self.summary.id.take().or_else(|| start.id.map(str::to_owned));
                self.summary.model = start.model.map(str::to_owned);
            }
            _ => {}
        }
        let tool_names = match event {
            Event::ToolCall { .. } => self.tool_names.clone(),
            _ => None,
        };
        let event = match (event, tool_names.as_deref()) {
            (Event::ToolCall { choice, index, id, name, signature }, Some(names)) => {
                Event::ToolCall { choice, index, id, name: names.original(name).unwrap_or(name), signature }
            }
            (event, _) => event,
        };
        let alignment = match (&mut self.aligner, &self.transcript) {
            (Some(aligner), Some(transcript)) => aligner.check(&event, transcript),
            _ => Alignment::Pass,
        };
        match alignment {
            Alignment::Pass => self.pass(event, encoder, out),
            Alignment::Skip => {}
            Alignment::Replace(event) => self.pass(event, encoder, out),
            Alignment::Text(text) => self.pass(Event::Text { choice: 0, text: &text }, encoder, out),
            Alignment::Before(text) => {
                self.pass(Event::Text { choice: 0, text: &text }, encoder, out);
                self.pass(event, encoder, out);
            }
            Alignment::Mismatch => {
                self.mismatch = true;
                self.broken = true;
            }
        }
    }

    /// Takes an event that must reach the client.
    fn pass(&mut self, event: Event<'_>, encoder: &mut dyn Encoder, out: &mut Vec<u8>) {
        match &event {
            Event::End => {
                self.summary.ended = true;
                if self.summary.finish.is_some() {
                    encoder.close(out);
                    self.closed = true;
                }
                return;
            }
            Event::ToolCall { .. } => return self.call(event, encoder, out),
            Event::Arguments { choice, index, fragment } if !fragment.is_empty() => {
                self.choice_state(*choice).bare.retain(|bare| bare != index);
            }
            Event::Finish { choice, reason, native } => {
                return self.finish_choice(*choice, *reason, native, encoder, out);
            }
            _ => {}
        }
        self.summary.content |= is_content(&event);
        self.write(&event, encoder, out);
    }

    fn write(&mut self, event: &Event<'_>, encoder: &mut dyn Encoder, out: &mut Vec<u8>) {
        if let Some(transcript) = &mut self.transcript {
            transcript.take(event);
        }
        match raw_json(event).filter(|json| json.contains(LINE_BREAKS)) {
            Some(json) => encoder.write(&with_json(event.clone(), &json.replace(LINE_BREAKS, " ")), out),
            None => encoder.write(event, out),
        }
    }

    fn choice_state(&mut self, choice: u32) -> &mut ChoiceState {
        // Choices beyond this limit share one state; no real response has that many.
        let at = (choice as usize).min(127);
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, ChoiceState::default);
        }
        #[expect(clippy::indexing_slicing, reason = "made just above")]
        &mut self.choices[at]
    }

    fn call(&mut self, event: Event<'_>, encoder: &mut dyn Encoder, out: &mut Vec<u8>) {
        let Event::ToolCall { choice, index, id, name, signature } = event else { return };
        self.summary.content = true;
        let state = self.choice_state(choice);
        state.called = true;
        state.bare.push(index);
        if !id.is_empty() {
            return self.write(&event, encoder, out);
        }
        let id = format!("call_{}_{choice}_{index}", self.id);
        self.write(&Event::ToolCall { choice, index, id: &id, name, signature }, encoder, out);
    }

    fn finish_choice(
        &mut self,
        choice: u32,
        reason: Finish,
        native: &str,
        encoder: &mut dyn Encoder,
        out: &mut Vec<u8>,
    ) {
        let state = self.choice_state(choice);
        let called = state.called;
        for index in std::mem::take(&mut state.bare) {
            self.write(&Event::Arguments { choice, index, fragment: "{}" }, encoder, out);
        }
        let reason = if called && reason == Finish::Stop { Finish::ToolCalls } else { reason };
        self.summary.finish = Some(native.to_owned()).filter(|native| !native.is_empty());
        // The decoder's own, for a response that the provider marked as ended.
        self.summary.lacks_reason |= native.is_empty();
        if self.summary.finish.is_none() {
            self.summary.finish = Some(reason.as_str().to_owned());
        }
        self.write(&Event::Finish { choice, reason, native }, encoder, out);
    }

    pub fn note_error(&mut self, error: &ProviderError) {
        let word = error.code.as_deref().or(error.kind.as_deref());
        let word = word.unwrap_or_else(|| ErrorNames::of(error).openai_type);
        self.summary.error = Some(word.to_owned());
        self.error = Some(error.clone());
    }
}

/// White space in JSON that a provider indented. In a stream each event is one line.
const LINE_BREAKS: [char; 2] = ['\n', '\r'];

/// The provider's JSON that an event carries unchanged.
fn raw_json<'e>(event: &Event<'e>) -> Option<&'e str> {
    match event {
        Event::Annotation { json, .. }
        | Event::Logprobs { json, .. }
        | Event::Block { json, .. }
        | Event::Member { json, .. } => Some(json),
        _ => None,
    }
}

fn with_json<'e>(event: Event<'e>, json: &'e str) -> Event<'e> {
    match event {
        Event::Annotation { choice, .. } => Event::Annotation { choice, json },
        Event::Logprobs { choice, .. } => Event::Logprobs { choice, json },
        Event::Block { choice, .. } => Event::Block { choice, json },
        Event::Member { name, .. } => Event::Member { name, json },
        event => event,
    }
}

fn is_content(event: &Event<'_>) -> bool {
    match event {
        Event::Text { text, .. } | Event::Refusal { text, .. } | Event::Reasoning { text, .. } => {
            !text.is_empty()
        }
        Event::Arguments { .. } | Event::Media { .. } | Event::Block { .. } | Event::Redacted { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::api::chat::EncodeContext;
    use words::api::{chat_completions, messages, responses};

    #[test]
    fn indented_json_of_a_provider_stays_on_one_line_of_a_stream() {
        let context = || EncodeContext {
            id: "1".into(),
            created: 0,
            model: "m".into(),
            provider: "p",
            strict: false,
            is_own_dialect: false,
            include_usage: false,
            request: None,
        };
        for encoder in [chat_completions::encoder, messages::encoder, responses::encoder] {
            let mut encoder = encoder(true, context());
            let mut state = State::new("1");
            let mut out = Vec::new();
            let text = Event::Text { choice: 0, text: "Hi" };
            let member = Event::Member { name: "trace", json: "{\r\n  \"a\": \"b\\n\"\n}" };
            let annotation =
                Event::Annotation { choice: 0, json: "{\n\"type\": \"url_citation\", \"url_citation\": {}}" };
            let finish = Event::Finish { choice: 0, reason: Finish::Stop, native: "" };
            for event in [text, annotation, member, finish, Event::End] {
                state.take(event, encoder.as_mut(), &mut out);
            }
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(r#""trace":{    "a": "b\n" }"#), "{out}");
            for line in
                out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]")
            {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }
}
