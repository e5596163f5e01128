//! Which finish reasons say that a filter has withheld the answer, or a part of it, whoever's API it is.
//!
//! The names are those of the decoders of `knowledge::provider`: OpenAI, Azure and most others; Anthropic (`refusal`); Google, with
//! the reasons for which it blocks a prompt; Amazon; Cohere; Z.ai (`sensitive`).

const REASONS: [&str; 20] = [
    "content_filter",
    "content_filtered",
    "refusal",
    "safety",
    "recitation",
    "language",
    "blocklist",
    "blocked",
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

/// Whether a response of OpenAI's APIs, whole or streamed, has a refusal: a text in a member `refusal`. The finish reason says nothing of it.
pub fn has_refusal(body: &[u8]) -> bool {
    const NAME: &[u8] = b"\"refusal\"";
    memchr::memmem::find_iter(body, NAME).any(|at| {
        let behind = body.get(at + NAME.len()..).unwrap_or_default().trim_ascii_start();
        let value = behind.strip_prefix(b":").unwrap_or_default().trim_ascii_start();
        value.starts_with(b"\"") && !value.starts_with(b"\"\"")
    })
}

/// Whether a finish reason is a filter's.
pub(super) fn is_filter(finish: &str) -> bool {
    REASONS.iter().any(|reason| reason.eq_ignore_ascii_case(finish))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_text_in_its_member() {
        for body in [
            r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#,
            r#"{"output":[{"content":[{"type":"refusal", "refusal" : "no"}]}]}"#,
            "data: {\"choices\":[{\"delta\":{\"refusal\":\"n\"}}]}\n\n",
        ] {
            assert!(has_refusal(body.as_bytes()), "{body}");
        }
        for body in [
            r#"{"choices":[{"message":{"content":"a","refusal":null}}]}"#,
            r#"{"choices":[{"message":{"content":"a","refusal":""}}]}"#,
            r#"{"choices":[{"message":{"content":"{\"refusal\": \"no\"}"}}]}"#,
            r#"{"stop_reason":"refusal","a":"b"}"#,
            "",
        ] {
            assert!(!has_refusal(body.as_bytes()), "{body}");
        }
        assert!(is_filter("blocked") && is_filter("BLOCKED") && !is_filter("stop"));
    }
}
