//! Classifies providers' errors by the codes, types and phrases that vendors are known to use.
//!
//! The class decides which attempt comes next (`route`) and which words a client reads ([`super::error_names`]).
//! It changes nothing about the error itself.

use super::chat::ProviderError;

/// What kind of failure a provider error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorClass {
    /// A request that the provider refuses for another reason.
    #[default]
    Other,
    /// The request exceeds the model's context window; a model with a larger one may accept it.
    ContextTooLong,
    /// The provider refused the content. Retrying elsewhere would evade the filter.
    ContentFiltered,
    /// No key, or one that is wrong, expired or not for this provider.
    InvalidKey,
    /// The key is known and may not do this.
    PermissionDenied,
    /// The account has no credit, or its budget is used up: waiting a moment does not help.
    QuotaExceeded,
    /// Too many requests or tokens in a short time.
    RateLimited,
    ModelNotFound,
    /// Something other than a model does not exist.
    NotFound,
    RequestTooLarge,
    TimedOut,
    Overloaded,
    ServerError,
}

use ErrorClass::{
    ContentFiltered, ContextTooLong, InvalidKey, ModelNotFound, NotFound, Other, Overloaded,
    PermissionDenied, QuotaExceeded, RateLimited, RequestTooLarge, ServerError, TimedOut,
};

/// Error codes and types, in lower case, without the `exception` at the end that AWS's have.
const CODES: [(ErrorClass, &[&str]); 12] = [
    (
        ContextTooLong,
        &[
            // OpenAI, Azure, Groq, Together, DeepSeek, xAI.
            "context_length_exceeded",
            "string_above_max_length",
            // Cerebras, Mistral, Fireworks; GitHub.
            "context_window_exceeded",
            "model_context_window_exceeded",
            "exceed_context_size_error",
            "prompt_too_long",
            "tokens_limit_reached",
        ],
    ),
    (
        ContentFiltered,
        &[
            // OpenAI; Azure; xAI and others.
            "content_policy_violation",
            "content_filter",
            "responsibleaipolicyviolation",
            "moderation_blocked",
            "content_blocked",
            "image_content_policy_violation",
            "bio_policy",
            // Alibaba.
            "data_inspection_failed",
            "datainspectionfailed",
            "invalid_prompt",
        ],
    ),
    (
        InvalidKey,
        &[
            "invalid_api_key",
            "authentication_error",
            // Google; Moonshot; Cerebras; Alibaba; AI21 and others.
            "unauthenticated",
            "invalid_authentication_error",
            "incorrect_api_key_error",
            "wrong_api_key",
            "invalidapikey",
            "invalid_authentication",
            "unauthorized",
            // AWS.
            "unrecognizedclient",
            "invalidsignature",
            "incompletesignature",
            "missingauthenticationtoken",
            "expiredtoken",
            "invalidclienttokenid",
        ],
    ),
    (
        PermissionDenied,
        &[
            "permission_error",
            "permission_denied",
            "permissiondenied",
            "accessdenied",
            "forbidden",
            "request_forbidden",
        ],
    ),
    (
        QuotaExceeded,
        &[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_not_active",
            // Anthropic; Moonshot; DeepSeek and others; Alibaba; AWS.
            "billing_error",
            "exceeded_current_quota_error",
            "insufficient_balance",
            "insufficient_credits",
            "credit_balance_exhausted",
            "payment_required",
            "arrearage",
            "servicequotaexceeded",
        ],
    ),
    (
        RateLimited,
        &[
            "rate_limit_exceeded",
            // OpenAI's types.
            "requests",
            "tokens",
            "rate_limit_error",
            "too_many_requests",
            "toomanyrequests",
            // Google; Moonshot; GitHub; AWS and Alibaba; Mistral.
            "resource_exhausted",
            "rate_limit_reached_error",
            "ratelimitreached",
            "throttling",
            "throttling.ratequota",
            "throttling.allocationquota",
            "rate_limited",
        ],
    ),
    (
        ModelNotFound,
        &[
            "model_not_found",
            // Azure; Mistral; GitHub; Groq.
            "deploymentnotfound",
            "invalid_model",
            "unknown_model",
            "modelnotfound",
            "model_decommissioned",
        ],
    ),
    (NotFound, &["not_found_error", "not_found", "resourcenotfound"]),
    (RequestTooLarge, &["request_too_large", "request_entity_too_large", "payload_too_large"]),
    (TimedOut, &["timeout_error", "timeout", "deadline_exceeded", "modeltimeout", "request_timeout"]),
    (
        Overloaded,
        &[
            "server_is_overloaded",
            "slow_down",
            "service_unavailable_error",
            // Anthropic; Moonshot; Google; AWS; Mistral; DeepSeek.
            "overloaded_error",
            "engine_overloaded_error",
            "unavailable",
            "serviceunavailable",
            "service_unavailable",
            "modelnotready",
            "service_tier_capacity_exceeded",
            "insufficient_system_resource",
        ],
    ),
    (
        ServerError,
        &[
            "server_error",
            "api_error",
            "internal",
            "internal_error",
            "internal_server_error",
            "internalserver",
            "modelerror",
            "modelstreamerror",
        ],
    ),
];

/// Parts of error messages, in lower case, for providers without a specific code, and the statuses they come with.
const PHRASES: [(ErrorClass, &[u16], &[&str]); 6] = [
    (
        ContextTooLong,
        &REFUSALS,
        &[
            // Anthropic ("prompt is too long: 210000 tokens > 200000 maximum").
            "prompt is too long",
            "input length and `max_tokens` exceed context limit",
            // OpenAI's sentence, copied by many others.
            "maximum context length",
            "context_length_exceeded",
            // Gemini ("The input token count (…) exceeds the maximum number of tokens allowed").
            "exceeds the maximum number of tokens",
            // Bedrock.
            "input is too long for requested model",
            "too many input tokens",
            // Mistral ("… too large for model with … maximum context length"); Cohere.
            "too large for model",
            "too many tokens",
            // llama.cpp, LM Studio.
            "exceeds the available context size",
            "greater than the context length",
            "context window",
            "context length exceeded",
            // OpenAI's later models; xAI; Moonshot; Alibaba; Z.ai; GitHub; text-generation-inference.
            "input tokens exceed the configured limit",
            "maximum prompt length",
            "exceeded model token limit",
            "range of input length should be",
            "prompt exceeds max length",
            "prompt token count of",
            "`max_new_tokens` must be <=",
        ],
    ),
    (
        ContentFiltered,
        &REFUSALS,
        &[
            // Anthropic ("Output blocked by content filtering policy").
            "content filtering policy",
            "content management policy",
            "safety system",
            "content policy",
            // OpenRouter's 403; OpenAI's of reasoning models; Moonshot; Alibaba.
            "flagged by moderation",
            "violating our usage policy",
            "considered high risk",
            "inappropriate content",
        ],
    ),
    (
        QuotaExceeded,
        &[400, 402, 403, 429],
        &[
            // Anthropic's 400; DeepSeek; OpenAI's sentence; OpenRouter; xAI.
            "credit balance is too low",
            "insufficient balance",
            "exceeded your current quota",
            "insufficient credits",
            "requires more credits",
            "monthly spending limit",
        ],
    ),
    (
        InvalidKey,
        &[400, 401, 403],
        &[
            // Google; xAI and many; OpenAI's sentence; Anthropic; Bedrock; Cohere.
            "api key not valid",
            "api key expired",
            "invalid api key",
            "incorrect api key",
            "invalid x-api-key",
            "security token included in the request is",
            "invalid api token",
        ],
    ),
    (
        ModelNotFound,
        &[400, 403, 404, 422],
        &[
            // Bedrock; Mistral; OpenAI's sentence; OpenRouter; Cerebras and others.
            "model identifier is invalid",
            "invalid model",
            "does not exist or you do not have access",
            "no endpoints found for",
            "is not a valid model",
            "model not found",
        ],
    ),
    (Overloaded, &[500, 502, 503, 529], &["overloaded"]),
];

/// The statuses of a request that was refused for what it contains.
const REFUSALS: [u16; 4] = [400, 403, 413, 422];

impl ErrorClass {
    /// Classifies an error: by what it says of the request's content, then by its code or type, then by its message, then
    /// by its status.
    pub fn of(error: &ProviderError) -> Self {
        let coded = [&error.code, &error.kind].into_iter().flatten().find_map(|word| of_word(word));
        let is_refusal = REFUSALS.contains(&error.status);
        let message = error.message.to_ascii_lowercase();
        let phrased = |class: Self| {
            let (_, statuses, phrases) = PHRASES.iter().find(|(listed, ..)| *listed == class)?;
            let found =
                statuses.contains(&error.status) && phrases.iter().any(|phrase| message.contains(phrase));
            found.then_some(class)
        };
        match coded {
            Some(ContextTooLong | ContentFiltered) if !is_refusal => Self::of_status(error.status),
            Some(class @ (ContextTooLong | ContentFiltered)) => class,
            // Of 404s nearly all are about the model; vendors without a word for it name it in the message.
            Some(NotFound) | None if error.status == 404 && message.contains("model") => ModelNotFound,
            _ => {
                let about_content = phrased(ContextTooLong).or_else(|| phrased(ContentFiltered));
                let others = [QuotaExceeded, InvalidKey, ModelNotFound, Overloaded];
                let specific = || coded.filter(|class| *class != ServerError);
                about_content
                    .or_else(specific)
                    .or_else(|| others.into_iter().find_map(phrased))
                    // A word for any failure says less than the status of one.
                    .or_else(|| coded.filter(|_| error.status < 500))
                    .unwrap_or_else(|| Self::of_status(error.status))
            }
        }
    }

    /// The class of an error of which only the status says anything.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 => InvalidKey,
            402 => QuotaExceeded,
            403 => PermissionDenied,
            404 => NotFound,
            408 | 504 => TimedOut,
            413 => RequestTooLarge,
            429 => RateLimited,
            503 | 529 => Overloaded,
            500.. => ServerError,
            _ => Other,
        }
    }
}

fn of_word(word: &str) -> Option<ErrorClass> {
    let word = word.to_ascii_lowercase();
    let word = word.strip_suffix("exception").unwrap_or(&word);
    CODES.iter().find(|(_, codes)| codes.contains(&word)).map(|(class, _)| *class)
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
            (
                400,
                r#"{"error":{"message":"Unknown model","code":"model_not_found"}}"#,
                ErrorClass::ModelNotFound,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum prompt length is 131072 but the request contains 200001 tokens."}}"#,
                ErrorClass::ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}"#,
                ErrorClass::ContextTooLong,
            ),
            (
                422,
                r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.","error_type":"validation"}"#,
                ErrorClass::ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","code":"invalid_prompt"}}"#,
                ErrorClass::ContentFiltered,
            ),
            (500, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ErrorClass::ServerError),
            (400, "", ErrorClass::Other),
        ];
        for (status, body, class) in rows {
            assert_eq!(ErrorClass::of(&ProviderError::read(*status, body.as_bytes())), *class, "{body}");
        }
    }
}
