//! Finds errors inside a response with a success status, in every vendor's format.
//!
//! Bodies with an error status are read by [`ProviderError::read`].

use super::chunk::non_empty_text;
use serde::Deserialize;
use words::api::chat::{Finish, ProviderError};
use words::json::Json;

/// How a choice ended.
pub(super) enum Ending {
    Finish(Finish),
    Error(ProviderError),
}

/// Interprets a `finish_reason`. An unknown one counts as a stop: the response has ended in any case.
pub(super) fn ending(reason: &str) -> Ending {
    let failed = |status: u16, message: &str| {
        let mut error = ProviderError::new(status, message).with_kind("server_error");
        error.code = Some(reason.to_owned());
        Ending::Error(error)
    };
    let lower = reason.to_ascii_lowercase();
    Ending::Finish(match lower.as_str() {
        // Mistral's model_length and Z.ai's model_context_window_exceeded mean that the context is full.
        "length"
        | "max_tokens"
        | "max_length"
        | "max_output_tokens"
        | "model_length"
        | "incomplete"
        | "model_context_window_exceeded" => Finish::Length,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => Finish::ToolCalls,
        // `sensitive` is Z.ai's.
        "content_filter"
        | "content_filtered"
        | "safety"
        | "sensitive"
        | "recitation"
        | "refusal"
        | "prohibited_content"
        | "blocklist"
        | "guardrail_intervened" => Finish::ContentFilter,
        // Mistral, OpenRouter; Z.ai; vLLM and SGLang.
        "error" => return failed(502, "The provider stopped with an error and said no more."),
        "network_error" => return failed(502, "The provider stopped with a network error."),
        "abort" => return failed(502, "The provider aborted the answer."),
        // DeepSeek.
        "insufficient_system_resource" => {
            return failed(503, "The provider ran out of resources and stopped the answer.");
        }
        _ => Finish::Stop,
    })
}

/// The members by which a response without choices shows that it failed, or how.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorFields<'a> {
    #[serde(borrow)]
    error: Option<Json<'a>>,
    object: Option<Json<'a>>,
    base_resp: Option<BaseResp<'a>>,
    #[serde(rename = "type")]
    kind: Option<Json<'a>>,
    code: Option<Json<'a>>,
    /// The vendor's own, where `code` was replaced by OpenAI's.
    provider_code: Option<Json<'a>>,
    status: Option<Json<'a>>,
    status_code: Option<Json<'a>>,
}

/// MiniMax's error format, sent with status 200.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BaseResp<'a> {
    status_code: i64,
    #[serde(borrow)]
    status_msg: Option<Json<'a>>,
}

/// The error in a JSON object, if it has one.
pub(super) fn error_in(text: &str) -> Option<ProviderError> {
    // The fast path: few chunks contain either string.
    let finder = |needle: &str| memchr::memmem::find(text.as_bytes(), needle.as_bytes()).is_some();
    if !finder("error") && !finder("base_resp") {
        return None;
    }
    let json = Json::parse(text)?;
    let fields = json.read::<ErrorFields<'_>>()?;
    let is_error = |json: &Json<'_>| !matches!(json.get(), "null" | "{}" | "\"\"" | "false" | "[]");
    if fields.error.as_ref().is_some_and(is_error) {
        return Some(read_error(text, fields.error.as_ref()));
    }
    if non_empty_text(&fields.object).as_deref() == Some("error")
        || non_empty_text(&fields.kind).as_deref() == Some("error")
    {
        return Some(read_error(text, None));
    }
    fields.base_resp.filter(|resp| resp.status_code != 0).map(|resp| resp.to_error())
}

/// The error in a stream chunk that is no response: it has a message but no `error` member.
pub(super) fn untyped_error(text: &str) -> Option<ProviderError> {
    let is_message = |name: &str| name == "message" || name == "detail" || name == "msg";
    let members = Json::members(text)?;
    members.iter().any(|(name, value)| is_message(name) && !value.is_null()).then(|| read_error(text, None))
}

/// Reads a response with a success status that is known to be an error.
pub(in crate::provider) fn error_in_success(text: &str) -> ProviderError {
    error_in(text).or_else(|| error_of_choice(text)).unwrap_or_else(|| read_error(text, None))
}

/// The error in a response with a success status that is no result. A mere message is none: it must have a status.
pub(in crate::provider) fn error_instead_of_result(text: &str) -> Option<ProviderError> {
    error_in(text).or_else(|| {
        let json = Json::parse(text)?;
        json.read::<ErrorFields<'_>>()?.status()?;
        untyped_error(text)
    })
}

/// The error of a choice that has failed (OpenRouter's shape).
fn error_of_choice(text: &str) -> Option<ProviderError> {
    #[derive(Deserialize)]
    struct Choices<'a> {
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow, default)]
        error: Option<Json<'a>>,
        #[serde(borrow, default)]
        finish_reason: Option<Json<'a>>,
    }
    let json = Json::parse(text)?;
    let choices = json.read::<Choices<'_>>()?.choices;
    if let Some(error) =
        choices.iter().find_map(|choice| choice.error.as_ref().filter(|error| !error.is_null()))
    {
        return Some(read_error(&format!("{{\"error\":{}}}", error.get()), None));
    }
    choices.iter().filter_map(|choice| choice.finish_reason.as_ref()?.text()).find_map(|reason| match ending(
        &reason,
    ) {
        Ending::Error(error) => Some(error),
        Ending::Finish(_) => None,
    })
}

/// Reads `text`, which is known to be an error: an error event, or a body that is no response.
pub(super) fn read_error(text: &str, error: Option<&Json<'_>>) -> ProviderError {
    let mut failure = ProviderError::read(502, text.as_bytes());
    if failure.message == ProviderError::read(502, b"").message {
        failure.message = ProviderError::unreadable("it is no chat completion").message;
    }
    let json = Json::parse(text);
    let outer = json.as_ref().and_then(Json::read::<ErrorFields<'_>>);
    let inner = error.or(outer.as_ref().and_then(|fields| fields.error.as_ref()));
    let inner = inner.and_then(Json::read::<ErrorFields<'_>>);
    let status = inner.and_then(|fields| fields.status()).or_else(|| outer.as_ref()?.status());
    failure.status = status.unwrap_or(502);
    failure
}

impl ErrorFields<'_> {
    /// The HTTP status for the error's type or code, if there is one.
    fn status(&self) -> Option<u16> {
        let number = |json: &Option<Json<'_>>| {
            let json = json.as_ref()?;
            let number = json.read::<u16>().or_else(|| json.text()?.parse().ok())?;
            (400..600).contains(&number).then_some(number)
        };
        let numbers = [&self.status_code, &self.status, &self.code, &self.provider_code];
        let status = numbers.into_iter().find_map(number);
        let kinds = [&self.kind, &self.code, &self.provider_code].map(non_empty_text);
        let has = |part: &str| kinds.iter().flatten().any(|kind| kind.to_ascii_lowercase().contains(part));
        status.or_else(|| match () {
            () if has("rate_limit") || has("too_many") || has("quota") || has("exhausted") => Some(429),
            () if has("authentication") || has("unauthenticated") || has("api_key") => Some(401),
            () if has("permission") => Some(403),
            () if has("not_found") => Some(404),
            () if has("overloaded") || has("unavailable") => Some(503),
            () if has("timeout") || has("deadline") => Some(504),
            () if has("internal") => Some(500),
            () if has("invalid") || has("context_length") || has("content_policy") => Some(400),
            () => None,
        })
    }
}

impl BaseResp<'_> {
    fn to_error(&self) -> ProviderError {
        // <https://platform.minimax.io/docs/api-reference/errorcode>
        let status = match self.status_code {
            1002 | 1039 | 1041 | 2045 | 2056 => 429,
            1004 | 2049 => 401,
            1008 => 402,
            1026 | 1027 | 1042 | 2013 | 20132 => 400,
            1001 => 504,
            _ => 502,
        };
        let text = non_empty_text(&self.status_msg);
        let message = text.as_deref().unwrap_or("The provider failed and did not say why.");
        ProviderError { code: Some(self.status_code.to_string()), ..ProviderError::new(status, message) }
    }
}
