//! What the client got of a response so far, which another attempt must continue. Not its wire form: that is the
//! encoder's.

use serde::de::IgnoredAny;
use words::api::chat::Event;

/// The limit of the text, and of all arguments together, that is kept for comparison, in bytes. Longer responses
/// cannot be resumed.
const MAX_KEPT: usize = 4 << 20;
/// More tool calls than any model makes in one response.
const MAX_CALLS: usize = 256;

/// One response as far as the client got it.
#[derive(Debug, Default)]
pub struct Transcript {
    text: String,
    has_reasoning: bool,
    calls: Vec<TranscriptCall>,
    /// Bytes of the arguments of all calls.
    arguments: usize,
    finished: bool,
    /// Something was sent with which a second response cannot be compared: another choice, an image, a refusal, or
    /// more than is kept.
    incomparable: bool,
}

/// A tool call of which the client got all or a part.
#[derive(Debug)]
pub struct TranscriptCall {
    pub index: u32,
    pub name: String,
    /// JSON text, as far as it was sent.
    pub arguments: String,
}

impl TranscriptCall {
    /// Whether its arguments are complete JSON.
    pub fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

impl Transcript {
    /// The text of the first choice.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether reasoning was sent, readable or not.
    pub(crate) fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// The tool calls, in the order they were sent.
    pub fn calls(&self) -> &[TranscriptCall] {
        &self.calls
    }

    /// Whether the finish reason was sent: then there is nothing to resume.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing was sent that a user would see.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.has_reasoning && self.calls.is_empty() && !self.incomparable
    }

    /// Whether another response can continue this one.
    pub fn can_resume(&self) -> bool {
        !self.finished && !self.incomparable
    }

    /// Records an event that is written to the client.
    pub(in crate::provider) fn take(&mut self, event: &Event<'_>) {
        match *event {
            Event::Text { choice: 0, text } => match self.text.len() + text.len() <= MAX_KEPT {
                true if !self.incomparable => self.text.push_str(text),
                _ => self.give_up(),
            },
            Event::Reasoning { choice: 0, text } => self.has_reasoning |= !text.is_empty(),
            Event::Signature { choice: 0, .. } | Event::Redacted { choice: 0, .. } => {
                self.has_reasoning = true;
            }
            Event::ToolCall { choice: 0, index, name, .. } => {
                if self.calls.len() < MAX_CALLS {
                    let name = name.to_owned();
                    self.calls.push(TranscriptCall { index, name, arguments: String::new() });
                } else {
                    self.give_up();
                }
            }
            Event::Arguments { choice: 0, index, fragment } => {
                self.arguments += fragment.len();
                match self.calls.iter_mut().rfind(|call| call.index == index) {
                    Some(call) if self.arguments <= MAX_KEPT => call.arguments.push_str(fragment),
                    _ => self.give_up(),
                }
            }
            Event::Finish { choice: 0, .. } => self.finished = true,
            Event::Refusal { .. }
            | Event::Media { .. }
            | Event::Block { .. }
            | Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Signature { .. }
            | Event::Redacted { .. }
            | Event::ToolCall { .. }
            | Event::Arguments { .. }
            | Event::Finish { .. } => self.give_up(),
            // Not content: sending it again for another response repeats nothing.
            Event::Start(_)
            | Event::Annotation { .. }
            | Event::Logprobs { .. }
            | Event::Usage(_)
            | Event::Member { .. }
            | Event::Error(_)
            | Event::End => {}
        }
    }

    /// Marks the response as not resumable and frees what was kept.
    fn give_up(&mut self) {
        self.incomparable = true;
        self.text = String::new();
        self.calls = Vec::new();
    }
}
