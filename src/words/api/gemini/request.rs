//! Reads the body of `generateContent` and of `countTokens` into a [`ChatRequest`].
//!
//! Top-level members only: contents are read by `content`, tools by `tools`, `generationConfig` by `generation`. What only
//! Google has (`safetySettings`, `cachedContent`, `labels`) is kept in `params` under Google's name, so that other
//! providers leave it out with a warning. Value ranges are left to the provider.

use super::names::camel;
use super::{content, generation, tools};
use crate::api::body::Body;
use crate::api::chat::read::missing;
use crate::api::chat::{ChatRequest, Message, Role};
use crate::api::part_members::UnknownMembers;
use crate::error::Error;
use crate::json::Json;
use std::borrow::Cow;

/// Reads the body of a `generateContent` request, streamed or not.
///
/// # Errors
/// 400 that names the `param`.
pub fn read(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let request = read_members(body.members())?;
    if request.messages.is_empty() { Err(missing("contents")) } else { Ok(request) }
}

/// The request that `countTokens` counts: `contents` alone, or a whole request in `generateContentRequest`.
///
/// # Errors
/// As [`read`].
pub fn counted(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let whole = body.members().find(|(name, _)| camel(name) == "generateContentRequest");
    let Some((_, text)) = whole.filter(|(_, text)| *text != "null") else { return read(body) };
    let members = Json::members(text).ok_or_else(|| {
        let param = "generateContentRequest";
        Error::invalid_request(param, format!("{param} must be an object."))
    })?;
    let members = members.iter().filter_map(|(name, json)| Some((name.as_ref(), json.source()?)));
    read_members(members)
}

fn read_members<'a, 'n>(members: impl Iterator<Item = (&'n str, &'a str)>) -> Result<ChatRequest<'a>, Error> {
    // Gemini's responses and streams always have the usage.
    let mut request = ChatRequest { include_usage: true, ..ChatRequest::default() };
    let mut system = None;
    let mut unknown = UnknownMembers::default();
    for (name, text) in members {
        let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
        match camel(name).as_ref() {
            "contents" => {
                request.messages = content::messages(&value, &mut request.warnings)?;
                unknown.messages(&content::PARTS, text, "contents");
            }
            "systemInstruction" => system = Some(content::system(&value)?),
            "tools" => request.tools = tools::tools(&value)?,
            "toolConfig" => tools::config(&value, &mut request)?,
            "generationConfig" => generation::read(&value, &mut request)?,
            "serviceTier" => request.params.set("service_tier", service_tier(value)),
            "model" => {}
            other => request.params.set(other.to_owned(), value),
        }
    }
    if let Some(parts) = system.filter(|parts| !parts.is_empty()) {
        request.messages.insert(0, Message::new(Role::System, parts));
    }
    request.note_unknown_members(unknown);
    Ok(request)
}

/// Google's `STANDARD` is OpenAI's `default`.
fn service_tier(value: Json<'_>) -> Json<'_> {
    let tier = value.text().map(Cow::into_owned).unwrap_or_default().to_ascii_lowercase();
    match tier.as_str() {
        "" => value,
        "standard" | "unspecified" => Json::from_value("default"),
        tier => Json::from_value(tier),
    }
}
