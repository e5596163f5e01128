//! Translates a response with an error status into the client's dialect. The error itself is read by
//! `api::chat::provider_error`.

use crate::api::Dialect;
use crate::json::JsonStr;
use serde::Deserialize;

/// A response with an error status. Its message is kept; its shape is changed where it is not the client's.
#[derive(Debug, Clone)]
pub struct ErrorResponseTranslation {
    pub status: u16,
    pub dialect: Dialect,
    pub provider: &'static str,
    pub trace_id: String,
}

/// The largest error body read, in bytes.
pub(super) const MAX_ERROR_BODY: usize = 1 << 20;

/// Whether an error body already has the shape of the client's dialect.
pub(super) fn is_in_dialect(dialect: Dialect, body: &[u8]) -> bool {
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
    }
    let Ok(outer) = serde_json::from_slice::<Outer<'_>>(body) else { return false };
    let Some(error) = outer.error else { return false };
    match dialect {
        Dialect::OpenAi | Dialect::Responses => {
            error.message.is_some() && outer.kind.is_none() && error.status.is_none()
        }
        Dialect::Anthropic => {
            outer.kind.as_deref() == Some("error") && error.message.is_some() && error.kind.is_some()
        }
    }
}
