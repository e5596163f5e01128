//! Lists of models in Gemini's shape: providers' lists in OpenAI's shape rewritten, and the shape itself for the gateway's own.

use crate::api::chat::ProviderError;
use crate::api::model_facts::ModelFacts;
use crate::json::JsonStr;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct ListIn<'a> {
    #[serde(borrow)]
    data: Vec<ModelIn<'a>>,
}

#[derive(Deserialize)]
struct ModelIn<'a> {
    #[serde(borrow)]
    id: JsonStr<'a>,
}

/// A list of models.
#[derive(Debug, Serialize)]
pub struct GeminiModels<'a> {
    pub models: Vec<GeminiModel<'a>>,
}

/// One model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiModel<'a> {
    name: String,
    display_name: &'a str,
    supported_generation_methods: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    input_token_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_token_limit: Option<u64>,
}

impl<'a> GeminiModel<'a> {
    /// `id`: without `models/`.
    pub fn new(id: &'a str) -> Self {
        Self {
            name: format!("models/{id}"),
            display_name: id,
            // OpenAI's lists do not say what a model does; its name does for embeddings.
            supported_generation_methods: if id.contains("embed") {
                &["embedContent"]
            } else {
                &["generateContent", "countTokens"]
            },
            input_token_limit: None,
            output_token_limit: None,
        }
    }

    /// With what is known of the model.
    #[must_use]
    pub(crate) fn with_facts(mut self, facts: Option<&ModelFacts>) -> Self {
        self.input_token_limit = facts.and_then(|facts| facts.context_window);
        self.output_token_limit = facts.and_then(|facts| facts.max_output_tokens);
        self
    }
}

/// The list.
///
/// # Errors
/// 502 for a response that is no list of models.
pub fn models_response(response: &[u8]) -> Result<Vec<u8>, ProviderError> {
    let wrong = || ProviderError::unreadable("it is no list of models");
    let list: ListIn<'_> = serde_json::from_slice(response).map_err(|_| wrong())?;
    let models = list.data.iter().map(|model| GeminiModel::new(&model.id)).collect();
    serde_json::to_vec(&GeminiModels { models }).map_err(|_| wrong())
}

/// One model.
///
/// # Errors
/// 502 for a response that is no model.
pub fn model_response(response: &[u8]) -> Result<Vec<u8>, ProviderError> {
    let wrong = || ProviderError::unreadable("it is no model");
    let model: ModelIn<'_> = serde_json::from_slice(response).map_err(|_| wrong())?;
    serde_json::to_vec(&GeminiModel::new(&model.id)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_geminis() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(models_response(br#"{"data":[{"id":"@a/gpt"},{"id":"text-embedding-3"}]}"#).unwrap()),
            r#"{"models":[{"name":"models/@a/gpt","displayName":"@a/gpt","supportedGenerationMethods":["generateContent","countTokens"]},{"name":"models/text-embedding-3","displayName":"text-embedding-3","supportedGenerationMethods":["embedContent"]}]}"#
        );
        assert!(text(model_response(br#"{"id":"m"}"#).unwrap()).starts_with(r#"{"name":"models/m""#));
        assert_eq!(models_response(b"[]").unwrap_err().status, 502);
        assert_eq!(model_response(b"{}").unwrap_err().status, 502);
    }
}
