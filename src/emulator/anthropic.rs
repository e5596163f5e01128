//! Anthropic's Messages: `POST /messages` and `POST /messages/count_tokens`.
//!
//! Builds the whole response and decides its content; the events of a stream are in `anthropic_stream`.

use super::anthropic_stream;
use super::bill::Bill;
use super::call::Call;
use super::conversation::{self, ChatInput, Completion, Format, Message, Tool};
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text::{self, End, quote};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

const DIALECT: Dialect = Dialect::Anthropic;

/// The text of a thinking block.
pub(super) const THOUGHT: &str = "The user wants to hear of the quick brown fox. I shall tell.";
/// Placeholder signature of a thinking block.
pub(super) const SIGNATURE: &str = "RW11bGF0b3JTaWduYXR1cmU=";

#[derive(Deserialize)]
struct Request<'a> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    max_tokens: Option<u64>,
    stream: Option<bool>,
    stop_sequences: Option<Vec<String>>,
    #[serde(borrow)]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(borrow)]
    tool_choice: Option<&'a RawValue>,
    thinking: Option<Thinking>,
    output_config: Option<OutputConfig>,
}

#[derive(Deserialize)]
struct OutputConfig {
    format: Option<Format>,
}

#[derive(Deserialize)]
struct Thinking {
    r#type: String,
}

/// One block of a response's content.
pub(super) enum Block {
    Thinking,
    Text(String),
    ToolUse { id: String, name: String, input: String },
}

/// What whole and streamed responses share.
pub(super) struct Generated {
    pub(super) id: String,
    /// A JSON string, with its quotes.
    pub(super) model: String,
    pub(super) blocks: Vec<Block>,
    pub(super) stop_reason: &'static str,
    /// JSON text.
    pub(super) stop_sequence: String,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Request<'_> {
    fn messages(&self) -> Result<&[Message<'_>], ApiError> {
        match self.messages.as_deref() {
            Some([]) => Err(ApiError::bad("messages: at least one message is required").in_dialect(DIALECT)),
            Some(messages) => Ok(messages),
            None => Err(ApiError::bad("messages: Field required").in_dialect(DIALECT)),
        }
    }

    fn input_tokens(&self, messages: &[Message<'_>]) -> u64 {
        let system = self.system.map_or(0, |system| sample_text::estimate_tokens(system.get()));
        conversation::prompt_tokens(messages) + system
    }
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request<'_> = call.read(DIALECT)?;
    let (model, mut script) = call.model(request.model.as_deref(), DIALECT)?;
    let messages = request.messages()?;
    let Some(limit) = request.max_tokens.filter(|&limit| limit > 0) else {
        return Err(ApiError::bad("max_tokens: Field required, at least 1").in_dialect(DIALECT));
    };
    let completion = conversation::decide(ChatInput {
        model,
        messages,
        tools: request.tools.as_deref().unwrap_or_default(),
        tool_choice: request.tool_choice,
        format: request.output_config.as_ref().and_then(|config| config.format.as_ref()),
        limit: Some(limit),
        stops: request.stop_sequences.as_deref().unwrap_or_default(),
        script: &mut script,
        dialect: DIALECT,
    });
    let thinks = request.thinking.as_ref().is_some_and(|thinking| thinking.r#type != "disabled");
    let generated = generate(call, model, completion, thinks, request.input_tokens(messages));
    // A stream starts with the message, its first block and a ping.
    let bill = Bill { input: generated.input_tokens, output: generated.output_tokens, opening: 3 };
    let reply = if request.stream == Some(true) {
        anthropic_stream::reply(generated)
    } else {
        Reply::json(whole(&generated))
    };
    Ok(reply.billed(bill).in_dialect(DIALECT).scripted(script))
}

pub(super) fn count_tokens(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request<'_> = call.read(DIALECT)?;
    let (_, script) = call.model(request.model.as_deref(), DIALECT)?;
    let tokens = request.input_tokens(request.messages()?);
    Ok(Reply::value(&json!({"input_tokens": tokens})).in_dialect(DIALECT).scripted(script))
}

fn generate(
    call: &Call<'_>,
    model: &str,
    completion: Completion,
    thinks: bool,
    input_tokens: u64,
) -> Generated {
    let thought = if thinks { sample_text::count(THOUGHT) } else { 0 };
    let output_tokens = completion.tokens() + thought;
    let mut blocks = Vec::new();
    if thinks {
        blocks.push(Block::Thinking);
    }
    let (stop_reason, stop_sequence) = match completion {
        Completion::Text(sample) => {
            blocks.push(Block::Text(sample.text));
            match sample.end {
                End::Complete => ("end_turn", "null".to_owned()),
                End::Length => ("max_tokens", "null".to_owned()),
                End::Stop(stop) => ("stop_sequence", quote(&stop)),
            }
        }
        Completion::Tools(calls) => {
            blocks.extend(calls.into_iter().map(|tool| Block::ToolUse {
                id: call.state.id("toolu_", 24),
                name: tool.name,
                input: tool.arguments,
            }));
            ("tool_use", "null".to_owned())
        }
    };
    let id = call.state.id("msg_", 24);
    let model = quote(model);
    Generated { id, model, blocks, stop_reason, stop_sequence, input_tokens, output_tokens }
}

fn whole(generated: &Generated) -> String {
    let block = |block: &Block| match block {
        Block::Thinking => {
            format!(r#"{{"type":"thinking","thinking":{},"signature":"{SIGNATURE}"}}"#, quote(THOUGHT))
        }
        Block::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
        Block::ToolUse { id, name, input } => {
            format!(r#"{{"type":"tool_use","id":"{id}","name":{},"input":{input}}}"#, quote(name))
        }
    };
    let content: Vec<String> = generated.blocks.iter().map(block).collect();
    let content = content.join(",");
    let Generated { id, model, stop_reason, stop_sequence, input_tokens, output_tokens, .. } = generated;
    format!(
        r#"{{"id":"{id}","type":"message","role":"assistant","model":{model},"content":[{content}],"stop_reason":"{stop_reason}","stop_sequence":{stop_sequence},"usage":{{"input_tokens":{input_tokens},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{output_tokens},"service_tier":"standard"}}}}"#
    )
}
