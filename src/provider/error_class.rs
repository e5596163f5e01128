//! Classifies provider errors where the class decides which attempt comes next.
//!
//! Based on the error codes and phrases that providers are known to use. It does not change the error that
//! the client gets: that stays the provider's own.

use crate::api::chat::ProviderError;

/// What kind of failure a provider error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorClass {
    #[default]
    Other,
    /// The request exceeds the model's context window; a model with a larger one may accept it.
    ContextTooLong,
    /// The provider refused the content. Retrying elsewhere would evade the filter.
    ContentFiltered,
}

/// Error codes and types, in lower case.
const CODES: [(&str, ErrorClass); 13] = [
    // OpenAI, Azure, Groq, Together, DeepSeek, xAI.
    ("context_length_exceeded", ErrorClass::ContextTooLong),
    ("string_above_max_length", ErrorClass::ContextTooLong),
    // Cerebras, Mistral, Fireworks.
    ("context_window_exceeded", ErrorClass::ContextTooLong),
    ("model_context_window_exceeded", ErrorClass::ContextTooLong),
    ("exceed_context_size_error", ErrorClass::ContextTooLong),
    ("prompt_too_long", ErrorClass::ContextTooLong),
    // OpenAI; Azure; xAI and others.
    ("content_policy_violation", ErrorClass::ContentFiltered),
    ("content_filter", ErrorClass::ContentFiltered),
    ("responsibleaipolicyviolation", ErrorClass::ContentFiltered),
    ("moderation_blocked", ErrorClass::ContentFiltered),
    ("content_blocked", ErrorClass::ContentFiltered),
    // Alibaba.
    ("data_inspection_failed", ErrorClass::ContentFiltered),
    ("invalid_prompt", ErrorClass::ContentFiltered),
];

/// Parts of error messages, in lower case, for providers without a specific code.
const MESSAGE_PHRASES: [(&str, ErrorClass); 17] = [
    // Anthropic ("prompt is too long: 210000 tokens > 200000 maximum").
    ("prompt is too long", ErrorClass::ContextTooLong),
    ("input length and `max_tokens` exceed context limit", ErrorClass::ContextTooLong),
    // OpenAI's sentence, copied by many others.
    ("maximum context length", ErrorClass::ContextTooLong),
    ("context_length_exceeded", ErrorClass::ContextTooLong),
    // Gemini ("The input token count (…) exceeds the maximum number of tokens allowed").
    ("exceeds the maximum number of tokens", ErrorClass::ContextTooLong),
    // Bedrock.
    ("input is too long for requested model", ErrorClass::ContextTooLong),
    ("too many input tokens", ErrorClass::ContextTooLong),
    // Mistral ("… too large for model with … maximum context length"); Cohere.
    ("too large for model", ErrorClass::ContextTooLong),
    ("too many tokens", ErrorClass::ContextTooLong),
    // llama.cpp, LM Studio.
    ("exceeds the available context size", ErrorClass::ContextTooLong),
    ("greater than the context length", ErrorClass::ContextTooLong),
    ("context window", ErrorClass::ContextTooLong),
    // Anthropic ("Output blocked by content filtering policy").
    ("content filtering policy", ErrorClass::ContentFiltered),
    ("content management policy", ErrorClass::ContentFiltered),
    ("safety system", ErrorClass::ContentFiltered),
    ("content policy", ErrorClass::ContentFiltered),
    // OpenRouter's 403.
    ("flagged by moderation", ErrorClass::ContentFiltered),
];

impl ErrorClass {
    /// Classifies the body of an error response. Only statuses 400, 403, 413 and 422 carry such errors.
    pub fn classify(status: u16, body: &[u8]) -> Self {
        if !matches!(status, 400 | 403 | 413 | 422) {
            return Self::Other;
        }
        let error = ProviderError::read(status, body);
        let coded = [&error.code, &error.kind].into_iter().flatten().find_map(|code| {
            let code = code.to_ascii_lowercase();
            CODES.iter().find(|(listed, _)| *listed == code)
        });
        if let Some((_, class)) = coded {
            return *class;
        }
        let message = error.message.to_ascii_lowercase();
        MESSAGE_PHRASES
            .iter()
            .find(|(phrase, _)| message.contains(phrase))
            .map_or(Self::Other, |(_, class)| *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_errors_are_classified() {
        let rows: &[(u16, &str, ErrorClass)] = &[
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                ErrorClass::ContextTooLong,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210001 tokens > 200000 maximum"}}"#,
                ErrorClass::ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                ErrorClass::ContextTooLong,
            ),
            (400, r#"{"message":"Input is too long for requested model."}"#, ErrorClass::ContextTooLong),
            (
                400,
                r#"{"error":{"message":"Your request was rejected by our safety system.","code":"content_policy_violation"}}"#,
                ErrorClass::ContentFiltered,
            ),
            (
                400,
                r#"{"error":{"message":"The response was filtered","code":"content_filter","status":400}}"#,
                ErrorClass::ContentFiltered,
            ),
            (400, r#"{"error":{"message":"Unknown model","code":"model_not_found"}}"#, ErrorClass::Other),
            (500, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ErrorClass::Other),
            (400, "", ErrorClass::Other),
        ];
        for (status, body, class) in rows {
            assert_eq!(ErrorClass::classify(*status, body.as_bytes()), *class, "{body}");
        }
    }
}
