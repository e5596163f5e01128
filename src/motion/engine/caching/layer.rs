//! The layer of the cache: looks up what would be the response to an attempt.
//!
//! Not here: what becomes of the response when the target was called (`storing`).

use super::cached_call::CachedCall;
use super::flight::{FlightReader, NewFlight};
use super::flights::Joining;
use super::launch::Launch;
use super::note::{CacheNote, CacheStatus, Saved};
use super::similar::{self, Similar};
use super::{Caching, ClientHeaders, embedding, is_cacheable, key_parts, scope, target_digest};
use crate::engine::attempt::answer::{Answer, AnswerKind};
use crate::engine::attempt::call::{AttemptCall, Step};
use crate::engine::attempt::{Flow, Layer};
use crate::engine::request_context::RequestContext;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use judgment::route::target::Target;
use memory::cache::{CacheKey, CachedResponse, KeyParts, Scope, TargetDigest};
use std::sync::Arc;
use words::config::policies::{Cache, CacheMode};

struct CacheLayer {
    /// What the config says about it.
    policy: Cache,
    /// Of the target at its own address.
    digest: TargetDigest,
}

pub(in crate::engine) fn compile(target: &Target) -> Option<Box<dyn Layer>> {
    let policy = target.policies.cache?;
    Some(Box::new(CacheLayer { policy, digest: target_digest(target, &target.origin) }))
}

impl Layer for CacheLayer {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn needs(&self) -> Step {
        Step::Made
    }

    /// Nothing is looked up for an attempt whose response is given, or that continues a stream.
    fn applies(&self, call: &AttemptCall<'_>) -> bool {
        call.ctx.offline.given.is_none() && call.kept.resume.is_none()
    }

    fn is_for_unread(&self, _: &Attempt) -> bool {
        false
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(look_up(self, call))
    }
}

async fn look_up(layer: &CacheLayer, call: &mut AttemptCall<'_>) -> Flow {
    let policy = layer.policy;
    let caching = Arc::clone(&call.engine.caching);
    let settings = Arc::clone(&call.ctx.snapshot);
    let forces_refresh = call.ctx.record.named.cache.as_ref().is_some_and(|wishes| wishes.forces_refresh);
    // An entry that could not be decoded was removed from the memory, and may still be in the shared store.
    let reads_kept = !forces_refresh && !call.kept.ignores_stored;
    let Some((scope, key)) = layer.key(call).await else { return Flow::Continue };
    let status = if forces_refresh { CacheStatus::Refresh } else { CacheStatus::Miss };
    call.cache = CacheNote { status, mode: Some(policy.mode), key: Some(key), ..CacheNote::default() };
    let now = Timestamp::now();
    if reads_kept && let Some(found) = caching.store.get(&key, &scope, now).await {
        return hit(&mut call.cache, CacheStatus::Hit, found, now);
    }
    let max_age = policy.max_age(settings.settings.cache.max_age);
    let streamed = call.incoming.streamed;
    // Whoever reads along may be charged for the call. So an attempt that what is held does not bound makes its own, which is held.
    let is_charged = call.ctx.is_charged();
    let is_alone = call.ctx.limits.holds_another(&call.next.target, call.request(), is_charged);
    let joining = Joining { streamed, max_age, raced: call.kept.raced.clone(), is_alone };
    let cached_call = |reader: &FlightReader, similar| CachedCall {
        key,
        scope: scope.clone(),
        max_age,
        share: reader.share(),
        similar,
        is_flawed: false,
    };
    if !forces_refresh && let Some(reader) = caching.flights.join(&key, &joining) {
        return read_along(call, cached_call(&reader, None), reader).await;
    }
    let similar = match policy.mode {
        CacheMode::Semantic => layer.probed(call, &scope).await,
        CacheMode::Simple => None,
    };
    if let Some(probe) = similar.as_ref().filter(|_| reads_kept) {
        if let Some((origin, found)) = similar_response(call.ctx, &caching, probe, policy, &scope).await {
            caching.store.put(key, (*found).clone());
            call.cache.origin = Some(origin);
            return hit(&mut call.cache, CacheStatus::SemanticHit, found, now);
        }
        call.cache.status = CacheStatus::SemanticMiss;
    }
    // The call of an equal request may have ended while this one was looking for its response.
    if reads_kept && let Some(found) = caching.store.in_memory(&key, &scope, now) {
        return hit(&mut call.cache, CacheStatus::Hit, found, now);
    }
    let limit = usize::try_from(settings.settings.cache.max_entry_bytes).unwrap_or(usize::MAX);
    let new = NewFlight { scope: scope.clone(), streamed, is_refresh: forces_refresh, limit };
    match caching.flights.join_or_lead(key, &joining, new) {
        Ok(reader) => read_along(call, cached_call(&reader, None), reader).await,
        Err((flight, reader)) => {
            let cached = cached_call(&reader, similar);
            let body = call.attempt().and_then(|attempt| attempt.body.clone());
            let launch = Launch { caching, key, flight, is_made: false, body };
            call.parts.shared = Some(Box::new((cached, launch, reader)));
            Flow::Continue
        }
    }
}

fn hit(cache: &mut CacheNote, status: CacheStatus, found: Arc<CachedResponse>, now: Timestamp) -> Flow {
    cache.status = status;
    cache.age = Some(found.age(now));
    cache.saved =
        Saved { input_tokens: found.input_tokens, output_tokens: found.output_tokens, cost: found.cost };
    Flow::Respond(Answer(AnswerKind::Stored(found)))
}

/// Reads the response to another request's call. It may be charged for that one, so that limits of the target hold it as if it called.
async fn read_along(call: &mut AttemptCall<'_>, cached: CachedCall, reader: FlightReader) -> Flow {
    if call.ctx.limits.has_target_limits()
        && let Err(flow) = call.bring_to(Step::Held).await
    {
        return flow;
    }
    call.cache.status = CacheStatus::Hit;
    call.cache.is_shared = true;
    Flow::Respond(Answer(AnswerKind::Shared(Box::new((cached, reader)))))
}

impl CacheLayer {
    /// Where the response belongs, and its key. `None`: it is not cached, or the request cannot be compared with others.
    async fn key(&self, call: &mut AttemptCall<'_>) -> Option<(Scope, CacheKey)> {
        let attempt = call.attempt().filter(|attempt| is_cacheable(attempt, call.request()))?;
        let ctx = &*call.ctx;
        let default = ctx.snapshot.stored.default_workspace();
        let scope = scope(ctx.workspace(), default, ctx.record.named.cache.as_deref());
        let parts = self.parts(call, &scope, attempt)?;
        let key = call.engine.shared.large_work.run(parts.body.len(), || parts.key()).await.ok()?;
        Some((scope, key))
    }

    fn parts<'a>(
        &self,
        call: &'a AttemptCall<'_>,
        scope: &'a Scope,
        attempt: &'a Attempt,
    ) -> Option<KeyParts<'a>> {
        let header = &call.incoming.header;
        let client =
            ClientHeaders { headers: &header.headers, uri: &header.uri, snapshot: &call.ctx.snapshot };
        let digest = match &attempt.other_origin {
            Some(origin) => target_digest(&attempt.target, origin),
            None => self.digest,
        };
        key_parts(call.ctx.record.named.metadata.as_deref(), scope, digest, attempt, &client)
    }

    /// As [`Self::probe`], once for each target: an attempt that waits for a place there looks twice.
    async fn probed(&self, call: &mut AttemptCall<'_>, scope: &Scope) -> Option<Arc<Similar>> {
        let target = &call.next.target;
        let is_here = |kept: &(Arc<Target>, Arc<Similar>)| Arc::ptr_eq(&kept.0, target);
        if let Some((_, kept)) = call.kept.probed.take().filter(is_here) {
            return Some(kept);
        }
        let similar = Arc::new(Box::pin(self.probe(call, scope)).await?);
        call.kept.probed = Some((Arc::clone(target), Arc::clone(&similar)));
        Some(similar)
    }

    /// What the request shares with all that differ in their text alone, and the vector of its text.
    async fn probe(&self, call: &AttemptCall<'_>, scope: &Scope) -> Option<Similar> {
        let engine = call.engine;
        let attempt = call.attempt()?;
        call.ctx.snapshot.settings.semantic_cache.as_ref()?;
        let request = call.request().as_edited_for(&attempt.target).ok()?;
        let body = request.body.as_ref()?;
        let text = similar::Text::of(request.operation, body)?;
        let parts = KeyParts { body: body.bytes(), ..self.parts(call, scope, attempt)? };
        let partition = text.partition(&parts)?;
        let vector = embedding::vector(engine, call.ctx, &text.joined()).await?;
        Some(Similar { partition, vector })
    }
}

/// The response to a text that means the same, and its key.
async fn similar_response(
    ctx: &RequestContext,
    caching: &Caching,
    probe: &Similar,
    policy: Cache,
    scope: &Scope,
) -> Option<(CacheKey, Arc<CachedResponse>)> {
    let now = Timestamp::now();
    let settings = ctx.snapshot.settings.semantic_cache.as_ref()?;
    let threshold = policy.threshold.unwrap_or(settings.threshold);
    let nearest = caching.index.nearest(&probe.partition.0, &probe.vector, now)?;
    if f64::from(nearest.similarity) < threshold {
        return None;
    }
    let found = caching.store.get(&nearest.key, scope, now).await;
    match &found {
        Some(_) => nearest.mark_used(),
        None => drop(caching.index.remove(&nearest.key)),
    }
    found.map(|found| (nearest.key, found))
}
