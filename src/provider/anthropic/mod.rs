//! Anthropic: `POST /v1/messages` and every other path of its API, with the headers it wants.
//!
//! Not a translation. Until that is built, `chat/completions` goes to Anthropic's own OpenAI-compatible
//! endpoint, which its documentation offers for trying things out, not for production.

pub mod chat;
pub mod stream;
pub mod whole;

pub use chat::AnthropicChat;
pub use stream::Events;

use super::key::Key;
use super::row::{CustomHost, Host, Row, Value};
use super::{Call, Provider};
use crate::api::operation::Operation;
use crate::config::account::Account;
use crate::error::Error;
use http::HeaderMap;
use std::borrow::Cow;

/// The vendor. Only how the key is shown needs a decision; the rest is its row.
#[derive(Debug)]
pub struct Anthropic;

/// Sources: <https://platform.claude.com/docs/en/api/overview> (`x-api-key`, `anthropic-version`) and
/// <https://platform.claude.com/docs/en/cli-sdks-libraries/libraries/openai-sdk.md> (compatible endpoint).
/// `anthropic-beta` is the caller's alone: the reference's default (`messages-2023-12-15`) is long retired.
pub static ROW: Row = Row {
    id: "anthropic",
    host: Host::Fixed("https://api.anthropic.com"),
    custom_host: CustomHost::Before("/v1"),
    key: Key { header: "x-api-key", prefix: "", required: true },
    headers: &[("anthropic-version", Value::Default("2023-06-01"))],
    note: "chat/completions goes to Anthropic's own compatible endpoint with a bearer key",
    source: "https://platform.claude.com/docs/en/api/overview",
    ..Row::PLAIN
};

impl Provider for Anthropic {
    fn id(&self) -> &'static str {
        ROW.id
    }

    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error> {
        ROW.base_url(account)
    }

    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error> {
        ROW.path(call, account)
    }

    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
        // An API key sent as a bearer to a native endpoint is "Invalid bearer token", an OAuth token in
        // x-api-key is "invalid x-api-key", and the compatible endpoint documents bearers only.
        let oauth = account.api_key.as_ref().is_some_and(|key| key.expose().starts_with("sk-ant-oat"));
        let bearer = oauth || call.operation == Operation::ChatCompletions;
        let key = if bearer { Key::BEARER } else { ROW.key };
        key.write(ROW.id, account, headers)?;
        ROW.write_headers(account, headers)
    }
}
