//! `POST /v1/responses`: the body parsed into a [`ChatRequest`].
//!
//! What needs a provider that stores responses is refused. What only such a provider has, but the request
//! works without, is dropped with a warning. The items of the input are parsed in `input`.

use super::client_tools::ClientTools;
use super::compaction;
use super::input::{Input, PARTS};
use super::tools::{ToolReader, add_tools, tool_choice};
use crate::api::body::Body;
use crate::api::chat::read::{missing, parse, parse_string, stop};
use crate::api::chat::{ChatRequest, Message, ResponseFormat, Tool};
use crate::api::part_members::UnknownMembers;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// Advice in errors about features that need a provider with its own Responses API.
pub(super) const INSTEAD: &str = "choose a provider with a Responses API of its own (openai, azure-openai)";

/// Parses the body of a create request.
///
/// # Errors
/// 400 that names the `param`.
pub fn read(body: &Body) -> Result<ChatRequest<'_>, Error> {
    read_chat(body, false)
}

/// As [`read`]; with `compacts` the conversation is to be compacted whatever its input says.
pub(super) fn read_chat(body: &Body, compacts: bool) -> Result<ChatRequest<'_>, Error> {
    let mut request = ChatRequest { include_usage: true, ..ChatRequest::default() };
    let client_tools = ClientTools::of(body);
    let mut input = Input::new(&client_tools);
    let mut instructions = None;
    let mut input_text = None;
    let mut logprobs = false;
    let mut top_logprobs = None;
    let mut max_tokens = None;
    let mut max_tool_calls = None;
    for (name, text) in body.members() {
        let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
        match name {
            "model" => {}
            "instructions" => instructions = Some(text),
            "input" => input_text = Some(text),
            "tools" => {
                let mut reader = ToolReader { table: &client_tools, warnings: &mut request.warnings };
                request.tools = reader.list(text, "tools")?;
            }
            "tool_choice" => request.tool_choice = Some(tool_choice(text, &client_tools)?),
            "parallel_tool_calls" => request.parallel_tool_calls = Some(value.is_true()),
            "text" => text_options(text, &mut request)?,
            "reasoning" => reasoning(text, &mut request)?,
            "max_output_tokens" => request.max_tokens = Some(value),
            // Another dialect's name for it. As a member of its own it would be sent twice.
            "max_tokens" => max_tokens = Some(value),
            "max_tool_calls" => max_tool_calls = Some(value),
            "stream" => request.stream = value.is_true(),
            "include" => logprobs = wants_logprobs(text),
            "top_logprobs" => top_logprobs = Some(value),
            // Not part of this dialect, but used by this gateway's clients.
            "thinking" => request.reasoning.thinking = Some(value),
            "stop" => request.stop = stop(text)?,
            _ if handle_stateful_param(name, &value, &mut request)? => {}
            _ => request.params.set(name, value),
        }
    }
    request.max_tokens = request.max_tokens.or(max_tokens);
    if logprobs {
        request_logprobs(&mut request, top_logprobs);
    }
    if let Some(text) = instructions {
        match parse_string(text) {
            Some(text) => input.push_system(text),
            None => input.read(text, "instructions")?,
        }
    }
    let input_text = input_text.ok_or_else(|| missing("input"))?;
    input.read(input_text, "input")?;
    let compacts = compacts || input.has_trigger();
    let (messages, found, left_out) = input.finish();
    request.warnings.extend(left_out);
    request.messages = messages;
    add_tools(&mut request.tools, found);
    limit_tool_calls(&mut request, max_tool_calls);
    request.note_unknown_members(unknown_members(input_text, instructions));
    if compacts {
        compaction::request_summary(&mut request);
    }
    Ok(request)
}

/// The members of parts that are not read; of texts there are none.
fn unknown_members(input: &str, instructions: Option<&str>) -> UnknownMembers {
    let mut unknown = UnknownMembers::default();
    unknown.messages(&PARTS, instructions.unwrap_or_default(), "instructions");
    unknown.messages(&PARTS, input, "input");
    unknown
}

fn request_logprobs<'a>(request: &mut ChatRequest<'a>, top: Option<Json<'a>>) {
    request.params.set("logprobs", Json::from_value(&true));
    if let Some(top) = top {
        request.params.set("top_logprobs", top);
    }
}

/// `max_tool_calls` limits the calls of built-in tools.
fn limit_tool_calls<'a>(request: &mut ChatRequest<'a>, limit: Option<Json<'a>>) {
    let Some(limit) = limit else { return };
    if request.tools.iter().any(|tool| matches!(tool, Tool::Other { .. })) {
        request.params.set("max_tool_calls", limit);
    } else {
        warn(request, "max_tool_calls", "there are no built-in tools to limit");
    }
}

/// Members about what the API does besides the chat: refused, dropped, or ignored. Returns `false` if `name`
/// is not one of them.
fn handle_stateful_param<'a>(
    name: &str,
    value: &Json<'a>,
    request: &mut ChatRequest<'a>,
) -> Result<bool, Error> {
    let without = match name {
        "previous_response_id" => "send the whole conversation in input",
        "conversation" => "send the whole conversation in input",
        "prompt" => "send the prompt's text in instructions and input",
        "background" if value.is_true() => "leave background out and wait for the answer, or stream it",
        "background" | "stream_options" => return Ok(true),
        "store" | "truncation" | "context_management" => {
            match (name, value.get()) {
                ("store", "true") => warn(request, name, "this provider keeps no responses"),
                ("truncation", "\"auto\"") => warn(request, name, "an input that is too long is refused"),
                ("context_management", _) => warn(request, name, "nothing is compacted"),
                _ => {}
            }
            return Ok(true);
        }
        _ => return Ok(false),
    };
    let message =
        format!("This provider keeps no responses, so {name} cannot be used: {without}, or {INSTEAD}.");
    Err(Error::invalid_request(name, message))
}

fn warn(request: &mut ChatRequest<'_>, param: &str, why: &str) {
    request.warnings.push(format!("{param}: dropped, {why}"));
}

/// The other values of `include` need no handling: they concern built-in tools, which do not exist here, or
/// encrypted reasoning, which is always included.
pub(super) fn wants_logprobs(include: &str) -> bool {
    serde_json::from_str::<Vec<JsonStr<'_>>>(include)
        .is_ok_and(|list| list.iter().any(|name| &**name == "message.output_text.logprobs"))
}

fn reasoning<'a>(text: &'a str, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let members = Json::members(text)
        .ok_or_else(|| Error::invalid_request("reasoning", "reasoning must be an object."))?;
    for (name, value) in members {
        match name.as_ref() {
            _ if value.is_null() => {}
            "effort" => request.reasoning.effort = value.source().and_then(parse_string),
            // The older name must not override the newer one, in whichever order they come.
            "generate_summary" if request.reasoning.summary.is_some() => {}
            "summary" | "generate_summary" => {
                request.reasoning.summary = value.source().and_then(parse_string);
            }
            _ => warn(request, &format!("reasoning.{name}"), "a chat has nothing like it"),
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct TextIn<'a> {
    #[serde(borrow)]
    format: Option<FormatIn<'a>>,
    verbosity: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct FormatIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    description: Option<JsonStr<'a>>,
    schema: Option<Json<'a>>,
    strict: Option<bool>,
}

fn text_options<'a>(text: &'a str, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let options: TextIn<'a> = parse(text, "text", "an object with a format")?;
    if let Some(verbosity) = options.verbosity.filter(|json| !json.is_null()) {
        request.params.set("verbosity", verbosity);
    }
    let Some(format) = options.format else { return Ok(()) };
    request.response_format = Some(match format.kind.as_deref() {
        Some("text") => ResponseFormat::Text,
        Some("json_object") => ResponseFormat::JsonObject,
        Some("json_schema") => ResponseFormat::JsonSchema {
            name: format.name.map_or(Cow::Borrowed("answer"), |name| name.0),
            description: format.description.map(|text| text.0),
            schema: format
                .schema
                .filter(|json| !json.is_null())
                .ok_or_else(|| missing("text.format.schema"))?,
            strict: format.strict,
        },
        _ => {
            let message = "text.format.type must be text, json_object or json_schema.";
            return Err(Error::invalid_request("text.format.type", message));
        }
    });
    Ok(())
}

/// A system message.
pub(super) fn system<'a>(text: Cow<'a, str>) -> Message<'a> {
    use crate::api::chat::{Part, Role};
    Message::new(Role::System, vec![Part::text(text)])
}
