//! `GET /v1/models` and `GET /v1/models/{id}`: Google's lists in OpenAI's shape, followed by Google's own
//! members.

use crate::provider::adapter::JsonAdapter;
use crate::provider::openai_models::{Model, ModelList};
use serde::Deserialize;
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::json::Json;

/// The list: `models` at Google, `publisherModels` on Vertex AI.
#[derive(Debug)]
pub(crate) struct Listing;

/// One model.
#[derive(Debug)]
pub struct Single;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelsResponse<'a> {
    #[serde(borrow)]
    models: Option<Vec<Json<'a>>>,
    publisher_models: Option<Vec<Json<'a>>>,
}

type Members<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl JsonAdapter for Listing {
    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        let wrong = || ProviderError::unreadable("it is no list of models");
        let text = std::str::from_utf8(response).map_err(|_| wrong())?.trim();
        let parsed: ModelsResponse<'_> =
            serde_json::from_str(text).ok().filter(|_| text.starts_with('{')).ok_or_else(wrong)?;
        // Google's JSON leaves out an empty list.
        let models = parsed.models.or(parsed.publisher_models).unwrap_or_default();
        let members: Option<Vec<Members<'_>>> = models.iter().map(|json| Json::members(json.get())).collect();
        let members = members.ok_or_else(wrong)?;
        let list = ModelList::new(members.iter().map(|members| model(members)));
        serde_json::to_vec(&list).map_err(|_| wrong())
    }
}

impl JsonAdapter for Single {
    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        let wrong = || ProviderError::unreadable("it is no model");
        let text = std::str::from_utf8(response).map_err(|_| wrong())?;
        let members = Json::members(text.trim()).ok_or_else(wrong)?;
        serde_json::to_vec(&model(&members)).map_err(|_| wrong())
    }
}

fn model<'a>(members: &'a [(Cow<'a, str>, Json<'a>)]) -> Model<'a> {
    let name = members.iter().find(|(name, _)| name == "name").and_then(|(_, json)| json.text());
    let name = name.unwrap_or_default();
    // `models/x`, `publishers/google/models/x`.
    let (owner, id) = match name.split_once("models/") {
        Some((owner, id)) => (owner.trim_matches('/').trim_start_matches("publishers/"), id),
        None => ("", name.as_ref()),
    };
    let owned_by = if owner.is_empty() { Cow::Borrowed("google") } else { Cow::Owned(owner.to_owned()) };
    Model { id: Some(Json::from_value(id)), created: 0, owned_by, own: members }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn googles_lists_become_openais_shape() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let list = br#"{"models":[{"name":"models/gemini-x","displayName":"X"}],"nextPageToken":"t"}"#;
        assert_eq!(
            text(Listing.read(list, None, "").unwrap()),
            r#"{"object":"list","data":[{"id":"gemini-x","object":"model","created":0,"owned_by":"google","name":"models/gemini-x","displayName":"X"}]}"#
        );
        let list = br#"{"publisherModels":[{"name":"publishers/meta/models/llama"}]}"#;
        assert!(
            text(Listing.read(list, None, "").unwrap())
                .contains(r#""id":"llama","object":"model","created":0,"owned_by":"meta""#)
        );
        assert_eq!(Listing.read(b"{}", None, "").unwrap(), br#"{"object":"list","data":[]}"#);
        let single = Single.read(br#"{"name":"models/y"}"#, None, "").unwrap();
        assert!(text(single).starts_with(r#"{"id":"y","object":"model","created":0,"owned_by":"google""#));
        for odd in ["", "[]", r#"{"models":3}"#, r#"{"models":[3]}"#, "<html>"] {
            assert_eq!(Listing.read(odd.as_bytes(), None, "").unwrap_err().status, 502, "{odd}");
        }
    }
}
