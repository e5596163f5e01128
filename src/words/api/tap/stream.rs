//! Reads the events of a stream as cheaply as possible: of most events only the name is read.
//!
//! Not a decoder: it does not return the text of a response.

use super::event_text::EventText;
use super::openai_event::{self, ChatChunk, Choice, TypedEvent};
use super::vendor_event::{self, CohereEnd};
use super::{ResponseSummary, UsageParts};
use crate::api::sse::{Run, SseEvent, SseParser};
use memchr::memmem::Finder;

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Stream {
    parser: SseParser,
    reader: EventReader,
}

#[derive(Debug)]
struct EventReader {
    usage_parts: UsageParts,
    /// The members that make a chat chunk worth parsing. They cannot match inside a JSON string, where quotes are
    /// escaped.
    markers: [Finder<'static>; 3],
    /// Whether the chunks are Gemini's: these are few and large, so each is parsed.
    gemini: bool,
    /// Whether the events are chunks of a chat or of Gemini: no `type` is looked for behind other
    /// members.
    chunks: bool,
    text: EventText,
}

impl Default for Stream {
    fn default() -> Self {
        let markers = ["\"finish_reason\"", "\"usage\"", "\"error\""].map(Finder::new);
        let reader = EventReader {
            usage_parts: UsageParts::default(),
            markers,
            gemini: false,
            chunks: false,
            text: EventText::default(),
        };
        Self { parser: SseParser::default(), reader }
    }
}

impl Stream {
    /// Takes the next bytes. An event that is too long to be held is ignored; the response itself continues.
    pub(super) fn push(&mut self, chunk: &[u8], summary: &mut ResponseSummary) {
        let run = self.parser.push(chunk);
        self.reader.run(&run, summary);
    }

    /// Takes an event that was parsed elsewhere.
    pub(super) fn event(&mut self, event: &SseEvent<'_>, summary: &mut ResponseSummary) {
        self.reader.event(event, summary);
    }

    pub(super) fn finish(&mut self, summary: &mut ResponseSummary) {
        let run = self.parser.finish();
        self.reader.run(&run, summary);
    }
}

impl EventReader {
    fn run(&mut self, run: &Run<'_>, summary: &mut ResponseSummary) {
        run.events().for_each(|event| self.event(&event, summary));
    }

    fn event(&mut self, event: &SseEvent<'_>, summary: &mut ResponseSummary) {
        let Some(data) = &event.data else { return };
        summary.events += 1;
        let data = data.trim_ascii_start();
        if data.first() != Some(&b'{') {
            summary.ended |= data.trim_ascii_end() == b"[DONE]";
            return;
        }
        let anywhere = || if self.chunks { None } else { openai_event::type_anywhere(data) };
        match event.name.or_else(|| openai_event::leading_type(data)).or_else(anywhere) {
            Some("ping" | "content_block_stop") => {}
            Some("content_block_delta") => self.delta(data, summary),
            Some("content_block_start") => self.content(data, summary),
            Some("message_start" | "message_delta") => self.typed(data, summary),
            Some("message_stop") => summary.ended = true,
            // Also Groq's, whose other events have no name.
            Some("error") => self.error(data, summary),
            Some(name) => self.named(name, data, summary),
            None => self.chat(data, summary),
        }
    }

    /// Events of the Responses API and of the other OpenAI calls that stream typed events.
    fn named(&mut self, name: &str, data: &[u8], summary: &mut ResponseSummary) {
        match name {
            "response.created" => self.typed(data, summary),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "transcript.text.done"
            | "speech.audio.done"
            | "image_generation.completed"
            | "image_edit.completed" => {
                self.typed(data, summary);
                summary.content = true;
                summary.ended = true;
            }
            "response.output_item.added" => self.content(data, summary),
            "response.output_item.done" => summary.web_searches.take_item_event(data),
            _ if name.ends_with(".partial_image") => summary.content = true,
            _ if name.ends_with(".delta") => self.delta(data, summary),
            _ if name.starts_with("response.") => {}
            "content-delta" | "tool-plan-delta" | "tool-call-delta" | "tool-call-start" => {
                summary.content = true;
                self.text.take(data, &mut summary.text);
            }
            "message-end" => self.cohere_end(data, summary),
            // Events with other names may still be chat chunks.
            _ => self.chat(data, summary),
        }
    }

    /// Reads an event with a piece of the output.
    fn delta(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        self.content(data, summary);
        self.text.take(data, &mut summary.text);
    }

    /// Reads an event that matters only until the first content has arrived.
    fn content(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        if !summary.content {
            summary.content = TypedEvent::read(data).is_some_and(|event| event.has_content());
        }
    }

    fn typed(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        let Some(event) = TypedEvent::read(data) else { return };
        for object in [event.message(), event.response()].into_iter().flatten() {
            summary.note_id(|| object.id());
            summary.note_model(object.model());
            self.usage(object.usage(), summary);
            summary.note_tier(object.service_tier());
            object.note_searches(&mut summary.web_searches);
            if let Some(error) = object.error() {
                summary.note_error(error);
            }
            summary.content |= object.has_content();
            summary.note_finish(object.finish());
        }
        self.usage(event.usage(), summary);
        summary.note_finish(event.stop_reason());
    }

    fn error(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        // Anthropic and chat have the error in a member; in the Responses API the event itself is the error.
        let inner = TypedEvent::read(data).and_then(|event| event.error());
        summary.note_error(inner.unwrap_or(data));
    }

    fn chat(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        if self.gemini {
            summary.text.push_members(data, &["text"]);
        } else {
            self.text.take(data, &mut summary.text);
        }
        if summary.content && !self.gemini && !self.worth_parsing(data) {
            return;
        }
        let Some(chunk) = ChatChunk::read(data) else { return };
        self.chunks |= chunk.has_choices() || chunk.is_gemini();
        summary.note_id(|| chunk.id());
        summary.note_model(chunk.model());
        let choices = chunk.choices();
        summary.content |= choices.iter().any(Choice::has_content);
        choices.iter().filter_map(Choice::finish).for_each(|finish| summary.note_filter(&finish));
        summary.note_finish(choices.iter().find_map(Choice::finish));
        if chunk.is_gemini() {
            self.gemini = true;
            let (content, finishes) = vendor_event::candidates(chunk.candidates);
            summary.content |= content;
            finishes.iter().for_each(|finish| summary.note_filter(finish));
            let finish = finishes.into_iter().next();
            summary.note_finish(finish.or_else(|| vendor_event::block(chunk.prompt_feedback)));
        }
        self.usage(chunk.usage(), summary);
        summary.note_tier(chunk.service_tier());
        if let Some(error) = chunk.error() {
            summary.note_error(error);
        }
    }

    fn cohere_end(&mut self, data: &[u8], summary: &mut ResponseSummary) {
        summary.ended = true;
        let Some(end) = CohereEnd::read(data) else { return };
        summary.note_finish(end.finish());
        self.usage(end.usage(), summary);
        if let Some(error) = end.error() {
            summary.note_error(error);
        }
    }

    fn worth_parsing(&self, data: &[u8]) -> bool {
        let [finish, usage, error] = &self.markers;
        // Whether the member occurs at all, and whether one occurrence has a value.
        let look = |finder: &Finder<'_>| {
            let length = finder.needle().len();
            let mut found = finder.find_iter(data).peekable();
            let occurs = found.peek().is_some();
            (occurs, found.any(|at| is_set(data.get(at + length..).unwrap_or_default())))
        };
        let (has_finish, finishes) = look(finish);
        // An error next to choices ends them, so a chunk whose choices are not finished has none. That saves the search
        // for most chunks.
        finishes || look(usage).1 || (!has_finish && look(error).1)
    }

    fn usage(&mut self, usage: Option<&[u8]>, summary: &mut ResponseSummary) {
        if let Some(usage) = usage {
            summary.record_usage(&mut self.usage_parts, usage);
        }
    }
}

/// Whether a value follows, that is a colon and something other than `null` or an empty string.
fn is_set(rest: &[u8]) -> bool {
    let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { return false };
    let value = value.trim_ascii_start();
    !value.starts_with(b"null") && !value.starts_with(b"\"\"")
}
