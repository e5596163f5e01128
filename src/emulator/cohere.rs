//! Cohere's `POST /v2/chat`.
//!
//! Builds the whole response and decides its content; the events of a stream are in `cohere_stream`.

use super::bill::Bill;
use super::call::Call;
use super::cohere_stream;
use super::conversation::Completion;
use super::normalize::{self, NormalizedRequest};
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text::{End, quote};
use serde::Deserialize;
use serde_json::Value;

const DIALECT: Dialect = Dialect::Cohere;

/// The `tool_plan` that precedes a tool call.
pub(super) const PLAN: &str = "I will ask the quick brown fox.";

#[derive(Deserialize)]
struct Request {
    model: Option<String>,
    messages: Option<Vec<Value>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<String>,
    response_format: Option<Value>,
    max_tokens: Option<u64>,
    stop_sequences: Option<Vec<String>>,
    stream: Option<bool>,
}

/// What whole and streamed responses share.
pub(super) struct Generated {
    pub(super) id: String,
    pub(super) content: Content,
    pub(super) finish: &'static str,
    /// JSON text.
    pub(super) usage: String,
}

pub(super) enum Content {
    Text(String),
    Calls(Vec<ToolUse>),
}

pub(super) struct ToolUse {
    pub(super) id: String,
    /// A JSON string, with its quotes.
    pub(super) name: String,
    pub(super) arguments: String,
}

impl ToolUse {
    /// The call as JSON; `arguments` is a JSON string with its quotes.
    pub(super) fn json(&self, arguments: &str) -> String {
        let Self { id, name, .. } = self;
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#)
    }
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(DIALECT)?;
    let (model, mut script) = call.model(request.model.as_deref(), DIALECT)?;
    let bad = |why: &str| ApiError::bad(why).in_dialect(DIALECT);
    let messages = request.messages.filter(|messages| !messages.is_empty());
    let messages = messages
        .ok_or_else(|| bad("invalid request: messages must be provided and contain at least one message."))?;
    let format =
        request.response_format.filter(|format| format.get("type").is_some_and(|kind| kind != "text"));
    let format =
        format.map(|format| normalize::format(format.get("json_schema").or_else(|| format.get("schema"))));
    let normalized = NormalizedRequest {
        messages,
        tools: request.tools.unwrap_or_default(),
        choice: request.tool_choice.map(|choice| choice.to_lowercase().into()).unwrap_or_default(),
        format,
        limit: request.max_tokens,
        stops: request.stop_sequences.unwrap_or_default(),
    };
    let (completion, input) = normalized.decide(model, &mut script, DIALECT)?;
    // A stream starts with the message and its content.
    let bill = Bill { input, output: completion.tokens(), opening: 2 };
    let generated = generate(call, completion, input);
    let reply = match request.stream {
        Some(true) => cohere_stream::reply(generated),
        _ => Reply::json(whole(&generated)),
    };
    Ok(reply.billed(bill).in_dialect(DIALECT).scripted(script))
}

fn generate(call: &Call<'_>, completion: Completion, input: u64) -> Generated {
    let output = completion.tokens();
    let usage = format!(
        r#"{{"billed_units":{{"input_tokens":{input},"output_tokens":{output}}},"tokens":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
    );
    let (content, finish) = match completion {
        Completion::Text(sample) => {
            let finish = match sample.end {
                End::Complete => "COMPLETE",
                End::Length => "MAX_TOKENS",
                End::Stop(_) => "STOP_SEQUENCE",
            };
            (Content::Text(sample.text), finish)
        }
        Completion::Tools(calls) => {
            let calls = calls.into_iter().map(|tool| ToolUse {
                id: call.state.id("call_", 12),
                name: quote(&tool.name),
                arguments: tool.arguments,
            });
            (Content::Calls(calls.collect()), "TOOL_CALL")
        }
    };
    Generated { id: call.state.id("", 32), content, finish, usage }
}

fn whole(generated: &Generated) -> String {
    let content = match &generated.content {
        Content::Text(text) => format!(r#""content":[{{"type":"text","text":{}}}]"#, quote(text)),
        Content::Calls(calls) => {
            let calls: Vec<String> = calls.iter().map(|tool| tool.json(&quote(&tool.arguments))).collect();
            format!(r#""tool_plan":"{PLAN}","tool_calls":[{}]"#, calls.join(","))
        }
    };
    let Generated { id, finish, usage, .. } = generated;
    format!(
        r#"{{"id":"{id}","finish_reason":"{finish}","message":{{"role":"assistant",{content}}},"usage":{usage}}}"#
    )
}
