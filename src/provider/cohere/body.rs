//! Bodies written for Cohere's other endpoints, and answers written from theirs.

use crate::api::body::Body;
use crate::api::chat::{Json, Params, ProviderError};
use crate::error::Error;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// A JSON object, member by member.
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

/// The members of a caller's body that say anything, with the model the upstream is asked for.
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

/// A request's body.
///
/// # Errors
/// 500, never in practice: writing JSON into memory does not fail.
pub(super) fn request(params: &Params<'_>) -> Result<Option<Vec<u8>>, Error> {
    let body = serde_json::to_vec(&Object(params));
    body.map(Some).map_err(|why| Error::internal(format!("a request for cohere: {why}")))
}

/// An answer's body.
///
/// # Errors
/// As [`request`].
pub(super) fn response<T: Serialize>(value: &T) -> Result<Vec<u8>, ProviderError> {
    serde_json::to_vec(value).map_err(|why| ProviderError::new(500, why.to_string()))
}
