//! What Anthropic's dialect calls things: stop reasons, usage, and the marks this gateway puts on what the
//! dialect has no place for.

use crate::api::chat::Finish;
use crate::api::usage::Usage;
use serde::Serialize;
use std::borrow::Cow;

/// A provider's seal on a tool call (Gemini's thought signature) must come back with the call, and clients
/// drop members they do not know, but keep thinking blocks. So it travels as the signature of one, behind
/// this mark. No provider's own signature starts like that: they are base64.
const CALL_SIGNATURE_PREFIX: &str = "tool_call:";

/// A call's seal as the signature of a thinking block.
pub(super) fn encode_call_signature(signature: &str) -> String {
    [CALL_SIGNATURE_PREFIX, signature].concat()
}

/// The seal in a thinking block's signature, where it is one of ours.
pub(super) fn decode_call_signature<'a>(signature: &Cow<'a, str>) -> Option<Cow<'a, str>> {
    Some(match signature {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_prefix(CALL_SIGNATURE_PREFIX)?),
        Cow::Owned(text) => Cow::Owned(text.strip_prefix(CALL_SIGNATURE_PREFIX)?.to_owned()),
    })
}

/// What stands in for a picture or a sound in a strictly standard answer: answers of this dialect have no
/// block for one, and saying nothing would hide that there was one.
pub(super) fn omission_note(media_type: &str, base64: usize) -> String {
    let bytes = base64 / 4 * 3;
    format!(
        "[{media_type}, {bytes} bytes: left out, an Anthropic message has no block for it. \
         Set strict_std_compliance to false to get it.]"
    )
}

/// Why it stopped. Anthropic's own words stay where the provider speaks them.
pub(super) fn stop_reason(reason: Finish, native: &str, refused: bool) -> &'static str {
    const OWN: [&str; 7] = [
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "compaction",
    ];
    if reason == Finish::ToolCalls {
        return "tool_use";
    }
    // Cohere says the same in capitals.
    if let Some(own) = OWN.into_iter().find(|own| own.eq_ignore_ascii_case(native)) {
        return own;
    }
    match reason {
        Finish::Length => "max_tokens",
        Finish::ContentFilter => "refusal",
        Finish::Stop if refused => "refusal",
        Finish::Stop | Finish::ToolCalls => "end_turn",
    }
}

/// Anthropic's `usage`: what the cache read or wrote is counted beside the input, not in it.
#[derive(Debug, Serialize)]
pub(super) struct UsageOut<'a> {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<Cow<'a, str>>,
}

#[derive(Debug, Serialize)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl<'a> UsageOut<'a> {
    pub(super) fn new(usage: &Usage, service_tier: Option<Cow<'a, str>>) -> Self {
        let cache_tokens = usage.cached.saturating_add(usage.cache_write);
        let thinking = Some(usage.reasoning).filter(|&tokens| tokens > 0);
        Self {
            input_tokens: usage.input.saturating_sub(cache_tokens),
            cache_creation_input_tokens: usage.cache_write,
            cache_read_input_tokens: usage.cached,
            output_tokens: usage.output,
            output_tokens_details: thinking.map(|thinking_tokens| OutputDetails { thinking_tokens }),
            service_tier,
        }
    }
}
