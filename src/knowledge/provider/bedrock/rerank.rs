//! Rerank through invoke, in Cohere's shape, which Amazon's own model shares.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html>.

use super::SPEC;
use super::model::{Family, Model};
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::rerank::Ranking;
use crate::provider::translation_notes::TranslationNotes;
use serde::{Deserialize, Serialize};
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::error::Error;
use words::json::Json;

/// The rerank adapter.
#[derive(Debug)]
pub(super) struct Rerank;

#[derive(Serialize)]
struct Request<'a> {
    query: Json<'a>,
    documents: Vec<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens_per_doc: Option<Json<'a>>,
    /// Required by Cohere's models on Bedrock, not accepted by Amazon's.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<u8>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    text: Option<Json<'a>>,
}

impl JsonAdapter for Rerank {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let missing = |param: &str| {
            Error::invalid_request(param, format!("{param} is missing.")).with_provider(SPEC.id)
        };
        let body = body.ok_or_else(|| missing("query"))?;
        let member = |name| body.raw(name).and_then(Json::parse).filter(|json| !json.is_null());
        let cohere = Model::resolve(target.model, target.account).family == Family::Cohere;
        let request = Request {
            query: member("query").ok_or_else(|| missing("query"))?,
            documents: documents(body).ok_or_else(|| {
                let message = "documents must be a list of strings, or of objects with a text.";
                Error::invalid_request("documents", message)
            })?,
            top_n: member("top_n"),
            max_tokens_per_doc: member("max_tokens_per_doc").filter(|_| cohere),
            api_version: cohere.then_some(2),
        };
        const SUPPORTED: [&str; 6] =
            ["model", "query", "documents", "top_n", "max_tokens_per_doc", "return_documents"];
        for name in body.names().filter(|name| !SUPPORTED.contains(name)) {
            notes.drop_param(name, SPEC.id);
        }
        Ok(Some(serde_json::to_vec(&request).unwrap_or_default()))
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        let mut ranking = Ranking::read(response, model)?;
        if let Some(texts) = request.filter(|body| body.is_true("return_documents")).and_then(documents) {
            ranking.add_documents(&texts);
        }
        ranking.write()
    }
}

/// The texts of `documents`; `None` when one is neither a string nor an object with a text.
fn documents(body: &Body) -> Option<Vec<Json<'_>>> {
    let list: Vec<Json<'_>> = serde_json::from_str(body.raw("documents")?).ok()?;
    list.into_iter().map(text_of).collect()
}

fn text_of<'a>(document: Json<'a>) -> Option<Json<'a>> {
    if document.get().starts_with('"') {
        return Some(document);
    }
    serde_json::from_str::<Document<'a>>(document.source()?).ok()?.text
}
