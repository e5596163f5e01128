//! The partners' models with OpenAI's chat API, for clients that speak other dialects.
//!
//! Bodies of `/v1/chat/completions` do not come here: they pass through with only the edits of
//! [`super::Vertex`].

use super::model::{ModelApi, ModelName};
use crate::provider::adapter::{CallTarget, ChatAdapter};
use crate::provider::call_ids::IdRule;
use crate::provider::openai_chat::{OpenAiChat, quirks};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::turn_order::TurnOrder;
use words::api::chat::{ChatRequest, Decoder};
use words::error::Error;

/// The chat adapter for a group of partners.
#[derive(Debug)]
pub(super) struct Partner {
    chat: &'static OpenAiChat,
}

pub(super) static MISTRAL: Partner = Partner { chat: &quirks::MISTRAL };
pub(super) static OTHERS: Partner = Partner { chat: &quirks::PLAIN };

impl Partner {
    pub(super) fn from_api(api: ModelApi) -> &'static Partner {
        if api == ModelApi::Raw { &MISTRAL } else { &OTHERS }
    }

    pub(super) fn chat(&self) -> &'static OpenAiChat {
        self.chat
    }
}

impl ChatAdapter for Partner {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        let model = ModelName::parse(target.model).in_body();
        self.chat.write(request, &CallTarget { model: &model, ..*target }, notes)
    }

    fn call_ids(&self) -> IdRule {
        self.chat.call_ids()
    }

    fn turn_order(&self, model: &str) -> TurnOrder {
        self.chat.turn_order(model)
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        self.chat.decoder(streamed)
    }
}
