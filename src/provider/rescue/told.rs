//! What a caller has been told of an answer so far: the ground another attempt must stand on. Not what the wire
//! looked like: that is the writer's.

use crate::api::chat::Event;
use serde::de::IgnoredAny;

/// The most that is kept to be compared, bytes: of text, and of all arguments together. Longer answers are not
/// rescued.
const MOST_KEPT: usize = 4 << 20;
/// More calls in one turn than any model makes.
const MOST_CALLS: usize = 256;

/// One answer as the caller knows it.
#[derive(Debug, Default)]
pub struct Told {
    text: String,
    reasoned: bool,
    calls: Vec<ToldCall>,
    /// Bytes of all arguments.
    arguments: usize,
    finished: bool,
    /// Something was told that no second answer could be laid against: another choice, a picture, a refusal, more
    /// than is kept.
    beyond: bool,
}

/// A tool call the caller knows of, perhaps a part of it.
#[derive(Debug)]
pub struct ToldCall {
    pub index: u32,
    pub name: String,
    /// So far, JSON text.
    pub arguments: String,
}

impl ToldCall {
    /// Whether its arguments are a whole JSON text.
    pub fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

impl Told {
    /// The text of the first choice.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether thinking was told, readable or not.
    pub fn reasoned(&self) -> bool {
        self.reasoned
    }

    /// The tool calls, in the order they were told.
    pub fn calls(&self) -> &[ToldCall] {
        &self.calls
    }

    /// Whether the answer said why it stopped: then there is nothing to go on with.
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Whether nothing was told that a user would see.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.reasoned && self.calls.is_empty() && !self.beyond
    }

    /// Whether another answer can go on from here.
    pub fn can_resume(&self) -> bool {
        !self.finished && !self.beyond
    }

    /// Takes in an event that is written to the caller.
    pub(in crate::provider) fn take(&mut self, event: &Event<'_>) {
        match *event {
            Event::Text { choice: 0, text } => match self.text.len() + text.len() <= MOST_KEPT {
                true if !self.beyond => self.text.push_str(text),
                _ => self.give_up(),
            },
            Event::Reasoning { choice: 0, text } => self.reasoned |= !text.is_empty(),
            Event::Signature { choice: 0, .. } | Event::Redacted { choice: 0, .. } => self.reasoned = true,
            Event::ToolCall { choice: 0, index, name, .. } => match self.calls.len() < MOST_CALLS {
                true => {
                    let name = name.to_owned();
                    self.calls.push(ToldCall { index, name, arguments: String::new() });
                }
                false => self.give_up(),
            },
            Event::Arguments { choice: 0, index, fragment } => {
                self.arguments += fragment.len();
                match self.calls.iter_mut().rfind(|call| call.index == index) {
                    Some(call) if self.arguments <= MOST_KEPT => call.arguments.push_str(fragment),
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
        self.beyond = true;
        self.text = String::new();
        self.calls = Vec::new();
    }
}
