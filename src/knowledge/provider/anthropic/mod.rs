//! Anthropic: its address and headers, and the translation of all chats into `POST /v1/messages`.
//!
//! Requests to `/v1/messages` and to Anthropic's other paths (batches, files, token counting) are passed
//! through.

mod batch_jobs;
pub(super) mod beta_host;
pub mod betas;
mod blocks;
pub mod chat;
mod event_emitter;
pub(super) mod format;
pub(super) mod generation;
mod listing;
mod passed_on;
pub(super) mod request;
pub(super) mod sampling;
pub(super) mod schema;
pub mod stream;
pub(super) mod thinking;
pub(super) mod tools;
mod turns;
pub mod whole;

pub use beta_host::BetaHost;
pub(crate) use chat::AnthropicChat;
pub(super) use event_emitter::provider_error as error_in_success;
pub(super) use passed_on::edits;
pub use stream::Events;

use super::adapter::{Adapter, CallTarget};
use super::batch_jobs::BatchJobs;
use super::key::Key;
use super::rescue::Prefill;
use super::spec::{CustomHost, Host, ProviderSpec, Value};
use super::translation_notes::TranslationNotes;
use super::{Call, Provider};
use http::HeaderMap;
use std::borrow::Cow;
use words::api::Dialect;
use words::api::body::{Body, Edit};
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// The provider `anthropic`. Only the auth header needs code; the rest is in its spec.
#[derive(Debug)]
pub struct Anthropic;

/// Source: <https://platform.claude.com/docs/en/api/overview> (`x-api-key`, `anthropic-version`).
/// `anthropic-beta` is left to the client and to what a request's content demands; Portkey's default (`messages-2023-12-15`) is long
/// retired.
pub static SPEC: ProviderSpec = ProviderSpec {
    id: "anthropic",
    host: Host::Fixed("https://api.anthropic.com"),
    custom_host: CustomHost::Prefixed("/v1"),
    key: Key { header: "x-api-key", prefix: "", required: true },
    headers: &[("anthropic-version", Value::Default("2023-06-01"))],
    note: "chats of every dialect become messages; an OAuth token is sent as bearer",
    source: "https://platform.claude.com/docs/en/api/overview",
    ..ProviderSpec::PLAIN
};

static CHAT: AnthropicChat = AnthropicChat::OWN;

impl Provider for Anthropic {
    fn id(&self) -> &'static str {
        SPEC.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        SPEC.base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        if call.operation == Operation::Models && call.query.is_none() {
            // Without it Anthropic lists the first twenty.
            return SPEC.path(&Call { query: Some("limit=1000"), ..*call }, account);
        }
        if call.operation != Operation::ChatCompletions {
            return SPEC.path(call, account);
        }
        let messages = Call { operation: Operation::Messages, path: "messages", ..*call };
        SPEC.path(&messages, account)
    }

    fn adapter(&self, call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        Ok(match call.operation {
            Operation::ChatCompletions
            | Operation::Completions
            | Operation::Responses
            | Operation::ResponsesCompact => Adapter::Chat(&CHAT),
            operation if operation.is_gemini_chat() => Adapter::Chat(&CHAT),
            Operation::Models => Adapter::Json(&listing::Listing),
            Operation::ModelsGet => Adapter::Json(&listing::Single),
            _ => Adapter::Passthrough(None),
        })
    }

    fn edits(
        &self,
        body: &Body,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        match target.call.operation {
            Operation::Messages | Operation::CountTokens => edits(body, BetaHost::Own, notes),
            _ => Ok(Vec::new()),
        }
    }

    fn takes_anthropic_version(&self, operation: Operation) -> bool {
        !matches!(
            operation,
            Operation::ChatCompletions
                | Operation::Completions
                | Operation::Responses
                | Operation::ResponsesCompact
        ) && operation.dialect() != Dialect::Google
    }

    fn beta_host(&self, _operation: Operation, _model: &str) -> Option<BetaHost> {
        Some(BetaHost::Own)
    }

    fn batch_jobs(&self) -> Option<&'static dyn BatchJobs> {
        Some(&batch_jobs::MessageBatches)
    }

    fn prefill(&self, model: &str) -> Prefill {
        generation::Generation::from_model(model).prefill()
    }

    fn authorize(&self, _call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        // The API refuses an API key sent as a bearer ("Invalid bearer token") and an OAuth token in
        // x-api-key ("invalid x-api-key").
        let oauth = account.api_key.as_ref().is_some_and(|key| key.expose().starts_with("sk-ant-oat"));
        let key = if oauth { Key::BEARER } else { SPEC.key };
        key.write(SPEC.id, account, headers)?;
        SPEC.write_headers(account, headers)
    }
}

#[cfg(test)]
mod tests;
