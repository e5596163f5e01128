//! The shape of the dialect's responses: `GenerateContentResponse`, whole or as one chunk of a stream.
//!
//! Only the types and the words in them; what becomes which part is decided in `encoder`.

use super::blocks::{BlockKind, BlockPart};
use crate::api::chat::Finish;
use crate::api::usage::Usage;
use crate::json::Json;
use serde::Serialize;
use std::borrow::Cow;

/// `GenerateContentResponse`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseOut<'a> {
    pub candidates: Vec<CandidateOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<UsageOut>,
    pub model_version: &'a str,
    pub response_id: &'a str,
}

/// `Candidate`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateOut<'a> {
    pub content: ContentOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_message: Option<Json<'a>>,
    pub index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_ratings: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grounding_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_context_metadata: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs_result: Option<Json<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct ContentOut<'a> {
    pub parts: Vec<PartOut<'a>>,
    pub role: &'static str,
}

impl<'a> CandidateOut<'a> {
    pub fn new(index: u32, parts: Vec<PartOut<'a>>) -> Self {
        Self {
            content: ContentOut { parts, role: "model" },
            finish_reason: None,
            finish_message: None,
            index,
            safety_ratings: None,
            grounding_metadata: None,
            url_context_metadata: None,
            logprobs_result: None,
        }
    }
}

/// `Part`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_data: Option<BlobOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_call: Option<CallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable_code: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_execution_result: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_response: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<Cow<'a, str>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobOut<'a> {
    pub mime_type: &'a str,
    pub data: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct CallOut<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub id: &'a str,
    pub name: &'a str,
    pub args: Json<'a>,
}

impl<'a> PartOut<'a> {
    pub fn text(text: &'a str) -> Self {
        Self { text: Some(Cow::Borrowed(text)), ..Self::default() }
    }

    pub fn thought(text: &'a str) -> Self {
        Self { thought: true, ..Self::text(text) }
    }

    pub fn media(mime_type: &'a str, data: &'a str) -> Self {
        Self { inline_data: Some(BlobOut { mime_type, data }), ..Self::default() }
    }

    pub fn call(id: &'a str, name: &'a str, arguments: &'a str, signature: Option<&'a str>) -> Self {
        let function_call = Some(CallOut { id, name, args: args(arguments) });
        Self { function_call, thought_signature: signature.map(Cow::Borrowed), ..Self::default() }
    }

    #[must_use]
    pub fn signed(mut self, signature: Option<&'a str>) -> Self {
        self.thought_signature = signature.map(Cow::Borrowed);
        self
    }

    pub fn block(block: BlockPart<'a>) -> Self {
        let BlockPart { kind, json, signature } = block;
        let mut part = Self { thought_signature: signature, ..Self::default() };
        let place = match kind {
            BlockKind::ExecutableCode => &mut part.executable_code,
            BlockKind::CodeExecutionResult => &mut part.code_execution_result,
            BlockKind::ToolCall => &mut part.tool_call,
            BlockKind::ToolResponse => &mut part.tool_response,
            BlockKind::FileData => &mut part.file_data,
        };
        *place = Some(json);
        part
    }
}

/// A call's arguments, which must be an object. Anything else is wrapped, so that no tool runs with incomplete arguments.
fn args(text: &str) -> Json<'_> {
    match text.trim() {
        "" | "null" => Json::empty_object(),
        trimmed => match Json::parse(trimmed).filter(Json::is_object) {
            // In a stream each event is one line.
            Some(json) if trimmed.contains(['\n', '\r']) => {
                Json::owned(json.get().replace(['\n', '\r'], " ")).unwrap_or(json)
            }
            Some(json) => json,
            None => Json::object_with("INVALID_JSON", text),
        },
    }
}

/// `usageMetadata`: thinking is not part of `candidatesTokenCount`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageOut {
    prompt_token_count: u64,
    candidates_token_count: u64,
    total_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached_content_token_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    thoughts_token_count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        let thoughts = usage.reasoning.min(usage.output);
        Self {
            prompt_token_count: usage.input,
            candidates_token_count: usage.output - thoughts,
            total_token_count: usage.total,
            cached_content_token_count: usage.cached,
            thoughts_token_count: thoughts,
        }
    }
}

/// `finishReason`. A reason of Google's own is kept when the provider sent it.
pub(super) fn finish_reason(reason: Finish, native: &str, refused: bool) -> &'static str {
    const OWN: [&str; 21] = [
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MALFORMED_FUNCTION_CALL",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
        "JAILBREAK",
    ];
    if let Some(own) = OWN.into_iter().find(|own| *own == native) {
        return own;
    }
    match reason {
        Finish::Length => "MAX_TOKENS",
        Finish::ContentFilter => "SAFETY",
        Finish::Stop if refused => "SAFETY",
        // A turn with calls ends like any other.
        Finish::Stop | Finish::ToolCalls => "STOP",
    }
}

/// The response of `countTokens`.
pub fn count_response(tokens: u64) -> Vec<u8> {
    format!("{{\"totalTokens\":{tokens}}}").into_bytes()
}
