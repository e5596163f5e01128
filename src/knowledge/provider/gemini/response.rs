//! The envelope of Gemini's responses. A whole response and a chunk of a stream look the same. What is inside is in
//! `api::gemini::wire`.

use serde::Deserialize;
use words::api::gemini::wire::GeminiCandidate;
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
    pub candidates: Option<Vec<GeminiCandidate<'a>>>,
    pub prompt_feedback: Option<PromptFeedback<'a>>,
    pub usage_metadata: Option<VendorUsage<'a>>,
    pub error: Option<Json<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub block_reason: Option<JsonStr<'a>>,
    pub block_reason_message: Option<JsonStr<'a>>,
}
