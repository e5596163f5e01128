//! Cohere's models in the shape of OpenAI's model list.

use super::body;
use crate::provider::adapter::JsonAdapter;
use crate::provider::openai_models::{Model, ModelList};
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::json::JsonStr;

/// `GET /v1/models`.
#[derive(Debug)]
pub(super) struct Models;

/// `GET /v1/models/{model}`.
#[derive(Debug)]
pub(super) struct OneModel;

#[derive(Deserialize)]
struct ListIn<'a> {
    #[serde(borrow)]
    models: Vec<ModelIn<'a>>,
}

#[derive(Deserialize)]
struct ModelIn<'a> {
    #[serde(borrow)]
    name: JsonStr<'a>,
}

fn model<'a>(model: &ModelIn<'_>) -> Model<'a> {
    Model::named(&model.name, "cohere")
}

impl JsonAdapter for Models {
    fn read(&self, response: &[u8], _request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let list: ListIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no list of Cohere's models"))?;
        body::response(&ModelList::new(list.models.iter().map(model)))
    }
}

impl JsonAdapter for OneModel {
    fn read(&self, response: &[u8], _request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let parsed: ModelIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no model of Cohere's"))?;
        body::response(&model(&parsed))
    }
}
