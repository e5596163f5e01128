//! The request of a rescue: the caller's own, with what it was told as the beginning of the answer. In the
//! caller's dialect: a provider's translation carries it on as it does every other request.

use super::Prefill;
use super::transcript::Transcript;
use crate::api::body::{Body, Edit};
use crate::api::chat::{Json, Text};
use crate::api::operation::Operation;
use serde::Deserialize;
use std::borrow::Cow;

/// The caller's body with the told text as the last message, which the model goes on from. White space at its end
/// is left out: Anthropic refuses it ("final assistant content cannot end with trailing whitespace").
///
/// `None` where that cannot be had: the model takes no prefill, the dialect has no place for it, a tool call is
/// under way, nothing was said yet, or the caller asked for what does not go with one (thinking, a tool that must
/// be called, a format, several answers, a prefill of its own). The answer is then asked for anew.
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
    let flag = match (prefill, operation) {
        (Prefill::No, _) => return None,
        (Prefill::Plain, Operation::ChatCompletions | Operation::Messages) => String::new(),
        // Anthropic's messages have no such member: it would not survive the translation.
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

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow)]
    role: Option<Text<'a>>,
}

/// Whether nothing in the request keeps a model from going on in its own words.
fn is_plain(body: &Body) -> bool {
    body.members().all(|(name, json)| match name {
        _ if json == "null" => true,
        "n" => json == "1",
        "reasoning_effort" => json == r#""none""#,
        "thinking" => is_one_of(json, &["disabled"]),
        "tool_choice" => is_one_of(json, &["auto", "none"]),
        "response_format" => is_one_of(json, &["text"]),
        // OpenRouter's switch, and Anthropic's words for a schema.
        "reasoning" | "output_format" => false,
        "output_config" => Json::members(json)
            .is_some_and(|members| members.iter().all(|(name, value)| name != "format" || value.is_null())),
        // Alibaba's.
        "enable_thinking" => json == "false",
        _ => true,
    })
}

/// Whether it is one of these words, or an object of one of these types.
fn is_one_of(json: &str, values: &[&str]) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
    }
    let Some(json) = Json::parse(json) else { return false };
    let kind = json.read::<Kind<'_>>().and_then(|kind| Some(kind.kind?.0.into_owned()));
    let value = kind.or_else(|| json.text().map(Cow::into_owned));
    value.is_some_and(|word| values.contains(&word.as_str()))
}
