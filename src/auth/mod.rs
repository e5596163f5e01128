//! Who sent a request: the service key it shows, and whether its bearer is that key.
//!
//! Looks at headers only, before a byte of the body is read. What a key may do is not decided here.

mod service_keys;

use crate::error::Error;
use http::HeaderMap;
use http::header::AUTHORIZATION;
pub use service_keys::ServiceKeys;
use std::sync::Arc;

/// A client that was let in.
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// The name of its service key; `None` where no key is required.
    pub name: Option<Arc<str>>,
    /// The bearer was the service key.
    pub by_bearer: bool,
}

/// Identifies the client (spec "Authentication" 1; reference 18.1 for the bearer).
///
/// # Errors
/// 401 when keys are configured and none of them was shown.
pub fn authenticate(headers: &HeaderMap, keys: &ServiceKeys) -> Result<ClientIdentity, Error> {
    // The bearer is looked at first, even beside the header: a bearer that is one of our keys never travels on, not
    // even the second of two.
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
