//! The members of Converse's responses that are read. Flat structs, because serde's enums cannot hold raw
//! JSON.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html> and its
//! stream counterparts.

use serde::{Deserialize, Serialize};
use words::api::chat::Event;
use words::json::{Json, JsonStr};

/// A content block or a delta of one; exactly one member is present.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub text: Option<JsonStr<'a>>,
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
pub(super) struct ToolUse<'a> {
    #[serde(borrow)]
    pub tool_use_id: Option<JsonStr<'a>>,
    pub name: Option<JsonStr<'a>>,
    /// An object in a whole response; in a stream a string with a fragment of its JSON text.
    pub input: Option<Json<'a>>,
    /// `tool_use`, or `server_tool_use` for a tool that Bedrock runs itself.
    #[serde(rename = "type")]
    pub kind: Option<JsonStr<'a>>,
}

impl ToolUse<'_> {
    /// Whether Bedrock runs the tool itself; then the client must not be asked for its result.
    pub(crate) fn is_server_tool(&self) -> bool {
        self.kind.as_deref() == Some("server_tool_use")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult<'a> {
    #[serde(borrow)]
    pub tool_use_id: Option<JsonStr<'a>>,
    pub content: Option<Json<'a>>,
    pub status: Option<JsonStr<'a>>,
    #[serde(rename = "type")]
    pub kind: Option<JsonStr<'a>>,
}

/// Thinking: inside `reasoningText` in a whole response, directly in a stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reasoning<'a> {
    #[serde(borrow)]
    pub reasoning_text: Option<ReasoningText<'a>>,
    pub text: Option<JsonStr<'a>>,
    pub signature: Option<JsonStr<'a>>,
    pub redacted_content: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ReasoningText<'a> {
    #[serde(borrow)]
    pub text: Option<JsonStr<'a>>,
    pub signature: Option<JsonStr<'a>>,
}

impl Reasoning<'_> {
    /// Emits the thinking. The signature comes after the text, because it ends a block of thinking.
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
pub(crate) struct CitationsContent<'a> {
    #[serde(borrow, default)]
    pub content: Option<Vec<CitedText<'a>>>,
    #[serde(default)]
    pub citations: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct CitedText<'a> {
    #[serde(borrow)]
    pub text: Option<JsonStr<'a>>,
}

/// A picture or sound. In a stream the start has only the format and the deltas have only the bytes.
#[derive(Deserialize)]
pub(super) struct Media<'a> {
    #[serde(borrow)]
    pub format: Option<JsonStr<'a>>,
    pub source: Option<MediaSource<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct MediaSource<'a> {
    #[serde(borrow)]
    pub bytes: Option<JsonStr<'a>>,
}

impl Media<'_> {
    pub fn bytes(&self) -> &str {
        self.source.as_ref().and_then(|source| source.bytes.as_deref()).unwrap_or_default()
    }
}

/// A call of a tool that Bedrock ran itself, in Anthropic's shape.
#[derive(Serialize)]
pub(crate) struct ServerCall<'a> {
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

/// The result of such a tool, in Anthropic's shape, but with Bedrock's `type`
/// (`nova_code_interpreter_result`).
#[derive(Serialize)]
pub(crate) struct ServerResult<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub tool_use_id: &'a str,
    pub content: &'a Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'a str>,
}

/// Emits a block as one `Block` event with its JSON.
pub(crate) fn emit_block<T: Serialize>(block: &T, sink: &mut dyn FnMut(Event<'_>)) {
    sink(Event::Block { choice: 0, json: Json::from_value(block).get() });
}

/// The members of a response besides the message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResponseExtras<'a> {
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
