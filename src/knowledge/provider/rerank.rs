//! `POST /v1/rerank` for vendors with other field names: Voyage, Fireworks.
//!
//! The client's shape is Cohere's and Jina's: `documents`, `top_n`; `results` with `index`,
//! `relevance_score` and optionally `document`. Vendors that speak it are passed through.

use super::adapter::{CallTarget, JsonAdapter};
use super::translation_notes::TranslationNotes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::ProviderError;
use words::error::Error;
use words::json::Json;

/// How one vendor's rerank differs.
#[derive(Debug)]
pub struct Rerank {
    /// The vendor's name for `top_n`.
    top_n: &'static str,
    /// The vendor accepts documents as strings only.
    plain: bool,
}

/// <https://docs.voyageai.com/reference/reranker-api>.
pub(crate) static VOYAGE: Rerank = Rerank { top_n: "top_k", plain: true };

/// <https://docs.fireworks.ai/api-reference/rerank-documents>.
pub(crate) static FIREWORKS: Rerank = Rerank { top_n: "top_n", plain: true };

#[derive(Deserialize)]
struct DocumentIn<'a> {
    #[serde(borrow)]
    text: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct ResponseIn<'a> {
    #[serde(borrow)]
    id: Option<Json<'a>>,
    data: Option<Vec<ResultIn<'a>>>,
    results: Option<Vec<ResultIn<'a>>>,
    model: Option<Json<'a>>,
    usage: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct ResultIn<'a> {
    #[serde(borrow)]
    index: Json<'a>,
    relevance_score: Json<'a>,
    document: Option<Json<'a>>,
}

#[derive(Serialize)]
struct ResponseOut<'a> {
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Json<'a>>,
    results: Vec<ResultOut<'a>>,
    model: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Json<'a>>,
}

#[derive(Serialize)]
struct ResultOut<'a> {
    index: Json<'a>,
    relevance_score: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Json<'a>>,
}

impl JsonAdapter for Rerank {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        _notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(body) = body else { return Ok(None) };
        let mut edits = Vec::new();
        if !target.model.is_empty() && body.text("model").as_deref() != Some(target.model) {
            edits.push(Edit::Set("model", Cow::Owned(Json::from_value(target.model).get().to_owned())));
        }
        if let Some(top_n) = body.raw("top_n").filter(|_| self.top_n != "top_n") {
            edits.push(Edit::Remove("top_n"));
            edits.push(Edit::Set(self.top_n, Cow::Borrowed(top_n)));
        }
        if let Some(documents) = body.raw("documents").filter(|_| self.plain).and_then(plain) {
            edits.push(Edit::Set("documents", Cow::Owned(documents)));
        }
        Ok(Some(body.edit(&edits).to_vec()))
    }

    fn read(&self, response: &[u8], _request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        let parsed: ResponseIn<'_> =
            serde_json::from_slice(response).map_err(|_| ProviderError::unreadable("it is no rerank"))?;
        let results =
            parsed.results.or(parsed.data).ok_or_else(|| ProviderError::unreadable("it has no results"))?;
        let document = |json: Json<'_>| match json.text() {
            Some(_) => Json::owned(format!(r#"{{"text":{}}}"#, json.get())),
            None => Json::owned(json.get().to_owned()).filter(|json| !json.is_null()),
        };
        let result = |each: ResultIn<'_>| ResultOut {
            index: Json::from_value(&each.index),
            relevance_score: Json::from_value(&each.relevance_score),
            document: each.document.and_then(document),
        };
        let out = ResponseOut {
            object: "list",
            id: parsed.id,
            results: results.into_iter().map(result).collect(),
            model: parsed.model.unwrap_or_else(|| Json::from_value(model)),
            usage: parsed.usage,
        };
        serde_json::to_vec(&out).map_err(|_| ProviderError::unreadable("it cannot be written again"))
    }
}

/// The documents as strings; `None` when none of them is an object.
fn plain(documents: &str) -> Option<String> {
    let list: Vec<Json<'_>> = serde_json::from_str(documents).ok()?;
    if !list.iter().any(Json::is_object) {
        return None;
    }
    let text = |json: &Json<'_>| {
        let text =
            json.read::<DocumentIn<'_>>().filter(|_| json.is_object()).and_then(|document| document.text);
        text.map_or_else(|| json.get().to_owned(), |text| text.get().to_owned())
    };
    Some(format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Call;
    use http::Method;
    use words::api::operation::Operation;
    use words::config::account::Account;

    #[test]
    fn voyage_requests_and_responses_are_translated() {
        let body = r#"{"model":"@v/rerank-2","query":"q","documents":["a",{"text":"b"}],"top_n":1,"truncation":true}"#;
        let body = Body::parse(body.into()).unwrap();
        let account = Account::default();
        let call = Call {
            operation: Operation::Rerank,
            method: &Method::POST,
            path: "rerank",
            query: None,
            model: Some("rerank-2"),
            streamed: false,
        };
        let target = CallTarget { call: &call, account: &account, model: "rerank-2", client_betas: None };
        let sent = VOYAGE.write(Some(&body), &target, &mut TranslationNotes::default()).unwrap().unwrap();
        let wanted = r#"{"model":"rerank-2","query":"q","documents":["a","b"],"truncation":true,"top_k":1}"#;
        assert_eq!(String::from_utf8(sent).unwrap(), wanted);
        let response = br#"{"object":"list","data":[{"relevance_score":0.50,"index":1,"document":"b"},{"relevance_score":0.1,"index":0}],"model":"rerank-2","usage":{"total_tokens":4}}"#;
        let read = VOYAGE.read(response, Some(&body), "rerank-2").unwrap();
        let wanted = r#"{"object":"list","results":[{"index":1,"relevance_score":0.50,"document":{"text":"b"}},{"index":0,"relevance_score":0.1}],"model":"rerank-2","usage":{"total_tokens":4}}"#;
        assert_eq!(String::from_utf8(read).unwrap(), wanted);
        assert_eq!(VOYAGE.read(b"{}", None, "m").unwrap_err().status, 502);
    }
}
