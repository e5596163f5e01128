//! Authenticates the client by its service key, and tells whether its bearer is that key.
//!
//! Uses the headers only, before any byte of the body is read. What a key may do is not decided here.

mod key_search;
mod service_keys;

use crate::error::Error;
use http::HeaderMap;
use http::header::AUTHORIZATION;
pub use key_search::KeySearch;
pub use service_keys::ServiceKeys;
use std::sync::Arc;

/// An authenticated client.
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// The name of its service key; `None` where no key is required.
    pub name: Option<Arc<str>>,
    /// The bearer is a service key, so it must not be forwarded.
    pub by_bearer: bool,
}

/// Identifies the client (spec "Authentication" 1; reference 18.1 for the bearer).
///
/// # Errors
/// 401 when keys are configured and the request has none of them.
pub fn authenticate(headers: &HeaderMap, keys: &ServiceKeys) -> Result<ClientIdentity, Error> {
    // The bearer is checked even if the key is in a header of ours: a bearer that is one of our keys must never be
    // forwarded to a provider, not even as the second of two Authorization headers.
    let by_bearer = headers.get_all(AUTHORIZATION).iter().find_map(|value| keys.name_in(value));
    let identity = |name: Option<Arc<str>>| ClientIdentity { name, by_bearer: by_bearer.is_some() };
    if !keys.are_required() {
        return Ok(identity(None));
    }
    let presented = keys.headers.iter().find_map(|name| headers.get(name));
    let name = match presented {
        Some(presented) => keys.name_of(presented.to_str().unwrap_or_default().trim()),
        None => by_bearer.clone(),
    };
    if name.is_some() {
        return Ok(identity(name));
    }
    let message = match presented {
        Some(_) => "Invalid service key in x-gateway-api-key. Send one of the keys the operator gave out.",
        None => "No service key. Send it in x-gateway-api-key, or as the bearer in Authorization.",
    };
    Err(Error::unauthorized(message).with_param("x-gateway-api-key"))
}
