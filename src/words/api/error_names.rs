//! The words for a provider's error in the client's dialect: OpenAI's `type` and `code`, Anthropic's `type`.
//!
//! Clients act on these words, so they are the dialect's own, whoever the provider is; the provider's word is kept as
//! `provider_code`. Not the shape of the body (`error_body`).

use super::chat::ProviderError;
use super::error_class::ErrorClass;
use crate::json::Json;
use crate::json::splice::{Object, Splice};
use std::borrow::Cow;

/// The words for one error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorNames<'a> {
    pub openai_type: &'a str,
    pub openai_code: Option<&'a str>,
    /// A value of Anthropic's published list.
    pub anthropic_type: &'static str,
}

/// `error.type` as OpenAI's API sends it. `requests` and `tokens` are those of rate limits.
const OPENAI_TYPES: [&str; 8] = [
    "invalid_request_error",
    "insufficient_quota",
    "requests",
    "tokens",
    "server_error",
    "service_unavailable_error",
    "request_forbidden",
    "image_generation_user_error",
];

/// `error.code` as OpenAI's API sends it, apart from the codes that only repeat a type.
/// Sources: `ResponseErrorCode` of its API description, its error guide, and its SDKs.
const OPENAI_CODES: [&str; 75] = [
    "account_deactivated",
    "array_above_max_length",
    "array_below_min_length",
    "audio_too_short",
    "billing_hard_limit_reached",
    "billing_not_active",
    "bio_policy",
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "conversation_already_has_active_response",
    "data_residency_mismatch",
    "decimal_above_max_value",
    "decimal_below_min_value",
    "empty_array",
    "empty_image_file",
    "empty_string",
    "failed_to_download_image",
    "image_content_policy_violation",
    "image_file_not_found",
    "image_file_too_large",
    "image_parse_error",
    "image_too_large",
    "image_too_small",
    "insufficient_permissions",
    "insufficient_quota",
    "integer_above_max_value",
    "integer_below_min_value",
    "invalid_api_key",
    "invalid_base64",
    "invalid_base64_image",
    "invalid_encrypted_content",
    "invalid_function_parameters",
    "invalid_image",
    "invalid_image_format",
    "invalid_image_mode",
    "invalid_image_url",
    "invalid_json",
    "invalid_json_schema",
    "invalid_organization",
    "invalid_project",
    "invalid_prompt",
    "invalid_type",
    "invalid_value",
    "ip_not_authorized",
    "method_not_supported",
    "mismatched_organization",
    "mismatched_project",
    "missing_required_parameter",
    "missing_scope",
    "model_not_found",
    "moderation_blocked",
    "no_such_organization",
    "object_above_max_properties",
    "previous_response_not_found",
    "rate_limit_exceeded",
    "server_is_overloaded",
    "session_expired",
    "slow_down",
    "string_above_max_length",
    "string_below_min_length",
    "token_expired",
    "token_limit_exceeded",
    "unknown_parameter",
    "unknown_url",
    "unsupported_country_region_territory",
    "unsupported_file",
    "unsupported_image_media_type",
    "unsupported_language",
    "unsupported_model",
    "unsupported_parameter",
    "unsupported_value",
    "usage_limit_reached",
    "usage_not_included",
    "vector_store_timeout",
];

impl<'a> ErrorNames<'a> {
    /// The words for `error`. A code or type that is OpenAI's already is kept.
    pub fn of(error: &'a ProviderError) -> Self {
        if let Some(kind) = error.gateway {
            let row = kind.row();
            let openai_type = row.openai_type;
            let openai_code = Some(row.code);
            return Self { openai_type, openai_code, anthropic_type: row.anthropic_type };
        }
        let class = ErrorClass::of(error);
        let (by_class, code) = openai(class, error);
        let is_generic = |kind: &&str| matches!(*kind, "invalid_request_error" | "server_error");
        let kind = kept(error.kind.as_deref(), &OPENAI_TYPES).filter(|kind| !is_generic(kind));
        Self {
            openai_type: kind.unwrap_or(by_class),
            openai_code: kept(error.code.as_deref(), &OPENAI_CODES).or(code),
            anthropic_type: anthropic(class, error.status),
        }
    }
}

fn kept<'a>(word: Option<&'a str>, listed: &[&str]) -> Option<&'a str> {
    word.filter(|word| listed.contains(word))
}

/// OpenAI's type and code for a class.
fn openai(class: ErrorClass, error: &ProviderError) -> (&'static str, Option<&'static str>) {
    const BAD: &str = "invalid_request_error";
    match class {
        ErrorClass::ContextTooLong => (BAD, Some("context_length_exceeded")),
        ErrorClass::ContentFiltered => (BAD, Some("content_filter")),
        ErrorClass::InvalidKey => (BAD, Some("invalid_api_key")),
        ErrorClass::QuotaExceeded => ("insufficient_quota", Some("insufficient_quota")),
        ErrorClass::RateLimited => {
            // OpenAI's types for it say what was too much.
            let kind = if error.message.contains("token") { "tokens" } else { "requests" };
            (kind, Some("rate_limit_exceeded"))
        }
        ErrorClass::ModelNotFound => (BAD, Some("model_not_found")),
        ErrorClass::Overloaded => ("server_error", Some("server_is_overloaded")),
        ErrorClass::ServerError => ("server_error", None),
        ErrorClass::TimedOut if error.status >= 500 => ("server_error", None),
        ErrorClass::TimedOut
        | ErrorClass::PermissionDenied
        | ErrorClass::NotFound
        | ErrorClass::RequestTooLarge
        | ErrorClass::Other => (BAD, None),
    }
}

/// Anthropic's type for a class (<https://platform.claude.com/docs/en/api/errors>).
const fn anthropic(class: ErrorClass, status: u16) -> &'static str {
    match class {
        ErrorClass::InvalidKey => "authentication_error",
        ErrorClass::QuotaExceeded => "billing_error",
        ErrorClass::PermissionDenied => "permission_error",
        ErrorClass::ModelNotFound | ErrorClass::NotFound => "not_found_error",
        ErrorClass::RequestTooLarge => "request_too_large",
        ErrorClass::ContextTooLong if status == 413 => "request_too_large",
        ErrorClass::RateLimited => "rate_limit_error",
        ErrorClass::TimedOut => "timeout_error",
        ErrorClass::Overloaded => "overloaded_error",
        ErrorClass::ServerError => "api_error",
        ErrorClass::ContextTooLong | ErrorClass::ContentFiltered | ErrorClass::Other => {
            "invalid_request_error"
        }
    }
}

/// Whether a type is one of Anthropic's published ones.
pub fn is_anthropic_type(kind: &str) -> bool {
    const PUBLISHED: [&str; 10] = [
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "timeout_error",
        "api_error",
        "overloaded_error",
    ];
    PUBLISHED.contains(&kind)
}

/// The provider's own word for an error: its code, or its type where the code is only a number.
pub fn provider_code(error: &ProviderError) -> Option<&str> {
    if error.gateway.is_some() {
        return None;
    }
    let is_word = |word: &&str| word.starts_with(|first: char| !first.is_ascii_digit());
    let code = error.code.as_deref();
    let kind = error.kind.as_deref();
    code.filter(is_word).or(kind).or(code)
}

/// An error body that has the shape of OpenAI's errors, with OpenAI's words in it and the provider's as `provider_code`.
/// All other members stay. `None` where nothing changes. `text` is the JSON of the body or of an event.
pub fn with_openai_names(text: &str, error: &ProviderError) -> Option<Vec<u8>> {
    let outer = Object::read(text)?;
    let inner = outer.inner("error")?;
    let names = ErrorNames::of(error);
    let mut splice = Splice::new(text);
    let mut set = |name: &str, json: &str| match inner.json_of(name) {
        Some(current) if current == json => {}
        Some(_) => splice.replace(&inner, name, json),
        None => splice.append(&inner, name, json),
    };
    set("type", Json::from_value(names.openai_type).get());
    set("code", Json::from_value(&names.openai_code).get());
    if !inner.has("param") {
        set("param", "null");
    }
    let stands = |word: &str| word == names.openai_type || names.openai_code == Some(word);
    if let Some(word) = provider_code(error).filter(|word| !stands(word)) {
        set("provider_code", Json::from_value(word).get());
    }
    splice.finish()
}

/// As [`with_openai_names`], for a body in the shape of Anthropic's errors.
pub fn with_anthropic_names(text: &str, error: &ProviderError, request_id: Option<&str>) -> Option<Vec<u8>> {
    let outer = Object::read(text)?;
    let inner = outer.inner("error")?;
    let mut splice = Splice::new(text);
    let kind: Cow<'_, str> = inner.string("type").unwrap_or_default();
    if !is_anthropic_type(&kind) {
        splice.replace(&inner, "type", Json::from_value(ErrorNames::of(error).anthropic_type).get());
        if let Some(word) = provider_code(error) {
            splice.append(&inner, "provider_code", Json::from_value(word).get());
        }
    }
    if let Some(id) = request_id.filter(|_| !outer.has("request_id")) {
        splice.append(&outer, "request_id", Json::from_value(id).get());
    }
    splice.finish()
}
