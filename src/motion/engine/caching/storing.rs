//! What becomes of a response that the cache has a part in: stored, counted as saved, or removed because it cannot be read.

use super::cached_call::CachedCall;
use super::note::{CacheNote, NotStored, Saved};
use super::{Caching, result, scope};
use crate::engine::attempt_run::AttemptRun;
use crate::engine::content_kind::ContentKind;
use crate::engine::cost;
use crate::engine::record::AttemptUsage;
use crate::engine::request_context::RequestContext;
use crate::engine::response_body::{ResponseBody, has_only_json};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use memory::cache::{CachedResponse, Neighbour};
use memory::state::large_work::run_here;
use words::api::tap::{ResponseSummary, has_refusal};

/// A response that has come completely.
pub(in crate::engine) struct CompleteResponse<'a> {
    pub run: &'a AttemptRun,
    pub body: &'a ResponseBody,
    /// It continues a stream that another attempt began.
    pub is_resumed: bool,
}

/// Removes what a hit was made of, because it cannot be read as a response to this request.
pub(in crate::engine) fn remove_unreadable(caching: &Caching, ctx: &RequestContext, hit: &CacheNote) {
    let default = ctx.snapshot.stored.default_workspace();
    let scope = scope(ctx.workspace(), default, ctx.record.named.cache.as_deref());
    for key in [hit.key, hit.origin].into_iter().flatten() {
        caching.store.remove(&key, &scope);
        caching.index.remove(&key);
        log::warn!(target: "turnpike", "a cached response cannot be decoded, and was removed: {key}");
    }
}

impl CompleteResponse<'_> {
    /// Keeps the response, for the requests that follow. To be called before the last of it is sent.
    pub fn store(&self, caching: &Caching, ctx: &mut RequestContext) {
        let Some(call) = &self.run.layers.cached else { return };
        let stored = match self.storable(call, ctx) {
            Ok(Some(entry)) => {
                caching.keep(call, entry);
                Some(Ok(()))
            }
            // Another reader of the same call has stored it.
            Ok(None) => None,
            Err(why) => {
                call.share.discard(why);
                // What it was to replace is not wanted any more.
                if call.share.is_refresh()
                    && matches!(why, NotStored::TooLarge | NotStored::Compressed | NotStored::Filtered)
                {
                    caching.store.remove(&call.key, &call.scope);
                }
                Some(Err(why))
            }
        };
        if call.share.is_leader() || stored == Some(Ok(())) {
            ctx.facts.cache.stored = stored;
        }
    }

    fn storable(&self, call: &CachedCall, ctx: &RequestContext) -> Result<Option<CachedResponse>, NotStored> {
        let Self { run, body, is_resumed } = *self;
        if is_resumed {
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
        // Filters err, and change: the next request is asked anew.
        if body.summary().is_some_and(|summary| summary.is_filtered) {
            return Err(NotStored::Filtered);
        }
        if call.max_age.is_zero() {
            return Err(NotStored::MaxAge);
        }
        let Some(whole) = call.share.to_store()? else { return Ok(None) };
        if has_refusal(&whole.body) {
            return Err(NotStored::Filtered);
        }
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
        let saved = saved(ctx, &run.attempt, body.summary());
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
        let Some(similar) = &call.similar else { return };
        let neighbour = Neighbour {
            partition: similar.partition.0,
            key: call.key,
            scope: call.scope.clone(),
            vector: similar.vector.clone(),
            expires_at,
        };
        if let Err(why) = self.index.insert(neighbour, Timestamp::now()) {
            log::debug!(target: "turnpike", "a text cannot be found by its meaning: {why}");
        }
    }
}

/// What a response is worth to a request that does not pay for it.
pub(in crate::engine) fn saved(
    ctx: &RequestContext,
    attempt: &Attempt,
    summary: Option<&ResponseSummary>,
) -> Saved {
    let Some(used) = summary.and_then(AttemptUsage::reported) else { return Saved::default() };
    let cost = cost::of_usage(
        &ctx.prices,
        &attempt.target,
        false,
        attempt.model.as_deref(),
        &used,
        Timestamp::now(),
    );
    let cost = cost.nanodollars.and_then(|nanodollars| u64::try_from(nanodollars).ok());
    Saved { input_tokens: used.usage.input, output_tokens: used.usage.output, cost }
}
