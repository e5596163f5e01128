//! Cohere: its native chat, embeddings, reranking and model list, for clients of the standard dialects.
//!
//! Cohere's OpenAI-compatible endpoint is not used: it has no documents, no citations, no thinking and no tool
//! plans. To use it, choose provider `openai` with the custom host `https://api.cohere.ai/compatibility/v1`.

mod body;
mod embed;
mod message;
mod models;
mod request;
mod rerank;
mod response;
mod response_parts;
mod stream;

use super::adapter::{Adapter, CallTarget, ChatAdapter};
use super::key::Key;
use super::spec::{Host, ProviderSpec, has_dot_segment};
use super::translation_notes::TranslationNotes;
use super::turn_order::TurnOrder;
use super::{Call, Provider};
use http::HeaderMap;
use std::borrow::Cow;
use words::api::chat::{ChatRequest, Decoder};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// Cohere as a provider.
#[derive(Debug)]
pub struct Cohere;

/// Its entry in the provider table.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "cohere",
    host: Host::Fixed("https://api.cohere.com"),
    prefix: "",
    note: "its own API (v2); a version at the end of a custom host is removed; paths outside the endpoint list \
           go to /v1 unless they name a version",
    source: "https://docs.cohere.com/reference/chat",
    ..ProviderSpec::PLAIN
};

/// The chat adapter for `/v2/chat`.
#[derive(Debug)]
struct CohereChat;

impl ChatAdapter for CohereChat {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        request::write(request, target, notes)
    }

    /// Its rules for later system messages are not documented.
    fn turn_order(&self, _model: &str) -> TurnOrder {
        TurnOrder::Any
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        if streamed { Box::<stream::Stream>::default() } else { Box::<response::Whole>::default() }
    }
}

impl Provider for Cohere {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        SPEC.base_url(account)
    }

    /// Each path has its own version, so a version at the end of a custom host (as Cohere's clients write it) is
    /// removed.
    fn base_path<'a>(&self, _call: &Call<'_>, _account: &Account, path: &'a str) -> &'a str {
        path.strip_suffix("/v1").or(path.strip_suffix("/v2")).unwrap_or(path)
    }

    fn path(&self, call: &Call<'_>, _account: &Account) -> Result<String, Error> {
        if has_dot_segment(call.path) {
            let message = "The path must not contain '.' or '..' as a segment.";
            return Err(Error::bad_request(message).with_provider(SPEC.id));
        }
        let query = call.query.map(|query| format!("?{query}")).unwrap_or_default();
        Ok(match call.operation {
            // The query of another dialect (`?beta=true`) means nothing to Cohere.
            Operation::ChatCompletions => "/v2/chat".to_owned(),
            Operation::Embeddings => "/v2/embed".to_owned(),
            Operation::Rerank => "/v2/rerank".to_owned(),
            Operation::Transcriptions => format!("/v2/audio/transcriptions{query}"),
            // The default is 20 models a page, the maximum 1000.
            Operation::Models if call.query.is_none() => "/v1/models?page_size=1000".to_owned(),
            _ if call.path.starts_with("v1/") || call.path.starts_with("v2/") => {
                format!("/{}{query}", call.path)
            }
            _ => format!("/v1/{}{query}", call.path),
        })
    }

    fn adapter(&self, call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        match call.operation {
            // Cohere counts no tokens: they are estimated.
            Operation::CountTokens => Ok(Adapter::Chat(&CohereChat)),
            operation if operation.is_chat() => Ok(Adapter::Chat(&CohereChat)),
            Operation::Embeddings => Ok(Adapter::Json(&embed::Embed)),
            Operation::Rerank => Ok(Adapter::Json(&rerank::Rerank)),
            Operation::Models => Ok(Adapter::Json(&models::Models)),
            Operation::ModelsGet => Ok(Adapter::Json(&models::OneModel)),
            Operation::Transcriptions | Operation::Passthrough => Ok(Adapter::Passthrough(None)),
            operation if operation.is_stored_response() => Err(SPEC.no_stored_responses(call)),
            other => {
                let message = format!("cohere has no {}. Choose another provider.", other.label());
                Err(Error::not_implemented(message).with_provider(SPEC.id))
            }
        }
    }

    fn authorize(&self, _call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        Key::BEARER.write(SPEC.id, account, headers)
    }
}

#[cfg(test)]
mod tests;
