//! Authenticates the client by its service key or token, wherever client libraries send a key, and finds the provider's key that a
//! client sends beside it or in its place.
//!
//! Uses method, path and headers only, before any byte of the body is read. The gateway's own header is read first and
//! decides alone; else the first service key counts. [`authenticate`] is for the data port, which may demand no key;
//! [`authenticate_control`] for the control plane, which always does, and reads no key of a query. What the client may do is in its [`ClientIdentity`].
//! [`provider_key`] is the first key elsewhere that is no service key.

pub mod certificate_keys;
mod client_keys;
pub mod fact_key;
pub mod facts;
pub mod granting;
pub mod identity;
pub mod jwks;
pub mod jwt;
mod jwt_crypto;
pub mod key_body;
pub mod key_format;
pub mod key_records;
mod key_search;
mod refusals;
pub mod roles;
mod service_keys;
pub mod session_token;
pub mod sign_in_code;
pub mod signed_in;
pub mod signed_token;
pub mod stored_keys;

use client_keys::ClientKey;
pub use client_keys::KEY_PROTOCOL;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
pub use identity::{ClientIdentity, IdentityKind, KeyDefaults, LivingKey, ShownToken};
use jiff::Timestamp;
pub use jwt::{TokenRefusal, Tokens};
pub use key_search::{KeySearch, clean_uri};
use refusals::{key_in_query, no_key, refused};
pub use service_keys::{DEFAULT_WORKSPACE, IdentityRefusal, ServiceKeys};
pub use session_token::{SessionClient, SessionGrant, is_token};
use std::borrow::Cow;
use std::sync::Arc;
use stored_keys::KeyRefusal;
pub use stored_keys::StoredKeys;
use uuid::Uuid;
use words::error::Error;

/// The organisation: one for each store, so that its id need not differ between stores.
pub const ORGANISATION: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);

/// Whether a token was refused because it names a key that is not in the identity provider's set, as it is here: look for a newer
/// set, and try again.
pub fn needs_new_keys(error: &Error) -> bool {
    error.cause.as_deref() == Some(TokenRefusal::KidUnknown.code())
}

/// Identifies a client of the data port.
///
/// # Errors
/// 401 when a key is demanded and the request has none that is good.
pub fn authenticate(
    headers: &HeaderMap,
    uri: &Uri,
    keys: &ServiceKeys,
    now: Timestamp,
) -> Result<Arc<ClientIdentity>, Error> {
    if keys.are_required() {
        return authenticate_operator(headers, uri, keys, now);
    }
    if keys.is_empty() {
        return Ok(keys.anonymous());
    }
    // A key of an operator is recognized all the same, so that its scopes hold on both ports.
    authenticate_operator(headers, uri, keys, now).or_else(|_| Ok(keys.anonymous()))
}

/// Identifies the client of a realtime session, which may have a token of its own in place of a key. `is_open`: the session was opened before.
///
/// # Errors
/// As [`authenticate`]; 401 for a token that is not good any more.
pub fn authenticate_session(
    headers: &HeaderMap,
    uri: &Uri,
    keys: &ServiceKeys,
    now: Timestamp,
    is_open: bool,
) -> Result<SessionClient, Error> {
    let own = own_header(headers, keys).map(|(name, value)| (name.as_str(), Cow::Borrowed(value.as_bytes())));
    let elsewhere = || {
        client_keys::find(headers, uri).map(|found| (found.place, found.key)).find(|(_, key)| is_token(key))
    };
    let token = own.or_else(elsewhere).filter(|(_, key)| is_token(key.trim_ascii()));
    let Some((place, token)) = token else {
        return authenticate(headers, uri, keys, now).map(|client| (client, None));
    };
    let found = keys.verify_session(token.trim_ascii(), now, is_open);
    found.map(|(client, grant)| (client, Some(grant))).map_err(|refusal| refused(&refusal, place))
}

/// Identifies a client that must have a key, wherever client libraries put it.
///
/// # Errors
/// 401 when the request has no key that is good.
pub(crate) fn authenticate_operator(
    headers: &HeaderMap,
    uri: &Uri,
    keys: &ServiceKeys,
    now: Timestamp,
) -> Result<Arc<ClientIdentity>, Error> {
    if let Some((name, value)) = own_header(headers, keys) {
        let identified = keys.identify(value.as_bytes().trim_ascii(), now);
        return identified.map_err(|refusal| refused(&refusal, name.as_str()));
    }
    const UNKNOWN: IdentityRefusal = IdentityRefusal::Key(KeyRefusal::Unknown);
    let mut first = None;
    for ClientKey { place, key, .. } in client_keys::find(headers, uri) {
        match keys.identify(&key, now) {
            Ok(identity) => return Ok(identity),
            Err(UNKNOWN) => {
                first.get_or_insert((UNKNOWN, place));
            }
            // What is the gateway's own and not good is named before an unknown key, which may be a provider's.
            Err(refusal) => first = Some((refusal, place)),
        }
    }
    // A scheme other than `Bearer`.
    let is_other = || headers.contains_key(AUTHORIZATION).then_some((UNKNOWN, "authorization"));
    Err(first.or_else(is_other).map_or_else(no_key, |(refusal, place)| refused(&refusal, place)))
}

/// Identifies a client of a control route: by its headers alone. A query stands in the logs of every server on the way, and in the
/// audit log.
///
/// # Errors
/// 401 when the headers have no key that is good.
pub(crate) fn authenticate_control(
    headers: &HeaderMap,
    uri: &Uri,
    keys: &ServiceKeys,
    now: Timestamp,
) -> Result<Arc<ClientIdentity>, Error> {
    let identified = authenticate_operator(headers, &Uri::default(), keys, now);
    let is_in_query = || {
        let has_key = |uri: &Uri| client_keys::find(headers, uri).next().is_some();
        !has_key(&Uri::default()) && has_key(uri)
    };
    identified.map_err(|error| if is_in_query() { key_in_query() } else { error })
}

/// The keys that the headers of a client of a control route have, in the order in which [`authenticate_control`] looks at them: it takes
/// the first that is good.
pub fn control_keys(headers: &HeaderMap, keys: &ServiceKeys) -> Vec<Vec<u8>> {
    match own_header(headers, keys) {
        Some((_, value)) => vec![value.as_bytes().trim_ascii().to_vec()],
        None => client_keys::find(headers, &Uri::default()).map(|found| found.key.into_owned()).collect(),
    }
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
    let mut found = client_keys::find(headers, uri).filter(|found| found.is_certain);
    let Some(ClientKey { place, key, .. }) = found.find(|found| !keys.is_service_key(&found.key)) else {
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

#[cfg(test)]
mod tests;
