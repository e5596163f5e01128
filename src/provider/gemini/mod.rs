//! Google's Gemini: encodes a chat as a `generateContent` request and decodes the response into events.
//!
//! Used by two providers, [`super::google`] and [`super::vertex`], which decide addresses and credentials.
//! Sources: <https://ai.google.dev/api/generate-content>, reference 12.6 and 12.7, and recorded traffic.

use super::adapter::{CallTarget, ChatAdapter};
use super::tool_names::NameRule;
use super::translation_notes::TranslationNotes;
use crate::api::chat::{ChatRequest, Decoder};
use crate::error::Error;
use model::Model;
use std::borrow::Cow;

mod blocks;
mod calls;
mod config;
mod content;
pub mod count;
mod decoder;
pub mod embeddings;
mod grounding;
mod logprobs;
mod media;
mod model;
pub mod models;
mod partial_args;
mod request;
mod response;
mod schema;
mod tools;

/// Gemini's chat adapter, for one of its two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gemini {
    /// generativelanguage.googleapis.com.
    Studio,
    /// aiplatform.googleapis.com.
    Vertex,
}

impl Gemini {
    /// The provider's id, for error messages.
    const fn provider(self) -> &'static str {
        match self {
            Self::Studio => "google",
            Self::Vertex => "vertex-ai",
        }
    }

    const fn is_vertex(self) -> bool {
        matches!(self, Self::Vertex)
    }
}

impl ChatAdapter for Gemini {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        request::write(request, *self, Model::from_name(target.model), notes)
    }

    fn tool_names(&self) -> NameRule {
        NameRule::GEMINI
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        Box::new(decoder::GeminiDecoder::new(streamed))
    }
}

/// JSON text without white space between its tokens: Google's responses are spread over many lines, but the
/// data of an event must be one line.
fn compact(json: &str) -> Cow<'_, str> {
    if !json.contains(['\n', '\r']) {
        return Cow::Borrowed(json);
    }
    let (mut inside, mut escaped) = (false, false);
    let kept = json.chars().filter(|&char| {
        match char {
            '"' if !escaped => inside = !inside,
            ' ' | '\n' | '\r' | '\t' if !inside => return false,
            _ => {}
        }
        escaped = inside && char == '\\' && !escaped;
        true
    });
    Cow::Owned(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_goes() {
        let laid_out = "{\n  \"a b\": [1.0, \"\\\\\", \" \\\" \"],\r\n\t\"c\": \"\\n \"\n}";
        assert_eq!(compact(laid_out), r#"{"a b":[1.0,"\\"," \" "],"c":"\n "}"#);
        assert_eq!(compact(r#"{"a": 1}"#), r#"{"a": 1}"#);
    }
}

#[cfg(test)]
mod recordings;
