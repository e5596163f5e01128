//! Names of Anthropic's dialect: stop reasons, usage, and the gateway's own encodings of what the dialect lacks.

use crate::api::chat::Finish;
use crate::api::usage::Usage;
use serde::Serialize;
use std::borrow::Cow;

/// Marks a thinking block's signature that is really the signature of a tool call (Gemini's thought signature), which
/// the client must send back with the call. Clients drop unknown members but keep thinking blocks, so it is sent as
/// one. No provider's own signature starts like this: they are base64. Running conversations contain the prefix.
const CALL_SIGNATURE_PREFIX: &str = "tool_call:";

/// Encodes a tool call's signature as the signature of a thinking block.
pub(super) fn encode_call_signature(signature: &str) -> String {
    [CALL_SIGNATURE_PREFIX, signature].concat()
}

/// The tool call's signature in a thinking block's signature, if it was encoded by the gateway.
pub(super) fn decode_call_signature<'a>(signature: &Cow<'a, str>) -> Option<Cow<'a, str>> {
    Some(match signature {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_prefix(CALL_SIGNATURE_PREFIX)?),
        Cow::Owned(text) => Cow::Owned(text.strip_prefix(CALL_SIGNATURE_PREFIX)?.to_owned()),
    })
}

/// The text that replaces an image or audio in a strictly standard response: the dialect's responses have no block
/// for them, and to omit them silently would hide that there was one. `base64`: the length of the data, where it is
/// known.
pub(super) fn omission_note(media_type: &str, base64: Option<usize>) -> String {
    let size = base64.map(|length| format!(", {} bytes", length / 4 * 3)).unwrap_or_default();
    format!(
        "[{media_type}{size}: left out, an Anthropic message has no block for it. \
         Set strict_std_compliance to false to get it.]"
    )
}

/// The text that replaces an image that the provider only gives the address of.
pub(super) fn image_note(url: &str) -> String {
    format!("[image: {url}]")
}

/// Anthropic's name of the service tier that served a request; `None` for tiers that Anthropic does not have.
/// Source: `service_tier` in `types/usage.py` of Anthropic's Python SDK 2.12.0.
pub(super) fn service_tier(tier: &str) -> Option<&'static str> {
    match tier {
        "standard" | "default" | "auto" | "on_demand" => Some("standard"),
        "priority" => Some("priority"),
        "batch" => Some("batch"),
        _ => None,
    }
}

/// The stop reason. A reason of Anthropic's own is kept when the provider sent it.
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
    // Cohere sends the same names in capitals.
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

/// Anthropic's `usage`: tokens read from or written to the cache are not part of `input_tokens`.
#[derive(Debug, Serialize)]
pub(super) struct UsageOut {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl UsageOut {
    pub(super) fn new(usage: &Usage, service_tier: Option<&'static str>) -> Self {
        let cached = usage.cached.min(usage.input);
        // More than the prompt: the tokens that were written are those that were read.
        let is_overlap = cached.saturating_add(usage.cache_write) > usage.input;
        let cache_write =
            if is_overlap { usage.cache_write.saturating_sub(cached) } else { usage.cache_write };
        let cache_write = cache_write.min(usage.input - cached);
        let thinking = Some(usage.reasoning).filter(|&tokens| tokens > 0);
        Self {
            input_tokens: usage.input - cached - cache_write,
            cache_creation_input_tokens: cache_write,
            cache_read_input_tokens: cached,
            output_tokens: usage.output,
            output_tokens_details: thinking.map(|thinking_tokens| OutputDetails { thinking_tokens }),
            service_tier,
        }
    }
}
