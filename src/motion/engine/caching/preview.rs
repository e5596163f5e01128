//! Whether the response to an explained request would be looked for in the cache, and by which key.
//!
//! Looks into this process's memory alone, and calls nobody: not a shared store, and no model that makes vectors.

use super::{
    CacheHeaders, CacheStatus, Caching, ClientHeaders, is_cacheable, key_parts, scope, target_digest,
};
use crate::engine::limit_preview::PreviewedRequest;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use memory::cache::CacheKey;
use serde::Serialize;
use std::sync::Arc;
use words::config::policies::CacheMode;

/// What the cache would do for a request.
#[derive(Debug, Serialize)]
pub struct CacheView {
    /// `simple` or `semantic`.
    mode: &'static str,
    /// As `x-gateway-cache-status` would be, by this gateway's memory.
    status: &'static str,
    /// Absent: such a request is never looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// For how long the response has been stored, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<u64>,
}

/// What the cache would do at the first target. `None`: its config caches nothing, or the attempt cannot be made. The key is that of the
/// request before hooks, which may change it.
pub fn preview(
    caching: &Caching,
    of: &PreviewedRequest<'_>,
    headers: &HeaderMap,
    wishes: Option<&CacheHeaders>,
) -> Option<CacheView> {
    let policy = of.target.policies.cache?;
    let attempt = Attempt::new(Arc::clone(of.target), of.request).ok()?;
    let view = |status: CacheStatus, key: Option<CacheKey>, age| {
        let mode = match policy.mode {
            CacheMode::Simple => "simple",
            CacheMode::Semantic => "semantic",
        };
        Some(CacheView { mode, status: status.as_str(), key: key.map(|key| key.to_string()), age })
    };
    let scope = scope(of.client.workspace, of.snapshot.stored.default_workspace(), wishes);
    let uri = Uri::default();
    let client = ClientHeaders { headers, uri: &uri, snapshot: of.snapshot };
    let digest = target_digest(of.target, attempt.origin());
    let parts = key_parts(of.metadata, &scope, digest, &attempt, &client);
    let parts = parts.filter(|_| is_cacheable(&attempt, of.request));
    let Some(key) = parts.and_then(|parts| parts.key().ok()) else {
        return view(CacheStatus::Disabled, None, None);
    };
    if wishes.is_some_and(|wishes| wishes.forces_refresh) {
        return view(CacheStatus::Refresh, Some(key), None);
    }
    let now = Timestamp::now();
    match caching.store.in_memory(&key, &scope, now) {
        Some(found) => view(CacheStatus::Hit, Some(key), Some(found.age(now))),
        None => view(CacheStatus::Miss, Some(key), None),
    }
}
