//! The request that resumes a stream: the client's own request with the text sent so far as a prefill. It is in the
//! client's dialect; the provider's translation treats it like any other request.

use super::Prefill;
use super::transcript::Transcript;
use serde::Deserialize;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::{self, ToolChoice};
use words::api::gemini;
use words::api::operation::Operation;
use words::json::{Json, JsonStr};

/// The client's body with the sent text as the last message, for the model to continue. Trailing white space is
/// removed: Anthropic rejects it ("final assistant content cannot end with trailing whitespace").
///
/// `None` when that is impossible: the model takes no prefill, the dialect has no place for it, a tool call has
/// started, no text was sent yet, or the request rules it out (reasoning, a required tool call, a response format,
/// several choices, a prefill of its own). The original request is then sent again.
pub fn request(
    operation: Operation,
    body: &Body,
    transcript: &Transcript,
    prefill: Prefill,
) -> Option<bytes::Bytes> {
    let text = transcript.text().trim_end();
    if text.is_empty() || !transcript.can_resume() || !transcript.calls().is_empty() || !is_plain(body) {
        return None;
    }
    if operation.is_gemini_chat() {
        let plain = matches!(prefill, Prefill::Plain);
        return if plain { gemini_request(body, text) } else { None };
    }
    let flag = match (prefill, operation) {
        (Prefill::No, _) => return None,
        (Prefill::Plain, Operation::ChatCompletions | Operation::Messages) => String::new(),
        // Anthropic's messages have no such member, so the translation would drop it.
        (Prefill::Flag(name), Operation::ChatCompletions) => format!(r#","{name}":true"#),
        (Prefill::Plain | Prefill::Flag(_), _) => return None,
    };
    let messages = body.raw("messages")?;
    let listed = body.read::<Vec<Role<'_>>>("messages")?;
    if listed.last()?.role.as_deref().is_none_or(|role| role == "assistant") {
        return None;
    }
    let before = messages.trim_end().strip_suffix(']')?;
    let text = Json::from_value(text);
    let messages = format!(r#"{before},{{"role":"assistant","content":{}{flag}}}]"#, text.get());
    Some(body.edit(&[Edit::Set("messages", Cow::Owned(messages))]))
}

/// The same for Gemini's dialect. Of its parameters only those that change nothing about a prefill are let through.
fn gemini_request(body: &Body, text: &str) -> Option<bytes::Bytes> {
    let request = gemini::read(body).ok()?;
    let is_plain = request.response_format.is_none()
        && request.reasoning.effort.as_deref().is_none_or(|effort| effort == "none")
        && matches!(request.tool_choice, None | Some(ToolChoice::Auto | ToolChoice::None))
        && gemini::candidates(body) == 1;
    let ends_with_user = request.messages.last().is_some_and(|message| message.role != chat::Role::Assistant);
    if !is_plain || !ends_with_user {
        return None;
    }
    let before = body.raw("contents")?.trim_end().strip_suffix(']')?;
    let text = Json::from_value(text);
    let contents = format!(r#"{before},{{"role":"model","parts":[{{"text":{}}}]}}]"#, text.get());
    Some(body.edit(&[Edit::Set("contents", Cow::Owned(contents))]))
}

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow)]
    role: Option<JsonStr<'a>>,
}

/// Whether nothing in the request rules out a prefill.
fn is_plain(body: &Body) -> bool {
    body.members().all(|(name, json)| match name {
        _ if json == "null" => true,
        "n" => json == "1",
        "reasoning_effort" => json == r#""none""#,
        "thinking" => is_one_of(json, &["disabled"]),
        "tool_choice" => is_one_of(json, &["auto", "none"]),
        "response_format" => is_one_of(json, &["text"]),
        // OpenRouter's reasoning parameter, and Anthropic's former name for a schema.
        "reasoning" | "output_format" => false,
        "output_config" => Json::members(json)
            .is_some_and(|members| members.iter().all(|(name, value)| name != "format" || value.is_null())),
        // Alibaba's reasoning parameter.
        "enable_thinking" => json == "false",
        _ => true,
    })
}

/// Whether the JSON is one of these strings, or an object with one of them as its `type`.
fn is_one_of(json: &str, values: &[&str]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
    }
    let Some(json) = Json::parse(json) else { return false };
    let kind = json.read::<Kind<'_>>().and_then(|kind| Some(kind.kind?.0.into_owned()));
    let value = kind.or_else(|| json.text().map(Cow::into_owned));
    value.is_some_and(|value| values.contains(&value.as_str()))
}
