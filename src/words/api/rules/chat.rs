//! Rules of POST /chat/completions.
//!
//! Beyond OpenAI's values: `any` as a tool choice, which is Mistral's `required`, and the kinds of `tool_kinds`.

use super::{
    CHOICES, Fields, INTEGER, PENALTY, Row, Rule, STOP, TEMPERATURE, TOP_P, Table, optional, required,
};
use crate::error::Error;

const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool", "function"];

/// OpenAI's, and those of hosts of open models: Fireworks' and SGLang's grammars, Perplexity's and vLLM's patterns.
const FORMATS: &[&str] =
    &["text", "json_object", "json_schema", "grammar", "ebnf", "regex", "structural_tag"];

const ROWS: &[Row] = &[
    required("messages", Rule::Messages { roles: ROLES }),
    required("model", Rule::Text),
    optional("frequency_penalty", PENALTY),
    optional("presence_penalty", PENALTY),
    optional("logit_bias", Rule::Biases),
    optional("logprobs", Rule::Flag),
    optional("top_logprobs", Rule::Integer { min: 0, max: 20 }),
    optional("max_tokens", INTEGER),
    optional("max_completion_tokens", INTEGER),
    optional("n", CHOICES),
    optional("response_format", Rule::Format(FORMATS)),
    optional("seed", INTEGER),
    optional("stop", STOP),
    optional("stream", Rule::Flag),
    optional("stream_options", Rule::Object),
    optional("thinking", Rule::Object),
    optional("temperature", TEMPERATURE),
    optional("top_p", TOP_P),
    optional("tools", Rule::Tools { max: 128, nested: true }),
    optional("tool_choice", Rule::ToolChoice(&["none", "auto", "required", "any"])),
    optional("parallel_tool_calls", Rule::Flag),
    optional("user", Rule::Text),
    optional("function_call", Rule::FunctionCall),
    optional("functions", Rule::Functions { min: 1, max: 128 }),
];

pub(in crate::api) const TABLE: Table = Table { rows: ROWS, across };

fn across(fields: &Fields<'_>) -> Result<(), Error> {
    let wrong = fields.value("top_logprobs").is_some() && !fields.is_true("logprobs");
    if wrong && !fields.is_given(&["top_logprobs", "logprobs"]) {
        let message = "The 'top_logprobs' parameter is only allowed when 'logprobs' is true.";
        return Err(Error::invalid_request("top_logprobs", message));
    }
    fields.stream_options()
}
