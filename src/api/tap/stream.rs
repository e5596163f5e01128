//! The events of a stream, told apart as cheaply as can be: of most only the name is looked at.
//!
//! Not a decoder: whoever needs the text of an answer reads the events itself.

use super::chunk::{self, ChatChunk, Choice, TypedEvent};
use super::native::{self, CohereEnd};
use super::{Figures, Learned};
use crate::api::sse::{Event, Splitter};
use memchr::memmem::Finder;

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Stream {
    splitter: Splitter,
    reader: Reader,
}

#[derive(Debug)]
struct Reader {
    figures: Figures,
    /// The members that make a chat chunk worth parsing. They cannot match inside a JSON string: there
    /// the quotes carry a backslash.
    wanted: [Finder<'static>; 3],
    /// Its chunks are Gemini's: few and large, so that each is parsed.
    gemini: bool,
}

impl Default for Stream {
    fn default() -> Self {
        let wanted = ["\"finish_reason\"", "\"usage\"", "\"error\""].map(Finder::new);
        let reader = Reader { figures: Figures::default(), wanted, gemini: false };
        Self { splitter: Splitter::default(), reader }
    }
}

impl Stream {
    pub(super) fn push(&mut self, chunk: &[u8], learned: &mut Learned) {
        let Self { splitter, reader } = self;
        // An event too long to hold is one we learn nothing from; the answer itself goes on.
        let _ = splitter.push(chunk, &mut |event| reader.event(event, learned));
    }

    pub(super) fn finish(&mut self, learned: &mut Learned) {
        let Self { splitter, reader } = self;
        splitter.finish(&mut |event| reader.event(event, learned));
    }
}

impl Reader {
    fn event(&mut self, event: Event<'_>, learned: &mut Learned) {
        learned.events += 1;
        let data = event.data.trim_ascii_start();
        if data.first() != Some(&b'{') {
            learned.ended |= data.trim_ascii_end() == b"[DONE]";
            return;
        }
        match event.name.or_else(|| chunk::leading_type(data)) {
            Some("ping" | "content_block_stop") => {}
            Some("content_block_delta" | "content_block_start") => self.content(data, learned),
            Some("message_start" | "message_delta") => self.typed(data, learned),
            Some("message_stop") => learned.ended = true,
            // Also Groq's, whose other events have no name.
            Some("error") => self.error(data, learned),
            Some(name) => self.named(name, data, learned),
            None => self.chat(data, learned),
        }
    }

    /// Events of the Responses API and of the other OpenAI calls that stream typed events.
    fn named(&mut self, name: &str, data: &[u8], learned: &mut Learned) {
        match name {
            "response.created" => self.typed(data, learned),
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "transcript.text.done"
            | "speech.audio.done"
            | "image_generation.completed"
            | "image_edit.completed" => {
                self.typed(data, learned);
                learned.content = true;
                learned.ended = true;
            }
            "response.output_item.added" => self.content(data, learned),
            _ if name.ends_with(".partial_image") => learned.content = true,
            _ if name.ends_with(".delta") => self.content(data, learned),
            _ if name.starts_with("response.") => {}
            "content-delta" | "tool-plan-delta" | "tool-call-start" => learned.content = true,
            "message-end" => self.cohere_end(data, learned),
            // Whatever else a provider names its events: the data may be a chat chunk all the same.
            _ => self.chat(data, learned),
        }
    }

    /// An event that can matter only until the first content has come.
    fn content(&mut self, data: &[u8], learned: &mut Learned) {
        if !learned.content {
            learned.content = TypedEvent::read(data).is_some_and(|event| event.has_content());
        }
    }

    fn typed(&mut self, data: &[u8], learned: &mut Learned) {
        let Some(event) = TypedEvent::read(data) else { return };
        for told in [event.message(), event.response()].into_iter().flatten() {
            learned.note_model(told.model());
            self.usage(told.usage(), learned);
            if let Some(error) = told.error() {
                learned.note_error(error);
            }
            learned.note_finish(told.finish());
        }
        self.usage(event.usage(), learned);
        learned.note_finish(event.stop_reason());
    }

    fn error(&mut self, data: &[u8], learned: &mut Learned) {
        // Anthropic and chat put the error into a member, the Responses API spreads it over the event.
        let inner = TypedEvent::read(data).and_then(|event| event.error());
        learned.note_error(inner.unwrap_or(data));
    }

    fn chat(&mut self, data: &[u8], learned: &mut Learned) {
        if learned.content && !self.gemini && !self.worth_parsing(data) {
            return;
        }
        let Some(chunk) = ChatChunk::read(data) else { return };
        learned.note_model(chunk.model());
        let choices = chunk.choices();
        learned.content |= choices.iter().any(Choice::has_content);
        learned.note_finish(choices.iter().find_map(Choice::finish));
        if chunk.is_gemini() {
            self.gemini = true;
            let (content, finish) = native::candidates(chunk.candidates);
            learned.content |= content;
            learned.note_finish(finish.or_else(|| native::block(chunk.prompt_feedback)));
        }
        self.usage(chunk.usage(), learned);
        if let Some(error) = chunk.error() {
            learned.note_error(error);
        }
    }

    fn cohere_end(&mut self, data: &[u8], learned: &mut Learned) {
        learned.ended = true;
        let Some(end) = CohereEnd::read(data) else { return };
        learned.note_finish(end.finish());
        self.usage(end.usage(), learned);
        if let Some(error) = end.error() {
            learned.note_error(error);
        }
    }

    fn worth_parsing(&self, data: &[u8]) -> bool {
        let [finish, usage, error] = &self.wanted;
        // Whether a member is there at all, and whether some of them says something.
        let look = |finder: &Finder<'_>| {
            let length = finder.needle().len();
            let mut found = finder.find_iter(data).peekable();
            let there = found.peek().is_some();
            (there, found.any(|at| is_set(data.get(at + length..).unwrap_or_default())))
        };
        let (goes_on, finishes) = look(finish);
        // An error beside choices ends them: one pass less for the many chunks whose choices go on.
        finishes || look(usage).1 || (!goes_on && look(error).1)
    }

    fn usage(&mut self, usage: Option<&[u8]>, learned: &mut Learned) {
        if let Some(usage) = usage {
            learned.figures(&mut self.figures, usage);
        }
    }
}

/// Whether what stands behind a name is its value, and one that says something.
fn is_set(rest: &[u8]) -> bool {
    let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { return false };
    let value = value.trim_ascii_start();
    !value.starts_with(b"null") && !value.starts_with(b"\"\"")
}
