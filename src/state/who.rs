//! Who calls: the service key of a request, and whether its bearer is that key.
//!
//! Looks at two headers only, before a byte of the body is read. What a key may do is not judged here.

use super::live::Live;
use crate::error::Error;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;

/// A caller we let in.
#[derive(Debug, Clone, Default)]
pub struct Who {
    /// The name of its service key; `None` where no key is asked for.
    pub name: Option<Arc<str>>,
    /// The bearer was the service key.
    pub by_bearer: bool,
}

/// Finds out who calls (spec "Authentication" 1; reference 18.1 for the bearer).
///
/// # Errors
/// 401 when keys are configured and none of them was shown.
pub fn find(headers: &HeaderMap, live: &Live) -> Result<Who, Error> {
    // Asked first, also beside the header: a bearer that is one of our keys never travels on, not even the
    // second of two.
    let by_bearer = headers.get_all(AUTHORIZATION).iter().find_map(|value| key_in(value, live));
    let who = |name: Option<Arc<str>>| Who { name, by_bearer: by_bearer.is_some() };
    if !live.wants_key() {
        return Ok(who(None));
    }
    let shown = live.key_headers.iter().find_map(|name| headers.get(name));
    let named = match shown {
        Some(shown) => live.key_name(shown.to_str().unwrap_or_default().trim()),
        None => by_bearer.clone(),
    };
    if named.is_some() {
        return Ok(who(named));
    }
    let message = match shown {
        Some(_) => "Invalid service key in x-gateway-api-key. Send one of the keys the operator gave out.",
        None => "No service key. Send it in x-gateway-api-key, or as the bearer in Authorization.",
    };
    Err(Error::unauthorized(message).with_param("x-gateway-api-key"))
}

/// The name of the service key that is this header's value, or its credential after the word `Bearer`; without
/// a scheme the whole value counts, as `config::headers` has it.
pub fn key_in(value: &HeaderValue, live: &Live) -> Option<Arc<str>> {
    let value = value.to_str().ok()?.trim();
    let credential = match value.split_once(' ') {
        Some((scheme, key)) => scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())?,
        None => value,
    };
    live.key_name(credential)
}
