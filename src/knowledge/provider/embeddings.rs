//! Completes embedding responses in OpenAI's shape: Voyage sends `total_tokens` only, clients also expect
//! `prompt_tokens`.
//!
//! Not for vendors with their own embedding shape: those translate it in their own files.

use super::adapter::ResponsePatch;
use serde::Deserialize;
use words::json::Json;

/// Adds `usage.prompt_tokens`, which equals `total_tokens`: an embedding has input tokens only.
#[derive(Debug)]
pub(crate) struct PromptTokens;

/// The instance that provider specs refer to.
pub(crate) static PROMPT_TOKENS: PromptTokens = PromptTokens;

#[derive(Deserialize)]
struct ResponseIn<'a> {
    #[serde(borrow)]
    usage: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    total_tokens: u64,
}

impl ResponsePatch for PromptTokens {
    fn patch(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(data).ok()?;
        let response: ResponseIn<'_> = serde_json::from_str(text).ok()?;
        let usage = response.usage?;
        let tokens = usage.read::<Usage>().filter(|tokens| tokens.prompt_tokens.is_none())?;
        let usage = usage.source()?;
        // The position right after the opening brace of the `usage` object.
        let at = (usage.as_ptr() as usize).saturating_sub(text.as_ptr() as usize) + 1;
        let (before, after) = text.split_at_checked(at)?;
        Some(format!(r#"{before}"prompt_tokens":{},{after}"#, tokens.total_tokens).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_prompt_tokens_equal_to_total_tokens() {
        let patch = |text: &str| {
            PROMPT_TOKENS.patch(text.as_bytes(), false).map(|out| String::from_utf8(out).unwrap())
        };
        let patched = patch(r#"{"data":[{"embedding":[0.10]}],"usage":{"total_tokens":4},"model":"v"}"#);
        let wanted =
            r#"{"data":[{"embedding":[0.10]}],"usage":{"prompt_tokens":4,"total_tokens":4},"model":"v"}"#;
        assert_eq!(patched.as_deref(), Some(wanted));
        assert_eq!(patch(wanted), None);
        assert_eq!(patch("{}"), None);
        assert_eq!(patch("nonsense"), None);
    }
}
