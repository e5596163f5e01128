//! The tools of a Messages request, and which of them may or must be called.
//!
//! Anthropic's own tools (`web_search_20250305`, `bash_20250124`) stay as the client wrote them; each provider
//! decides whether it has an equivalent.

use super::request::reread;
use crate::api::chat::read::{members, missing, parse, parse_string};
use crate::api::chat::{Params, Tool, ToolChoice};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;

#[derive(Deserialize)]
struct KindIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
}

pub(super) fn tools(text: &str) -> Result<Vec<Tool<'_>>, Error> {
    let list: Vec<Json<'_>> = parse(text, "tools", "a list of tools")?;
    let each = list.into_iter().enumerate();
    each.map(|(index, json)| tool(json, &format!("tools[{index}]"))).collect()
}

fn tool<'a>(json: Json<'a>, at: &str) -> Result<Tool<'a>, Error> {
    let kind_in: KindIn<'a> = reread(&json, at, "a tool: an object with name and input_schema")?;
    if let Some(kind) = kind_in.kind.filter(|kind| **kind != *"custom") {
        return Ok(Tool::Other { kind: kind.0, json });
    }
    let mut name = None;
    let mut description = None;
    let mut parameters = None;
    let mut strict = None;
    let mut cache_control = None;
    let mut rest = Params::default();
    for (member, value) in members(&json, at, "an object")? {
        match member.as_ref() {
            _ if value.is_null() => {}
            "type" => {}
            "name" => name = value.source().and_then(parse_string),
            "description" => description = value.source().and_then(parse_string),
            "input_schema" => parameters = Some(value),
            "strict" => strict = Some(value.is_true()),
            "cache_control" => cache_control = Some(value),
            _ => rest.set(member, value),
        }
    }
    let name = name.ok_or_else(|| missing(format_args!("{at}.name")))?;
    Ok(Tool::Function { name, description, parameters, strict, cache_control, rest })
}

#[derive(Deserialize)]
struct ChoiceIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    disable_parallel_tool_use: Option<bool>,
}

/// The tool choice, and whether parallel calls are disabled.
pub(super) fn choice(text: &str) -> Result<(ToolChoice<'_>, bool), Error> {
    let json = Json::parse(text).ok_or_else(|| missing("tool_choice"))?;
    let choice_in: ChoiceIn<'_> = reread(&json, "tool_choice", "an object with a type")?;
    let choice = match choice_in.kind.as_deref() {
        Some("auto") => ToolChoice::Auto,
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => ToolChoice::Function(choice_in.name.ok_or_else(|| missing("tool_choice.name"))?.0),
        Some(_) => ToolChoice::Other(json),
        None => return Err(missing("tool_choice.type")),
    };
    Ok((choice, choice_in.disable_parallel_tool_use == Some(true)))
}
