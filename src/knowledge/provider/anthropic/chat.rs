//! Chats in Anthropic's format, wherever its models are served: its own API, Vertex AI, Microsoft Foundry.
//!
//! Only the differences between those hosts are described here; the other files of this folder write requests
//! and decode responses.

use super::beta_host::BetaHost;
use super::request;
use super::stream::Stream;
use super::whole::Whole;
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::call_ids::IdRule;
use crate::provider::tool_names::NameRule;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::VendorMembers;
use words::api::chat::{ChatRequest, Decoder};
use words::error::Error;

/// How one host serves Anthropic's Messages API.
#[derive(Debug)]
pub(crate) struct AnthropicChat {
    /// The provider's name in errors and warnings.
    pub name: &'static str,
    /// `model` goes into the body. Not allowed where it is part of the path (Vertex AI).
    pub model_in_body: bool,
    /// `anthropic_version` in the body: `vertex-2023-10-16`. `None`: it is a header.
    pub version: Option<&'static str>,
    /// What it takes.
    pub members: VendorMembers,
    /// Which betas.
    pub betas: BetaHost,
}

impl AnthropicChat {
    /// Anthropic's own API, and hosts that serve it unchanged (Microsoft Foundry).
    pub const OWN: AnthropicChat = AnthropicChat {
        name: "Anthropic",
        model_in_body: true,
        version: None,
        members: VendorMembers::ANTHROPIC,
        betas: BetaHost::Own,
    };
    pub(crate) const VERTEX: AnthropicChat = AnthropicChat {
        model_in_body: false,
        version: Some("vertex-2023-10-16"),
        members: VendorMembers::ANTHROPIC_IN_CLOUD,
        betas: BetaHost::Vertex,
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
        request::write(self, request, target, notes)
    }

    fn tool_names(&self) -> NameRule {
        NameRule::ANTHROPIC
    }

    fn defers_tools(&self) -> bool {
        true
    }

    fn call_ids(&self) -> IdRule {
        IdRule::ANTHROPIC
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        if streamed { Box::<Stream>::default() } else { Box::<Whole>::default() }
    }
}
