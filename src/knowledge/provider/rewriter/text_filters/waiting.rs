//! Events that wait behind text which the filters hold back, so that the client gets both in the provider's order.
//!
//! Not here: when they may go on (`text_filters`).

use std::collections::VecDeque;
use words::api::chat::Event;

/// What an event costs besides its texts, bytes.
const EVENT_COST: usize = 128;

/// The events of one choice that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(u64, u32, OwnedEvent)>);

/// An event that follows text of its choice, without the number of that choice.
#[derive(Debug)]
enum OwnedEvent {
    Reasoning(String),
    Signature(String),
    Redacted(String),
    ToolCall { index: u32, id: String, name: String, signature: Option<String> },
    Arguments { index: u32, fragment: String },
    Media { media_type: String, data: String },
    Block(String),
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an event with its place in the text that the filters were given; how many bytes it takes. `None`: it is one that never
    /// waits, and was not added.
    pub fn push(&mut self, at: u64, choice: u32, event: &Event<'_>) -> Option<usize> {
        let owned = OwnedEvent::of(event)?;
        let bytes = owned.bytes();
        self.0.push_back((at, choice, owned));
        Some(bytes)
    }

    /// The place of the first one.
    pub fn first(&self) -> Option<u64> {
        self.0.front().map(|(at, ..)| *at)
    }

    /// Gives the first one to `next`; how many bytes it took.
    pub(crate) fn pass_first(&mut self, next: &mut dyn FnMut(Event<'_>)) -> usize {
        let Some((_, choice, event)) = self.0.pop_front() else { return 0 };
        next(event.event(choice));
        event.bytes()
    }
}

impl OwnedEvent {
    fn of(event: &Event<'_>) -> Option<Self> {
        Some(match *event {
            Event::Reasoning { text, .. } => Self::Reasoning(text.to_owned()),
            Event::Signature { signature, .. } => Self::Signature(signature.to_owned()),
            Event::Redacted { data, .. } => Self::Redacted(data.to_owned()),
            Event::ToolCall { index, id, name, signature, .. } => Self::ToolCall {
                index,
                id: id.to_owned(),
                name: name.to_owned(),
                signature: signature.map(str::to_owned),
            },
            Event::Arguments { index, fragment, .. } => {
                Self::Arguments { index, fragment: fragment.to_owned() }
            }
            Event::Media { media_type, data, .. } => {
                Self::Media { media_type: media_type.to_owned(), data: data.to_owned() }
            }
            Event::Block { json, .. } => Self::Block(json.to_owned()),
            _ => return None,
        })
    }

    fn event(&self, choice: u32) -> Event<'_> {
        match self {
            Self::Reasoning(text) => Event::Reasoning { choice, text },
            Self::Signature(signature) => Event::Signature { choice, signature },
            Self::Redacted(data) => Event::Redacted { choice, data },
            Self::ToolCall { index, id, name, signature } => {
                Event::ToolCall { choice, index: *index, id, name, signature: signature.as_deref() }
            }
            Self::Arguments { index, fragment } => Event::Arguments { choice, index: *index, fragment },
            Self::Media { media_type, data } => Event::Media { choice, media_type, data },
            Self::Block(json) => Event::Block { choice, json },
        }
    }

    fn bytes(&self) -> usize {
        let texts = match self {
            Self::Reasoning(text)
            | Self::Signature(text)
            | Self::Redacted(text)
            | Self::Block(text)
            | Self::Arguments { fragment: text, .. } => text.len(),
            Self::ToolCall { id, name, signature, .. } => {
                id.len() + name.len() + signature.as_ref().map_or(0, String::len)
            }
            Self::Media { media_type, data } => media_type.len() + data.len(),
        };
        EVENT_COST + texts
    }
}
