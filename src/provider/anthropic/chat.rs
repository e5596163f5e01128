//! A chat in Anthropic's words, wherever Anthropic's models are served: its own API, Vertex AI, Microsoft
//! Foundry, Bedrock's invoke.
//!
//! Only what differs between those places is said here; how a request is written and an answer read is the
//! business of the files beside this one.

use super::request;
use super::stream::Stream;
use super::whole::Whole;
use crate::api::chat::{ChatRequest, Decoder};
use crate::error::Error;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::translation_notes::TranslationNotes;

/// Anthropic's messages at one place.
#[derive(Debug)]
pub struct AnthropicChat {
    /// Who cannot do what, in errors and warnings.
    pub name: &'static str,
    /// `model` stands in the body; where it is part of the path (Vertex AI, Bedrock) it must not.
    pub model_in_body: bool,
    /// `stream` stands in the body; Bedrock has a path for it instead.
    pub stream_in_body: bool,
    /// `anthropic_version` in the body: `vertex-2023-10-16`, `bedrock-2023-05-31`. `None`: it is a header.
    pub version: Option<&'static str>,
    /// Betas go as the list `anthropic_beta` into the body, not as a header.
    pub betas_in_body: bool,
}

impl AnthropicChat {
    /// Anthropic's own API, and whoever serves it unchanged (Microsoft Foundry).
    pub const OWN: AnthropicChat = AnthropicChat {
        name: "Anthropic",
        model_in_body: true,
        stream_in_body: true,
        version: None,
        betas_in_body: false,
    };
    pub const VERTEX: AnthropicChat =
        AnthropicChat { model_in_body: false, version: Some("vertex-2023-10-16"), ..AnthropicChat::OWN };
    pub const BEDROCK: AnthropicChat = AnthropicChat {
        model_in_body: false,
        stream_in_body: false,
        version: Some("bedrock-2023-05-31"),
        betas_in_body: true,
        ..AnthropicChat::OWN
    };
}

impl ChatAdapter for AnthropicChat {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        request::write(self, request, target.model, notes)
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        if streamed { Box::<Stream>::default() } else { Box::<Whole>::default() }
    }
}
