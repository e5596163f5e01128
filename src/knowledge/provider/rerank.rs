//! `POST /v1/rerank`: its response, for all vendors, and requests to vendors with other field names: Voyage, Fireworks.
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

/// A ranking of documents: a vendor's response, and the one the client gets.
#[derive(Deserialize, Serialize)]
pub(super) struct Ranking<'a> {
    #[serde(skip_deserializing, default = "list")]
    object: &'static str,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    id: Option<Json<'a>>,
    results: Option<Vec<Ranked<'a>>>,
    /// Voyage's name for `results`.
    #[serde(skip_serializing)]
    data: Option<Vec<Ranked<'a>>>,
    /// The vendor's, or the one that was called.
    model: Option<Json<'a>>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Json<'a>>,
    /// Cohere's, for its own clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Json<'a>>,
}

/// A document's rank.
#[derive(Deserialize, Serialize)]
struct Ranked<'a> {
    /// Its place in the client's list, from 0.
    #[serde(borrow)]
    index: Json<'a>,
    relevance_score: Json<'a>,
    /// An object with its `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Json<'a>>,
}

const fn list() -> &'static str {
    "list"
}

impl<'a> Ranking<'a> {
    /// Reads a response of a vendor to a call of `model`.
    ///
    /// # Errors
    /// 502 if it has no results, or one without a place.
    pub(super) fn read(response: &'a [u8], model: &str) -> Result<Self, ProviderError> {
        let unreadable = |_| ProviderError::unreadable("it is no ranking");
        let mut ranking: Self = serde_json::from_slice(response).map_err(unreadable)?;
        ranking.results = ranking.results.or_else(|| ranking.data.take());
        let results = ranking.results.as_mut();
        for ranked in results.ok_or_else(|| ProviderError::unreadable("it has no results"))? {
            if ranked.index.read::<usize>().is_none() {
                return Err(ProviderError::unreadable("a result has no place"));
            }
            let sent = ranked.document.take().filter(|json| !json.is_null());
            ranked.document =
                sent.and_then(|json| if json.text().is_some() { document(&json) } else { Some(json) });
        }
        ranking.model.get_or_insert_with(|| Json::from_value(model));
        Ok(ranking)
    }

    /// Adds the client's documents, as JSON texts, for a vendor that does not return them.
    pub(super) fn add_documents(&mut self, texts: &[Json<'_>]) {
        for ranked in self.results.iter_mut().flatten() {
            let text = ranked.index.read::<usize>().and_then(|index| texts.get(index));
            ranked.document = text.and_then(document);
        }
    }

    /// The body of the client's response.
    ///
    /// # Errors
    /// 502 if it cannot be written, which is not expected.
    pub(super) fn write(&self) -> Result<Vec<u8>, ProviderError> {
        serde_json::to_vec(self).map_err(|_| ProviderError::unreadable("it cannot be written again"))
    }
}

/// The document of a JSON text.
fn document(text: &Json<'_>) -> Option<Json<'static>> {
    Json::owned(format!(r#"{{"text":{}}}"#, text.get()))
}

#[derive(Deserialize)]
struct DocumentIn<'a> {
    #[serde(borrow)]
    text: Option<Json<'a>>,
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
        Ranking::read(response, model)?.write()
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
        for broken in [&b"{}"[..], br#"{"results":[{"index":null,"relevance_score":1}]}"#] {
            assert_eq!(VOYAGE.read(broken, None, "m").unwrap_err().status, 502);
        }
    }
}
