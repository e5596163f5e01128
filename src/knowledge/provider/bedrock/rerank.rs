//! Rerank through invoke, in Cohere's shape, which Amazon's own model shares.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html>.

use super::SPEC;
use super::model::{Family, Model};
use crate::provider::adapter::{CallTarget, JsonAdapter};
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

#[derive(Deserialize, Serialize)]
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
        let unreadable = || ProviderError::unreadable("it holds no ranking");
        let text = std::str::from_utf8(response).map_err(|_| unreadable())?;
        let ranking: UpstreamRanking<'_> = serde_json::from_str(text).map_err(|_| unreadable())?;
        let shown = request.filter(|body| body.is_true("return_documents")).and_then(documents);
        let mut results = Vec::new();
        for result in ranking.results.ok_or_else(unreadable)? {
            let index = result.index.ok_or_else(unreadable)?;
            let score = result.relevance_score;
            let text = shown.as_ref().and_then(|shown| shown.get(index)).cloned();
            let document = text.map(|text| Document { text: Some(text) });
            results.push(Ranked { index, relevance_score: score.ok_or_else(unreadable)?, document });
        }
        let out = RerankResponse { object: "list", results, model };
        serde_json::to_vec(&out).map_err(|_| unreadable())
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

#[derive(Deserialize)]
struct UpstreamRanking<'a> {
    #[serde(borrow)]
    results: Option<Vec<Score<'a>>>,
}

#[derive(Deserialize)]
struct Score<'a> {
    index: Option<usize>,
    #[serde(borrow)]
    relevance_score: Option<Json<'a>>,
}

#[derive(Serialize)]
struct RerankResponse<'a> {
    object: &'static str,
    results: Vec<Ranked<'a>>,
    model: &'a str,
}

#[derive(Serialize)]
struct Ranked<'a> {
    index: usize,
    relevance_score: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document<'a>>,
}
