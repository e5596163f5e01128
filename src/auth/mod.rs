//! Authenticates the client by its service key, wherever client libraries send a key, and finds the provider's key that a
//! client sends beside it or in its place.
//!
//! Uses method, path and headers only, before any byte of the body is read. What a key may do is not decided here.
//! [`authenticate`] reads the gateway's own header first, which decides alone; else the first service key counts.
//! [`provider_key`] is the first key elsewhere that is no service key.

mod client_keys;
mod key_search;
mod service_keys;

use crate::error::Error;
use client_keys::ClientKey;
pub use client_keys::KEY_PROTOCOL;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
pub use key_search::{KeySearch, clean_uri};
pub use service_keys::ServiceKeys;
use std::borrow::Cow;
use std::sync::Arc;

/// An authenticated client.
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// The name of its service key; `None` where no key is required.
    pub name: Option<Arc<str>>,
}

/// Identifies the client (spec "Authentication" 1; reference 18.1 for the bearer).
///
/// # Errors
/// 401 when keys are configured and the request has none of them.
pub fn authenticate(headers: &HeaderMap, uri: &Uri, keys: &ServiceKeys) -> Result<ClientIdentity, Error> {
    if !keys.are_required() {
        return Ok(ClientIdentity::default());
    }
    if let Some((place, value)) = own_header(headers, keys) {
        let name = keys.name_of(value.as_bytes().trim_ascii()).ok_or_else(|| unknown_key(place.as_str()))?;
        return Ok(ClientIdentity { name: Some(name) });
    }
    let mut unknown = None;
    for ClientKey { place, key, .. } in client_keys::find(headers, uri) {
        if let Some(name) = keys.name_of(&key) {
            return Ok(ClientIdentity { name: Some(name) });
        }
        unknown.get_or_insert(place);
    }
    // A scheme other than `Bearer`.
    let unknown = unknown.or_else(|| headers.contains_key(AUTHORIZATION).then_some("authorization"));
    Err(unknown.map_or_else(no_key, unknown_key))
}

/// The provider's key that the client has sent: the first one that is no service key.
///
/// # Errors
/// 400 for a key that can stand in no header.
pub fn provider_key<'a>(
    headers: &'a HeaderMap,
    uri: &'a Uri,
    keys: &ServiceKeys,
) -> Result<Option<Cow<'a, str>>, Error> {
    let is_service_key = |key: &[u8]| keys.are_required() && keys.name_of(key).is_some();
    let mut found = client_keys::find(headers, uri).filter(|found| found.is_certain);
    let Some(ClientKey { place, key, .. }) = found.find(|found| !is_service_key(&found.key)) else {
        return Ok(None);
    };
    let text = match key {
        Cow::Borrowed(key) => std::str::from_utf8(key).ok().map(Cow::Borrowed),
        Cow::Owned(key) => String::from_utf8(key).ok().map(Cow::Owned),
    };
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    text.map(Some)
        .ok_or_else(|| Error::invalid_request(place, format!("The key in {place} must be plain ASCII text.")))
}

/// The gateway's own header with a service key, under the first prefix that has one.
fn own_header<'a>(
    headers: &'a HeaderMap,
    keys: &'a ServiceKeys,
) -> Option<(&'a HeaderName, &'a HeaderValue)> {
    let found = |name: &'a HeaderName| Some((name, headers.get(name).filter(|value| !value.is_empty())?));
    keys.headers.iter().find_map(found)
}

fn no_key() -> Error {
    let message = "No service key. Send it in x-gateway-api-key, as the bearer in Authorization, or where your client \
                   library puts its key (x-api-key, api-key, x-goog-api-key).";
    Error::unauthorized(message).with_param("x-gateway-api-key")
}

fn unknown_key(place: &str) -> Error {
    // LiteLLM recognizes an authentication error by OpenAI's words, not by status or code.
    let message = format!(
        "Unknown service key in {place}. Incorrect API key provided: send one of the keys the operator gave out."
    );
    Error::unauthorized(message).with_param(place)
}

#[cfg(test)]
mod tests;
