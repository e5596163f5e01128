//! JSON bodies of the endpoints other than chat: requests to Cohere, and responses to the client.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use words::api::body::Body;
use words::api::chat::{Params, ProviderError};
use words::error::Error;
use words::json::Json;

/// Serializes parameters as one JSON object.
struct Object<'a>(&'a Params<'a>);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The client's body and its members, without nulls and with the model that the upstream is to use.
///
/// # Errors
/// 400 when there is no body.
pub(super) fn members<'a>(body: Option<&'a Body>, model: &str) -> Result<(&'a Body, Params<'a>), Error> {
    let body = body.ok_or_else(|| Error::bad_request("This call needs a JSON body."))?;
    let mut params = Params::default();
    if !model.is_empty() {
        params.set("model", Json::from_value(model));
    }
    for (name, text) in body.members() {
        if let Some(value) = Json::parse(text).filter(|value| name != "model" && !value.is_null()) {
            params.set(name, value);
        }
    }
    Ok((body, params))
}

/// Writes the body of a request to Cohere.
///
/// # Errors
/// 500 if it cannot be serialized, which does not happen: writing JSON into memory does not fail.
pub(super) fn request(params: &Params<'_>) -> Result<Option<Vec<u8>>, Error> {
    let body = serde_json::to_vec(&Object(params));
    body.map(Some).map_err(|why| Error::internal(format!("a request for cohere: {why}")))
}

/// Writes the body of a response to the client.
///
/// # Errors
/// As [`request`].
pub(super) fn response<T: Serialize>(value: &T) -> Result<Vec<u8>, ProviderError> {
    serde_json::to_vec(value).map_err(|why| ProviderError::new(500, why.to_string()))
}
