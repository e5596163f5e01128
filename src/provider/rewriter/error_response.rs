//! An answer with a failing status, on its way to the caller: whose words it is in. Not what it says: that is
//! read by `api::chat::fault`.

use crate::api::Dialect;
use crate::api::chat::Text;
use serde::Deserialize;

/// An answer with a failing status: its words are kept, its shape becomes the caller's where it is not.
#[derive(Debug, Clone)]
pub struct ErrorResponseTranslation {
    pub status: u16,
    pub dialect: Dialect,
    pub provider: &'static str,
    pub trace_id: String,
}

/// The largest error body read, bytes.
pub(super) const MAX_ERROR_BODY: usize = 1 << 20;

/// Whether an error body is in the caller's dialect already.
pub(super) fn is_in_dialect(dialect: Dialect, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        error: Option<Inner<'a>>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        message: Option<Text<'a>>,
        /// Google's, which has a message as OpenAI's has, and else nothing of it.
        status: Option<Text<'a>>,
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
