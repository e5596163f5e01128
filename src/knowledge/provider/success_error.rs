//! The error inside a response with a success status that is in the client's own dialect, and the status it means.
//!
//! Errors of other dialects are read by their decoders, and bodies with an error status by [`ProviderError::read`].

use super::{anthropic, openai_chat};
use serde::Deserialize;
use words::api::Dialect;
use words::api::chat::ProviderError;

/// Reads a whole response, or the data of an event, that is known to hold an error.
pub fn read(dialect: Dialect, body: &[u8]) -> ProviderError {
    let text = std::str::from_utf8(body).unwrap_or_default();
    match dialect {
        Dialect::Anthropic => anthropic::error_in_success(text),
        Dialect::Google => google(text),
        Dialect::OpenAi | Dialect::Responses | Dialect::Mcp => openai_chat::error_in_success(text),
    }
}

/// Reads a whole response that is no result of its operation: the error that it is, if it is one.
pub fn instead_of_result(dialect: Dialect, body: &[u8]) -> Option<ProviderError> {
    match dialect {
        Dialect::OpenAi | Dialect::Responses => {
            openai_chat::error_instead_of_result(std::str::from_utf8(body).ok()?)
        }
        // Theirs have a type or a member that is read as an error wherever it is.
        Dialect::Anthropic | Dialect::Google | Dialect::Mcp => None,
    }
}

/// Google's error object has the status in it.
fn google(text: &str) -> ProviderError {
    #[derive(Deserialize)]
    struct Outer {
        error: Option<Inner>,
    }
    #[derive(Deserialize)]
    struct Inner {
        code: Option<u16>,
    }
    let code = serde_json::from_str::<Outer>(text).ok().and_then(|outer| outer.error?.code);
    ProviderError::read(code.filter(|code| (400..600).contains(code)).unwrap_or(502), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn googles_errors_have_their_status() {
        let error = read(Dialect::Google, br#"{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}"#);
        assert_eq!((error.status, error.message.as_str()), (503, "no"));
        assert_eq!(read(Dialect::Google, br#"{"error":{"code":200}}"#).status, 502);
    }

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
