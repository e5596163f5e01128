//! The providers: where each vendor's API is, how requests are sent to it and how its key is sent.
//!
//! Pure: a provider only *describes*. It opens no socket, reads no clock and knows no session. Vendors with a
//! format of their own have a folder here that translates it.
//!
//! Even a token exchange is a value: it says which request comes next, and `state::credentials` sends it, keeps the `Credentials`
//! it yields and refreshes them before they expire. `translation` pairs the client's operation with one of three adapters
//! (`adapter`), once, when the attempt is prepared. Gemini's operations that are no chat become OpenAI's or Anthropic's first
//! where the provider has not Gemini's API (`reshape`).

pub mod adapter;
pub mod anthropic;
pub mod azure;
pub mod batch_jobs;
mod bearer_token;
pub mod bedrock;
mod bounded_body;
mod call_ids;
mod claude_code;
pub mod client_credentials;
pub mod cohere;
pub mod compaction;
mod conversation;
pub mod credential_mask;
mod deferred_tools;
pub mod embeddings;
mod encrypted_thinking;
pub mod engine_metrics;
pub mod fine_tuning;
mod fitting;
pub mod gemini;
pub mod google;
pub mod key;
pub mod mcp;
pub(crate) mod openai_chat;
pub(crate) mod openai_compatible;
mod openai_models;
mod openai_responses;
mod output_bound;
mod patching;
pub mod plain_call;
pub mod prompt_cache;
pub mod prompt_marks;
#[expect(clippy::module_inception, reason = "the main type of the room, named as its file")]
mod provider;
pub mod request_id;
pub mod rerank;
pub mod rescue;
mod reshape;
pub mod responses_only;
pub mod rewriter;
mod self_hosted;
pub mod spec;
mod spelling;
mod stream_usage;
mod string_members;
pub mod subject_exchange;
pub mod success_error;
pub mod token_exchange;
pub(crate) mod tool_names;
pub mod translation;
pub mod translation_notes;
mod turn_order;
mod vendor_host;
mod vendor_members;
pub mod vertex;
mod web_tools;
pub(crate) mod workers_ai;

pub use provider::{Call, Provider, Signing};
pub use vendor_members::is_listed as is_listed_member;

use std::borrow::Cow;
use words::config::account::Account;
use words::config::read::nearest;
use words::error::Error;

/// The vendors with code of their own; all others are data in `openai_compatible`.
static NATIVE: &[&dyn Provider] = &[
    &anthropic::Anthropic,
    &azure::AzureAi,
    &azure::AzureOpenAi,
    &bedrock::Bedrock,
    &cohere::Cohere,
    &google::Google,
    &vertex::Vertex,
    &workers_ai::WorkersAi,
];

/// Finds a provider by its identifier or an alias. The search is linear: for compiling a config, not for
/// every request.
pub fn find(id: &str) -> Option<&'static dyn Provider> {
    let native =
        NATIVE.iter().copied().find(|provider| provider.id() == id || provider.aliases().contains(&id));
    native.or_else(|| openai_compatible::find(id).map(|spec| spec as &'static dyn Provider))
}

/// Every provider id, for error texts and docs.
pub fn ids() -> impl Iterator<Item = &'static str> {
    let native = NATIVE.iter().map(|provider| provider.id());
    native.chain(openai_compatible::SPECS.iter().map(|spec| spec.id))
}

/// Every name of a provider that clients and settings may use: ids and aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    let native = NATIVE
        .iter()
        .flat_map(|provider| [provider.id()].into_iter().chain(provider.aliases().iter().copied()));
    native.chain(openai_compatible::names())
}

/// Checks whether the named provider could authenticate with this account, as far as that is known without a
/// request. Unknown names are reported elsewhere.
///
/// # Errors
/// As [`Provider::token_exchange`].
pub fn check_account(name: &str, account: &Account) -> Result<(), Error> {
    let Some(provider) = find(name) else { return Ok(()) };
    provider.token_exchange(account).map(drop)
}

/// Whether there is this provider. Not for slugs of stored ones.
///
/// # Errors
/// The error text for an unknown name.
pub fn check_name(name: &str) -> Result<(), String> {
    find(name).map(drop).ok_or_else(|| unknown(name))
}

/// The error text for an unknown provider name.
pub fn unknown(name: &str) -> String {
    let supported: Vec<&str> = ids().collect();
    match nearest(&supported, name) {
        Some(near) => format!("is not a provider this gateway knows; did you mean {near}?"),
        None => "is not a provider this gateway knows; docs/providers.md lists them.".to_owned(),
    }
}

/// The whole URL of a call: custom host or base URL, path, query. Does not check whether the custom host is
/// allowed.
///
/// # Errors
/// As [`Provider::base_url`] and [`Provider::path`].
pub fn url(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<String, Error> {
    let base = match &account.custom_host {
        Some(host) => Cow::Borrowed(host.as_str()),
        None => match provider.other_base_url(call, account)? {
            Some(base) => base,
            None => provider.base_url(account)?,
        },
    };
    let base = base.trim_end_matches('/');
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base.get(authority..).and_then(|rest| rest.find('/')).map_or(base.len(), |at| authority + at);
    let (origin, path) = base.split_at_checked(end).unwrap_or((base, ""));
    let path = provider.base_path(call, account, path);
    Ok(format!("{origin}{path}{}", provider.path(call, account)?))
}

#[cfg(test)]
mod goldens;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod prefixes;
#[cfg(test)]
mod round_trips;
#[cfg(test)]
mod sent_members;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod working_memory;
