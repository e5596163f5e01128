//! Completes embedding responses in OpenAI's shape: Voyage sends `total_tokens` only, clients also expect
//! `prompt_tokens`; many send numbers where base64 was requested, and OpenAI's libraries then give their caller nothing.
//!
//! Vendors with their own embedding shape read it in their own files, and write it here.

use super::adapter::ResponsePatch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::embedding_list::EmbeddingList;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// Adds `usage.prompt_tokens`, which equals `total_tokens`: an embedding has input tokens only.
#[derive(Debug)]
pub(crate) struct PromptTokens;

/// The instance that provider specs refer to.
pub(crate) static PROMPT_TOKENS: PromptTokens = PromptTokens;

/// Writes vectors of numbers as base64 of 32-bit floats, least significant byte first, as OpenAI does
/// (<https://github.com/openai/openai-node/blob/master/src/resources/embeddings.ts>). `then`: what else the vendor's responses need.
#[derive(Debug)]
pub(crate) struct Base64 {
    then: Option<&'static dyn ResponsePatch>,
}

static BASE64: Base64 = Base64 { then: None };
static BASE64_AND_PROMPT_TOKENS: Base64 = Base64 { then: Some(&PROMPT_TOKENS) };

impl Base64 {
    /// What corrects a response where base64 was requested, in place of the vendor's `patch`.
    pub fn before(patch: Option<&'static dyn ResponsePatch>) -> &'static dyn ResponsePatch {
        if patch.is_some() { &BASE64_AND_PROMPT_TOKENS } else { &BASE64 }
    }
}

impl ResponsePatch for Base64 {
    fn patch(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(data).ok()?;
        let response = Object::read(text.trim())?;
        let mut splice = Splice::new(text.trim());
        for entry in response.list("data") {
            let Some(vector) = entry.json_of("embedding").filter(|json| json.starts_with('[')) else {
                continue;
            };
            let Some(encoded) = base64(vector) else { continue };
            splice.replace(&entry, "embedding", encoded);
        }
        let encoded = splice.finish();
        let after = self.then.and_then(|then| then.patch(encoded.as_deref().unwrap_or(data), streamed));
        after.or(encoded)
    }
}

/// The JSON string of a vector in base64; `None` if it is no list of numbers.
fn base64(vector: &str) -> Option<String> {
    let vector: Vec<f32> = serde_json::from_str(vector).ok()?;
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    Some(format!("\"{}\"", STANDARD.encode(bytes)))
}

/// The body of a translated response, with its vectors as `request` wants them.
///
/// # Errors
/// 502 for a vector that is no list of numbers, where base64 is wanted.
pub(super) fn written(mut list: EmbeddingList<'_>, request: Option<&Body>) -> Result<Vec<u8>, ProviderError> {
    let wrong = || ProviderError::unreadable("an embedding is no list of numbers");
    if request.and_then(|body| body.text("encoding_format")).as_deref() == Some("base64") {
        for item in &mut list.data {
            item.embedding = base64(item.embedding.get()).and_then(Json::owned).ok_or_else(wrong)?;
        }
    }
    serde_json::to_vec(&list).map_err(|_| wrong())
}

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
    fn numbers_become_base64() {
        let patch = |patch: Option<&'static dyn ResponsePatch>, text: &str| {
            let patched = Base64::before(patch).patch(text.as_bytes(), false);
            patched.map(|out| String::from_utf8(out).unwrap())
        };
        let numbers = r#"{"data":[{"index":0,"embedding":[0.5, -0.25,1]}],"usage":{"total_tokens":4}}"#;
        let encoded = r#"{"data":[{"index":0,"embedding":"AAAAPwAAgL4AAIA/"}],"usage":{"total_tokens":4}}"#;
        assert_eq!(patch(None, numbers).as_deref(), Some(encoded));
        assert_eq!(patch(None, encoded), None, "they are already");
        let both = encoded.replace("\"total", "\"prompt_tokens\":4,\"total");
        assert_eq!(patch(Some(&PROMPT_TOKENS), numbers), Some(both));
        assert_eq!(patch(None, "nonsense"), None);
    }

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
