//! Converts a request of another dialect to the shape of chat completions, which [`super::conversation`]
//! reads.
//!
//! Only for dialects that no bench uses: it copies what it reads.

use super::conversation::{self, ChatInput, Completion, Message, Tool};
use super::reply::{ApiError, Dialect};
use super::script::Script;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// The messages and parameters of a request, in the shape of `POST /chat/completions`.
#[derive(Debug, Default)]
pub(super) struct NormalizedRequest {
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<Value>,
    pub(super) choice: Value,
    pub(super) format: Option<Value>,
    pub(super) limit: Option<u64>,
    pub(super) stops: Vec<String>,
}

/// A message with this text; a tool result if `is_result`.
pub(super) fn message(role: &str, text: &str, is_result: bool) -> Value {
    json!({"role": if is_result { "tool" } else { role }, "content": text})
}

/// A `response_format` for this schema, or for any JSON.
pub(super) fn format(schema: Option<&Value>) -> Value {
    match schema {
        Some(schema) => json!({"type": "json_schema", "schema": schema}),
        None => json!({"type": "json_object"}),
    }
}

/// The text of every member `key` of the objects in a list, joined by spaces.
pub(super) fn texts(list: &Value, key: &str) -> String {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|item| item.get(key)?.as_str()).collect::<Vec<_>>().join(" ")
}

/// The strings of a list.
pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

impl NormalizedRequest {
    /// Decides the content of the response; also returns the tokens of the prompt.
    pub(super) fn decide(
        self,
        model: &str,
        script: &mut Script,
        dialect: Dialect,
    ) -> Result<(Completion, u64), ApiError> {
        let invalid =
            |error: serde_json::Error| ApiError::bad(format!("Invalid request: {error}")).in_dialect(dialect);
        let messages = Value::Array(self.messages).to_string();
        let messages: Vec<Message<'_>> = serde_json::from_str(&messages).map_err(invalid)?;
        let tools = Value::Array(self.tools).to_string();
        let tools: Vec<Tool<'_>> = serde_json::from_str(&tools).map_err(invalid)?;
        let choice: Box<RawValue> = to_raw_value(&self.choice).map_err(invalid)?;
        let format = self.format.map(serde_json::from_value).transpose().map_err(invalid)?;
        let completion = conversation::decide(ChatInput {
            model,
            messages: &messages,
            tools: &tools,
            tool_choice: Some(&choice),
            format: format.as_ref(),
            limit: self.limit,
            stops: &self.stops,
            script,
            dialect,
        });
        Ok((completion, conversation::prompt_tokens(&messages)))
    }
}
