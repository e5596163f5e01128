//! Authenticates a client of the control plane, and fetches the identity provider's keys where a token demands newer ones.
//!
//! What makes a key or token good is decided in `auth`; here is only what needs to wait. The data port does the same in its
//! admission.

use super::Shared;
use crate::auth::{self, ClientIdentity};
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use std::sync::Arc;
use words::error::Error;

/// Identifies a client of the control plane, on either port. A key in the query is none.
///
/// # Errors
/// 401 when the request has no key or token that is good.
pub async fn authenticate(
    shared: &Shared,
    headers: &HeaderMap,
    uri: &Uri,
    now: Timestamp,
) -> Result<Arc<ClientIdentity>, Error> {
    let attempt = || auth::authenticate_control(headers, uri, &shared.settings().service_keys, now);
    match attempt() {
        Err(error) if auth::needs_new_keys(&error) => {
            fetch_keys(shared).await;
            attempt()
        }
        identified => identified,
    }
}

/// Looks for newer keys of the identity provider, unless that was done a moment ago.
pub async fn fetch_keys(shared: &Shared) {
    let snapshot = shared.settings_arc();
    if let Some(tokens) = snapshot.service_keys.tokens() {
        shared.jwks.fetch_unless_recent(tokens, &shared.dns, &snapshot.hosts).await;
    }
}
