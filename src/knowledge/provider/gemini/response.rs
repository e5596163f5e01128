//! The shape of Gemini's responses. A whole response and a chunk of a stream look the same.

use super::logprobs::LogprobsIn;
use super::partial_args::PartialArg;
use serde::Deserialize;
use words::api::usage::Usage;
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
    pub usage_metadata: Option<UsageIn<'a>>,
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

/// `usageMetadata`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageIn<'a> {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    total_token_count: Option<u64>,
    prompt_tokens_details: Option<Vec<Share<'a>>>,
    tool_use_prompt_tokens_details: Option<Vec<Share<'a>>>,
    candidates_tokens_details: Option<Vec<Share<'a>>>,
    cache_tokens_details: Option<Vec<Share<'a>>>,
    /// The tier on Google's host; Vertex has `traffic_type` instead.
    #[serde(borrow)]
    service_tier: Option<JsonStr<'a>>,
    traffic_type: Option<JsonStr<'a>>,
}

/// The tokens of one kind of content.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Share<'a> {
    #[serde(borrow)]
    modality: Option<JsonStr<'a>>,
    token_count: Option<u64>,
}

impl UsageIn<'_> {
    /// The usage as OpenAI counts it: what Google's tools read counts as input, thinking as output. `None`
    /// without any count.
    pub(super) fn usage(&self) -> Option<Usage> {
        let counts = [self.prompt_token_count, self.candidates_token_count, self.total_token_count];
        counts.iter().find_map(|count| *count)?;
        let value = |count: Option<u64>| count.unwrap_or_default();
        let input = value(self.prompt_token_count).saturating_add(value(self.tool_use_prompt_token_count));
        let reasoning = value(self.thoughts_token_count);
        let output = value(self.candidates_token_count).saturating_add(reasoning);
        let of_input = |kind| {
            let by_tools = tokens_of(&self.tool_use_prompt_tokens_details, kind);
            tokens_of(&self.prompt_tokens_details, kind).saturating_add(by_tools)
        };
        let of_output = |kind| tokens_of(&self.candidates_tokens_details, kind);
        let of_cached = |kind| tokens_of(&self.cache_tokens_details, kind);
        Some(Usage {
            input,
            output,
            total: self.total_token_count.unwrap_or(input.saturating_add(output)),
            cached: value(self.cached_content_token_count),
            reasoning,
            input_audio: of_input("AUDIO"),
            output_audio: of_output("AUDIO"),
            input_image: of_input("IMAGE"),
            output_image: of_output("IMAGE"),
            input_video: of_input("VIDEO"),
            cached_audio: of_cached("AUDIO"),
            cached_image: of_cached("IMAGE"),
            ..Usage::default()
        })
    }

    /// OpenAI's name for the tier that served the request.
    pub(super) fn tier(&self) -> Option<&'static str> {
        let tier = self.service_tier.as_deref().or(self.traffic_type.as_deref())?;
        Some(match tier.to_ascii_uppercase().as_str() {
            "STANDARD" | "ON_DEMAND" => "default",
            "FLEX" | "ON_DEMAND_FLEX" => "flex",
            "PRIORITY" | "ON_DEMAND_PRIORITY" => "priority",
            "PROVISIONED_THROUGHPUT" => "scale",
            _ => return None,
        })
    }
}

/// The tokens of one kind of content.
fn tokens_of(shares: &Option<Vec<Share<'_>>>, kind: &str) -> u64 {
    let of_kind = shares.iter().flatten().filter(|share| share.modality.as_deref() == Some(kind));
    of_kind.fold(0, |sum: u64, share| sum.saturating_add(share.token_count.unwrap_or_default()))
}
