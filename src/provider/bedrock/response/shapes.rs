//! The members of Converse's answers that are read. Flat structs: raw JSON cannot stand inside serde's enums.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html> and its
//! stream counterparts.

use crate::api::chat::{Event, Json, Text};
use crate::api::usage::Usage;
use serde::{Deserialize, Serialize};

/// A content block, or a delta of one; one member of them is there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block<'a> {
    #[serde(borrow)]
    pub text: Option<Text<'a>>,
    pub tool_use: Option<ToolUse<'a>>,
    pub tool_result: Option<Json<'a>>,
    pub reasoning_content: Option<Reasoning<'a>>,
    pub citations_content: Option<CitationsContent<'a>>,
    /// In a stream: one citation of the text around it.
    pub citation: Option<Json<'a>>,
    pub image: Option<Media<'a>>,
    pub audio: Option<Media<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUse<'a> {
    #[serde(borrow)]
    pub tool_use_id: Option<Text<'a>>,
    pub name: Option<Text<'a>>,
    /// An object in a whole answer, a string with a piece of its text in a stream.
    pub input: Option<Json<'a>>,
    /// `tool_use`, or `server_tool_use` for a tool Bedrock runs itself.
    #[serde(rename = "type")]
    pub kind: Option<Text<'a>>,
}

impl ToolUse<'_> {
    /// A tool of Bedrock's own: not the caller's to answer.
    pub fn is_server_tool(&self) -> bool {
        self.kind.as_deref() == Some("server_tool_use")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult<'a> {
    #[serde(borrow)]
    pub tool_use_id: Option<Text<'a>>,
    pub content: Option<Json<'a>>,
    pub status: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub kind: Option<Text<'a>>,
}

/// Thinking: in a whole answer inside `reasoningText`, in a stream at once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasoning<'a> {
    #[serde(borrow)]
    pub reasoning_text: Option<ReasoningText<'a>>,
    pub text: Option<Text<'a>>,
    pub signature: Option<Text<'a>>,
    pub redacted_content: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub struct ReasoningText<'a> {
    #[serde(borrow)]
    pub text: Option<Text<'a>>,
    pub signature: Option<Text<'a>>,
}

impl Reasoning<'_> {
    /// Tells it. A signature ends a piece of thinking, so it comes after the words.
    pub fn emit(&self, sink: &mut dyn FnMut(Event<'_>)) {
        let inner = self.reasoning_text.as_ref();
        let text = inner.and_then(|inner| inner.text.as_deref()).or(self.text.as_deref());
        let signature = inner.and_then(|inner| inner.signature.as_deref()).or(self.signature.as_deref());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            sink(Event::Reasoning { choice: 0, text });
        }
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            sink(Event::Signature { choice: 0, signature });
        }
        if let Some(data) = self.redacted_content.as_deref().filter(|data| !data.is_empty()) {
            sink(Event::Redacted { choice: 0, data });
        }
    }
}

#[derive(Deserialize)]
pub struct CitationsContent<'a> {
    #[serde(borrow, default)]
    pub content: Option<Vec<CitedText<'a>>>,
    #[serde(default)]
    pub citations: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
pub struct CitedText<'a> {
    #[serde(borrow)]
    pub text: Option<Text<'a>>,
}

/// A picture or sound; in a stream's start the format alone, in a delta the bytes alone.
#[derive(Deserialize)]
pub struct Media<'a> {
    #[serde(borrow)]
    pub format: Option<Text<'a>>,
    pub source: Option<MediaSource<'a>>,
}

#[derive(Deserialize)]
pub struct MediaSource<'a> {
    #[serde(borrow)]
    pub bytes: Option<Text<'a>>,
}

impl Media<'_> {
    pub fn bytes(&self) -> &str {
        self.source.as_ref().and_then(|source| source.bytes.as_deref()).unwrap_or_default()
    }
}

/// Tokens, as counted by Bedrock: what the cache read or wrote comes on top of `inputTokens`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_write_input_tokens: Option<u64>,
}

impl TokenUsage {
    pub fn usage(&self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or_default();
        let cache_write = self.cache_write_input_tokens.unwrap_or_default();
        let input = self.input_tokens.unwrap_or_default().saturating_add(cached).saturating_add(cache_write);
        let output = self.output_tokens.unwrap_or_default();
        let sum = input.saturating_add(output);
        // A total that leaves the cache out is not one.
        let total = self.total_tokens.unwrap_or_default().max(sum);
        Usage { input, output, total, cached, cache_write, ..Usage::default() }
    }
}

/// A call of a tool that Bedrock ran itself, in Anthropic's shape.
#[derive(Serialize)]
pub struct ServerCall<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    input: &'a Json<'a>,
}

impl<'a> ServerCall<'a> {
    pub fn new(id: &'a str, name: &'a str, input: &'a Json<'a>) -> Self {
        Self { kind: "server_tool_use", id, name, input }
    }
}

/// What such a tool brought, likewise: `type` is Bedrock's word (`nova_code_interpreter_result`).
#[derive(Serialize)]
pub struct ServerResult<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub tool_use_id: &'a str,
    pub content: &'a Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'a str>,
}

/// The answer's text for members told as they are.
pub fn emit_block<T: Serialize>(block: &T, sink: &mut dyn FnMut(Event<'_>)) {
    sink(Event::Block { choice: 0, json: Json::from_value(block).get() });
}

/// What answers tell beside the message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseExtras<'a> {
    #[serde(borrow)]
    additional_model_response_fields: Option<Json<'a>>,
    trace: Option<Json<'a>>,
    service_tier: Option<Tier<'a>>,
}

#[derive(Deserialize)]
struct Tier<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Json<'a>>,
}

impl ResponseExtras<'_> {
    pub fn emit(&self, sink: &mut dyn FnMut(Event<'_>)) {
        let tier = self.service_tier.as_ref().and_then(|tier| tier.kind.as_ref());
        let members = [
            ("additional_model_response_fields", self.additional_model_response_fields.as_ref()),
            ("trace", self.trace.as_ref()),
            ("service_tier", tier),
        ];
        for (name, json) in members {
            if let Some(json) = json.filter(|json| !json.is_null()) {
                sink(Event::Member { name, json: json.get() });
            }
        }
    }
}
