//! The tools of a request, and the choice among them, in this API's flat form.

use super::client_tools::{BY_CLIENT, ClientTools, SEARCH};
use super::freeform::INPUT;
use crate::api::chat::read::{members, missing, parse, parse_string};
use crate::api::chat::{Params, Tool, ToolChoice};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Reads the tools of one request.
pub(super) struct ToolReader<'t> {
    pub table: &'t ClientTools,
    /// What was left out, for the client.
    pub warnings: &'t mut Vec<String>,
}

/// The members of a function or a freeform tool.
type Members<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl ToolReader<'_> {
    /// A list of tools, those of namespaces among them.
    ///
    /// # Errors
    /// 400 that names the tool.
    pub fn list<'a>(&mut self, text: &'a str, at: &str) -> Result<Vec<Tool<'a>>, Error> {
        self.list_of(text, at, None)
    }

    fn list_of<'a>(
        &mut self,
        text: &'a str,
        at: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<Tool<'a>>, Error> {
        let list: Vec<Json<'a>> = parse(text, at, "a list of tools")?;
        let mut tools = Vec::with_capacity(list.len());
        for (index, json) in list.into_iter().enumerate() {
            self.read(json, format_args!("{at}[{index}]"), namespace, &mut tools)?;
        }
        Ok(tools)
    }

    fn read<'a>(
        &mut self,
        json: Json<'a>,
        at: fmt::Arguments<'_>,
        namespace: Option<&str>,
        tools: &mut Vec<Tool<'a>>,
    ) -> Result<(), Error> {
        let members = members(&json, at, "an object with a type")?;
        let kind = members.iter().find(|(name, _)| name == "type");
        let kind = kind.and_then(|(_, value)| parse_string(value.source()?)).unwrap_or_default();
        match &*kind {
            "function" => tools.push(self.function(members, at, namespace)?),
            // With a schema it is Anthropic's form of a function.
            "custom" if !members.iter().any(|(name, _)| name == "input_schema") => {
                tools.push(self.freeform(&members, at, namespace)?);
            }
            SEARCH if is_run_by_client(&members) => tools.push(self.search(&members)),
            "namespace" if namespace.is_none() => tools.append(&mut self.namespace(&members, at)?),
            _ => tools.push(Tool::Other { kind, json }),
        }
        Ok(())
    }

    fn function<'a>(
        &self,
        members: Members<'a>,
        at: fmt::Arguments<'_>,
        namespace: Option<&str>,
    ) -> Result<Tool<'a>, Error> {
        let mut name = None;
        let mut description = None;
        let mut parameters = None;
        let mut strict = None;
        let mut cache_control = None;
        let mut rest = Params::default();
        for (member, value) in members {
            match member.as_ref() {
                _ if value.is_null() => {}
                "name" => name = value.source().and_then(parse_string),
                "description" => description = value.source().and_then(parse_string),
                "parameters" => parameters = Some(value),
                "strict" => strict = Some(value.is_true()),
                "cache_control" => cache_control = Some(value),
                // How the API's built-in tools find and call functions: a chat always has all of them.
                "type" | "defer_loading" | "allowed_callers" | "output_schema" => {}
                _ => rest.set(member, value),
            }
        }
        let name = self.table.function(namespace, name.ok_or_else(|| nameless(at))?);
        Ok(Tool::Function { name, description, parameters, strict, cache_control, rest })
    }

    /// A tool that takes a text of any form, as a function of that text. A grammar of the text is part of the description.
    fn freeform<'a>(
        &mut self,
        members: &Members<'a>,
        at: fmt::Arguments<'_>,
        namespace: Option<&str>,
    ) -> Result<Tool<'a>, Error> {
        #[derive(Deserialize)]
        struct Format<'a> {
            #[serde(borrow)]
            syntax: Option<JsonStr<'a>>,
            definition: Option<JsonStr<'a>>,
        }
        let member = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
        let text = |name: &str| member(name).and_then(Json::source).and_then(parse_string);
        let name = self.table.function(namespace, text("name").ok_or_else(|| nameless(at))?);
        let mut description = text("description");
        let format = member("format").and_then(Json::read::<Format<'_>>);
        if let Some(Format { syntax, definition: Some(grammar) }) = format {
            self.warnings.push(format!(
                "{at}.format: a part of the description, this provider holds no tool to a grammar"
            ));
            let syntax = syntax.map(|syntax| format!("{} ", &*syntax)).unwrap_or_default();
            let before = description.unwrap_or_default();
            description = Some(
                format!("{before}\n\nThe input is a text of this {syntax}grammar:\n{}", &*grammar).into(),
            );
        }
        let parameters = Json::from_value(&json!({
            "type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT], "additionalProperties": false,
        }));
        let cache_control = member("cache_control").filter(|value| !value.is_null()).cloned();
        let parameters = Some(parameters);
        Ok(Tool::Function {
            name,
            description,
            parameters,
            strict: None,
            cache_control,
            rest: Params::default(),
        })
    }

    /// The client's own search for tools, as a function.
    fn search<'a>(&self, members: &Members<'a>) -> Tool<'a> {
        let member = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
        let parameters = member("parameters").filter(|value| !value.is_null()).cloned();
        Tool::Function {
            name: self.table.search_function(),
            description: member("description").and_then(Json::source).and_then(parse_string),
            parameters,
            strict: None,
            cache_control: None,
            rest: Params::default(),
        }
    }

    fn namespace<'a>(
        &mut self,
        members: &Members<'a>,
        at: fmt::Arguments<'_>,
    ) -> Result<Vec<Tool<'a>>, Error> {
        let member = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
        let name =
            member("name").and_then(Json::source).and_then(parse_string).ok_or_else(|| nameless(at))?;
        let Some(list) = member("tools").and_then(Json::source) else { return Ok(Vec::new()) };
        self.list_of(list, &format!("{at}.tools"), Some(&name))
    }
}

/// Whether the client runs the search itself. One that OpenAI runs has nothing to find here: all tools are declared.
fn is_run_by_client(members: &Members<'_>) -> bool {
    let execution = members.iter().find(|(name, _)| name == "execution");
    execution.is_some_and(|(_, value)| value.text().as_deref() == Some(BY_CLIENT))
}

fn nameless(at: fmt::Arguments<'_>) -> Error {
    let message = format!("{at}.name is missing: in this API a tool's name stands beside its type.");
    Error::invalid_request(format!("{at}.name"), message)
}

/// Adds the tools found in the input, each only once.
pub(super) fn add_tools<'a>(tools: &mut Vec<Tool<'a>>, found: Vec<Tool<'a>>) {
    if found.is_empty() {
        return;
    }
    let name = |tool: &Tool<'a>| match tool {
        Tool::Function { name, .. } => Some(name.clone()),
        Tool::Other { .. } => None,
    };
    let mut names: HashSet<Cow<'a, str>> = tools.iter().filter_map(name).collect();
    tools.extend(found.into_iter().filter(|tool| name(tool).is_some_and(|name| names.insert(name))));
}

#[derive(Deserialize)]
struct ChoiceIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    namespace: Option<JsonStr<'a>>,
    mode: Option<JsonStr<'a>>,
    #[serde(default)]
    tools: Vec<ChosenIn<'a>>,
}

#[derive(Deserialize)]
struct ChosenIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    namespace: Option<JsonStr<'a>>,
}

/// Reads `tool_choice`.
///
/// # Errors
/// 400 for a choice of another form.
pub(super) fn tool_choice<'a>(text: &'a str, table: &ClientTools) -> Result<ToolChoice<'a>, Error> {
    if let Some(mode) = parse_string(text) {
        return match mode.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            _ => {
                let message = "tool_choice must be auto, none, required or an object that names a function.";
                Err(Error::invalid_request("tool_choice", message))
            }
        };
    }
    let choice: ChoiceIn<'a> = parse(text, "tool_choice", "a word or an object that names a function")?;
    match (choice.kind.as_deref(), choice.name) {
        (Some("function" | "custom"), Some(name)) => {
            Ok(ToolChoice::Function(table.function(choice.namespace.as_deref(), name.0)))
        }
        (Some(SEARCH), _) if table.has_search() => Ok(ToolChoice::Function(table.search_function())),
        (Some("function" | "custom"), None) => Err(missing("tool_choice.name")),
        (Some("namespace"), Some(name)) => {
            Ok(ToolChoice::Allowed { names: table.functions_of(&name).collect(), required: true })
        }
        (Some("allowed_tools"), _) => {
            let names = choice.tools.into_iter().flat_map(|tool| chosen(tool, table)).collect();
            Ok(ToolChoice::Allowed { names, required: choice.mode.as_deref() == Some("required") })
        }
        _ => Json::parse(text).map(ToolChoice::Other).ok_or_else(|| missing("tool_choice.type")),
    }
}

/// The functions that one entry of a list of allowed tools names.
fn chosen<'a>(tool: ChosenIn<'a>, table: &ClientTools) -> Vec<Cow<'a, str>> {
    match (tool.kind.as_deref(), tool.name) {
        (_, None) => Vec::new(),
        (Some("namespace"), Some(name)) => table.functions_of(&name).collect(),
        (_, Some(name)) => vec![table.function(tool.namespace.as_deref(), name.0)],
    }
}
