//! Which service key a client's certificate stands for, by `auth.client_certificates`.
//!
//! The certificate was verified before (`net::inbound::client_certificate`). The key takes the place of one that the client would have
//! sent, so that all that follows is the same: scopes, limits, logs, and that it reaches no provider.

use super::{ServiceKeys, client_keys, own_header};
use crate::net::inbound::client_certificate::ClientCertificate;
use http::header::ORIGIN;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use words::settings::Auth;

/// The header with the key that the certificate stands for. `None`: it stands for none, the request is that of a page, or it has a
/// service key of its own, which counts alone, also where it is not good.
pub fn key_of_certificate(
    certificate: &ClientCertificate,
    auth: &Auth,
    headers: &HeaderMap,
    uri: &Uri,
    keys: &ServiceKeys,
) -> Option<(HeaderName, HeaderValue)> {
    // A browser presents its certificate for pages of all origins.
    if headers.contains_key(ORIGIN) {
        return None;
    }
    let name = certificate.names.iter().find_map(|name| auth.client_certificates.get(name))?;
    // Also one that has expired or was revoked, and a token.
    let has_service_key = || client_keys::find(headers, uri).any(|sent| keys.is_service_key(&sent.key));
    if own_header(headers, keys).is_some() || has_service_key() {
        return None;
    }
    let key = auth.keys.iter().find(|key| key.name == *name)?;
    let mut value = HeaderValue::from_str(key.key.text()?.expose()).ok()?;
    value.set_sensitive(true);
    Some((keys.headers.first()?.clone(), value))
}
