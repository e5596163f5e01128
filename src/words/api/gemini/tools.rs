//! `tools` and `toolConfig`.
//!
//! Google's own tools become those of other vendors where they have one (web search, code execution, fetching of pages); what
//! a provider does not have, it refuses.

use super::names::camel;
use super::schema::json_schema;
use crate::api::chat::read::reread;
use crate::api::chat::{ChatRequest, Params, Tool, ToolChoice};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    description: Option<JsonStr<'a>>,
    parameters: Option<Json<'a>>,
    #[serde(alias = "parameters_json_schema")]
    parameters_json_schema: Option<Json<'a>>,
}

/// Reads `tools`: objects of which each holds functions, or tools of Google's own.
pub(super) fn tools<'a>(json: &Json<'a>) -> Result<Vec<Tool<'a>>, Error> {
    let list: Vec<Json<'a>> = reread(json, "tools", "a list of tools")?;
    let mut tools = Vec::new();
    for (index, tool) in list.iter().enumerate() {
        let at = format!("tools[{index}]");
        let members = tool.source().and_then(Json::members);
        let members =
            members.ok_or_else(|| Error::invalid_request(at.as_str(), format!("{at} must be an object.")))?;
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            match camel(&name).as_ref() {
                "functionDeclarations" => {
                    let at = format!("{at}.functionDeclarations");
                    let declarations: Vec<Json<'a>> = reread(&value, &at, "a list of functions")?;
                    for (index, declaration) in declarations.iter().enumerate() {
                        tools.push(function(declaration, &format!("{at}[{index}]"))?);
                    }
                }
                own => tools.push(googles(own, &value)),
            }
        }
    }
    Ok(tools)
}

fn function<'a>(json: &Json<'a>, at: &str) -> Result<Tool<'a>, Error> {
    let declaration: Declaration<'a> = if json.is_object() {
        reread(json, at, "a function: an object with name and parameters")?
    } else {
        return Err(Error::invalid_request(at, format!("{at} must be an object.")));
    };
    let name = declaration.name.map(|name| name.0).filter(|name| !name.is_empty());
    let at = format!("{at}.name");
    let name = name.ok_or_else(|| Error::invalid_request(at.as_str(), format!("{at} is missing.")))?;
    let schema = declaration.parameters_json_schema.filter(|schema| !schema.is_null());
    let parameters = declaration.parameters.filter(|schema| !schema.is_null());
    Ok(Tool::Function {
        name,
        description: declaration.description.map(|text| text.0),
        parameters: schema.or_else(|| parameters.map(|schema| json_schema(&schema))),
        strict: None,
        cache_control: None,
        rest: Params::default(),
    })
}

/// A tool that Google runs, under the type that others have for it, with its settings: each provider says which it keeps.
fn googles(name: &str, settings: &Json<'_>) -> Tool<'static> {
    let (kind, own) = match name {
        "googleSearch" | "googleSearchRetrieval" | "enterpriseWebSearch" => ("web_search", None),
        // Anthropic's types name themselves.
        "codeExecution" => ("code_execution_20250825", Some("code_execution")),
        "urlContext" => ("web_fetch_20250910", Some("web_fetch")),
        other => (other, None),
    };
    let mut members = vec![("type", Json::from_value(kind))];
    members.extend(own.map(|own| ("name", Json::from_value(own))));
    let settings = Json::members(settings.get()).unwrap_or_default();
    members.extend(settings.iter().map(|(name, value)| match camel(name).as_ref() {
        "excludeDomains" => ("blocked_domains", value.clone()),
        _ => (name.as_ref(), value.clone()),
    }));
    Tool::Other { kind: Cow::Owned(kind.to_owned()), json: Json::object(&members) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    #[serde(borrow)]
    mode: Option<JsonStr<'a>>,
    #[serde(alias = "allowed_function_names")]
    allowed_function_names: Option<Vec<JsonStr<'a>>>,
}

/// Reads `toolConfig`. What it holds besides the mode of calling is Google's own and kept for it.
pub(super) fn config<'a>(json: &Json<'a>, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let members = json.source().and_then(Json::members);
    let members =
        members.ok_or_else(|| Error::invalid_request("toolConfig", "toolConfig must be an object."))?;
    let mut rest = Vec::new();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        match camel(&name).as_ref() {
            "functionCallingConfig" => request.tool_choice = choice(&value)?,
            _ => rest.push((name, value)),
        }
    }
    if !rest.is_empty() {
        request.params.set("toolConfig", Json::object(&rest));
    }
    Ok(())
}

fn allowed(names: Vec<Cow<'_, str>>, required: bool) -> ToolChoice<'_> {
    ToolChoice::Allowed { names: names.into_iter().collect(), required }
}

fn choice<'a>(json: &Json<'a>) -> Result<Option<ToolChoice<'a>>, Error> {
    let at = "toolConfig.functionCallingConfig";
    let calling: Calling<'a> = if json.is_object() {
        reread(json, at, "an object with mode and allowedFunctionNames")?
    } else {
        return Err(Error::invalid_request(at, format!("{at} must be an object.")));
    };
    let names = calling.allowed_function_names.unwrap_or_default();
    let mut names: Vec<Cow<'a, str>> = names.into_iter().map(|name| name.0).collect();
    let mode = calling.mode.as_deref().unwrap_or_default().to_ascii_uppercase();
    Ok(match (mode.as_str(), names.len()) {
        ("NONE", _) => Some(ToolChoice::None),
        ("ANY", 0) => Some(ToolChoice::Required),
        ("ANY", 1) => names.pop().map(ToolChoice::Function),
        ("ANY", _) => Some(allowed(names, true)),
        ("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED" | "", 0) => Some(ToolChoice::Auto),
        ("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED" | "", _) => Some(allowed(names, false)),
        _ => {
            let at = format!("{at}.mode");
            return Err(Error::invalid_request(
                at.as_str(),
                format!("{at} must be AUTO, ANY, NONE or VALIDATED."),
            ));
        }
    })
}
