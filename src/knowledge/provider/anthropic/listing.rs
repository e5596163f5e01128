//! `GET /v1/models` and `GET /v1/models/{id}`: Anthropic's models in OpenAI's shape.
//!
//! Anthropic's members are kept after OpenAI's, so that clients of both APIs find what they expect.

use crate::provider::adapter::JsonAdapter;
use crate::provider::openai_models::Model;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::json::Json;

/// The list of models.
#[derive(Debug)]
pub(super) struct Listing;

/// One model.
#[derive(Debug)]
pub(super) struct Single;

impl JsonAdapter for Listing {
    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        let members = members(response)?;
        let data = members.iter().find(|(name, _)| name == "data");
        let models: Option<Vec<Json<'_>>> = data.and_then(|(_, data)| data.read());
        let models = models.ok_or_else(|| ProviderError::unreadable("it is no list of models"))?;
        let models: Option<Vec<Members<'_>>> = models.iter().map(|json| Json::members(json.get())).collect();
        let models = models.ok_or_else(|| ProviderError::unreadable("a model in it is no object"))?;
        let models = models.iter().map(|members| model(members)).collect();
        let rest = members.iter().filter(|(name, _)| name != "data" && name != "object");
        bytes(&List { models, rest: rest.map(|(name, json)| (name.as_ref(), json)).collect() })
    }
}

impl JsonAdapter for Single {
    fn read(&self, response: &[u8], _: Option<&Body>, _: &str) -> Result<Vec<u8>, ProviderError> {
        bytes(&model(&members(response)?))
    }
}

type Members<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

fn members(response: &[u8]) -> Result<Members<'_>, ProviderError> {
    let text = std::str::from_utf8(response).map_err(|_| ProviderError::unreadable("it is not text"))?;
    Json::members(text.trim()).ok_or_else(|| ProviderError::unreadable("it is no JSON object"))
}

fn bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, ProviderError> {
    serde_json::to_vec(value).map_err(|_| ProviderError::unreadable("it cannot be written in OpenAI's shape"))
}

struct List<'a> {
    models: Vec<Model<'a>>,
    rest: Vec<(&'a str, &'a Json<'a>)>,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("object", "list")?;
        map.serialize_entry("data", &self.models)?;
        for (name, json) in &self.rest {
            map.serialize_entry(name, json)?;
        }
        map.end()
    }
}

fn model<'a>(members: &'a [(Cow<'a, str>, Json<'a>)]) -> Model<'a> {
    let member = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, json)| json);
    let created = member("created_at").and_then(Json::text);
    let created = created.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    Model {
        id: member("id").cloned(),
        created: created.map_or(0, |time| time.as_second().max(0)),
        owned_by: Cow::Borrowed("anthropic"),
        own: members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gets_openais_shape_and_keeps_its_members() {
        let response = r#"{"data":[{"type":"model","id":"claude-x","display_name":"Claude X",
            "created_at":"2025-02-19T00:00:00Z"},{"id":"y"}],"has_more":false,"first_id":"claude-x","last_id":"y"}"#;
        let wanted = r#"{"object":"list","data":[{"id":"claude-x","object":"model","created":1739923200,"owned_by":"anthropic","type":"model","display_name":"Claude X","created_at":"2025-02-19T00:00:00Z"},{"id":"y","object":"model","created":0,"owned_by":"anthropic"}],"has_more":false,"first_id":"claude-x","last_id":"y"}"#;
        assert_eq!(String::from_utf8(Listing.read(response.as_bytes(), None, "").unwrap()).unwrap(), wanted);
        let single = Single.read(br#"{"id":"y"}"#, None, "").unwrap();
        assert_eq!(single, br#"{"id":"y","object":"model","created":0,"owned_by":"anthropic"}"#);
        for odd in ["", "[]", r#"{"data":3}"#, r#"{"data":[3]}"#, "<html>"] {
            assert_eq!(Listing.read(odd.as_bytes(), None, "").unwrap_err().status, 502, "{odd}");
        }
    }
}
