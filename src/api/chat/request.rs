//! What a caller asks of a model.

use super::json::Json;
use super::message::Message;
use super::params::Params;
use super::tool::{Tool, ToolChoice};
use std::borrow::Cow;

/// A chat request. What every provider must judge has a member of its own; everything else waits in
/// `params` under OpenAI's chat names (`temperature`, `top_p`, `seed`, `top_k`, `user`, `metadata`, ...) or,
/// where OpenAI has no such thing, under the name the caller used.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest<'a> {
    pub messages: Vec<Message<'a>>,
    pub tools: Vec<Tool<'a>>,
    pub tool_choice: Option<ToolChoice<'a>>,
    pub parallel_tool_calls: Option<bool>,
    pub response_format: Option<ResponseFormat<'a>>,
    pub stop: Vec<Cow<'a, str>>,
    /// `max_completion_tokens`, or else `max_tokens`: a number, as written.
    pub max_tokens: Option<Json<'a>>,
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    pub reasoning: Reasoning<'a>,
    pub params: Params<'a>,
    /// What reading it left out, in words for the caller (`truncation: dropped, ...`): they belong to the
    /// warnings of whatever goes out.
    pub warnings: Vec<String>,
}

/// How much the model shall think first, in whichever words the caller chose.
#[derive(Debug, Clone, Default)]
pub struct Reasoning<'a> {
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, ...
    pub effort: Option<Cow<'a, str>>,
    /// Anthropic's `thinking` object, as written: `{"type":"enabled","budget_tokens":2048}`.
    pub thinking: Option<Json<'a>>,
    /// `auto`, `concise`, `detailed` (Responses API).
    pub summary: Option<Cow<'a, str>>,
}

/// The shape the answer's text must have.
#[derive(Debug, Clone)]
pub enum ResponseFormat<'a> {
    Text,
    /// Some JSON object.
    JsonObject,
    JsonSchema {
        name: Cow<'a, str>,
        description: Option<Cow<'a, str>>,
        schema: Json<'a>,
        strict: Option<bool>,
    },
}
