//! `POST /v1/rerank` at Cohere.
//!
//! Cohere's v2 no longer returns the documents (v1 did on `return_documents`), so they are added here from the
//! client's request.

use super::body;
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::rerank::Ranking;
use crate::provider::translation_notes::TranslationNotes;
use serde::Deserialize;
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::usage::VendorUsage;
use words::error::Error;
use words::json::{Json, JsonStr};

/// Translates rerank requests and responses.
#[derive(Debug)]
pub(super) struct Rerank;

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
        let mut ranking = Ranking::read(response, model)?;
        if let Some(Ok(texts)) = request.filter(|body| body.is_true("return_documents")).map(documents) {
            ranking.add_documents(&texts.iter().map(Json::from_value).collect::<Vec<_>>());
        }
        let units = ranking.meta.as_ref().and_then(|meta| meta.read::<VendorUsage<'_>>()?.searches());
        ranking.usage = units.and_then(|units| Json::owned(format!(r#"{{"search_units":{units}}}"#)));
        ranking.provider = Some("cohere");
        ranking.write()
    }
}
