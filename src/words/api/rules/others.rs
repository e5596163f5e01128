//! Rules of the operations without a table of their own: the fields that the vendors' own documentation requires, and for
//! responses the rules of the same members of the response object.
//!
//! Ranges that vendors set themselves (Anthropic's temperature ends at 1) are not checked here.

use super::{Fields, Row, Rule, TEMPERATURE, TOP_P, Table, missing, optional, required, rows};
use crate::error::Error;

const ANY_LENGTH: Rule = Rule::List { min: 1, max: usize::MAX };

pub(in crate::api) const EMBEDDINGS: Table =
    rows(&[required("model", Rule::Text), required("input", Rule::Any)]);

pub(in crate::api) const MESSAGES: Table = rows(&[
    required("model", Rule::Text),
    required("messages", ANY_LENGTH),
    required("max_tokens", super::INTEGER),
    optional("stream", Rule::Flag),
]);

pub(in crate::api) const COUNT_TOKENS: Table =
    rows(&[required("model", Rule::Text), required("messages", ANY_LENGTH)]);

pub(in crate::api) const IMAGES: Table = rows(&[required("prompt", Rule::Text)]);

pub(in crate::api) const SPEECH: Table =
    rows(&[required("model", Rule::Text), required("input", Rule::Text), required("voice", Rule::Any)]);

pub(in crate::api) const MODERATIONS: Table = rows(&[required("input", Rule::Any)]);

pub(in crate::api) const RERANK: Table =
    rows(&[required("model", Rule::Text), required("query", Rule::Any), required("documents", Rule::Any)]);

const RESPONSES_ROWS: &[Row] = &[
    optional("model", Rule::Text),
    optional("metadata", Rule::Metadata),
    optional("temperature", TEMPERATURE),
    optional("top_p", TOP_P),
    optional("top_logprobs", Rule::Integer { min: 0, max: 20 }),
    optional("stream", Rule::Flag),
    optional("instructions", Rule::Text),
    optional("user", Rule::Text),
    optional("previous_response_id", Rule::Text),
    optional("reasoning", Rule::Object),
    optional("text", Rule::TextOptions(&["text", "json_object", "json_schema"])),
    optional("max_output_tokens", super::INTEGER),
    optional("truncation", Rule::OneOf(&["auto", "disabled"])),
    optional("parallel_tool_calls", Rule::Flag),
    optional("tools", Rule::Tools { max: usize::MAX, nested: false }),
    optional("tool_choice", Rule::ToolChoice(&["none", "auto", "required"])),
];

pub(in crate::api) const RESPONSES: Table = Table { rows: RESPONSES_ROWS, across: model_or_source };

/// Nothing is required: a response or a conversation that is named has a model, as OpenAI's published schema has it.
pub(in crate::api) const INPUT_TOKENS: Table = rows(RESPONSES_ROWS);

/// What names the model of a response: the request, a stored prompt or a conversation.
const MODEL_SOURCES: &[&str] = &["model", "prompt", "conversation"];

fn model_or_source(fields: &Fields<'_>) -> Result<(), Error> {
    let is_named = MODEL_SOURCES.iter().any(|name| fields.value(name).is_some());
    if is_named || fields.is_given(MODEL_SOURCES) { Ok(()) } else { Err(missing("model")) }
}
