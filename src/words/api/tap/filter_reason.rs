//! Which finish reasons say that a filter has withheld the answer, or a part of it, whoever's API it is.
//!
//! The names are those of the decoders of `knowledge::provider`: OpenAI, Azure and most others; Anthropic (`refusal`); Google, with
//! the reasons for which it blocks a prompt; Amazon; Cohere; Z.ai (`sensitive`).

const REASONS: [&str; 19] = [
    "content_filter",
    "content_filtered",
    "refusal",
    "safety",
    "recitation",
    "language",
    "blocklist",
    "prohibited_content",
    "spii",
    "image_safety",
    "image_prohibited_content",
    "image_recitation",
    "model_armor",
    "jailbreak",
    "other",
    "block_reason_unspecified",
    "guardrail_intervened",
    "error_toxic",
    "sensitive",
];

/// Whether a finish reason is a filter's.
pub(super) fn is_filter(finish: &str) -> bool {
    REASONS.iter().any(|reason| reason.eq_ignore_ascii_case(finish))
}
