//! `POST /v1/chat/completions`: the body parsed into a [`ChatRequest`].
//!
//! Accepts the standard's members and the extensions this gateway's clients use: `cache_control` on parts
//! and tools, `thinking`, `content_blocks`, `reasoning_content` and thought signatures of earlier turns.

use super::functions;
use super::parts::{PARTS, parts, thinking_text};
use crate::api::body::Body;
use crate::api::chat::read::{self, members, missing, parse, parse_string, stop};
use crate::api::chat::{
    ChatRequest, Message, Params, Part, Place, ResponseFormat, Role, Tool, ToolCall, ToolChoice,
};
use crate::api::part_members::UnknownMembers;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt::Display;

/// Parses the body of a chat completion request.
///
/// # Errors
/// 400 that names the `param`.
pub fn read(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let mut request = ChatRequest::default();
    let mut unknown = UnknownMembers::default();
    let mut old_limit = None;
    let mut function_call = None;
    for (name, text) in body.members() {
        let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
        match name {
            "messages" => {
                request.messages = messages(text, &mut request.warnings)?;
                unknown.messages(&PARTS, text, name);
            }
            "tools" => request.tools.append(&mut tools(text)?),
            "functions" => functions::read(text, &mut request)?,
            "function_call" => function_call = Some(functions::choice(text)?),
            "tool_choice" => request.tool_choice = Some(tool_choice(text)?),
            "parallel_tool_calls" => request.parallel_tool_calls = Some(value.is_true()),
            "response_format" => request.response_format = Some(response_format(text)?),
            "stop" => request.stop = stop(text)?,
            "max_completion_tokens" => request.max_tokens = Some(value),
            "max_tokens" => old_limit = Some(value),
            "stream" => request.stream = value.is_true(),
            "stream_options" => request.include_usage = include_usage(text),
            "reasoning_effort" => request.reasoning.effort = parse_string(text),
            "thinking" => request.reasoning.thinking = Some(value),
            "model" => {}
            _ => request.params.set(name, value),
        }
    }
    request.max_tokens = request.max_tokens.or(old_limit);
    request.tool_choice = request.tool_choice.or(function_call);
    request.note_unknown_members(unknown);
    Ok(request)
}

fn include_usage(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Options {
        include_usage: Option<bool>,
    }
    serde_json::from_str::<Options>(text).is_ok_and(|options| options.include_usage == Some(true))
}

#[derive(Deserialize)]
struct MessageIn<'a> {
    #[serde(borrow)]
    role: Option<JsonStr<'a>>,
    content: Option<Json<'a>>,
    name: Option<JsonStr<'a>>,
    tool_calls: Option<Json<'a>>,
    function_call: Option<Json<'a>>,
    tool_call_id: Option<JsonStr<'a>>,
    refusal: Option<JsonStr<'a>>,
    reasoning_content: Option<JsonStr<'a>>,
    /// OpenRouter's and Groq's name for `reasoning_content`.
    reasoning: Option<Json<'a>>,
    content_blocks: Option<Json<'a>>,
    cache_control: Option<Json<'a>>,
    audio: Option<Json<'a>>,
}

fn messages<'a>(text: &'a str, warnings: &mut Vec<String>) -> Result<Vec<Message<'a>>, Error> {
    let list: Vec<&serde_json::value::RawValue> = parse(text, "messages", "a list of messages")?;
    let mut has_audio = false;
    let mut messages = Vec::with_capacity(list.len());
    for (index, raw) in list.into_iter().enumerate() {
        messages.push(message(raw.get(), index, &mut has_audio)?);
    }
    if has_audio {
        warnings
            .push("messages.audio: left out, only the provider that spoke it knows it by its id".to_owned());
    }
    Ok(messages)
}

fn message<'a>(text: &'a str, index: usize, has_audio: &mut bool) -> Result<Message<'a>, Error> {
    let at = Place::item("messages", index);
    let input: MessageIn<'a> = parse(text, at, "a message: an object with role and content")?;
    let role = match input.role.as_deref() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => {
            let message = format!("{at}.role must be system, developer, user, assistant or tool.");
            return Err(Error::invalid_request(format!("{at}.role"), message));
        }
    };
    let mut message = Message::new(role, Vec::new());
    message.at = Some(at);
    *has_audio |= input.audio.as_ref().is_some_and(|audio| !audio.is_null());
    if role == Role::Assistant {
        earlier_thinking(&input, &mut message.content);
    }
    let from_blocks = role == Role::Assistant && blocks(&input, &mut message.content);
    if !from_blocks && let Some(content) = &input.content {
        parts(content, at, &mut message.content)?;
    }
    if let Some(refusal) = input.refusal.filter(|refusal| !refusal.is_empty()) {
        message.content.push(Part::Refusal(refusal.0));
    }
    if let Some(calls) = input.tool_calls.filter(|calls| !calls.is_null()) {
        tool_calls(&calls, at, &mut message.content)?;
    } else if let Some(call) = input.function_call.filter(|call| !call.is_null()) {
        let function: FunctionIn<'_> = reread(&call, format_args!("{at}.function_call"))?;
        // The place makes the id unique; the result names the function (`conversation`).
        let id = Cow::Owned(format!("call_{index}"));
        message.content.push(Part::ToolCall(Box::new(function.call(id, None, None))));
    }
    message.tool_call_id = input.tool_call_id.map(|id| id.0);
    if role == Role::Tool && message.tool_call_id.is_none() {
        message.tool_call_id = input.name.clone().map(|name| name.0);
    }
    message.name = input.name.map(|name| name.0);
    message.cache_control = input.cache_control.filter(|json| !json.is_null());
    Ok(message)
}

/// Deserializes borrowed JSON as `T`, which borrows from the same source.
pub(super) fn reread<'a, T: Deserialize<'a>>(json: &Json<'a>, at: impl Display) -> Result<T, Error> {
    read::reread(json, at, "of another type")
}

/// Reasoning given as text only, as this and other gateways return it. `content_blocks` take precedence
/// because they have it with its signature.
fn earlier_thinking<'a>(input: &MessageIn<'a>, content: &mut Vec<Part<'a>>) {
    if input.content_blocks.as_ref().is_some_and(|blocks| !blocks.is_null()) {
        return;
    }
    let reasoning = input
        .reasoning_content
        .clone()
        .map(|text| text.0)
        .or_else(|| input.reasoning.as_ref().and_then(Json::source).and_then(parse_string));
    if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
        content.push(Part::Reasoning { text, signature: None });
    }
}

#[derive(Deserialize)]
struct BlockIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    text: Option<JsonStr<'a>>,
    thinking: Option<Json<'a>>,
    signature: Option<JsonStr<'a>>,
    data: Option<JsonStr<'a>>,
    cache_control: Option<Json<'a>>,
}

/// Adds the `content_blocks` of an earlier response, in order. Returns true if they contain the text as
/// well, so that `content` would only repeat it. Tool calls are read from `tool_calls`.
fn blocks<'a>(input: &MessageIn<'a>, content: &mut Vec<Part<'a>>) -> bool {
    let Some(text) = input.content_blocks.as_ref().and_then(Json::source) else { return false };
    let Ok(list) = serde_json::from_str::<Vec<Json<'a>>>(text) else { return false };
    let mut has_text = false;
    for json in list {
        let Some(block) = json.source().and_then(|text| serde_json::from_str::<BlockIn<'a>>(text).ok())
        else {
            continue;
        };
        let kind = block.kind.unwrap_or_default();
        match kind.as_ref() {
            "text" => {
                has_text = true;
                let text = block.text.unwrap_or_default().0;
                content.push(Part::Text { text, cache_control: block.cache_control });
            }
            "thinking" => content.push(Part::Reasoning {
                text: thinking_text(block.thinking.as_ref()).unwrap_or_default(),
                signature: block.signature.map(|text| text.0).filter(|text| !text.is_empty()),
            }),
            "redacted_thinking" => content.push(Part::Redacted { data: block.data.unwrap_or_default().0 }),
            "tool_use" | "" => {}
            _ => content.push(Part::Other { kind: kind.0, json }),
        }
    }
    let empty = input.content.as_ref().is_none_or(|json| json.is_null() || json.get() == "\"\"");
    has_text || empty
}

#[derive(Deserialize)]
struct CallIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    function: Option<FunctionIn<'a>>,
    custom: Option<CustomIn<'a>>,
    /// Google's OpenAI-compatible endpoint returns the thought signature here.
    extra_content: Option<Extra<'a>>,
    cache_control: Option<Json<'a>>,
}

#[derive(Deserialize)]
pub(super) struct FunctionIn<'a> {
    #[serde(borrow)]
    pub name: Option<JsonStr<'a>>,
    arguments: Option<Json<'a>>,
    thought_signature: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct CustomIn<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    input: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct Extra<'a> {
    #[serde(borrow)]
    google: Option<GoogleExtra<'a>>,
}

#[derive(Deserialize)]
struct GoogleExtra<'a> {
    #[serde(borrow)]
    thought_signature: Option<JsonStr<'a>>,
}

impl<'a> FunctionIn<'a> {
    fn call(
        self,
        id: Cow<'a, str>,
        signature: Option<JsonStr<'a>>,
        cache_control: Option<Json<'a>>,
    ) -> ToolCall<'a> {
        let arguments = self.arguments.and_then(|json| {
            let text = json.source()?;
            // A string by the standard; some clients send the object itself.
            Some(parse_string(text).unwrap_or(Cow::Borrowed(text)))
        });
        ToolCall {
            id,
            name: self.name.unwrap_or_default().0,
            arguments: arguments.unwrap_or_default(),
            signature: self.thought_signature.or(signature).map(|text| text.0),
            cache_control,
        }
    }
}

fn tool_calls<'a>(calls: &Json<'a>, at: Place, into: &mut Vec<Part<'a>>) -> Result<(), Error> {
    let list: Vec<Json<'a>> = reread(calls, format_args!("{at}.tool_calls"))?;
    into.reserve_exact(list.len());
    for (index, json) in list.into_iter().enumerate() {
        let input: CallIn<'a> = reread(&json, format_args!("{at}.tool_calls[{index}]"))?;
        let id = input.id.unwrap_or_default().0;
        let signature = input.extra_content.and_then(|extra| extra.google?.thought_signature);
        let cache = input.cache_control.filter(|json| !json.is_null());
        let call = match (input.function, input.custom) {
            (Some(function), _) => function.call(id, signature, cache),
            (None, Some(custom)) => ToolCall {
                id,
                name: custom.name.unwrap_or_default().0,
                arguments: Cow::Owned(custom_input(&custom.input.unwrap_or_default())),
                signature: None,
                cache_control: cache,
            },
            (None, None) => return Err(missing(format_args!("{at}.tool_calls[{index}].function"))),
        };
        into.push(Part::ToolCall(Box::new(call)));
    }
    Ok(())
}

/// A custom tool takes plain text; as the arguments of a function it becomes one member, `input`.
fn custom_input(input: &str) -> String {
    serde_json::json!({ "input": input }).to_string()
}

#[derive(Deserialize)]
struct ToolIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    function: Option<Json<'a>>,
}

fn tools(text: &str) -> Result<Vec<Tool<'_>>, Error> {
    let list: Vec<Json<'_>> = parse(text, "tools", "a list of tools")?;
    let each = list.into_iter().enumerate();
    each.map(|(index, json)| tool(json, &format!("tools[{index}]"))).collect()
}

fn tool<'a>(json: Json<'a>, at: &str) -> Result<Tool<'a>, Error> {
    let input: ToolIn<'a> = reread(&json, at)?;
    let Some(function) = input.function else {
        return Ok(Tool::Other { kind: input.kind.unwrap_or_default().0, json });
    };
    let mut name = None;
    let mut description = None;
    let mut parameters = None;
    let mut strict = None;
    let mut cache_control = None;
    let mut rest = Params::default();
    let outer = members(&json, at, "an object")?.into_iter();
    let outer = outer.filter(|(name, _)| !matches!(name.as_ref(), "type" | "function"));
    let inner = members(&function, format_args!("{at}.function"), "an object")?;
    for (member, value) in inner.into_iter().chain(outer) {
        match member.as_ref() {
            _ if value.is_null() => {}
            "name" => name = value.source().and_then(parse_string),
            "description" => description = value.source().and_then(parse_string),
            "parameters" => parameters = Some(value),
            "strict" => strict = Some(value.is_true()),
            "cache_control" => cache_control = Some(value),
            _ => rest.set(member, value),
        }
    }
    let name = name.ok_or_else(|| missing(format_args!("{at}.function.name")))?;
    Ok(Tool::Function { name, description, parameters, strict, cache_control, rest })
}

fn tool_choice(text: &str) -> Result<ToolChoice<'_>, Error> {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        function: Option<FunctionIn<'a>>,
        allowed_tools: Option<Allowed<'a>>,
    }
    #[derive(Deserialize)]
    struct Allowed<'a> {
        #[serde(borrow)]
        mode: Option<JsonStr<'a>>,
        #[serde(default)]
        tools: Vec<AllowedTool<'a>>,
    }
    #[derive(Deserialize)]
    struct AllowedTool<'a> {
        #[serde(borrow)]
        function: Option<FunctionIn<'a>>,
    }
    if let Some(mode) = parse_string(text) {
        return match mode.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => Ok(ToolChoice::Required),
            _ => {
                let message = "tool_choice must be auto, none, required or an object that names a function.";
                Err(Error::invalid_request("tool_choice", message))
            }
        };
    }
    let choice: Choice<'_> = parse(text, "tool_choice", "a word or an object that names a function")?;
    if let Some(name) = choice.function.and_then(|function| function.name) {
        return Ok(ToolChoice::Function(name.0));
    }
    if let Some(allowed) = choice.allowed_tools {
        let names = allowed.tools.into_iter().filter_map(|tool| Some(tool.function?.name?.0)).collect();
        return Ok(ToolChoice::Allowed { names, required: allowed.mode.as_deref() == Some("required") });
    }
    Json::parse(text)
        .map(ToolChoice::Other)
        .ok_or_else(|| Error::invalid_request("tool_choice", "tool_choice must be JSON."))
}

fn response_format(text: &str) -> Result<ResponseFormat<'_>, Error> {
    #[derive(Deserialize)]
    struct Format<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<JsonStr<'a>>,
        json_schema: Option<Schema<'a>>,
    }
    #[derive(Deserialize)]
    struct Schema<'a> {
        #[serde(borrow)]
        name: Option<JsonStr<'a>>,
        description: Option<JsonStr<'a>>,
        schema: Option<Json<'a>>,
        strict: Option<bool>,
    }
    let format: Format<'_> = parse(text, "response_format", "an object with a type")?;
    match format.kind.as_deref() {
        Some("text") => Ok(ResponseFormat::Text),
        Some("json_object") => Ok(ResponseFormat::JsonObject),
        Some("json_schema") => {
            let schema = format.json_schema.ok_or_else(|| missing("response_format.json_schema"))?;
            Ok(ResponseFormat::JsonSchema {
                name: schema.name.map_or(Cow::Borrowed("answer"), |name| name.0),
                description: schema.description.map(|text| text.0),
                schema: schema.schema.ok_or_else(|| missing("response_format.json_schema.schema"))?,
                strict: schema.strict,
            })
        }
        _ => {
            let message = "response_format.type must be text, json_object or json_schema.";
            Err(Error::invalid_request("response_format.type", message))
        }
    }
}
