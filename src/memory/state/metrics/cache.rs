//! `turnpike_cache_*`: what the cache did for requests.
//!
//! Only definitions: what is counted is `engine::caching`'s. The families of the cache's store are in `cache::store_metrics`.

use super::families::{add, begun, counters};
use prometheus::{Counter, IntCounter, IntCounterVec, Registry};

/// The families of the cache.
pub(super) struct CacheFamilies {
    pub requests: IntCounterVec,
    pub shared: IntCounter,
    pub saved_tokens: IntCounterVec,
    pub saved_dollars: Counter,
    pub not_stored: IntCounterVec,
    pub embeddings: IntCounterVec,
}

impl CacheFamilies {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let requests =
            "Requests whose config caches, by status: hit, semantic_hit, miss, semantic_miss, refresh.";
        let shared = "Requests that read the upstream call of another one.";
        let saved_tokens = "Tokens of responses that were not paid for again, by direction: input, output.";
        let saved_dollars = "Cost of responses that were not paid for again, dollars.";
        let not_stored = "Responses that were to be cached and were not, by reason.";
        let embeddings = "Texts that were sent to the embedding model, by result: ok, failed, refused, timeout, unreadable.";
        Ok(Self {
            requests: counters(r, "turnpike_cache_requests_total", requests, &["status"])?,
            shared: add(r, IntCounter::new("turnpike_cache_shared_requests_total", shared)?)?,
            saved_tokens: begun(
                r,
                "turnpike_cache_saved_tokens_total",
                saved_tokens,
                "direction",
                &["input", "output"],
            )?,
            saved_dollars: add(r, Counter::new("turnpike_cache_saved_cost_dollars_total", saved_dollars)?)?,
            not_stored: counters(r, "turnpike_cache_not_stored_total", not_stored, &["reason"])?,
            embeddings: counters(r, "turnpike_cache_embeddings_total", embeddings, &["result"])?,
        })
    }
}
