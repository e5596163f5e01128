//! OpenAI's Responses API: create, get, delete, cancel, input items. The newest 1,000 responses are stored.
//!
//! The typed events of a stream are in `responses_stream`.

use super::batches::merge;
use super::bill::Bill;
use super::call::Call;
use super::conversation::{self, ChatInput, Completion, Format, Message, Tool};
use super::files::listed;
use super::reply::{ApiError, Dialect, Reply};
use super::responses_stream;
use super::sample_text::End;
use super::state::now;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Request<'a> {
    model: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    stream: Option<bool>,
    store: Option<bool>,
    background: Option<bool>,
    max_output_tokens: Option<u64>,
    previous_response_id: Option<String>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    text: Option<TextOptions>,
}

#[derive(Deserialize)]
struct TextOptions {
    format: Option<Format>,
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request<'_> = call.read(Dialect::OpenAi)?;
    let (model, mut script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let input = request.input.ok_or_else(|| ApiError::missing("input"))?;
    if let Some(id) = &request.previous_response_id
        && call.state.responses.find(id).is_none()
    {
        let message = format!("Previous response with id '{id}' not found.");
        return Err(ApiError::invalid("previous_response_id", message));
    }
    let text = serde_json::to_string(&input_value(call, input)?).unwrap_or_default();
    let messages = messages(&text)?;
    let tools: Vec<Tool<'_>> = match request.tools {
        None => Vec::new(),
        Some(tools) => serde_json::from_str(tools.get())
            .map_err(|error| ApiError::invalid("tools", format!("Invalid 'tools': {error}")))?,
    };
    let completion = conversation::decide(ChatInput {
        model,
        messages: &messages,
        tools: &tools,
        tool_choice: request.tool_choice,
        format: request.text.as_ref().and_then(|text| text.format.as_ref()),
        limit: request.max_output_tokens,
        stops: &[],
        script: &mut script,
        dialect: Dialect::OpenAi,
    });
    let input = conversation::prompt_tokens(&messages);
    // A stream starts with two events of the response, its item and the item's part.
    let bill = Bill { input, output: completion.tokens(), opening: 4 };
    let response = response(call, model, &completion, input)?;
    if request.store != Some(false) {
        let id = response.get("id").and_then(Value::as_str).unwrap_or_default();
        let mut stored = response.clone();
        merge(&mut stored, &json!({"background": request.background == Some(true)}));
        call.state.responses.put(id, stored, Bytes::from(text));
    }
    let reply = if request.stream == Some(true) {
        responses_stream::reply(response)
    } else {
        Reply::value(&response)
    };
    Ok(reply.billed(bill).scripted(script))
}

pub(super) fn input_tokens(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request<'_> = call.read(Dialect::OpenAi)?;
    // As published, where no member is required.
    let model = request.model.as_deref().unwrap_or("gpt-4o-mini");
    let (_, script) = call.model(Some(model), Dialect::OpenAi)?;
    let input = request.input.ok_or_else(|| ApiError::missing("input"))?;
    let text = serde_json::to_string(&input_value(call, input)?).unwrap_or_default();
    let tokens = conversation::prompt_tokens(&messages(&text)?);
    let count = json!({"object": "response.input_tokens", "input_tokens": tokens});
    Ok(Reply::value(&count).scripted(script))
}

fn messages(items: &str) -> Result<Vec<Message<'_>>, ApiError> {
    serde_json::from_str(items)
        .map_err(|error| ApiError::invalid("input", format!("Invalid 'input': {error}")))
}

/// The input as items with ids; plain text becomes one user message.
fn input_value(call: &Call<'_>, input: &RawValue) -> Result<Value, ApiError> {
    let input: Value = serde_json::from_str(input.get())
        .map_err(|error| ApiError::invalid("input", format!("Invalid 'input': {error}")))?;
    let mut items = match input {
        Value::String(text) => {
            vec![
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
            ]
        }
        Value::Array(items) => items,
        _ => return Err(ApiError::invalid("input", "Invalid 'input': expected a string or an array.")),
    };
    for item in &mut items {
        let kind = if item.get("role").is_some() { "message" } else { "item" };
        let mut added = json!({"id": call.state.id("msg_", 48)});
        if item.get("type").is_none() {
            merge(&mut added, &json!({"type": kind}));
        }
        if item.get("id").is_none() {
            merge(item, &added);
        }
    }
    Ok(Value::Array(items))
}

/// The complete response object. Like OpenAI's, it echoes the parameters of the request.
fn response(
    call: &Call<'_>,
    model: &str,
    completion: &Completion,
    input_tokens: u64,
) -> Result<Value, ApiError> {
    let request: Value = call.read(Dialect::OpenAi)?;
    let echoed = |key: &str, default: Value| request.get(key).cloned().unwrap_or(default);
    let cut = matches!(completion, Completion::Text(sample) if sample.end == End::Length);
    let status = if cut { "incomplete" } else { "completed" };
    let details = if cut { json!({"reason": "max_output_tokens"}) } else { Value::Null };
    let output_tokens = completion.tokens();
    let text = json!({"format": {"type": "text"}, "verbosity": "medium"});
    Ok(json!({
        "id": call.state.id("resp_", 48), "object": "response", "created_at": now(), "status": status,
        "background": echoed("background", false.into()), "completed_at": now(), "error": null,
        "incomplete_details": details, "instructions": echoed("instructions", Value::Null),
        "max_output_tokens": echoed("max_output_tokens", Value::Null), "max_tool_calls": null, "model": model,
        "output": output(call, completion, status), "parallel_tool_calls": echoed("parallel_tool_calls", true.into()),
        "previous_response_id": echoed("previous_response_id", Value::Null), "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "service_tier": "default",
        "store": echoed("store", true.into()), "temperature": echoed("temperature", json!(1.0)),
        "text": echoed("text", text), "tool_choice": echoed("tool_choice", "auto".into()),
        "tools": echoed("tools", json!([])), "top_logprobs": 0, "top_p": echoed("top_p", json!(1.0)),
        "truncation": echoed("truncation", "disabled".into()),
        "metadata": echoed("metadata", json!({})),
        "usage": {
            "input_tokens": input_tokens, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + output_tokens,
        },
    }))
}

fn output(call: &Call<'_>, completion: &Completion, status: &str) -> Vec<Value> {
    match completion {
        Completion::Text(echoed) => vec![json!({
            "id": call.state.id("msg_", 48), "type": "message", "status": status, "role": "assistant",
            "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": echoed.text}],
        })],
        Completion::Tools(calls) => calls.iter().map(|tool| json!({
            "id": call.state.id("fc_", 48), "type": "function_call", "status": status, "name": tool.name,
            "arguments": tool.arguments, "call_id": call.state.id("call_", 24),
        })).collect(),
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Response with id '{id}' not found."))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let response = call.state.responses.find(call.id).ok_or_else(|| unknown(call.id))?.object;
    let streamed = call.query("stream").as_deref() == Some("true");
    Ok(if streamed { responses_stream::reply(response) } else { Reply::value(&response) })
}

pub(super) fn delete(call: &Call<'_>) -> Result<Reply, ApiError> {
    if !call.state.responses.remove(call.id) {
        return Err(unknown(call.id));
    }
    Ok(Reply::value(&json!({"id": call.id, "object": "response", "deleted": true})))
}

pub(super) fn input_items(call: &Call<'_>) -> Result<Reply, ApiError> {
    let stored = call.state.responses.find(call.id).ok_or_else(|| unknown(call.id))?;
    let items: Vec<Value> = serde_json::from_slice(&stored.content).unwrap_or_default();
    Ok(Reply::value(&listed(items, false)))
}

/// Only background responses can be cancelled; here they are always finished already.
pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let response = call.state.responses.find(call.id).ok_or_else(|| unknown(call.id))?.object;
    if response.get("background") != Some(&Value::Bool(true)) {
        return Err(ApiError::bad("Cannot cancel a synchronous response."));
    }
    let cancelled = call.state.responses.change(call.id, |response| {
        merge(response, &json!({"status": "cancelled", "completed_at": null}));
    });
    Ok(Reply::value(&cancelled.ok_or_else(|| unknown(call.id))?))
}
