//! The client's tools in Gemini's form: functions are declared, Google's own tools are named.

use super::{Gemini, schema};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::web_tools::{drop_settings, unversioned};
use serde::Serialize;
use std::borrow::Cow;
use words::api::chat::{Params, Tool, ToolChoice};
use words::json::Json;

/// Google's own tools with the names that clients use for them: Gemini's own spellings, and the equivalent
/// tool types of OpenAI and Anthropic (in any version: `web_search_20250305`).
const NATIVE: &[(&str, &[&str])] = &[
    ("googleSearch", &["google_search", "web_search", "web_search_preview"]),
    ("googleSearchRetrieval", &["google_search_retrieval"]),
    ("codeExecution", &["code_execution", "code_interpreter"]),
    ("urlContext", &["url_context", "web_fetch"]),
    ("googleMaps", &["google_maps"]),
    ("fileSearch", &["google_file_search"]),
    ("computerUse", &["google_computer_use"]),
    ("enterpriseWebSearch", &["enterprise_web_search"]),
    ("retrieval", &[]),
    ("mcpServers", &["mcp_servers"]),
];

/// The parts of a request that are about tools.
#[derive(Debug, Default)]
pub(super) struct Offer<'a> {
    pub tools: Vec<Json<'a>>,
    pub config: Option<Json<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Json<'a>>,
}

/// Writes the tools and the tool choice. `own` is the client's `tool_config`, which takes precedence.
pub(super) fn offer<'a>(
    tools: Vec<Tool<'a>>,
    choice: Option<ToolChoice<'a>>,
    own: Option<&Json<'a>>,
    gemini: Gemini,
    notes: &mut TranslationNotes,
) -> Offer<'a> {
    let mut offer = Offer::default();
    let mut functions = Vec::new();
    // Strictness is part of the calling mode: it applies to all functions or none.
    let mut all_strict = true;
    let mut any_strict = false;
    for (index, tool) in tools.into_iter().enumerate() {
        match tool {
            Tool::Function { name, description, parameters, strict, rest, .. } => {
                if let Some(native) = native_function(&name, description.as_deref(), parameters.as_ref()) {
                    let settings = parameters.filter(Json::is_object).unwrap_or_else(Json::empty_object);
                    offer.tools.push(Json::object(&[(native, settings)]));
                    continue;
                }
                all_strict &= strict == Some(true);
                any_strict |= strict == Some(true);
                warn_rest(&rest, index, gemini, notes);
                let parameters_json_schema = parameters.as_ref().map(schema::tidy);
                functions.push(Declaration { name, description, parameters_json_schema });
            }
            Tool::Other { kind, json } => {
                offer.tools.extend(native_tool(&kind, &json, index, gemini, notes));
            }
        }
    }
    if any_strict && !all_strict && matches!(choice, None | Some(ToolChoice::Auto)) {
        let why = format!("dropped, {} is strict with all functions or with none", gemini.provider());
        notes.warn("tools.function.strict", why);
    }
    let mode = if functions.is_empty() { None } else { mode(choice, all_strict, gemini, notes) };
    if !functions.is_empty() {
        offer.tools.insert(0, Json::object(&[("functionDeclarations", Json::from_value(&functions))]));
    }
    offer.config = tool_config(mode, own);
    offer
}

/// The calling mode, and the functions it applies to.
type Mode<'a> = (&'static str, Vec<Cow<'a, str>>);

fn mode<'a>(
    choice: Option<ToolChoice<'a>>,
    all_strict: bool,
    gemini: Gemini,
    notes: &mut TranslationNotes,
) -> Option<Mode<'a>> {
    match choice {
        // VALIDATED: the model may call or not, but a call follows its schema.
        None | Some(ToolChoice::Auto) if all_strict => Some(("VALIDATED", Vec::new())),
        None => None,
        Some(ToolChoice::Auto) => Some(("AUTO", Vec::new())),
        Some(ToolChoice::None) => Some(("NONE", Vec::new())),
        Some(ToolChoice::Required) => Some(("ANY", Vec::new())),
        Some(ToolChoice::Function(name)) => Some(("ANY", vec![name])),
        Some(ToolChoice::Allowed { names, required: true }) => Some(("ANY", names.into_list())),
        Some(ToolChoice::Allowed { names, required: false }) => Some(("VALIDATED", names.into_list())),
        Some(ToolChoice::Other(_)) => {
            notes.free_choice(gemini.provider());
            None
        }
    }
}

fn tool_config<'a>(mode: Option<Mode<'_>>, own: Option<&Json<'a>>) -> Option<Json<'a>> {
    let Some((mode, names)) = mode else { return own.cloned() };
    let mut calling = vec![("mode", Json::from_value(mode))];
    if !names.is_empty() {
        calling.push(("allowedFunctionNames", Json::from_value(&names)));
    }
    let calling = Json::object(&calling);
    let own = own.and_then(|own| Json::members(own.get())).unwrap_or_default();
    let is_calling = |name: &str| matches!(name, "functionCallingConfig" | "function_calling_config");
    let mut members: Vec<(&str, Json<'_>)> = Vec::new();
    if !own.iter().any(|(name, _)| is_calling(name)) {
        members.push(("functionCallingConfig", calling));
    }
    members.extend(own.iter().map(|(name, json)| (name.as_ref(), json.clone())));
    Some(Json::object(&members))
}

/// Google's tool for a name.
fn native(name: &str) -> Option<&'static str> {
    let undated = unversioned(name);
    let found = NATIVE.iter().find(|(own, others)| *own == name || others.contains(&undated));
    found.map(|(own, _)| *own)
}

/// Google's tool for a function that only names it, as some gateways accept it: `{"name":"googleSearch"}`. A
/// function with a description or a schema is the client's own, even if it has the same name.
fn native_function(
    name: &str,
    description: Option<&str>,
    parameters: Option<&Json<'_>>,
) -> Option<&'static str> {
    let own = NATIVE.iter().find(|(own, others)| *own == name || others.first() == Some(&name));
    let is_schema = |json: &Json<'_>| {
        let members = Json::members(json.get()).unwrap_or_default();
        members.iter().any(|(name, _)| name == "type" || name == "properties")
    };
    let is_bare = description.is_none_or(str::is_empty) && !parameters.is_some_and(is_schema);
    own.filter(|_| is_bare).map(|(own, _)| *own)
}

fn native_tool<'a>(
    kind: &str,
    json: &Json<'a>,
    index: usize,
    gemini: Gemini,
    notes: &mut TranslationNotes,
) -> Option<Json<'a>> {
    let members = Json::members(json.get()).unwrap_or_default();
    if kind.is_empty() && !members.is_empty() {
        // Already in Gemini's form.
        return Some(json.clone());
    }
    if let Some(native) = native(kind) {
        let settings =
            members.iter().find(|(name, json)| (name == kind || name == native) && json.is_object());
        let mut settings = settings.map_or_else(Json::empty_object, |(_, json)| json.clone());
        let mut kept = vec![kind, native];
        // Google documents it for Vertex AI only.
        let excluded = members.iter().find(|(name, _)| name == "blocked_domains");
        if let Some((name, domains)) = excluded.filter(|_| gemini.is_vertex() && native == "googleSearch") {
            kept.push(name.as_ref());
            let mut own = Json::members(settings.get()).unwrap_or_default();
            own.push((Cow::Borrowed("excludeDomains"), domains.clone()));
            let with_domains = Json::object(&own);
            settings = with_domains;
        }
        if drop_settings(json, &format!("tools[{index}]"), &kept, gemini.provider(), notes).is_err() {
            notes.leave_out_search(index, gemini.provider());
            return None;
        }
        return Some(Json::object(&[(native, settings)]));
    }
    notes.leave_out_tool(index, kind, gemini.provider());
    None
}

fn warn_rest(rest: &Params<'_>, index: usize, gemini: Gemini, notes: &mut TranslationNotes) {
    for (name, _) in rest.iter() {
        notes.drop_param(&format!("tools[{index}].{name}"), gemini.provider());
    }
}
