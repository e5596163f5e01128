//! OpenAI's Responses API as the upstream format of a chat.
//!
//! For models that take tools, or anything at all, only there (`responses_only` decides that): a chat of any dialect is written as a
//! create request, and the response is decoded into the chat's events. Clients of `/v1/responses` are not here: theirs passes on.
//!
//! Nothing is stored (`store: false`, unless the client of a chat requests it), so everything that the next turn needs goes to the
//! client and comes back from it: encrypted reasoning is a signature or redacted thinking of the chat. Items have no ids, as in the
//! requests of OpenAI's own Codex (`ResponseItem` in openai/codex, `codex-rs/protocol/src/models.rs`): a reasoning item with an id would
//! be looked up where nothing is kept.

use super::adapter::{CallTarget, ChatAdapter};
use super::call_ids::IdRule;
use super::openai_chat::decoder;
use super::translation_notes::TranslationNotes;
use super::turn_order::TurnOrder;
use events::ResponsesEvents;
use words::api::chat::{ChatRequest, Decoder};
use words::api::operation::Operation;
use words::error::Error;

mod events;
mod input;
mod items;
mod parts;
mod tools;
mod write;

/// The adapter, for OpenAI and whoever serves its models under their own names.
#[derive(Debug)]
pub struct OpenAiResponses;

impl ChatAdapter for OpenAiResponses {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        write::write(request, target, notes)
    }

    fn operation(&self) -> Operation {
        Operation::Responses
    }

    fn call_ids(&self) -> IdRule {
        IdRule::OPENAI
    }

    fn turn_order(&self, _model: &str) -> TurnOrder {
        TurnOrder::Any
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        if streamed {
            Box::<decoder::Stream<ResponsesEvents>>::default()
        } else {
            Box::<decoder::Whole<ResponsesEvents>>::default()
        }
    }
}

#[cfg(test)]
mod recordings;
#[cfg(test)]
mod tests;
