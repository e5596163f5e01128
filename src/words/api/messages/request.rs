//! Reads the body of `POST /v1/messages` into a [`ChatRequest`].
//!
//! Top-level members only: messages and their blocks are read by `content`, tools by `tools`. Other members are kept
//! in `params` under the client's name (`betas`, `container`, `mcp_servers`, a top-level `cache_control`). Value
//! ranges are left to the provider.

use super::{content, tools};
use crate::api::body::Body;
use crate::api::chat::read::{self, missing, parse, parse_string};
use crate::api::chat::{ChatRequest, Message, Params, Place, ResponseFormat, Role};
use crate::api::part_members::UnknownMembers;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;

/// Reads the body of a Messages request or of a token count.
///
/// # Errors
/// 400 that names the `param`.
pub fn read(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let mut request = ChatRequest { include_usage: true, ..ChatRequest::default() };
    let mut system = None;
    let mut unknown = UnknownMembers::default();
    for (name, text) in body.members() {
        let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
        match name {
            "system" => {
                let message = Message::new(Role::System, content::system(text)?);
                unknown.parts(&content::BLOCKS, text.as_bytes(), format_args!("system"));
                system = Some(Message { at: Some(Place::member("system")), ..message });
            }
            "messages" => {
                request.messages = content::messages(text)?;
                unknown.messages(&content::BLOCKS, text, name);
            }
            "tools" => request.tools = tools::tools(text)?,
            "tool_choice" => {
                let (choice, one_at_a_time) = tools::choice(text)?;
                request.tool_choice = Some(choice);
                request.parallel_tool_calls = one_at_a_time.then_some(false);
            }
            "max_tokens" => request.max_tokens = Some(value),
            "stop_sequences" => {
                let list: Vec<JsonStr<'_>> = parse(text, name, "a list of strings")?;
                request.stop = list.into_iter().map(|text| text.0).collect();
            }
            "stream" => request.stream = value.is_true(),
            "thinking" => request.reasoning.thinking = Some(value),
            "metadata" => metadata(text, &mut request.params)?,
            "output_config" => output_config(text, &mut request)?,
            // The name of structured output during its beta.
            "output_format" => request.response_format = format(&value, name)?.or(request.response_format),
            "service_tier" => request.params.set(name, service_tier(value)),
            "model" => {}
            _ => request.params.set(name, value),
        }
    }
    if let Some(system) = system.filter(|system| !system.content.is_empty()) {
        request.messages.insert(0, system);
    }
    request.note_unknown_members(unknown);
    Ok(request)
}

/// Reads borrowed JSON again, keeping what it borrows from.
pub(super) fn reread<'a, T: Deserialize<'a>>(
    json: &Json<'a>,
    at: impl Display,
    wanted: &str,
) -> Result<T, Error> {
    // Derived structs would also accept a list, item by item.
    if json.get().starts_with('[') && !wanted.starts_with("a list") {
        Err(Error::invalid_request(at.to_string(), format!("{at} must be {wanted}.")))
    } else {
        read::reread(json, at, wanted)
    }
}

/// `user_id` becomes OpenAI's `user`; other members of `metadata` stay there.
fn metadata<'a>(text: &'a str, params: &mut Params<'a>) -> Result<(), Error> {
    let Some(members) = Json::members(text) else {
        return Err(Error::invalid_request("metadata", "metadata must be an object."));
    };
    let mut rest = Vec::new();
    for (name, value) in members {
        match name.as_ref() {
            "user_id" if value.is_null() => {}
            "user_id" => params.set("user", value),
            _ => rest.push((name, value)),
        }
    }
    if !rest.is_empty() {
        params.set("metadata", Json::object(&rest));
    }
    Ok(())
}

/// `effort` and `format` become members of the request; the others (`task_budget`) stay.
fn output_config<'a>(text: &'a str, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let Some(members) = Json::members(text) else {
        return Err(Error::invalid_request("output_config", "output_config must be an object."));
    };
    let mut rest = Vec::new();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        match name.as_ref() {
            "effort" => {
                let effort = value.source().and_then(parse_string);
                let param = "output_config.effort";
                let wrong = || Error::invalid_request(param, format!("{param} must be a string."));
                request.reasoning.effort = Some(effort.ok_or_else(wrong)?);
                request.reasoning.is_output_effort = true;
            }
            "format" => request.response_format = format(&value, "output_config.format")?,
            _ => rest.push((name, value)),
        }
    }
    if !rest.is_empty() {
        request.params.set("output_config", Json::object(&rest));
    }
    Ok(())
}

#[derive(Deserialize)]
struct FormatIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    schema: Option<Json<'a>>,
    name: Option<JsonStr<'a>>,
}

fn format<'a>(json: &Json<'a>, at: &str) -> Result<Option<ResponseFormat<'a>>, Error> {
    let format_in: FormatIn<'a> = reread(json, at, "an object with type and schema")?;
    match format_in.kind.as_deref() {
        Some("json_schema") => {
            let schema = format_in.schema.filter(Json::is_object);
            let schema = schema.ok_or_else(|| missing(format_args!("{at}.schema")))?;
            // Anthropic always enforces the schema. OpenAI's `strict` rejects schemas with optional properties,
            // which Anthropic allows, so these are sent without it.
            let strict = schema.read::<Value>().is_some_and(|schema| requires_all_properties(&schema));
            Ok(Some(ResponseFormat::JsonSchema {
                name: format_in.name.map_or(Cow::Borrowed("response"), |name| name.0),
                description: None,
                schema,
                strict: Some(strict),
            }))
        }
        Some("text") => Ok(Some(ResponseFormat::Text)),
        _ => Err(Error::invalid_request(format!("{at}.type"), format!("{at}.type must be json_schema."))),
    }
}

/// Whether every object in a JSON schema requires all of its properties and allows no others.
fn requires_all_properties(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let closed = match members.get("properties").and_then(Value::as_object) {
                None => true,
                Some(properties) => {
                    let required = members.get("required").and_then(Value::as_array);
                    let required: HashSet<&str> =
                        required.into_iter().flatten().filter_map(Value::as_str).collect();
                    members.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties.keys().all(|name| required.contains(name.as_str()))
                }
            };
            closed && members.values().all(requires_all_properties)
        }
        Value::Array(list) => list.iter().all(requires_all_properties),
        _ => true,
    }
}

/// Anthropic's `standard_only` is OpenAI's `default`; `auto` means the same in both.
fn service_tier(value: Json<'_>) -> Json<'_> {
    match value.text().as_deref() {
        Some("standard_only") => Json::from_value("default"),
        _ => value,
    }
}
