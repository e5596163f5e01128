//! Errors that vendors document, with each vendor's own message: a router must classify them by more than a
//! status.
//!
//! Not the emulator's own errors for invalid requests (`reply`).

use super::reply::Dialect;
use http::StatusCode;
use serde_json::{Value, json};

/// Why a vendor refuses this prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublishedError {
    /// The prompt is longer than the model's context.
    ContextLength,
    /// The prompt or the response violates the vendor's content policy.
    ContentFilter,
    /// The model does not continue an assistant's message.
    Prefill,
    /// It does, but not one that ends in white space.
    TrailingSpace,
}

impl PublishedError {
    /// The values of `error=NAME`.
    pub(super) const NAMES: [(&'static str, Self); 2] =
        [("context_length", Self::ContextLength), ("content_filter", Self::ContentFilter)];

    /// The status and body. Gemini returns 200 without candidates for a blocked prompt.
    pub(super) fn status_and_body(self, dialect: Dialect) -> (StatusCode, Value) {
        if (self, dialect) == (Self::ContentFilter, Dialect::Gemini) {
            let feedback = json!({
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
                "modelVersion": "emulator",
            });
            return (StatusCode::OK, feedback);
        }
        let status = StatusCode::BAD_REQUEST;
        let (param, code) = match self {
            Self::ContextLength => (Some("messages"), Some("context_length_exceeded")),
            Self::ContentFilter => (Some("prompt"), Some("content_filter")),
            Self::Prefill | Self::TrailingSpace => (Some("messages"), None),
        };
        (status, dialect.error(status, self.message(dialect), param, code))
    }

    /// Sources: the vendors' error pages and the messages their APIs are known to return.
    fn message(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::ContextLength, Dialect::OpenAi) => {
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens. \
                 Please reduce the length of the messages."
            }
            (Self::ContextLength, Dialect::Anthropic) => "prompt is too long: 210000 tokens > 200000 maximum",
            (Self::ContextLength, Dialect::Gemini) => {
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
            }
            (Self::ContextLength, Dialect::Bedrock) => "Input is too long for requested model.",
            (Self::ContextLength, Dialect::Cohere) => {
                "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 200000. Try \
                 using a shorter prompt, or enable prompt truncating."
            }
            (Self::ContentFilter, Dialect::OpenAi | Dialect::Gemini) => {
                "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. \
                 Please modify your prompt and retry."
            }
            (Self::ContentFilter, Dialect::Anthropic | Dialect::Bedrock) => {
                "Output blocked by content filtering policy"
            }
            (Self::ContentFilter, Dialect::Cohere) => "blocked input: please edit the prompt and try again.",
            (Self::Prefill, _) => {
                "This model does not support assistant message prefill. The conversation must end with a user message."
            }
            (Self::TrailingSpace, _) => {
                "messages: final assistant content cannot end with trailing whitespace"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_has_its_own_message() {
        for (published, dialect, status, pointer, message) in [
            (PublishedError::ContextLength, Dialect::OpenAi, 400, "/error/code", "context_length_exceeded"),
            (PublishedError::ContextLength, Dialect::Anthropic, 400, "/error/message", "prompt is too long"),
            (PublishedError::ContextLength, Dialect::Gemini, 400, "/error/status", "INVALID_ARGUMENT"),
            (PublishedError::ContextLength, Dialect::Bedrock, 400, "/message", "Input is too long"),
            (PublishedError::ContextLength, Dialect::Cohere, 400, "/message", "too many tokens"),
            (PublishedError::ContentFilter, Dialect::OpenAi, 400, "/error/code", "content_filter"),
            (PublishedError::ContentFilter, Dialect::Anthropic, 400, "/error/type", "invalid_request_error"),
            (
                PublishedError::ContentFilter,
                Dialect::Gemini,
                200,
                "/promptFeedback/blockReason",
                "PROHIBITED",
            ),
            (
                PublishedError::Prefill,
                Dialect::Anthropic,
                400,
                "/error/message",
                "does not support assistant",
            ),
        ] {
            let (actual_status, body) = published.status_and_body(dialect);
            assert_eq!(actual_status, status, "{published:?} {dialect:?}");
            let found = body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            assert!(
                found.starts_with(message) || found.contains(message),
                "{published:?} {dialect:?}: {body}"
            );
        }
    }
}
