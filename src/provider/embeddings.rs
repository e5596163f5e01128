//! Embedding answers of OpenAI's shape that lack what its clients count on: Voyage tells `total_tokens` only.
//!
//! Not the vendors with an embedding shape of their own: those translate it in their own files.

use super::way::Mend;
use crate::api::chat::Json;
use serde::Deserialize;

/// Adds `usage.prompt_tokens`: all tokens of an embedding go in.
#[derive(Debug)]
pub struct PromptTokens;

/// [`PromptTokens`], for rows.
pub static PROMPT_TOKENS: PromptTokens = PromptTokens;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    usage: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    total_tokens: u64,
}

impl Mend for PromptTokens {
    fn mend(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(data).ok()?;
        let answer: Answer<'_> = serde_json::from_str(text).ok()?;
        let usage = answer.usage?;
        let told = usage.read::<Usage>().filter(|told| told.prompt_tokens.is_none())?;
        let usage = usage.source()?;
        // Where the object's first member would stand.
        let at = (usage.as_ptr() as usize).saturating_sub(text.as_ptr() as usize) + 1;
        let (before, after) = text.split_at_checked(at)?;
        Some(format!(r#"{before}"prompt_tokens":{},{after}"#, told.total_tokens).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_under_both_names() {
        let mend = |text: &str| {
            PROMPT_TOKENS.mend(text.as_bytes(), false).map(|out| String::from_utf8(out).unwrap())
        };
        let told = mend(r#"{"data":[{"embedding":[0.10]}],"usage":{"total_tokens":4},"model":"v"}"#);
        let wanted =
            r#"{"data":[{"embedding":[0.10]}],"usage":{"prompt_tokens":4,"total_tokens":4},"model":"v"}"#;
        assert_eq!(told.as_deref(), Some(wanted));
        assert_eq!(mend(wanted), None);
        assert_eq!(mend("{}"), None);
        assert_eq!(mend("nonsense"), None);
    }
}
