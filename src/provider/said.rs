//! What a provider's refusal means, where that decides what is tried next.
//!
//! By the codes and words providers are known to use. Not what the caller is told: that stays the
//! provider's own.

use crate::api::chat::ProviderError;

/// The meaning of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Said {
    #[default]
    Nothing,
    /// The model's context is too short for the request: a larger model may do.
    TooLong,
    /// The provider will not talk about this: going elsewhere would be evasion.
    Refused,
}

/// Codes and types, lower case.
const CODES: [(&str, Said); 13] = [
    // OpenAI, Azure, Groq, Together, DeepSeek, xAI.
    ("context_length_exceeded", Said::TooLong),
    ("string_above_max_length", Said::TooLong),
    // Cerebras, Mistral, Fireworks.
    ("context_window_exceeded", Said::TooLong),
    ("model_context_window_exceeded", Said::TooLong),
    ("exceed_context_size_error", Said::TooLong),
    ("prompt_too_long", Said::TooLong),
    // OpenAI; Azure; xAI and others.
    ("content_policy_violation", Said::Refused),
    ("content_filter", Said::Refused),
    ("responsibleaipolicyviolation", Said::Refused),
    ("moderation_blocked", Said::Refused),
    ("content_blocked", Said::Refused),
    // Alibaba.
    ("data_inspection_failed", Said::Refused),
    ("invalid_prompt", Said::Refused),
];

/// Parts of messages, lower case, for providers that have no code for it.
const WORDS: [(&str, Said); 17] = [
    // Anthropic ("prompt is too long: 210000 tokens > 200000 maximum").
    ("prompt is too long", Said::TooLong),
    ("input length and `max_tokens` exceed context limit", Said::TooLong),
    // OpenAI's sentence, which many repeat.
    ("maximum context length", Said::TooLong),
    ("context_length_exceeded", Said::TooLong),
    // Gemini ("The input token count (…) exceeds the maximum number of tokens allowed").
    ("exceeds the maximum number of tokens", Said::TooLong),
    // Bedrock.
    ("input is too long for requested model", Said::TooLong),
    ("too many input tokens", Said::TooLong),
    // Mistral ("… too large for model with … maximum context length"); Cohere.
    ("too large for model", Said::TooLong),
    ("too many tokens", Said::TooLong),
    // llama.cpp, LM Studio.
    ("exceeds the available context size", Said::TooLong),
    ("greater than the context length", Said::TooLong),
    ("context window", Said::TooLong),
    // Anthropic ("Output blocked by content filtering policy").
    ("content filtering policy", Said::Refused),
    ("content management policy", Said::Refused),
    ("safety system", Said::Refused),
    ("content policy", Said::Refused),
    // OpenRouter's 403.
    ("flagged by moderation", Said::Refused),
];

impl Said {
    /// Reads a failing answer's body. Only 400, 403, 413 and 422 say such things.
    pub fn read(status: u16, body: &[u8]) -> Self {
        if !matches!(status, 400 | 403 | 413 | 422) {
            return Self::Nothing;
        }
        let fault = ProviderError::read(status, body);
        let coded = [&fault.code, &fault.kind].into_iter().flatten().find_map(|code| {
            let code = code.to_ascii_lowercase();
            CODES.iter().find(|(known, _)| *known == code)
        });
        if let Some((_, said)) = coded {
            return *said;
        }
        let message = fault.message.to_ascii_lowercase();
        WORDS.iter().find(|(words, _)| message.contains(words)).map_or(Self::Nothing, |(_, said)| *said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_understood() {
        let rows: &[(u16, &str, Said)] = &[
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                Said::TooLong,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210001 tokens > 200000 maximum"}}"#,
                Said::TooLong,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                Said::TooLong,
            ),
            (400, r#"{"message":"Input is too long for requested model."}"#, Said::TooLong),
            (
                400,
                r#"{"error":{"message":"Your request was rejected by our safety system.","code":"content_policy_violation"}}"#,
                Said::Refused,
            ),
            (
                400,
                r#"{"error":{"message":"The response was filtered","code":"content_filter","status":400}}"#,
                Said::Refused,
            ),
            (400, r#"{"error":{"message":"Unknown model","code":"model_not_found"}}"#, Said::Nothing),
            (500, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, Said::Nothing),
            (400, "", Said::Nothing),
        ];
        for (status, body, said) in rows {
            assert_eq!(Said::read(*status, body.as_bytes()), *said, "{body}");
        }
    }
}
