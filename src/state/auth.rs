//! Who calls: the service key of a request, and whether its bearer is that key.
//!
//! Looks at two headers only, before a byte of the body is read. What a key may do is not judged here.

use super::snapshot::SettingsSnapshot;
use crate::error::Error;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;

/// A caller we let in.
#[derive(Debug, Clone, Default)]
pub struct ClientIdentity {
    /// The name of its service key; `None` where no key is asked for.
    pub name: Option<Arc<str>>,
    /// The bearer was the service key.
    pub by_bearer: bool,
}

/// Finds out who calls (spec "Authentication" 1; reference 18.1 for the bearer).
///
/// # Errors
/// 401 when keys are configured and none of them was shown.
pub fn authenticate(headers: &HeaderMap, snapshot: &SettingsSnapshot) -> Result<ClientIdentity, Error> {
    // Asked first, also beside the header: a bearer that is one of our keys never travels on, not even the
    // second of two.
    let by_bearer = headers.get_all(AUTHORIZATION).iter().find_map(|value| service_key_in(value, snapshot));
    let identity = |name: Option<Arc<str>>| ClientIdentity { name, by_bearer: by_bearer.is_some() };
    if !snapshot.requires_key() {
        return Ok(identity(None));
    }
    let presented = snapshot.key_headers.iter().find_map(|name| headers.get(name));
    let key_name = match presented {
        Some(presented) => snapshot.key_name(presented.to_str().unwrap_or_default().trim()),
        None => by_bearer.clone(),
    };
    if key_name.is_some() {
        return Ok(identity(key_name));
    }
    let message = match presented {
        Some(_) => "Invalid service key in x-gateway-api-key. Send one of the keys the operator gave out.",
        None => "No service key. Send it in x-gateway-api-key, or as the bearer in Authorization.",
    };
    Err(Error::unauthorized(message).with_param("x-gateway-api-key"))
}

/// The name of the service key that is this header's value, or its credential after the word `Bearer`; without
/// a scheme the whole value counts, as `config::headers` has it.
pub fn service_key_in(value: &HeaderValue, snapshot: &SettingsSnapshot) -> Option<Arc<str>> {
    let value = value.to_str().ok()?.trim();
    let credential = match value.split_once(' ') {
        Some((scheme, key)) => scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())?,
        None => value,
    };
    snapshot.key_name(credential)
}
