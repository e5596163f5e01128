//! The shape of the dialect's responses: `GenerateContentResponse`, whole or as one chunk of a stream.
//!
//! Only the types and the words in them; what becomes which part is decided in `encoder`.

use super::blocks::{BlockKind, BlockPart};
use super::wire::{GeminiBlob, GeminiCall, GeminiCandidate, GeminiContent, GeminiPart};
use crate::api::chat::{Finish, ToolCall};
use crate::api::usage::Usage;
use crate::json::{Json, JsonStr};
use serde::Serialize;

/// `GenerateContentResponse`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseOut<'a> {
    pub candidates: Vec<GeminiCandidate<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_metadata: Option<UsageOut>,
    pub model_version: &'a str,
    pub response_id: &'a str,
}

impl<'a> GeminiCandidate<'a> {
    pub(super) fn new(index: u32, parts: Vec<GeminiPart<'a>>) -> Self {
        let content = GeminiContent { parts: Some(parts), role: Some("model".into()) };
        Self { content: Some(content), index: Some(index), ..Self::default() }
    }
}

impl<'a> GeminiPart<'a> {
    pub(super) fn text(text: &'a str) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    pub(super) fn thought(text: &'a str) -> Self {
        Self { thought: Some(true), ..Self::text(text) }
    }

    pub(super) fn media(mime_type: &'a str, data: &'a str) -> Self {
        let mime_type = Some(mime_type.into());
        let blob = GeminiBlob { mime_type, data: Some(data.into()), ..GeminiBlob::default() };
        Self { inline_data: Some(blob), ..Self::default() }
    }

    pub(super) fn call(id: &'a str, name: &'a str, arguments: &'a str, signature: Option<&'a str>) -> Self {
        let id = Some(id).filter(|id| !id.is_empty()).map(JsonStr::from);
        let args = Some(args(arguments));
        let call = GeminiCall { id, name: Some(name.into()), args, ..GeminiCall::default() };
        Self { function_call: Some(call), ..Self::default() }.signed(signature)
    }

    #[must_use]
    pub(super) fn signed(mut self, signature: Option<&'a str>) -> Self {
        self.thought_signature = signature.map(JsonStr::from);
        self
    }

    pub(super) fn block(block: BlockPart<'a>) -> Self {
        let BlockPart { kind, json, signature } = block;
        let mut part = Self { thought_signature: signature.map(JsonStr), ..Self::default() };
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

/// A call's arguments on one line, as each event of a stream is.
fn args(text: &str) -> Json<'_> {
    let json = ToolCall::input(text);
    let in_one_line = || Json::owned(json.get().replace(['\n', '\r'], " "));
    let folded = json.get().contains(['\n', '\r']).then(in_one_line).flatten();
    folded.unwrap_or(json)
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
