//! `POST /v1/rerank` at Cohere.
//!
//! Cohere's v2 no longer returns the documents (v1 did on `return_documents`), so they are added here from the
//! client's request.

use super::body;
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::translation_notes::TranslationNotes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::usage::VendorUsage;
use words::error::Error;
use words::json::{Json, JsonStr};

/// Translates rerank requests and responses.
#[derive(Debug)]
pub(super) struct Rerank;

#[derive(Deserialize)]
struct ResponseIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    results: Vec<ResultIn<'a>>,
    meta: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct ResultIn<'a> {
    index: usize,
    #[serde(borrow)]
    relevance_score: Json<'a>,
}

#[derive(Serialize)]
struct ResponseOut<'a> {
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    model: &'a str,
    provider: &'static str,
    results: Vec<ResultOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageOut>,
    /// Unchanged, for Cohere's own clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Json<'a>>,
}

#[derive(Serialize)]
struct ResultOut<'a> {
    index: usize,
    relevance_score: &'a Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentOut<'a>>,
}

#[derive(Serialize)]
struct DocumentOut<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct UsageOut {
    search_units: u64,
}

/// The documents as texts: for an object its `text`, or its whole JSON when it has none.
fn documents(body: &Body) -> Result<Vec<Cow<'_, str>>, Error> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        text: JsonStr<'a>,
    }
    fn text<'a>(json: &Json<'a>) -> Option<Cow<'a, str>> {
        let source = json.source()?;
        if let Ok(text) = serde_json::from_str::<JsonStr<'a>>(source) {
            return Some(text.0);
        }
        let object = serde_json::from_str::<Object<'a>>(source);
        Some(object.map_or(Cow::Borrowed(source), |object| object.text.0))
    }
    let list = body.raw("documents").and_then(|text| serde_json::from_str::<Vec<Json<'_>>>(text).ok());
    let texts = list.map(|list| list.iter().filter_map(text).collect());
    texts.ok_or_else(|| {
        Error::invalid_request("documents", "documents must be a list of texts or of objects with a text.")
    })
}

impl JsonAdapter for Rerank {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (body, mut params) = body::members(body, target.model)?;
        params.set("documents", Json::from_value(&documents(body)?));
        params.take("return_documents");
        for param in ["rank_fields", "max_chunks_per_doc", "user"] {
            if params.take(param).is_some() {
                notes.drop_param(param, "cohere");
            }
        }
        body::request(&params)
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        let parsed: ResponseIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it is no ranking of Cohere's"))?;
        let wanted = request.filter(|body| body.is_true("return_documents"));
        let documents = wanted.and_then(|body| documents(body).ok()).unwrap_or_default();
        let units = parsed.meta.as_ref().and_then(|meta| meta.read::<VendorUsage<'_>>()?.searches());
        let results = parsed.results.iter().map(|result| {
            let document = documents.get(result.index).map(|text| DocumentOut { text });
            ResultOut { index: result.index, relevance_score: &result.relevance_score, document }
        });
        body::response(&ResponseOut {
            object: "list",
            id: parsed.id.as_deref(),
            model,
            provider: "cohere",
            results: results.collect(),
            usage: units.map(|search_units| UsageOut { search_units }),
            meta: parsed.meta.as_ref(),
        })
    }
}
