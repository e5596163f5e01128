//! OpenAI's deprecated functions (`functions`, `function_call`): read as tools, and calls written in their form.
//!
//! Only for translated chats. A client of functions gets one call at a time, so parallel calls are turned off.

use super::request::FunctionIn;
use crate::api::body::Body;
use crate::api::chat::read::{members, missing, parse, parse_string};
use crate::api::chat::{ChatRequest, EncodeContext, Finish, Params, Tool, ToolChoice};
use crate::error::Error;
use crate::json::Json;

/// Adds the functions to the tools.
pub(super) fn read<'a>(text: &'a str, request: &mut ChatRequest<'a>) -> Result<(), Error> {
    let list: Vec<Json<'a>> = parse(text, "functions", "a list of functions")?;
    for (index, json) in list.iter().enumerate() {
        request.tools.push(function(json, &format!("functions[{index}]"))?);
    }
    request.parallel_tool_calls.get_or_insert(false);
    Ok(())
}

fn function<'a>(json: &Json<'a>, at: &str) -> Result<Tool<'a>, Error> {
    let mut name = None;
    let mut description = None;
    let mut parameters = None;
    let mut rest = Params::default();
    for (member, value) in members(json, at, "an object")? {
        match member.as_ref() {
            _ if value.is_null() => {}
            "name" => name = value.source().and_then(parse_string),
            "description" => description = value.source().and_then(parse_string),
            "parameters" => parameters = Some(value),
            _ => rest.set(member, value),
        }
    }
    let name = name.ok_or_else(|| missing(format_args!("{at}.name")))?;
    Ok(Tool::Function { name, description, parameters, strict: None, cache_control: None, rest })
}

/// Reads `function_call`.
pub(super) fn choice(text: &str) -> Result<ToolChoice<'_>, Error> {
    match parse_string(text).as_deref() {
        Some("none") => return Ok(ToolChoice::None),
        Some("auto") => return Ok(ToolChoice::Auto),
        _ => {}
    }
    let function: FunctionIn<'_> = parse(text, "function_call", "none, auto or an object with a name")?;
    let name = function.name.ok_or_else(|| missing("function_call.name"))?;
    Ok(ToolChoice::Function(name.0))
}

/// Whether the client of this response offered functions and no tools.
pub(super) fn are_used(context: &EncodeContext) -> bool {
    let offers = |body: &Body, name| body.value(name).is_some_and(|value| value != b"null");
    context.request.as_ref().is_some_and(|body| offers(body, "functions") && !offers(body, "tools"))
}

/// The finish reason of a response, for a client of functions if `used`.
pub(super) fn finish_reason(finish: Finish, used: bool) -> &'static str {
    match finish {
        Finish::ToolCalls if used => "function_call",
        finish => finish.as_str(),
    }
}
