//! A chat request in Cohere's format: the body of `POST /v2/chat`.
//!
//! Cohere's own parameters (`documents`, `citation_options`, `safety_mode`, `strict_tools`, `priority`, `k`,
//! `p`) pass unchanged. Messages are written by [`super::message`].

use super::message::{self, MessageOut};
use crate::provider::adapter::CallTarget;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::VendorMembers;
use http::{HeaderValue, header};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::collections::HashSet;
use words::api::chat::{
    AllowedTools, ChatRequest, Params, Reasoning, ResponseFormat, Tool, ToolChoice, described,
};
use words::error::Error;
use words::json::Json;

/// OpenAI's name of a parameter, and Cohere's.
const RENAMED: [(&str, &str); 7] = [
    ("temperature", "temperature"),
    ("top_p", "p"),
    ("top_k", "k"),
    ("seed", "seed"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("logprobs", "logprobs"),
];

/// The body of the request.
struct Body<'a> {
    model: &'a str,
    messages: Vec<MessageOut<'a>>,
    stream: bool,
    tools: Vec<ToolOut<'a>>,
    strict_tools: bool,
    tool_choice: Option<&'static str>,
    response_format: Option<ResponseFormat<'a>>,
    max_tokens: Option<Json<'a>>,
    stop_sequences: Vec<Cow<'a, str>>,
    thinking: Option<Json<'a>>,
    params: Params<'a>,
}

/// Writes the body of the request.
///
/// # Errors
/// 400 that names the `param`.
pub(super) fn write(
    request: ChatRequest<'_>,
    target: &CallTarget<'_>,
    notes: &mut TranslationNotes,
) -> Result<Vec<u8>, Error> {
    if request.has_citations() {
        notes.drop_param("citations", "cohere");
    }
    let ChatRequest { messages, tools, mut params, .. } = request;
    let mut renamed = Params::default();
    for (standard, native) in RENAMED {
        // `logprobs: false` is the default, and some models reject the parameter whatever its value.
        if let Some(value) = params.take(standard).filter(|value| value.get() != "false") {
            renamed.set(native, value);
        }
    }
    let rest = notes.filter_params(params, "cohere", &VendorMembers::COHERE)?;
    let mut rest = notes.leave_out_written(rest, |name| renamed.get(name).is_some());
    if request.parallel_tool_calls == Some(false) {
        notes.drop_param("parallel_tool_calls", "cohere");
    }
    if request.stream {
        // Client libraries send `accept: application/json` even for streams, and Cohere then sends lines of JSON
        // instead of events.
        notes.headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    }
    notes.drop_tool_members(&tools, "cohere");
    if tools.iter().any(|tool| matches!(tool, Tool::Function { cache_control: Some(_), .. })) {
        notes.drop_param("tools.cache_control", "cohere");
    }
    let (tools, tool_choice) = select_tools(tools, request.tool_choice, notes)?;
    let mut body = Body {
        model: target.model,
        messages: message::messages(messages, request.mark_name, notes)?,
        stream: request.stream,
        strict_tools: strict(&tools, &rest, notes),
        tools,
        tool_choice,
        response_format: request.response_format,
        max_tokens: request.max_tokens,
        stop_sequences: request.stop,
        thinking: thinking(request.reasoning, notes)?,
        params: Params::default(),
    };
    rest = notes.leave_out_written(rest, |name| body.writes(name));
    rest.into_iter().for_each(|(name, value)| renamed.set(name, value));
    body.params = renamed;
    serde_json::to_vec(&body).map_err(|why| Error::internal(format!("a chat for cohere: {why}")))
}

impl Body<'_> {
    /// Whether it has a member of this name before the parameters.
    fn writes(&self, name: &str) -> bool {
        match name {
            "model" | "messages" | "stream" | "max_tokens" => true,
            "tools" => !self.tools.is_empty(),
            "strict_tools" => self.strict_tools,
            "tool_choice" => self.tool_choice.is_some(),
            "response_format" => !matches!(self.response_format, None | Some(ResponseFormat::Text)),
            "stop_sequences" => !self.stop_sequences.is_empty(),
            "thinking" => self.thinking.is_some(),
            _ => false,
        }
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.model.is_empty() {
            map.serialize_entry("model", self.model)?;
        }
        map.serialize_entry("messages", &self.messages)?;
        map.serialize_entry("stream", &self.stream)?;
        if !self.tools.is_empty() {
            map.serialize_entry("tools", &self.tools)?;
        }
        if self.strict_tools {
            map.serialize_entry("strict_tools", &true)?;
        }
        if let Some(choice) = self.tool_choice {
            map.serialize_entry("tool_choice", choice)?;
        }
        match &self.response_format {
            None | Some(ResponseFormat::Text) => {}
            Some(ResponseFormat::JsonObject) => {
                map.serialize_entry("response_format", &Format { kind: "json_object", json_schema: None })?;
            }
            Some(ResponseFormat::JsonSchema { schema, description, .. }) => {
                let schema = described(schema, description.as_deref());
                let format = Format { kind: "json_object", json_schema: Some(&schema) };
                map.serialize_entry("response_format", &format)?;
            }
        }
        if let Some(limit) = &self.max_tokens {
            map.serialize_entry("max_tokens", limit)?;
        }
        if !self.stop_sequences.is_empty() {
            map.serialize_entry("stop_sequences", &self.stop_sequences)?;
        }
        if let Some(thinking) = &self.thinking {
            map.serialize_entry("thinking", thinking)?;
        }
        for (name, value) in self.params.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<&'a Json<'a>>,
}

#[derive(serde::Serialize)]
struct ToolOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
    #[serde(skip)]
    strict: bool,
}

#[derive(serde::Serialize)]
struct FunctionOut<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    parameters: Json<'a>,
}

/// The tools to send, and Cohere's `tool_choice`. Cohere cannot be required to call a certain tool, so the others are
/// left out.
fn select_tools<'a>(
    tools: Vec<Tool<'a>>,
    choice: Option<ToolChoice<'a>>,
    notes: &mut TranslationNotes,
) -> Result<(Vec<ToolOut<'a>>, Option<&'static str>), Error> {
    let (only, mode): (Option<AllowedTools<'_>>, _) = match choice {
        None | Some(ToolChoice::Auto) => (None, None),
        Some(ToolChoice::None) => (None, Some("NONE")),
        Some(ToolChoice::Required) => (None, Some("REQUIRED")),
        Some(ToolChoice::Function(name)) => (Some(std::iter::once(name).collect()), Some("REQUIRED")),
        Some(ToolChoice::Allowed { names, required }) => (Some(names), required.then_some("REQUIRED")),
        Some(ToolChoice::Other(_)) => {
            notes.free_choice("cohere");
            (None, None)
        }
    };
    let mut selected = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        match tool {
            Tool::Other { kind, .. } => notes.leave_out_tool(index, &kind, "cohere"),
            tool => selected.extend(function(tool)),
        }
    }
    let mode = mode.filter(|mode| *mode == "NONE" || !selected.is_empty());
    let Some(only) = only else { return Ok((selected, mode)) };
    let names: HashSet<&str> = selected.iter().map(|tool| tool.function.name.as_ref()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name.as_ref())) {
        let message = format!("tool_choice names {unknown:?}, which is not among the tools.");
        return Err(Error::invalid_request("tool_choice", message));
    }
    selected.retain(|tool| only.contains(&tool.function.name));
    Ok((selected, mode))
}

fn function(tool: Tool<'_>) -> Option<ToolOut<'_>> {
    let Tool::Function { name, description, parameters, strict, .. } = tool else { return None };
    // Cohere requires it; elsewhere its absence means "no arguments".
    let parameters = parameters.unwrap_or_else(Json::empty_schema);
    let function = FunctionOut { name, description, parameters };
    Some(ToolOut { kind: "function", function, strict: strict == Some(true) })
}

/// Whether to set `strict_tools`. It applies to all tools, and none of them may lack required arguments.
fn strict(tools: &[ToolOut<'_>], params: &Params<'_>, notes: &mut TranslationNotes) -> bool {
    #[derive(serde::Deserialize)]
    struct Schema<'a> {
        #[serde(borrow)]
        required: Option<Vec<Json<'a>>>,
    }
    if params.get("strict_tools").is_some() || !tools.iter().any(|tool| tool.strict) {
        return false;
    }
    let can = |tool: &ToolOut<'_>| {
        let schema = tool.function.parameters.read::<Schema<'_>>();
        tool.strict && schema.and_then(|schema| schema.required).is_some_and(|list| !list.is_empty())
    };
    let all = tools.iter().all(can);
    if !all {
        notes.warn(
            "tools[].function.strict",
            "dropped, cohere is strict with all tools or with none, and only where each requires an argument",
        );
    }
    all
}

/// Translates OpenAI's effort into Cohere's token budget. `high` and above is Cohere's default, without a limit. A
/// budget set by the client has precedence.
fn thinking<'a>(reasoning: Reasoning<'a>, notes: &mut TranslationNotes) -> Result<Option<Json<'a>>, Error> {
    notes.simplify_thinking(&reasoning, "cohere");
    notes.show_thinking(&reasoning, "cohere");
    #[derive(serde::Deserialize)]
    struct ThinkingIn<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<words::json::JsonStr<'a>>,
        budget_tokens: Option<Json<'a>>,
        token_budget: Option<Json<'a>>,
    }
    let out = |on: bool, budget: Option<&str>| {
        let kind = if on { "enabled" } else { "disabled" };
        match budget.filter(|_| on) {
            Some(budget) => Json::owned(format!(r#"{{"type":"{kind}","token_budget":{budget}}}"#)),
            None => Json::owned(format!(r#"{{"type":"{kind}"}}"#)),
        }
    };
    if let Some(thinking) = &reasoning.thinking {
        let parsed = thinking.read::<ThinkingIn<'_>>().ok_or_else(|| {
            Error::invalid_request("thinking", "thinking must be an object with a type: enabled or disabled.")
        })?;
        let budget = parsed.budget_tokens.or(parsed.token_budget).filter(|budget| !budget.is_null());
        let on = parsed.kind.as_deref() != Some("disabled");
        return Ok(out(on, budget.as_ref().map(Json::get)));
    }
    Ok(match reasoning.effort.as_deref() {
        None => None,
        Some("none") => out(false, None),
        Some("minimal") => out(true, Some("512")),
        Some("low") => out(true, Some("2048")),
        Some("medium") => out(true, Some("8192")),
        Some(_) => out(true, None),
    })
}
