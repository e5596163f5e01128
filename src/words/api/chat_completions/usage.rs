//! The `usage` object of chat completions.

use crate::api::usage::Usage;
use serde::Serialize;

/// The `usage` object. The two details objects are always written, so that clients need not check for them.
#[derive(Debug, Serialize)]
pub(in crate::api) struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
    /// The two cache counts again under Anthropic's names, as Portkey writes them; omitted
    /// when zero, and from responses that hold only what the standard has.
    #[serde(skip_serializing_if = "is_zero")]
    cache_read_input_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_creation_input_tokens: u64,
}

#[derive(Debug, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write_tokens: u64,
    audio_tokens: u64,
}

#[derive(Debug, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
    audio_tokens: u64,
    accepted_prediction_tokens: u64,
    rejected_prediction_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl UsageOut {
    /// `strict`: with the standard's members only.
    pub fn new(usage: Usage, strict: bool) -> Self {
        let (read, written) = if strict { (0, 0) } else { (usage.cached, usage.cache_write) };
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total,
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached,
                cache_write_tokens: usage.cache_write,
                audio_tokens: usage.input_audio,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning,
                audio_tokens: usage.output_audio,
                accepted_prediction_tokens: 0,
                rejected_prediction_tokens: 0,
            },
            cache_read_input_tokens: read,
            cache_creation_input_tokens: written,
        }
    }
}
