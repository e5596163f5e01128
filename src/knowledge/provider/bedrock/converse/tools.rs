//! `toolConfig`: the tools, and which of them must be called.

use super::fields::Fields;
use super::messages::cache_point;
use super::shape::{Choice, InputSchema, Named, Tool, ToolConfig, ToolSpec};
use super::{NAME, is_shaped};
use crate::provider::anthropic::format::warn_moved;
use crate::provider::anthropic::schema::fit;
use crate::provider::bedrock::model::{Family, Model};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::web_tools::drop_settings;
use serde::Deserialize;
use std::borrow::Cow;
use words::api::chat::{ChatRequest, Message, Part, Role, Tool as ChatTool, ToolChoice};
use words::error::Error;
use words::json::{Json, JsonStr};

/// The tool configuration; `None` without tools. `search`: the client's `web_search_options`.
///
/// # Errors
/// 400 for a limit of a search that Bedrock cannot keep.
pub fn write<'a>(
    request: &'a ChatRequest<'a>,
    model: &Model<'_>,
    fields: &mut Fields<'_>,
    search: Option<&Json<'_>>,
    notes: &mut TranslationNotes,
) -> Result<Option<ToolConfig<'a>>, Error> {
    let mut tools = Vec::new();
    let mut anthropic_tools = Vec::new();
    for (index, tool) in request.tools.iter().enumerate() {
        match tool {
            _ if !is_offered(request.tool_choice.as_ref(), tool) => {}
            ChatTool::Function { .. } => function(tool, model, &mut tools, notes),
            ChatTool::Other { kind, json } => match vendor_tool(kind, json, model) {
                Some(VendorTool::System(name)) => {
                    match drop_settings(json, &format!("tools[{index}]"), &SYSTEM_TOOL, NAME, notes) {
                        Ok(()) => tools.push(Tool::System(Named { name })),
                        Err(_) => notes.leave_out_search(index, NAME),
                    }
                }
                Some(VendorTool::Anthropic) => anthropic_tools.push(json),
                None => notes.leave_out_tool(index, kind, NAME),
            },
        }
    }
    let is_search = |tool: &Tool<'_>| matches!(tool, Tool::System(named) if named.name == GROUNDING);
    if let Some(options) = search {
        drop_settings(options, "web_search_options", &[], NAME, notes)?;
    }
    if search.is_some() && !tools.iter().any(is_search) {
        tools.push(Tool::System(Named { name: Cow::Borrowed(GROUNDING) }));
    }
    if !anthropic_tools.is_empty() {
        fields.add("tools", Json::from_value(&anthropic_tools));
    }
    let tool_choice = tool_choice(request, &mut tools, notes);
    if tools.is_empty() {
        let placeholder = placeholder(request, notes);
        return Ok(placeholder.map(|tool| ToolConfig { tools: vec![tool], tool_choice: None }));
    }
    Ok(Some(ToolConfig { tools, tool_choice }))
}

/// Adds a function, and the cache point behind it.
fn function<'a>(
    tool: &'a ChatTool<'a>,
    model: &Model<'_>,
    tools: &mut Vec<Tool<'a>>,
    notes: &mut TranslationNotes,
) {
    let ChatTool::Function { name, description, parameters, strict, cache_control, .. } = tool else {
        return;
    };
    let wants_strict = *strict == Some(true);
    let is_strict = wants_strict && model.has_structured_output();
    if wants_strict && !is_strict {
        notes.warn_once("tools.function.strict", "dropped, this model has no strict tools");
    }
    let mut json = schema(parameters.as_ref());
    if is_strict {
        let (fitting, moved) = fit(&json);
        warn_moved("tools.function.parameters", &moved, NAME, notes);
        json = fitting;
    }
    tools.push(Tool::Spec(ToolSpec {
        name,
        description: description.as_deref().filter(|text| !text.is_empty()),
        input_schema: InputSchema { json },
        strict: is_strict.then_some(true),
    }));
    let Some(control) = cache_control else { return };
    match model.family {
        Family::Anthropic | Family::Unknown => tools.push(Tool::CachePoint(cache_point(control))),
        _ => notes.warn("tools.cache_control", "dropped, this model caches no tools"),
    }
}

/// Whether the model may call a tool.
pub(crate) fn offers_any(request: &ChatRequest<'_>) -> bool {
    request.tools.iter().any(|tool| is_offered(request.tool_choice.as_ref(), tool))
}

/// A tool that does nothing, for a request whose messages have calls or results but which has no tool the model may
/// call: Bedrock refuses such a request without tools. The tools called before are not sent, or the model might call
/// them.
fn placeholder(request: &ChatRequest<'_>, notes: &mut TranslationNotes) -> Option<Tool<'static>> {
    let is_call = |part: &Part<'_>| matches!(part, Part::ToolCall(_));
    let needs_tools =
        |message: &Message<'_>| message.role == Role::Tool || message.content.iter().any(is_call);
    if !request.messages.iter().any(needs_tools) {
        return None;
    }
    notes.warn("tools", "bedrock wants tools where messages have calls: one that does nothing was sent");
    Some(Tool::Spec(ToolSpec {
        name: "no_tool_available",
        description: Some("Does nothing. There is no tool to call: answer without one."),
        input_schema: InputSchema { json: schema(None) },
        strict: None,
    }))
}

fn tool_choice<'a>(
    request: &'a ChatRequest<'a>,
    tools: &mut Vec<Tool<'a>>,
    notes: &mut TranslationNotes,
) -> Option<Choice<'a>> {
    match &request.tool_choice {
        // The other part of `Allowed`: tools that are not allowed were left out above.
        None => None,
        Some(ToolChoice::Auto | ToolChoice::Allowed { required: false, .. }) => Some(Choice::Auto {}),
        Some(ToolChoice::Required | ToolChoice::Allowed { required: true, .. }) => Some(Choice::Any {}),
        Some(ToolChoice::Function(name)) => {
            if is_shaped(request.response_format.as_ref()) {
                notes.warn("tool_choice", "a forced call has no answer for response_format to shape");
            }
            Some(Choice::Tool(Named { name: Cow::Borrowed(name) }))
        }
        Some(ToolChoice::None) => {
            tools.clear();
            None
        }
        Some(ToolChoice::Other(_)) => {
            notes.free_choice(NAME);
            None
        }
    }
}

/// Whether a tool is sent. Of a few that are allowed, Bedrock gets these alone; only functions can be allowed by name.
fn is_offered(choice: Option<&ToolChoice<'_>>, tool: &ChatTool<'_>) -> bool {
    match (choice, tool) {
        (Some(ToolChoice::Allowed { names, .. }), ChatTool::Function { name, .. }) => names.contains(name),
        (Some(ToolChoice::None | ToolChoice::Allowed { .. }), ChatTool::Other { .. }) => false,
        _ => true,
    }
}

/// The schema of a tool's arguments. Bedrock requires it to have the type `object`.
fn schema<'a>(parameters: Option<&Json<'a>>) -> Json<'a> {
    let Some(schema) = parameters.filter(|schema| !schema.is_null()) else {
        return Json::empty_schema();
    };
    match Json::members(schema.get()) {
        Some(members) if members.is_empty() => Json::empty_schema(),
        Some(members) if !members.iter().any(|(name, _)| name == "type") => {
            let rest = schema.get().trim_start_matches('{');
            Json::owned(format!(r#"{{"type":"object",{rest}"#)).unwrap_or_else(|| schema.clone())
        }
        _ => schema.clone(),
    }
}

/// Where a client that knows Converse names a tool of Bedrock's.
const SYSTEM_TOOL: [&str; 2] = ["system_tool", "systemTool"];

/// Nova's web search.
pub const GROUNDING: &str = "nova_grounding";

/// A tool that is no function.
enum VendorTool<'a> {
    /// A tool that Bedrock runs itself.
    System(Cow<'a, str>),
    /// A tool whose schema Anthropic defines and the client runs.
    Anthropic,
}

fn vendor_tool<'a>(kind: &'a str, json: &'a Json<'a>, model: &Model<'_>) -> Option<VendorTool<'a>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolFields<'a> {
        #[serde(borrow)]
        system_tool: Option<Name<'a>>,
        name: Option<JsonStr<'a>>,
    }
    #[derive(Deserialize)]
    struct Name<'a> {
        #[serde(borrow)]
        name: Option<JsonStr<'a>>,
    }
    const ANTHROPICS: [&str; 4] = ["computer_", "bash_", "text_editor_", "memory_"];
    if model.family == Family::Anthropic && ANTHROPICS.iter().any(|start| kind.starts_with(start)) {
        return Some(VendorTool::Anthropic);
    }
    if model.family == Family::Amazon && (kind.starts_with("web_search") || kind == "code_interpreter") {
        let name = if kind == "code_interpreter" { "nova_code_interpreter" } else { GROUNDING };
        return Some(VendorTool::System(Cow::Borrowed(name)));
    }
    if kind.starts_with("nova_") {
        return Some(VendorTool::System(Cow::Borrowed(kind)));
    }
    let fields: ToolFields<'a> = serde_json::from_str(json.get()).ok()?;
    let named = fields.system_tool.and_then(|tool| tool.name);
    let named = named.or(fields.name.filter(|_| matches!(kind, "system_tool" | "systemTool")));
    Some(VendorTool::System(named?.0))
}
