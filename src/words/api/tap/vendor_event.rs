//! What the tap reads of streams whose shape is neither OpenAI's nor Anthropic's: Gemini's chunks, and the last event
//! of a Cohere response.
//!
//! Lenient like `openai_event`, whose functions it uses. Not a decoder.

use super::openai_event::{HasContent, Raw, bytes, parse, raw_text};
use serde::Deserialize;

/// One of Gemini's `candidates`.
#[derive(Debug, Deserialize)]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(rename = "finishReason")]
    finish: Raw<'a>,
}

/// Whether the `candidates` of one chunk have content that a user would see, and their finish reason.
pub(super) fn candidates(raw: Raw<'_>) -> (bool, Vec<String>) {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        parts: Vec<HasContent>,
    }
    let mut content = false;
    let mut finishes = Vec::new();
    for candidate in raw.and_then(parse::<Vec<Candidate<'_>>>).unwrap_or_default() {
        let parsed = candidate.content.and_then(parse::<Content>);
        content |= parsed.is_some_and(|parsed| parsed.parts.iter().any(|part| part.0));
        finishes.extend(raw_text(candidate.finish));
    }
    (content, finishes)
}

/// Why Google blocked a prompt: `blockReason` of `promptFeedback`.
pub(super) fn block(raw: Raw<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Feedback<'a> {
        #[serde(rename = "blockReason", borrow)]
        reason: Raw<'a>,
    }
    raw_text(parse::<Feedback<'_>>(raw?)?.reason)
}

/// The `delta` of Cohere's `message-end`.
#[derive(Debug, Deserialize)]
pub(super) struct CohereEnd<'a> {
    #[serde(borrow)]
    finish_reason: Raw<'a>,
    usage: Raw<'a>,
    error: Raw<'a>,
}

impl<'a> CohereEnd<'a> {
    /// Reads the data of the event.
    pub(super) fn read(data: &'a [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow)]
            delta: Raw<'a>,
        }
        parse(serde_json::from_slice::<Event<'a>>(data).ok()?.delta?)
    }

    pub(super) fn finish(&self) -> Option<String> {
        raw_text(self.finish_reason)
    }

    pub(super) fn usage(&self) -> Option<&'a [u8]> {
        bytes(self.usage)
    }

    pub(super) fn error(&self) -> Option<&'a [u8]> {
        bytes(self.error)
    }
}
