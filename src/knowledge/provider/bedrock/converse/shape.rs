//! The body of a Converse request. Members that are `None` or empty are left out.

use serde::Serialize;
use std::borrow::Cow;
use words::json::Json;

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    pub messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_config: Option<Inference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guardrail_config: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_model_request_fields: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_variables: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_model_response_field_paths: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_config: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_config: Option<Json<'a>>,
}

#[derive(Serialize)]
pub struct Turn<'a> {
    /// `user` or `assistant`.
    pub role: &'static str,
    pub content: Vec<Block<'a>>,
    /// How many blocks at the start are tool results and the cache points behind them.
    #[serde(skip)]
    pub results: usize,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<&'a str>,
}

impl Inference<'_> {
    pub(crate) fn take_if_any(&mut self) -> Option<Self> {
        let any = self.max_tokens.is_some()
            || self.temperature.is_some()
            || self.top_p.is_some()
            || !self.stop_sequences.is_empty();
        any.then(|| std::mem::take(self))
    }
}

/// One content block: an object with one member named after its kind. Large kinds are boxed, because most blocks are texts.
#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(&'a str),
    Image(Box<Media<'a>>),
    Video(Box<Media<'a>>),
    Audio(Box<Media<'a>>),
    Document(Box<Document<'a>>),
    ToolUse(Box<ToolUse<'a>>),
    ToolResult(Box<ToolResult<'a>>),
    ReasoningContent(Thinking<'a>),
    CachePoint(Box<CachePoint<'a>>),
}

#[derive(Serialize, Clone)]
pub(super) struct Media<'a> {
    pub format: &'static str,
    pub source: Source<'a>,
}

#[derive(Serialize, Clone)]
pub struct Document<'a> {
    pub format: &'static str,
    pub name: String,
    pub source: Source<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub citations: Option<Citations>,
}

/// Whether the model cites a document.
#[derive(Serialize, Clone)]
pub(super) struct Citations {
    pub enabled: bool,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub enum Source<'a> {
    /// Base64.
    Bytes(Cow<'a, str>),
    S3Location(S3Location<'a>),
}

#[derive(Serialize, Clone)]
pub struct S3Location<'a> {
    pub uri: &'a str,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    pub tool_use_id: Cow<'a, str>,
    pub name: &'a str,
    pub input: Json<'a>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult<'a> {
    pub tool_use_id: Cow<'a, str>,
    pub content: ResultContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Cow<'a, str>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Cow<'a, str>>,
}

/// A tool's result: blocks of ours, or Bedrock's own content unchanged.
#[derive(Clone)]
pub(crate) enum ResultContent<'a> {
    Blocks(Vec<Block<'a>>),
    Json(Json<'a>),
}

// Not serde's untagged enum: raw JSON does not survive it.
impl Serialize for ResultContent<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Blocks(blocks) => blocks.serialize(serializer),
            Self::Json(json) => json.serialize(serializer),
        }
    }
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
pub enum Thinking<'a> {
    ReasoningText(ReasoningText<'a>),
    RedactedContent(&'a str),
}

#[derive(Serialize, Clone)]
pub(crate) struct ReasoningText<'a> {
    pub text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<&'a str>,
}

/// Everything before this point is cached.
#[derive(Serialize, Clone)]
pub(crate) struct CachePoint<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `5m` or `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolConfig<'a> {
    pub tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
pub enum Tool<'a> {
    #[serde(rename = "toolSpec")]
    Spec(ToolSpec<'a>),
    #[serde(rename = "systemTool")]
    System(Named<'a>),
    #[serde(rename = "cachePoint")]
    CachePoint(CachePoint<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolSpec<'a> {
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    pub input_schema: InputSchema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct InputSchema<'a> {
    pub json: Json<'a>,
}

#[derive(Serialize)]
pub struct Named<'a> {
    pub name: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice<'a> {
    Auto {},
    Any {},
    Tool(Named<'a>),
}
