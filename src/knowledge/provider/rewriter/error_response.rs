//! Translates a response with an error status into the client's dialect. The error itself is read by
//! `api::chat::provider_error`, and its words are found by `api::error_names`.
//!
//! A failure passes four files: `ProviderError::read` reads any vendor's format, `api::error_class` says what kind of failure it
//! is (for the plan too), `api::error_names` has the `type` and `code` of each dialect, and here, in the encoders and in
//! `openai_chat/patch` bodies and events are written. A failure of the gateway's own is a `ProviderError` with `gateway` set, and
//! keeps its own codes.

use serde::Deserialize;
use words::api::Dialect;
use words::api::chat::ProviderError;
use words::api::error_names::{with_anthropic_names, with_openai_names};
use words::json::{Json, JsonStr};

/// A response with an error status. Its message is kept; its shape and its words are changed where they are not those of
/// the client's dialect.
#[derive(Debug, Clone)]
pub struct ErrorResponseTranslation {
    pub status: u16,
    pub dialect: Dialect,
    pub provider: &'static str,
    /// The id of the request, as the response's header names it.
    pub request_id: String,
    /// The error's type, where the header has it.
    pub kind: Option<String>,
}

impl ErrorResponseTranslation {
    /// Writes the client's body for the provider's. Returns the error.
    pub(super) fn write(&self, body: &[u8], out: &mut Vec<u8>) -> ProviderError {
        let error = ProviderError::read(self.status, body).or_kind(self.kind.as_deref());
        if is_in_dialect(self.dialect, body) {
            match self.with_names(body, &error) {
                Some(changed) => out.extend_from_slice(&changed),
                None => out.extend_from_slice(body),
            }
        } else {
            let body = error.body(self.dialect, Some(self.provider), Some(&self.request_id));
            out.extend_from_slice(&body);
        }
        error
    }

    /// A body in the client's dialect with the dialect's words; `None` if it stays as it is. The dialects' own vendors
    /// are never corrected.
    fn with_names(&self, body: &[u8], error: &ProviderError) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(body).ok()?.trim();
        match (self.dialect, self.provider) {
            (Dialect::OpenAi | Dialect::Responses, "openai") | (Dialect::Anthropic, "anthropic") => None,
            // Only Google has Google's shape, and JSON-RPC has no vendors.
            (Dialect::Google | Dialect::Mcp, _) => None,
            (Dialect::OpenAi | Dialect::Responses, _) => with_openai_names(text, error),
            (Dialect::Anthropic, _) => with_anthropic_names(text, error, Some(&self.request_id)),
        }
    }
}

/// The largest error body read, in bytes.
pub(super) const MAX_ERROR_BODY: usize = 1 << 20;

/// Whether an error body already has the shape of the client's dialect.
fn is_in_dialect(dialect: Dialect, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        error: Option<Inner<'a>>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        message: Option<JsonStr<'a>>,
        /// Present in Google's errors, which have a `message` like OpenAI's but are otherwise different.
        status: Option<JsonStr<'a>>,
        code: Option<Json<'a>>,
    }
    let Ok(outer) = serde_json::from_slice::<Outer<'_>>(body) else { return false };
    let Some(error) = outer.error else { return false };
    match dialect {
        Dialect::OpenAi | Dialect::Responses => {
            error.message.is_some() && outer.kind.is_none() && error.status.is_none()
        }
        Dialect::Google => {
            let has_code = error.code.is_some_and(|code| code.read::<u16>().is_some());
            error.message.is_some() && error.status.is_some() && has_code
        }
        Dialect::Mcp => {
            error.message.is_some() && error.code.is_some_and(|code| code.read::<i64>().is_some())
        }
        Dialect::Anthropic => {
            outer.kind.as_deref() == Some("error") && error.message.is_some() && error.kind.is_some()
        }
    }
}

#[cfg(test)]
mod tests;
