//! Amazon Bedrock's Converse: `POST /model/{model}/converse`, `/converse-stream` and `/count-tokens`.
//!
//! Builds the whole response and decides its content; the frames of a stream are in `bedrock_stream`.
//! Signatures are not checked.

use super::bedrock_stream;
use super::bill::Bill;
use super::call::Call;
use super::conversation::Completion;
use super::normalize::{self, NormalizedRequest};
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text::{End, quote};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Bedrock;

/// One block of a response's content.
pub(super) enum Block {
    Text(String),
    ToolUse { id: String, name: String, input: String },
}

/// What whole and streamed responses share.
pub(super) struct Generated {
    pub(super) blocks: Vec<Block>,
    pub(super) stop_reason: &'static str,
    /// JSON text.
    pub(super) usage: String,
}

pub(super) fn converse(call: &Call<'_>) -> Result<Reply, ApiError> {
    respond(call, |generated| Reply::json(whole(&generated)))
}

pub(super) fn converse_stream(call: &Call<'_>) -> Result<Reply, ApiError> {
    respond(call, bedrock_stream::reply)
}

pub(super) fn count_tokens(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Value = call.read(DIALECT)?;
    let (model, mut script) = call.model(Some(call.id), DIALECT)?;
    let converse = request.pointer("/input/converse").unwrap_or(&Value::Null);
    let (_, input) = read(converse)?.decide(model, &mut script, DIALECT)?;
    Ok(Reply::value(&json!({"inputTokens": input})).in_dialect(DIALECT).scripted(script))
}

fn respond(call: &Call<'_>, render: fn(Generated) -> Reply) -> Result<Reply, ApiError> {
    let request: Value = call.read(DIALECT)?;
    let (model, mut script) = call.model(Some(call.id), DIALECT)?;
    let (completion, input) = read(&request)?.decide(model, &mut script, DIALECT)?;
    // A stream starts with the message.
    let bill = Bill { input, output: completion.tokens(), opening: 1 };
    Ok(render(generate(call, completion, input)).billed(bill).in_dialect(DIALECT).scripted(script))
}

fn read(request: &Value) -> Result<NormalizedRequest, ApiError> {
    let conversation = request.get("messages").and_then(Value::as_array).filter(|list| !list.is_empty());
    let Some(conversation) = conversation else {
        let why = "A conversation must start with a user message. Try again with a conversation that starts with a user message.";
        return Err(ApiError::bad(why).in_dialect(DIALECT));
    };
    let mut messages = Vec::new();
    if let Some(system) = request.get("system") {
        messages.push(normalize::message("system", &normalize::texts(system, "text"), false));
    }
    for message in conversation {
        let content = message.get("content").unwrap_or(&Value::Null);
        let mut blocks = content.as_array().into_iter().flatten();
        let result = blocks.any(|block| block.get("toolResult").is_some());
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        messages.push(normalize::message(role, &normalize::texts(content, "text"), result));
    }
    let tools = request.pointer("/toolConfig/tools").and_then(Value::as_array).into_iter().flatten();
    let tools = tools.filter_map(|tool| tool.get("toolSpec"));
    let tools = tools
        .map(|tool| json!({"name": tool.get("name"), "input_schema": tool.pointer("/inputSchema/json")}));
    let schema = request.pointer("/outputConfig/textFormat/structure/jsonSchema/schema");
    // Bedrock sends a schema as JSON text inside a string.
    let schema = schema.and_then(Value::as_str).and_then(|schema| serde_json::from_str(schema).ok());
    Ok(NormalizedRequest {
        messages,
        tools: tools.collect(),
        choice: choice(request.pointer("/toolConfig/toolChoice").unwrap_or(&Value::Null)),
        format: schema.map(|schema: Value| normalize::format(Some(&schema))),
        limit: request.pointer("/inferenceConfig/maxTokens").and_then(Value::as_u64),
        stops: request.pointer("/inferenceConfig/stopSequences").map(normalize::strings).unwrap_or_default(),
    })
}

fn choice(choice: &Value) -> Value {
    match (choice.pointer("/tool/name"), choice.get("any")) {
        (Some(name), _) => json!({"name": name}),
        (None, Some(_)) => json!("required"),
        (None, None) => Value::Null,
    }
}

fn generate(call: &Call<'_>, completion: Completion, input: u64) -> Generated {
    let output = completion.tokens();
    let total = input + output;
    let usage = format!(r#"{{"inputTokens":{input},"outputTokens":{output},"totalTokens":{total}}}"#);
    let (blocks, stop_reason) = match completion {
        Completion::Text(sample) => {
            let reason = match sample.end {
                End::Complete => "end_turn",
                End::Length => "max_tokens",
                End::Stop(_) => "stop_sequence",
            };
            (vec![Block::Text(sample.text)], reason)
        }
        Completion::Tools(calls) => {
            let blocks = calls.into_iter().map(|tool| Block::ToolUse {
                id: call.state.id("tooluse_", 22),
                name: tool.name,
                input: tool.arguments,
            });
            (blocks.collect(), "tool_use")
        }
    };
    Generated { blocks, stop_reason, usage }
}

fn whole(generated: &Generated) -> String {
    let block = |block: &Block| match block {
        Block::Text(text) => format!(r#"{{"text":{}}}"#, quote(text)),
        Block::ToolUse { id, name, input } => {
            format!(r#"{{"toolUse":{{"toolUseId":"{id}","name":{},"input":{input}}}}}"#, quote(name))
        }
    };
    let content = generated.blocks.iter().map(block).collect::<Vec<_>>().join(",");
    let Generated { stop_reason, usage, .. } = generated;
    format!(
        r#"{{"output":{{"message":{{"role":"assistant","content":[{content}]}}}},"stopReason":"{stop_reason}","usage":{usage},"metrics":{{"latencyMs":7}}}}"#
    )
}
