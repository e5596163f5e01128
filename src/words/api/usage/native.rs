//! Reads the usage of providers whose shape is neither OpenAI's nor Anthropic's: Bedrock's Converse, Gemini, Cohere.
//!
//! The one reader of these shapes: of responses that pass unchanged, and of those that the providers' decoders translate.

use super::super::service_tier::{self, ServiceTier};
use super::{Count, Details, Usage, UsageParts};
use crate::json::JsonStr;
use serde::Deserialize;

/// The members of all these shapes together: no name has two meanings.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VendorUsage<'a> {
    // Bedrock: cache reads and writes are not included in `inputTokens`.
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
    #[serde(borrow)]
    cache_details: Option<Vec<CacheShare<'a>>>,
    // Gemini's `usageMetadata`: tokens read by Google's own tools are input, thoughts are output.
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    total_token_count: Count,
    cached_content_token_count: Count,
    prompt_tokens_details: Shares<'a>,
    tool_use_prompt_tokens_details: Shares<'a>,
    candidates_tokens_details: Shares<'a>,
    cache_tokens_details: Shares<'a>,
    // Gemini's tier, and Vertex's way to say it.
    #[serde(deserialize_with = "service_tier::deserialize")]
    service_tier: Option<ServiceTier>,
    #[serde(deserialize_with = "service_tier::deserialize")]
    traffic_type: Option<ServiceTier>,
    // Cohere: `usage` of a chat, `meta` of everything else.
    tokens: Option<Cohere>,
    #[serde(rename = "billed_units")]
    billed_units: Option<Cohere>,
    #[serde(rename = "cached_tokens")]
    cached_tokens: Count,
}

type Shares<'a> = Option<Vec<Share<'a>>>;

/// The tokens of one kind of content.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Share<'a> {
    #[serde(borrow)]
    modality: Option<JsonStr<'a>>,
    token_count: Count,
}

/// Bedrock's cache writes of one lifetime.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheShare<'a> {
    #[serde(borrow)]
    ttl: Option<JsonStr<'a>>,
    input_tokens: Count,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Cohere {
    input_tokens: Count,
    image_tokens: Count,
    output_tokens: Count,
    search_units: Count,
}

/// Reads the JSON text of an object; `None` if it has no token counts in these shapes.
pub(super) fn read(json: &[u8]) -> Option<UsageParts> {
    let parts = serde_json::from_slice::<VendorUsage<'_>>(json).ok()?.parts();
    parts.counts().then_some(parts)
}

impl VendorUsage<'_> {
    /// The counts with OpenAI's meaning; `None` if no token count was reported.
    pub fn usage(&self) -> Option<Usage> {
        self.parts().usage()
    }

    /// The tier that Gemini served the request with.
    pub fn service_tier(&self) -> Option<ServiceTier> {
        self.service_tier.or(self.traffic_type)
    }

    /// The searches that Cohere's reranker bills.
    pub fn searches(&self) -> Option<u64> {
        self.billed_units.and_then(|billed| billed.search_units.0)
    }

    fn parts(&self) -> UsageParts {
        self.cohere().unwrap_or_else(|| self.bedrock_and_gemini())
    }

    fn bedrock_and_gemini(&self) -> UsageParts {
        let of_input = |kind| {
            sum(
                modality(&self.prompt_tokens_details, kind),
                modality(&self.tool_use_prompt_tokens_details, kind),
            )
        };
        let of_output = |kind| modality(&self.candidates_tokens_details, kind);
        let of_cached = |kind| modality(&self.cache_tokens_details, kind);
        let into = Details {
            cached_tokens: self.cached_content_token_count,
            audio_tokens: of_input("AUDIO"),
            image_tokens: of_input("IMAGE"),
            video_tokens: of_input("VIDEO"),
            cached_audio: of_cached("AUDIO"),
            cached_image: of_cached("IMAGE"),
            ..Details::default()
        };
        let out = Details {
            audio_tokens: of_output("AUDIO"),
            image_tokens: of_output("IMAGE"),
            reasoning_tokens: self.thoughts_token_count,
            ..Details::default()
        };
        let shares = self.cache_details.iter().flatten();
        let for_an_hour = shares.filter(|share| share.ttl.as_deref() == Some("1h"));
        UsageParts {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens,
            cache_creation_input_tokens: self.cache_write_input_tokens,
            cache_write_1h: for_an_hour.fold(Count(None), |total, share| sum(total, share.input_tokens)),
            prompt_tokens: sum(self.prompt_token_count, self.tool_use_prompt_token_count),
            completion_tokens: sum(self.candidates_token_count, self.thoughts_token_count),
            total_tokens: self.total_token_count.or(self.bedrock_total()),
            prompt_tokens_details: Some(into),
            completion_tokens_details: Some(out),
            service_tier: self.service_tier(),
            ..UsageParts::default()
        }
    }

    /// Some totals of Bedrock's leave the cache out; then the sum is used.
    fn bedrock_total(&self) -> Count {
        let cache = sum(self.cache_read_input_tokens, self.cache_write_input_tokens);
        let counted = sum(sum(self.input_tokens, self.output_tokens), cache);
        Count(self.total_tokens.0.filter(|total| *total >= counted.value()))
    }

    /// The tokens that the model processed, or the billed ones if only those are reported.
    fn cohere(&self) -> Option<UsageParts> {
        let has_tokens = |counts: &Cohere| sum(counts.input(), counts.output_tokens).0.is_some();
        let searches = self.billed_units.map_or(Count(None), |billed| billed.search_units);
        let counts = self.tokens.filter(has_tokens).or(self.billed_units.filter(has_tokens));
        let counts = counts.or_else(|| searches.0.map(|_| Cohere::default()))?;
        Some(UsageParts {
            rerank_searches: searches,
            prompt_tokens: counts.input(),
            completion_tokens: counts.output_tokens,
            cached_tokens: self.cached_tokens,
            ..UsageParts::default()
        })
    }
}

impl Cohere {
    fn input(self) -> Count {
        sum(self.input_tokens, self.image_tokens)
    }
}

/// The sum of two counts; absent only if both are.
fn sum(one: Count, other: Count) -> Count {
    match (one.0, other.0) {
        (Some(one), Some(other)) => Count(Some(one.saturating_add(other))),
        _ => one.or(other),
    }
}

/// The tokens of one kind of content; absent if none is reported.
fn modality(shares: &Shares<'_>, kind: &str) -> Count {
    let of_kind = shares.iter().flatten().filter(|share| share.modality.as_deref() == Some(kind));
    of_kind.fold(Count(None), |total, share| sum(total, share.token_count))
}

#[cfg(test)]
mod tests {
    use super::super::Usage;

    fn usage(counts: [u64; 7]) -> Option<Usage> {
        let [input, output, total, cached, cache_write, reasoning, input_audio] = counts;
        Some(Usage { input, output, total, cached, cache_write, reasoning, input_audio, ..Usage::default() })
    }

    #[test]
    fn every_vendor_shape_is_read_in_the_same_sense() {
        let cases = [
            // Bedrock: as Anthropic, with its own names; it reports the cache counts under two names at once.
            (
                r#"{"cacheReadInputTokenCount":2752,"cacheReadInputTokens":2752,"cacheWriteInputTokens":8,
                    "inputTokens":433,"outputTokens":16,"serverToolUsage":{},"totalTokens":3209}"#,
                usage([3193, 16, 3209, 2752, 8, 0, 0]),
            ),
            // Gemini: thoughts are not included in the candidates, Google's own tools not in the prompt.
            (
                r#"{"promptTokenCount":427,"candidatesTokenCount":122,"totalTokenCount":1767,
                    "promptTokensDetails":[{"modality":"TEXT","tokenCount":400},{"modality":"AUDIO","tokenCount":27}],
                    "toolUsePromptTokenCount":771,"thoughtsTokenCount":447,"cachedContentTokenCount":100}"#,
                usage([1198, 569, 1767, 100, 0, 447, 27]),
            ),
            (r#"{"promptTokenCount":7}"#, usage([7, 0, 7, 0, 0, 0, 0])),
            // Cohere: processed tokens are preferred over billed ones.
            (
                r#"{"billed_units":{"input_tokens":25,"output_tokens":9},
                    "tokens":{"input_tokens":91.0,"output_tokens":11},"cached_tokens":64}"#,
                usage([91, 11, 102, 64, 0, 0, 0]),
            ),
            (
                r#"{"api_version":{"version":"2"},"billed_units":{"image_tokens":3,"input_tokens":2}}"#,
                usage([5, 0, 5, 0, 0, 0, 0]),
            ),
            // A reranker is billed by searches.
            (
                r#"{"billed_units":{"search_units":1}}"#,
                Some(Usage { rerank_searches: 1, ..Usage::default() }),
            ),
            // Bedrock says which cache writes are kept for an hour.
            (
                r#"{"inputTokens":3,"outputTokens":1,"totalTokens":104,"cacheWriteInputTokens":100,
                    "cacheDetails":[{"ttl":"5m","inputTokens":60},{"ttl":"1h","inputTokens":40}]}"#,
                usage([103, 1, 104, 0, 100, 0, 0]).map(|usage| Usage { cache_write_1h: 40, ..usage }),
            ),
            // A total that leaves the cache out is none; one that has more is kept.
            (
                r#"{"inputTokens":3,"outputTokens":1,"totalTokens":4,"cacheReadInputTokens":100,"cacheDetails":null}"#,
                usage([103, 1, 104, 100, 0, 0, 0]),
            ),
            (r#"{"inputTokens":3,"outputTokens":1,"totalTokens":9}"#, usage([3, 1, 9, 0, 0, 0, 0])),
            // Gemini says what the tokens are.
            (
                r#"{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15,"cachedContentTokenCount":6,
                    "promptTokensDetails":[{"modality":"IMAGE","tokenCount":4},{"modality":"VIDEO","tokenCount":2}],
                    "cacheTokensDetails":[{"modality":"AUDIO","tokenCount":3}],
                    "candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":5}]}"#,
                usage([10, 5, 15, 6, 0, 0, 0]).map(|usage| Usage {
                    input_image: 4,
                    input_video: 2,
                    cached_audio: 3,
                    output_image: 5,
                    ..usage
                }),
            ),
            (r#"{"trafficType":"ON_DEMAND"}"#, None),
            (r#"{"api_version":{"version":"1"}}"#, None),
        ];
        for (json, wanted) in cases {
            assert_eq!(Usage::read(json.as_bytes()), wanted, "{json}");
        }
    }
}
