//! `POST /v1/embeddings` at Cohere: `POST /v2/embed`.
//!
//! Cohere requires the purpose of the vectors (`input_type`). OpenAI's shape has no such member, so requests
//! without it get `search_document` and a warning. Vectors are always requested as numbers; the base64 form that
//! OpenAI's clients decode is written here.

use super::body;
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::embeddings;
use crate::provider::translation_notes::TranslationNotes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::{Params, ProviderError};
use words::api::embedding_list::{EmbeddingList, EmbeddingUsage};
use words::api::usage::VendorUsage;
use words::error::Error;
use words::json::{Json, JsonStr};

/// Translates embedding requests and responses.
#[derive(Debug)]
pub(super) struct Embed;

impl JsonAdapter for Embed {
    fn write(
        &self,
        body: Option<&Body>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (_, mut params) = body::members(body, target.model)?;
        if let Some(input) = params.take("input") {
            let (name, value) = inputs(&input)?;
            params.set(name, value);
        } else if ["texts", "images", "inputs"].iter().all(|name| params.get(name).is_none()) {
            return Err(Error::invalid_request("input", "input is missing."));
        }
        if params.get("input_type").is_none() {
            let what = "search_document taken; say search_query, classification or clustering if it is that";
            notes.warn("input_type", what);
            params.set("input_type", Json::from_value("search_document"));
        }
        if let Some(dimensions) = params.take("dimensions") {
            params.set("output_dimension", dimensions);
        }
        if params.take("user").is_some() {
            notes.drop_param("user", "cohere");
        }
        encoding(&mut params)?;
        body::request(&params)
    }

    fn read(&self, response: &[u8], request: Option<&Body>, model: &str) -> Result<Vec<u8>, ProviderError> {
        let parsed: ResponseIn<'_> = serde_json::from_slice(response)
            .map_err(|_| ProviderError::unreadable("it holds no embeddings of Cohere's"))?;
        let vectors = vectors(&parsed.embeddings)
            .ok_or_else(|| ProviderError::unreadable("its embeddings are not lists"))?;
        let usage = parsed.meta.as_ref().and_then(VendorUsage::usage).unwrap_or_default();
        let usage = EmbeddingUsage { prompt_tokens: Some(usage.input), total_tokens: Some(usage.total) };
        let mut list = EmbeddingList::new(vectors, model, usage);
        list.provider = Some("cohere".into());
        embeddings::written(list, request)
    }
}

/// Checks `encoding_format` and sets the default of `embedding_types`.
fn encoding(params: &mut Params<'_>) -> Result<(), Error> {
    let format = params.take("encoding_format");
    match format.as_ref().and_then(Json::text).as_deref() {
        None if format.is_none() => {}
        Some("float" | "base64") => {}
        _ => {
            let message = "encoding_format must be float or base64.";
            return Err(Error::invalid_request("encoding_format", message));
        }
    }
    if params.get("embedding_types").is_none() {
        params.set("embedding_types", Json::from_value(&["float"]));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    text: Option<JsonStr<'a>>,
    image: Option<Json<'a>>,
    image_url: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Picture<'a> {
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    base64: Option<JsonStr<'a>>,
    text: Option<JsonStr<'a>>,
}

#[derive(Serialize)]
struct InputOut<'a> {
    content: Vec<PartOut<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartOut<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: UrlOut<'a> },
}

#[derive(Serialize)]
struct UrlOut<'a> {
    url: Cow<'a, str>,
}

/// Cohere's member for the input and its value: `texts` when there are only texts, `inputs` when there are images.
fn inputs(input: &Json<'_>) -> Result<(&'static str, Json<'static>), Error> {
    if let Some(text) = input.text() {
        return Ok(("texts", Json::from_value(&[text])));
    }
    let wrong = |why: &str| Error::invalid_request("input", format!("input {why}."));
    let list: Vec<Json<'_>> = if input.is_object() {
        input.read().map(|json| vec![json]).unwrap_or_default()
    } else {
        input.read().ok_or_else(|| wrong("must be a text or a list of texts"))?
    };
    if list.iter().any(|item| item.get().starts_with(|first: char| first == '[' || first.is_ascii_digit())) {
        return Err(wrong("holds tokens; cohere takes texts only"));
    }
    if list.iter().all(|item| item.get().starts_with('"')) {
        let texts: Vec<_> = list.iter().filter_map(Json::text).collect();
        return Ok(("texts", Json::from_value(&texts)));
    }
    let mut out = Vec::with_capacity(list.len());
    for item in &list {
        let read = content(item);
        out.push(read.ok_or_else(|| wrong("must hold texts, or objects with text, image or content"))?);
    }
    Ok(("inputs", Json::from_value(&out)))
}

/// One item of a list with images, in any form that clients send: a string, `{"text":..}`,
/// `{"image":{"url"|"base64"}}`, `{"image_url":{"url":..}}`, or Cohere's own `{"content":[..]}`.
fn content(item: &Json<'_>) -> Option<Json<'static>> {
    if let Some(text) = item.text() {
        return Some(Json::from_value(&InputOut { content: vec![PartOut::Text { text: &text }] }));
    }
    let parsed: Item<'_> = item.read()?;
    if parsed.content.is_some() {
        return Json::owned(item.get().to_owned());
    }
    let mut parts = Vec::new();
    if let Some(text) = &parsed.text {
        parts.push(PartOut::Text { text });
    }
    let json = parsed.image.as_ref().or(parsed.image_url.as_ref());
    let picture = json.and_then(|json| match json.text() {
        Some(url) => Some(Picture { url: Some(JsonStr(url)), base64: None, text: None }),
        None => json.read::<Picture<'_>>(),
    });
    if let Some(picture) = &picture {
        if let Some(text) = &picture.text {
            parts.push(PartOut::Text { text });
        }
        let url = match (&picture.url, &picture.base64) {
            (Some(url), _) => Cow::Borrowed(url.as_ref()),
            (None, Some(data)) if data.starts_with("data:") => Cow::Borrowed(data.as_ref()),
            (None, Some(data)) => Cow::Owned(format!("data:image/png;base64,{}", data.0)),
            (None, None) => return None,
        };
        parts.push(PartOut::ImageUrl { image_url: UrlOut { url } });
    }
    (!parts.is_empty()).then(|| Json::from_value(&InputOut { content: parts }))
}

#[derive(Deserialize)]
struct ResponseIn<'a> {
    #[serde(borrow)]
    embeddings: Json<'a>,
    meta: Option<VendorUsage<'a>>,
}

/// The vectors with their digits as sent: floats if there are any, otherwise the first type that has values.
fn vectors<'a>(embeddings: &'a Json<'_>) -> Option<Vec<Json<'a>>> {
    if !embeddings.is_object() {
        return embeddings.read();
    }
    let kinds = Json::members(embeddings.get())?;
    let filled = |json: &&(Cow<'_, str>, Json<'a>)| json.1.get().starts_with('[');
    let float = kinds.iter().filter(filled).find(|(name, _)| name == "float");
    let (_, list) = float.or_else(|| kinds.iter().find(filled))?;
    serde_json::from_str(list.source()?).ok()
}
