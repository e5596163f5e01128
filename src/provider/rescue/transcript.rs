//! What a caller has been told of an answer so far: the ground another attempt must stand on. Not what the wire
//! looked like: that is the writer's.

use crate::api::chat::Event;
use serde::de::IgnoredAny;

/// The most that is kept to be compared, bytes: of text, and of all arguments together. Longer answers are not
/// rescued.
const MAX_KEPT: usize = 4 << 20;
/// More calls in one turn than any model makes.
const MAX_CALLS: usize = 256;

/// One answer as the caller knows it.
#[derive(Debug, Default)]
pub struct Transcript {
    text: String,
    has_reasoning: bool,
    calls: Vec<TranscriptCall>,
    /// Bytes of all arguments.
    arguments: usize,
    finished: bool,
    /// Something was told that no second answer could be laid against: another choice, a picture, a refusal, more
    /// than is kept.
    incomparable: bool,
}

/// A tool call the caller knows of, perhaps a part of it.
#[derive(Debug)]
pub struct TranscriptCall {
    pub index: u32,
    pub name: String,
    /// So far, JSON text.
    pub arguments: String,
}

impl TranscriptCall {
    /// Whether its arguments are a whole JSON text.
    pub fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

impl Transcript {
    /// The text of the first choice.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether thinking was told, readable or not.
    pub fn has_reasoning(&self) -> bool {
        self.has_reasoning
    }

    /// The tool calls, in the order they were told.
    pub fn calls(&self) -> &[TranscriptCall] {
        &self.calls
    }

    /// Whether the answer said why it stopped: then there is nothing to go on with.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing was told that a user would see.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.has_reasoning && self.calls.is_empty() && !self.incomparable
    }

    /// Whether another answer can go on from here.
    pub fn can_resume(&self) -> bool {
        !self.finished && !self.incomparable
    }

    /// Takes in an event that is written to the caller.
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
            Event::ToolCall { choice: 0, index, name, .. } => match self.calls.len() < MAX_CALLS {
                true => {
                    let name = name.to_owned();
                    self.calls.push(TranscriptCall { index, name, arguments: String::new() });
                }
                false => self.give_up(),
            },
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
            // Beside what is said: nothing is repeated by telling it of another answer.
            Event::Start(_)
            | Event::Annotation { .. }
            | Event::Logprobs { .. }
            | Event::Usage(_)
            | Event::Member { .. }
            | Event::Error(_)
            | Event::End => {}
        }
    }

    /// There is no going on from here: what was kept is let go.
    fn give_up(&mut self) {
        self.incomparable = true;
        self.text = String::new();
        self.calls = Vec::new();
    }
}
