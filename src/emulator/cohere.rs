//! Cohere's `POST /v2/chat`.
//!
//! The whole answer and what decides it; the events of a stream are in `cohere_stream`.

use super::call::Call;
use super::cohere_stream;
use super::plain::{self, Plain};
use super::reply::{Dialect, Refusal, Reply};
use super::talk::Turn;
use super::words::{End, quote};
use serde::Deserialize;
use serde_json::Value;

const DIALECT: Dialect = Dialect::Cohere;

/// What Cohere says before it calls a tool.
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

/// What a whole and a streamed answer have in common.
pub(super) struct Told {
    pub(super) id: String,
    pub(super) content: Content,
    pub(super) finish: &'static str,
    /// JSON.
    pub(super) usage: String,
}

pub(super) enum Content {
    Text(String),
    Calls(Vec<ToolUse>),
}

pub(super) struct ToolUse {
    pub(super) id: String,
    /// A JSON string.
    pub(super) name: String,
    pub(super) arguments: String,
}

impl ToolUse {
    /// The call with these arguments, a JSON string.
    pub(super) fn json(&self, arguments: &str) -> String {
        let Self { id, name, .. } = self;
        format!(r#"{{"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#)
    }
}

pub(super) fn answer(call: &Call<'_>) -> Result<Reply, Refusal> {
    let request: Request = call.read(DIALECT)?;
    let (model, mut script) = call.model(request.model.as_deref(), DIALECT)?;
    let bad = |why: &str| Refusal::bad(why).in_dialect(DIALECT);
    let messages = request.messages.filter(|messages| !messages.is_empty());
    let messages = messages
        .ok_or_else(|| bad("invalid request: messages must be provided and contain at least one message."))?;
    let format =
        request.response_format.filter(|format| format.get("type").is_some_and(|kind| kind != "text"));
    let format =
        format.map(|format| plain::format(format.get("json_schema").or_else(|| format.get("schema"))));
    let asked = Plain {
        messages,
        tools: request.tools.unwrap_or_default(),
        choice: request.tool_choice.map(|choice| choice.to_lowercase().into()).unwrap_or_default(),
        format,
        limit: request.max_tokens,
        stops: request.stop_sequences.unwrap_or_default(),
    };
    let (turn, input) = asked.turn(model, &mut script, DIALECT)?;
    let told = told(call, turn, input);
    let reply = match request.stream {
        Some(true) => cohere_stream::reply(told),
        _ => Reply::json(whole(&told)),
    };
    Ok(reply.in_dialect(DIALECT).scripted(script))
}

fn told(call: &Call<'_>, turn: Turn, input: u64) -> Told {
    let output = turn.tokens();
    let usage = format!(
        r#"{{"billed_units":{{"input_tokens":{input},"output_tokens":{output}}},"tokens":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
    );
    let (content, finish) = match turn {
        Turn::Text(said) => {
            let finish = match said.end {
                End::Said => "COMPLETE",
                End::Length => "MAX_TOKENS",
                End::Stop(_) => "STOP_SEQUENCE",
            };
            (Content::Text(said.text), finish)
        }
        Turn::Tools(calls) => {
            let calls = calls.into_iter().map(|tool| ToolUse {
                id: call.state.id("call_", 12),
                name: quote(&tool.name),
                arguments: tool.arguments,
            });
            (Content::Calls(calls.collect()), "TOOL_CALL")
        }
    };
    Told { id: call.state.id("", 32), content, finish, usage }
}

fn whole(told: &Told) -> String {
    let content = match &told.content {
        Content::Text(text) => format!(r#""content":[{{"type":"text","text":{}}}]"#, quote(text)),
        Content::Calls(calls) => {
            let calls: Vec<String> = calls.iter().map(|tool| tool.json(&quote(&tool.arguments))).collect();
            format!(r#""tool_plan":"{PLAN}","tool_calls":[{}]"#, calls.join(","))
        }
    };
    let Told { id, finish, usage, .. } = told;
    format!(
        r#"{{"id":"{id}","finish_reason":"{finish}","message":{{"role":"assistant",{content}}},"usage":{usage}}}"#
    )
}
