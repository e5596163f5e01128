//! The shape of Gemini's responses. A whole response and a chunk of a stream look the same.

use super::logprobs::LogprobsIn;
use super::partial_args::PartialArg;
use serde::Deserialize;
use words::api::usage::VendorUsage;
use words::json::{Json, JsonStr};

/// `GenerateContentResponse`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub response_id: Option<JsonStr<'a>>,
    pub model_version: Option<JsonStr<'a>>,
    /// RFC 3339; Vertex only.
    pub create_time: Option<JsonStr<'a>>,
    pub candidates: Option<Vec<Candidate<'a>>>,
    pub prompt_feedback: Option<PromptFeedback<'a>>,
    pub usage_metadata: Option<VendorUsage<'a>>,
    pub error: Option<Json<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub index: Option<u32>,
    #[serde(borrow)]
    pub content: Option<ContentIn<'a>>,
    pub finish_reason: Option<JsonStr<'a>>,
    pub finish_message: Option<JsonStr<'a>>,
    pub grounding_metadata: Option<Json<'a>>,
    pub citation_metadata: Option<Json<'a>>,
    pub url_context_metadata: Option<Json<'a>>,
    pub safety_ratings: Option<Json<'a>>,
    pub logprobs_result: Option<LogprobsIn<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentIn<'a> {
    #[serde(borrow)]
    pub parts: Option<Vec<PartIn<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartIn<'a> {
    #[serde(borrow)]
    pub text: Option<JsonStr<'a>>,
    pub thought: Option<bool>,
    pub thought_signature: Option<JsonStr<'a>>,
    pub function_call: Option<CallIn<'a>>,
    pub inline_data: Option<BlobIn<'a>>,
    pub file_data: Option<Json<'a>>,
    pub executable_code: Option<Json<'a>>,
    pub code_execution_result: Option<Json<'a>>,
    pub tool_call: Option<Json<'a>>,
    pub tool_response: Option<Json<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallIn<'a> {
    #[serde(borrow)]
    pub id: Option<JsonStr<'a>>,
    pub name: Option<JsonStr<'a>>,
    pub args: Option<Json<'a>>,
    /// Pieces of the arguments, where they are streamed.
    pub partial_args: Option<Vec<PartialArg<'a>>>,
    /// More pieces of this call follow.
    pub will_continue: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlobIn<'a> {
    #[serde(borrow)]
    pub mime_type: Option<JsonStr<'a>>,
    pub data: Option<JsonStr<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub block_reason: Option<JsonStr<'a>>,
    pub block_reason_message: Option<JsonStr<'a>>,
}
