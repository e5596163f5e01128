//! The cache around one attempt: looks a response up before its target is called, and stores one when it is complete.
//!
//! It stands between the hooks on the request, which may change or deny it, and the limits and stages of the target, which a hit does not pass. What is
//! stored is the provider's response as it was sent; on a hit it takes the way of a provider's response: decoder, windows, encoder, hooks on the response.
//! Equal requests in flight share one upstream call. A target without `cache` pays one comparison.
//!
//! ```text
//! hooks on the request ──> attempt made ──> look-up ─┬─ hit ─────────────────────────────┐
//!                                                    ├─ a call in flight: read along ────┤
//!                                                    └─ miss ──> limits, stages, sent ───┴──> decoder ──> … ──> sent ──> stored
//! ```

mod embedding;
mod flight;
mod flights;
mod note;
mod preview;
mod result;
mod similar;

pub(super) use flight::{FlightReader, FlightShare};
pub use note::{CacheNote, CacheStatus, NotStored, Saved};
pub use preview::CacheView;

use super::attempt_run::AttemptRun;
use super::content_kind::ContentKind;
use super::cost;
use super::downstream::Downstream;
use super::guarding::Guarded;
use super::orchestrator::Orchestrator;
use super::record::AttemptUsage;
use super::request_context::RequestContext;
use super::response_body::{ResponseBody, has_only_json};
use super::upstream_stream::UpstreamStream;
use flight::{Flight, NewFlight};
use flights::{Flights, Joining};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::request_mode::RequestMode;
use memory::cache::{
    CacheKey, CachedResponse, KeyParts, Neighbour, ResponseStore, Scope, SemanticIndex, is_decisive,
};
use memory::state::held_bytes::Hold;
use memory::state::large_work::run_here;
use serde_json::value::RawValue;
use similar::Similar;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::api::operation::Operation;
use words::api::tap::ResponseSummary;
use words::config::headers::GatewayHeaders;
use words::config::policies::{Cache, CacheMode};
use words::error::Error;

/// What all requests share of the cache.
pub struct Caching {
    pub store: Arc<ResponseStore>,
    /// Which texts mean the same; `None`: the settings have no `semantic_cache`.
    pub index: Option<Arc<SemanticIndex>>,
    flights: Arc<Flights>,
}

/// What a client's headers say about the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheHeaders {
    /// Takes the place of metadata and headers in the key.
    pub namespace: Option<Arc<str>>,
    /// A new response is wanted, and stored.
    pub forces_refresh: bool,
}

/// The part of the cache in one attempt that calls its target, or reads along with one that does.
pub(super) struct CachedCall {
    key: CacheKey,
    scope: Scope,
    max_age: Duration,
    share: FlightShare,
    /// What finds the response again for texts that mean the same.
    similar: Option<Box<Similar>>,
    /// A guardrail let the response pass with a failure.
    is_flawed: bool,
}

/// What a look-up found.
pub(super) enum LookUp {
    /// The attempt takes no part in the cache.
    Disabled,
    Hit(Arc<CachedResponse>),
    /// Another request calls the target just now.
    Shared(Box<(CachedCall, FlightReader)>),
    /// The target is to be called.
    Miss(Box<(CachedCall, Launch, FlightReader)>),
}

/// A call that others may read along with, before it is made. Dropped without being made, it fails for those who wait for it.
pub(super) struct Launch {
    caching: Arc<Caching>,
    key: CacheKey,
    flight: Arc<Flight>,
    is_made: bool,
}

impl CacheHeaders {
    /// Those of a request, if it has any.
    pub fn of(headers: &GatewayHeaders<'_>) -> Option<Box<Self>> {
        let GatewayHeaders { cache_namespace, cache_force_refresh, .. } = *headers;
        (cache_namespace.is_some() || cache_force_refresh).then(|| {
            Box::new(Self { namespace: cache_namespace.map(Arc::from), forces_refresh: cache_force_refresh })
        })
    }
}

impl Caching {
    pub fn new(store: Arc<ResponseStore>, index: Option<Arc<SemanticIndex>>) -> Self {
        let flights = Arc::<Flights>::default();
        let concerned = Arc::clone(&flights);
        store.on_removal(Box::new(move |concerns| concerned.outdate(concerns)));
        Self { store, index, flights }
    }

    /// Gives the memory back of what nobody can find any more. To be called every second.
    pub fn drop_expired(&self, now: Timestamp) {
        self.store.drop_expired();
        if let Some(index) = &self.index {
            index.drop_expired(now);
            index.drop_gone(|key| !self.store.may_have(key));
        }
    }

    /// How many upstream calls others may join.
    pub fn calls_in_flight(&self) -> usize {
        self.flights.len()
    }
}

impl<D: Downstream> Orchestrator<'_, D> {
    /// Looks up the response of an attempt. `guarded`: the hooks that may have changed its request.
    pub(super) async fn look_up(
        &mut self,
        policy: Cache,
        attempt: &Attempt,
        guarded: Option<&Guarded>,
    ) -> LookUp {
        let changed = guarded.and_then(Guarded::changed_request);
        if self.resume.is_some() || !is_cacheable(attempt, changed.unwrap_or(&self.request)) {
            return LookUp::Disabled;
        }
        let Some((scope, key)) = self.key(attempt).await else { return LookUp::Disabled };
        let caching = Arc::clone(&self.engine.caching);
        let settings = Arc::clone(&self.ctx.snapshot);
        let forces_refresh = self.ctx.cache_headers.as_ref().is_some_and(|wishes| wishes.forces_refresh);
        // An entry that could not be decoded was removed from the memory, and may still be in the shared store.
        let reads_kept = !forces_refresh && !self.ignores_kept;
        let status = if forces_refresh { CacheStatus::Refresh } else { CacheStatus::Miss };
        self.ctx.cache =
            CacheNote { status, mode: Some(policy.mode), key: Some(key), ..CacheNote::default() };
        let now = Timestamp::now();
        if reads_kept && let Some(found) = caching.store.get(&key, &scope, now).await {
            return self.hit(CacheStatus::Hit, found, now);
        }
        let max_age = policy.max_age(settings.settings.cache.max_age);
        let joining = Joining { streamed: self.streamed, max_age, raced: self.raced.clone() };
        let call = |reader: &FlightReader, similar| CachedCall {
            key,
            scope: scope.clone(),
            max_age,
            share: reader.share(),
            similar,
            is_flawed: false,
        };
        if !forces_refresh && let Some(reader) = caching.flights.join(&key, &joining) {
            return self.read_along(call(&reader, None), reader);
        }
        let similar = match policy.mode {
            CacheMode::Semantic => Box::pin(self.probe(attempt, changed, &scope)).await.map(Box::new),
            CacheMode::Simple => None,
        };
        if let Some(probe) = similar.as_ref().filter(|_| reads_kept) {
            if let Some((origin, found)) = self.similar_response(probe, policy, &scope, now).await {
                caching.store.put(key, (*found).clone());
                self.ctx.cache.origin = Some(origin);
                return self.hit(CacheStatus::SemanticHit, found, now);
            }
            self.ctx.cache.status = CacheStatus::SemanticMiss;
        }
        // The call of an equal request may have ended while this one was looking for its response.
        if reads_kept && let Some(found) = caching.store.in_memory(&key, &scope, now) {
            return self.hit(CacheStatus::Hit, found, now);
        }
        let limit = usize::try_from(settings.settings.cache.max_entry_bytes).unwrap_or(usize::MAX);
        let new =
            NewFlight { scope: scope.clone(), streamed: self.streamed, is_refresh: forces_refresh, limit };
        match caching.flights.join_or_lead(key, &joining, new) {
            Ok(reader) => self.read_along(call(&reader, None), reader),
            Err((flight, reader)) => {
                let call = call(&reader, similar);
                let launch = Launch { caching, key, flight, is_made: false };
                LookUp::Miss(Box::new((call, launch, reader)))
            }
        }
    }

    fn hit(&mut self, status: CacheStatus, found: Arc<CachedResponse>, now: Timestamp) -> LookUp {
        self.ctx.cache.status = status;
        self.ctx.cache.age = Some(found.age(now));
        self.ctx.cache.saved =
            Saved { input_tokens: found.input_tokens, output_tokens: found.output_tokens, cost: found.cost };
        LookUp::Hit(found)
    }

    fn read_along(&mut self, call: CachedCall, reader: FlightReader) -> LookUp {
        self.ctx.cache.status = CacheStatus::Hit;
        self.ctx.cache.is_shared = true;
        LookUp::Shared(Box::new((call, reader)))
    }

    /// Where the response belongs, and its key. `None`: the request cannot be compared with others.
    async fn key(&self, attempt: &Attempt) -> Option<(Scope, CacheKey)> {
        let default = self.ctx.snapshot.stored.default_workspace();
        let scope = scope(self.ctx.workspace(), default, self.ctx.cache_headers.as_deref());
        let headers = &self.downstream.request().headers;
        let parts = key_parts(self.ctx.record.metadata.as_deref(), &scope, attempt, headers)?;
        let key = self.engine.shared.large_work.run(parts.body.len(), || parts.key()).await.ok()?;
        Some((scope, key))
    }

    /// What the request shares with all that differ in their text alone, and the vector of its text.
    async fn probe(&self, attempt: &Attempt, changed: Option<&Request>, scope: &Scope) -> Option<Similar> {
        self.engine.caching.index.as_ref()?;
        let request = changed.unwrap_or(&self.request);
        let request = request.as_edited_for(&attempt.target).ok()?;
        let body = request.body.as_ref()?;
        let text = similar::Text::of(request.operation, body)?;
        let headers = &self.downstream.request().headers;
        let metadata = self.ctx.record.metadata.as_deref();
        let parts = KeyParts { body: body.bytes(), ..key_parts(metadata, scope, attempt, headers)? };
        let partition = text.partition(&parts)?;
        let vector = self.engine.embed(self.ctx, &text.joined()).await?;
        Some(Similar { partition, vector })
    }

    /// The response to a text that means the same, and its key.
    async fn similar_response(
        &self,
        probe: &Similar,
        policy: Cache,
        scope: &Scope,
        now: Timestamp,
    ) -> Option<(CacheKey, Arc<CachedResponse>)> {
        let caching = &self.engine.caching;
        let settings = self.ctx.snapshot.settings.semantic_cache.as_ref()?;
        let threshold = policy.threshold.unwrap_or(settings.threshold);
        let nearest = caching.index.as_ref()?.nearest(&probe.partition.0, &probe.vector, now)?;
        if f64::from(nearest.similarity) < threshold {
            return None;
        }
        let found = caching.store.get(&nearest.key, scope, now).await;
        match &found {
            Some(_) => nearest.mark_used(),
            None => drop(caching.index.as_ref().map(|index| index.remove(&nearest.key))),
        }
        found.map(|found| (nearest.key, found))
    }

    /// Removes what a hit was made of, because it cannot be read as a response to this request.
    pub(super) fn remove_unreadable(&self, hit: &CacheNote) {
        let default = self.ctx.snapshot.stored.default_workspace();
        let scope = scope(self.ctx.workspace(), default, self.ctx.cache_headers.as_deref());
        let caching = &self.engine.caching;
        for key in [hit.key, hit.origin].into_iter().flatten() {
            caching.store.remove(&key, &scope);
            if let Some(index) = &caching.index {
                index.remove(&key);
            }
            log::warn!(target: "turnpike", "a cached response cannot be decoded, and was removed: {key}");
        }
    }

    /// An attempt got no response. A request that read along with another one's call had no hit.
    pub(super) fn note_failed_call(&mut self, run: &AttemptRun) {
        if run.reads_along() && self.ctx.cache.is_shared {
            self.ctx.cache.status = CacheStatus::Miss;
        }
    }

    /// Keeps a response that has come completely, for the requests that follow. To be called before the last of it is sent.
    pub(super) fn store_response(&mut self, run: &AttemptRun, body: &ResponseBody) {
        let Some(call) = &run.cached else { return };
        let stored = match self.storable(call, run, body) {
            Ok(Some(entry)) => {
                self.engine.caching.keep(call, entry);
                Some(Ok(()))
            }
            // Another reader of the same call has stored it.
            Ok(None) => None,
            Err(why) => {
                call.share.discard(why);
                // What it was to replace is not wanted any more.
                if call.share.is_refresh() && matches!(why, NotStored::TooLarge | NotStored::Compressed) {
                    self.engine.caching.store.remove(&call.key, &call.scope);
                }
                Some(Err(why))
            }
        };
        if call.share.is_leader() || stored == Some(Ok(())) {
            self.ctx.cache.stored = stored;
        }
    }

    fn storable(
        &self,
        call: &CachedCall,
        run: &AttemptRun,
        body: &ResponseBody,
    ) -> Result<Option<CachedResponse>, NotStored> {
        if self.resume.is_some() {
            return Err(NotStored::Rescued);
        }
        if call.is_flawed {
            return Err(NotStored::Guardrail);
        }
        if body.error().is_some() || body.has_provider_error() {
            return Err(NotStored::Error);
        }
        if run.stream.state().status != Some(StatusCode::OK.as_u16()) || !body.is_complete_response() {
            return Err(NotStored::Incomplete);
        }
        if call.max_age.is_zero() {
            return Err(NotStored::MaxAge);
        }
        let Some(whole) = call.share.to_store()? else { return Ok(None) };
        let headers = &whole.header.headers;
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(NotStored::Compressed);
        }
        let kind = ContentKind::of(&whole.header);
        let streamed = kind == ContentKind::Events;
        // A stream that passes unchanged may not have been read event by event; one that is decoded was.
        let is_read = body.is_translated() || !streamed;
        if !is_read && !run_here(whole.body.len(), || has_only_json(&whole.body)) {
            return Err(NotStored::Error);
        }
        if !result::is_there(kind, run.attempt.operation, body.summary(), &whole.body) {
            return Err(NotStored::NoResult);
        }
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let saved = saved(self.ctx, &run.attempt, body.summary());
        let stored_at = Timestamp::now().checked_sub(whole.age).unwrap_or(Timestamp::MIN);
        Ok(Some(CachedResponse {
            scope: call.scope.clone(),
            streamed,
            content_type: content_type.unwrap_or("application/json").into(),
            body: whole.body,
            pace: whole.pace.into(),
            stored_at,
            expires_at: stored_at.checked_add(call.max_age).unwrap_or(Timestamp::MAX),
            input_tokens: saved.input_tokens,
            output_tokens: saved.output_tokens,
            cost: saved.cost,
        }))
    }

    /// Notes what a request saved that read along with another's call.
    pub(super) fn note_shared(&mut self, attempt: &Attempt, summary: Option<&ResponseSummary>) {
        self.ctx.cache.saved = saved(self.ctx, attempt, summary);
    }
}

impl Caching {
    /// Stores a response, and has it found for texts that mean the same.
    fn keep(&self, call: &CachedCall, entry: CachedResponse) {
        let expires_at = entry.expires_at;
        self.flights.outdate_older(&call.key, &call.share);
        if call.share.is_refresh() {
            // The other gateways have the old one in memory.
            self.store.remove(&call.key, &call.scope);
        }
        self.store.put(call.key, entry);
        // From here on other requests find the response in the store.
        call.share.close();
        if call.share.is_discarded() {
            // Purged, in this very moment.
            self.store.remove(&call.key, &call.scope);
            return;
        }
        let (Some(similar), Some(index)) = (&call.similar, &self.index) else { return };
        let neighbour = Neighbour {
            partition: similar.partition.0,
            key: call.key,
            scope: call.scope.clone(),
            vector: similar.vector.clone(),
            expires_at,
        };
        if let Err(why) = index.insert(neighbour, Timestamp::now()) {
            log::debug!(target: "turnpike", "a text cannot be found by its meaning: {why}");
        }
    }
}

impl LookUp {
    /// Whether the target is to be called.
    pub fn calls_target(&self) -> bool {
        matches!(self, Self::Disabled | Self::Miss(_))
    }
}

impl CachedCall {
    /// Whether this request calls the target itself.
    pub fn is_leader(&self) -> bool {
        self.share.is_leader()
    }

    /// See [`FlightShare::is_charged`].
    pub fn is_charged(&self, is_complete: bool) -> bool {
        self.share.is_charged(is_complete)
    }

    /// Whether all of the response has arrived, though it may not have been read.
    pub fn is_complete(&self) -> bool {
        self.share.is_complete()
    }

    /// Nobody may join the call any more.
    pub fn close(&self) {
        self.share.close();
    }

    pub fn share(&self) -> FlightShare {
        self.share.clone()
    }

    /// A guardrail has failed, and let the response pass.
    pub fn set_flawed(&mut self) {
        self.is_flawed = true;
    }
}

impl Launch {
    /// Makes the call, whose response all its readers get.
    pub fn start(mut self, stream: UpstreamStream, held: Hold) {
        self.is_made = true;
        let (caching, key, flight) = (Arc::clone(&self.caching), self.key, Arc::clone(&self.flight));
        tokio::spawn(async move {
            Arc::clone(&flight).run(stream, held).await;
            caching.flights.remove(&key, &flight);
        });
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.is_made {
            let error =
                Error::unreachable("The call that this request waited for was not made.", "no launch");
            self.caching.flights.remove(&self.key, &self.flight);
            self.flight.fail(error);
        }
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

/// All that decides the response of an attempt.
fn key_parts<'a>(
    metadata: Option<&'a RawValue>,
    scope: &'a Scope,
    attempt: &'a Attempt,
    client: &'a HeaderMap,
) -> Option<KeyParts<'a>> {
    let target = &attempt.target;
    let forwarded = target.policies.forward_headers();
    let has_namespace = scope.namespace.is_some();
    let counts = |name| forwarded.contains(name) || !has_namespace && is_decisive(name);
    let headers = client.iter().filter(|(name, _)| counts(*name)).chain(attempt.vendor_headers.all());
    let metadata = metadata.filter(|_| !has_namespace);
    Some(KeyParts {
        scope,
        provider: target.provider.id(),
        origin: attempt.origin(),
        account: &target.account,
        method: attempt.method.as_str(),
        path: &attempt.path,
        headers: headers.collect(),
        metadata: metadata.map(|metadata| metadata.get().as_bytes()),
        body: attempt.body.as_ref()?,
        serves_both: attempt.operation.is_chat(),
    })
}

/// What a response is worth to a request that does not pay for it.
fn saved(ctx: &RequestContext, attempt: &Attempt, summary: Option<&ResponseSummary>) -> Saved {
    let Some(used) = summary.and_then(AttemptUsage::reported) else { return Saved::default() };
    let cost = cost::of_usage(
        &ctx.prices,
        (&attempt.target, false),
        attempt.model.as_deref(),
        &used,
        Timestamp::now(),
    );
    let cost = cost.nanodollars.and_then(|nanodollars| u64::try_from(nanodollars).ok());
    Saved { input_tokens: used.usage.input, output_tokens: used.usage.output, cost }
}
