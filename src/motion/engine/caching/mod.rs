//! The cache around one attempt: looks a response up before its target is called, and stores one when it is complete.
//!
//! Its layer stands between the hooks on the request, which may change or deny it, and the limits and credentials of the target, which a
//! hit does not pass. What is stored is the provider's response as it was sent; on a hit it takes the way of a provider's response: decoder,
//! windows, encoder, hooks on the response. Equal requests in flight share one upstream call. A target without `cache` has no such layer.
//!
//! ```text
//! hooks on the request ──> attempt made ──> look-up ─┬─ hit ─────────────────────────────────┐
//!                                                    ├─ a call in flight: read along ────────┤
//!                                                    └─ miss ──> limits, credentials, sent ──┴──> decoder ──> … ──> sent ──> stored
//! ```

mod cached_call;
mod embedding;
mod flight;
mod flights;
mod headers;
mod launch;
mod layer;
mod note;
mod preview;
mod result;
mod similar;
mod storing;

pub(super) use cached_call::CachedCall;
pub(super) use flight::{FlightReader, FlightShare};
pub use headers::CacheHeaders;
pub(super) use launch::Launch;
pub(super) use layer::compile;
pub use note::{CacheNote, CacheStatus, NotStored, Saved};
pub use preview::{CacheView, preview};
pub(super) use similar::Similar;
pub(super) use storing::{CompleteResponse, remove_unreadable, saved};

use super::forwarded_headers::each_forwarded;
use flights::Flights;
use http::{HeaderMap, HeaderName, Uri};
use jiff::Timestamp;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::request_mode::RequestMode;
use judgment::route::target::Target;
use memory::cache::{KeyParts, ResponseStore, Scope, SemanticIndex, TargetDigest, is_neutral};
use memory::net::outbound::origin::Origin;
use memory::state::snapshot::SettingsSnapshot;
use serde_json::value::RawValue;
use std::sync::Arc;
use uuid::Uuid;
use words::api::operation::Operation;
use words::config::account::Account;
use words::settings::SemanticCacheSettings;

/// What all requests share of the cache.
pub struct Caching {
    pub store: Arc<ResponseStore>,
    /// Which texts mean the same; empty where the settings have no `semantic_cache`.
    pub index: SemanticIndex,
    flights: Arc<Flights>,
}

impl Caching {
    pub fn new(store: Arc<ResponseStore>, index: SemanticIndex) -> Self {
        let flights = Arc::<Flights>::default();
        let concerned = Arc::clone(&flights);
        store.on_removal(Box::new(move |concerns| concerned.outdate(concerns)));
        Self { store, index, flights }
    }

    /// Gives the memory back of what nobody can find any more, and takes over the limit of the settings. To be called every second.
    pub fn drop_expired(&self, now: Timestamp, settings: Option<&SemanticCacheSettings>) {
        self.store.drop_expired();
        if let Some(settings) = settings {
            self.index.set_max_bytes(settings.max_bytes);
        }
        self.index.drop_expired(now);
        self.index.drop_gone(|key| !self.store.may_have(key));
    }

    /// How many upstream calls others may join.
    pub fn calls_in_flight(&self) -> usize {
        self.flights.len()
    }
}

/// Whether the response of an attempt may be cached at all.
fn is_cacheable(attempt: &Attempt, request: &Request) -> bool {
    let is_background = attempt.operation == Operation::Responses
        && request.body.as_ref().is_some_and(|body| body.is_true("background"));
    attempt.mode == RequestMode::Api
        && attempt.operation.is_cacheable()
        && attempt.local_count.is_none()
        && attempt.body.is_some()
        && !is_background
}

fn scope(workspace: Option<Uuid>, default: Option<Uuid>, wishes: Option<&CacheHeaders>) -> Scope {
    let namespace = wishes.and_then(|wishes| wishes.namespace.clone());
    Scope { workspace: Scope::workspace(workspace, default), namespace }
}

/// A client's request as far as its headers may decide the response.
struct ClientHeaders<'a> {
    headers: &'a HeaderMap,
    /// As the client sent it.
    uri: &'a Uri,
    snapshot: &'a SettingsSnapshot,
}

/// What the keys of all requests to a target at this address have.
fn target_digest(target: &Target, origin: &Origin) -> TargetDigest {
    // Any host of the provider would have sent the response.
    if let Some(host) = &target.host
        && let Ok(origin) = Origin::parse(&host.of_all, true)
    {
        let account = Account { custom_host: Some(host.of_all.to_string()), ..target.account.clone() };
        return TargetDigest::new(target.provider.id(), &origin, &account);
    }
    TargetDigest::new(target.provider.id(), origin, &target.account)
}

/// All that decides the response of an attempt.
fn key_parts<'a>(
    metadata: Option<&'a RawValue>,
    scope: &'a Scope,
    digest: TargetDigest,
    attempt: &'a Attempt,
    client: &ClientHeaders<'a>,
) -> Option<KeyParts<'a>> {
    let target = &attempt.target;
    let named = target.policies.forward_headers();
    let has_namespace = scope.namespace.is_some();
    let counts = |name: &HeaderName| named.contains(name) || !has_namespace && !is_neutral(name);
    let mut headers: Vec<_> = attempt.vendor_headers.all().collect();
    each_forwarded(client.headers, client.uri, named, client.snapshot, |name, value| {
        if counts(name) {
            headers.push((name, value));
        }
    });
    let metadata = metadata.filter(|_| !has_namespace);
    Some(KeyParts {
        scope,
        target: digest,
        method: attempt.method.as_str(),
        path: &attempt.path,
        headers,
        metadata: metadata.map(|metadata| metadata.get().as_bytes()),
        body: attempt.body.as_ref()?,
        serves_both: attempt.operation.is_chat(),
    })
}
