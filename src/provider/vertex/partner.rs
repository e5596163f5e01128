//! The partners' models that are asked in OpenAI's words, for callers of other dialects.
//!
//! Callers of `/v1/chat/completions` go the same way unread but for what [`super::Vertex`] edits.

use super::model::{Named, Speech};
use crate::api::chat::{ChatRequest, Decoder};
use crate::error::Error;
use crate::provider::openai_chat::{OpenAiChat, accents};
use crate::provider::outgoing::Outgoing;
use crate::provider::way::{Chat, Target};

/// One way of speaking them.
#[derive(Debug)]
pub(super) struct Partner {
    accent: &'static OpenAiChat,
}

pub(super) static MISTRAL: Partner = Partner { accent: &accents::MISTRAL };
pub(super) static OTHERS: Partner = Partner { accent: &accents::PLAIN };

impl Partner {
    pub(super) fn of(speech: Speech) -> &'static Partner {
        if speech == Speech::Raw { &MISTRAL } else { &OTHERS }
    }

    pub(super) fn accent(&self) -> &'static OpenAiChat {
        self.accent
    }
}

impl Chat for Partner {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &Target<'_>,
        outgoing: &mut Outgoing,
    ) -> Result<Vec<u8>, Error> {
        let model = Named::of(target.model).in_body();
        self.accent.write(request, &Target { model: &model, ..*target }, outgoing)
    }

    fn reader(&self, streamed: bool) -> Box<dyn Decoder> {
        self.accent.reader(streamed)
    }
}
