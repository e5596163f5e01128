//! OpenAI's response of `/v1/embeddings`: what providers of other shapes are written as, and what Gemini's dialect reads.
//!
//! Vectors keep their digits. Not here: what a vendor leaves out of it or writes in another way.

use crate::json::{Json, JsonStr};
use serde::{Deserialize, Serialize};

/// The list of vectors.
#[derive(Debug, Deserialize, Serialize)]
pub struct EmbeddingList<'a> {
    #[serde(borrow)]
    object: Option<JsonStr<'a>>,
    pub data: Vec<EmbeddingItem<'a>>,
    model: Option<JsonStr<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<JsonStr<'a>>,
    pub usage: Option<EmbeddingUsage>,
}

/// One vector: a list of numbers, or base64.
#[derive(Debug, Deserialize, Serialize)]
pub struct EmbeddingItem<'a> {
    #[serde(borrow)]
    object: Option<JsonStr<'a>>,
    #[serde(default)]
    pub index: usize,
    pub embedding: Json<'a>,
}

/// Tokens; OpenAI's clients require both.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
pub struct EmbeddingUsage {
    pub prompt_tokens: Option<u64>,
    pub total_tokens: Option<u64>,
}

impl<'a> EmbeddingList<'a> {
    /// The list of these vectors, in their order.
    pub fn new(vectors: Vec<Json<'a>>, model: &'a str, usage: EmbeddingUsage) -> Self {
        let item = |(index, embedding)| EmbeddingItem { object: Some("embedding".into()), index, embedding };
        Self {
            object: Some("list".into()),
            data: vectors.into_iter().enumerate().map(item).collect(),
            model: Some(model.into()),
            provider: None,
            usage: Some(usage),
        }
    }
}

impl EmbeddingUsage {
    /// Of a vendor that counts input tokens only; 0 where it counts nothing.
    pub fn of_input(tokens: Option<u64>) -> Self {
        let tokens = tokens.or(Some(0));
        Self { prompt_tokens: tokens, total_tokens: tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let vectors = [r#"[0.10,-2,1e-5]"#, r#""AACAPw==""#];
        let vectors = vectors.into_iter().filter_map(Json::parse).collect();
        let list = EmbeddingList::new(vectors, "m\"", EmbeddingUsage::of_input(Some(3)));
        let list = EmbeddingList { provider: Some("cohere".into()), ..list };
        let json = serde_json::to_string(&list).unwrap();
        assert_eq!(
            json,
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2,1e-5]},{"object":"embedding","index":1,"embedding":"AACAPw=="}],"model":"m\"","provider":"cohere","usage":{"prompt_tokens":3,"total_tokens":3}}"#
        );
        let read: EmbeddingList<'_> = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
}
