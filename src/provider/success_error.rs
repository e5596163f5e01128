//! The error inside a response with a success status that is in the client's own dialect, and the status it means.
//!
//! Errors of other dialects are read by their decoders, and bodies with an error status by [`ProviderError::read`].

use super::{anthropic, openai_chat};
use crate::api::Dialect;
use crate::api::chat::ProviderError;

/// Reads a whole response, or the data of an event, that is known to hold an error.
pub fn read(dialect: Dialect, body: &[u8]) -> ProviderError {
    let text = std::str::from_utf8(body).unwrap_or_default();
    match dialect {
        Dialect::Anthropic => anthropic::error_in_success(text),
        Dialect::OpenAi | Dialect::Responses => openai_chat::error_in_success(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_one_the_error_means() {
        let error = |kind: &str| format!("{{\"error\":{{\"message\":\"no\",\"type\":\"{kind}\"}}}}");
        for (dialect, kind, status) in [
            (Dialect::OpenAi, "rate_limit_error", 429),
            (Dialect::OpenAi, "unknown", 502),
            (Dialect::Responses, "invalid_request_error", 400),
            (Dialect::Anthropic, "overloaded_error", 529),
            (Dialect::Anthropic, "unknown", 500),
        ] {
            let error = read(dialect, error(kind).as_bytes());
            assert_eq!((error.status, error.message.as_str()), (status, "no"), "{dialect:?} {kind}");
        }
    }
}
