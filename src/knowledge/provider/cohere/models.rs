//! Cohere's models in the shape of OpenAI's model list.

use super::body;
use crate::provider::adapter::JsonAdapter;
use serde::{Deserialize, Serialize};
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

#[derive(Serialize)]
struct ListOut<'a> {
    object: &'static str,
    data: Vec<ModelOut<'a>>,
}

#[derive(Serialize)]
struct ModelOut<'a> {
    id: &'a str,
    object: &'static str,
    /// Always 0: Cohere does not report it.
    created: u64,
    owned_by: &'static str,
}

impl<'a> From<&'a ModelIn<'_>> for ModelOut<'a> {
    fn from(model: &'a ModelIn<'_>) -> Self {
        Self { id: &model.name, object: "model", created: 0, owned_by: "cohere" }
    }
}

impl JsonAdapter for Models {
    fn read(&self, response: &[u8], _request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let list: ListIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no list of Cohere's models"))?;
        body::response(&ListOut { object: "list", data: list.models.iter().map(ModelOut::from).collect() })
    }
}

impl JsonAdapter for OneModel {
    fn read(&self, response: &[u8], _request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let model: ModelIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no model of Cohere's"))?;
        body::response(&ModelOut::from(&model))
    }
}
