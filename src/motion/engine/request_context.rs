//! The state of one request while it runs: its operation and settings, the current attempt, and what was noted so far.
//!
//! Knows no session: the data plane keeps it in Pingora's per-request context, other users keep it next to their
//! downstream.

use super::attempt_state::AttemptFacts;
use super::caching::CacheHeaders;
use super::limit_holds::LimitHolds;
use super::offline::GivenResponse;
use super::record_builder::RecordBuilder;
use http::HeaderValue;
use judgment::route::request_mode::RequestMode;
use knowledge::price::RequestPrices;
use knowledge::provider::rewriter::Rewriter;
use memory::state::Shared;
use memory::state::held_bytes::Hold;
use memory::state::lifecycle::InFlightGuard;
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;
use words::api::Dialect;
use words::api::operation::Operation;
use words::api::tap::{ResponseSummary, Tap};
use words::api::trace::TraceParent;
use words::config::reply_headers::UsedPrefixes;
use words::error::Error;

/// The state of one request.
pub struct RequestContext {
    pub started: Instant,
    /// Echoed to the client; empty until the request was admitted.
    pub trace_id: Arc<str>,
    /// The client's span.
    pub parent: Option<TraceParent>,
    /// The further header prefixes that the client used, which its response has as well.
    pub used_prefixes: UsedPrefixes,
    pub operation: Operation,
    /// Whose error bodies and stream events the client expects.
    pub dialect: Dialect,
    /// The settings of this request: they stay the same to its end, even when a reload replaces them.
    pub snapshot: Arc<SettingsSnapshot>,
    /// The prices of this request, which stay the same to its end as well.
    pub prices: RequestPrices,
    /// The response costs something that has no price.
    pub is_unpriced: bool,
    /// Whether the client speaks HTTP/1.0: it cannot read chunks, so closing the connection ends the response.
    pub is_http10: bool,
    /// Whether no limit counts it: it manages what other requests are charged for.
    pub is_unlimited: bool,
    /// Whether it is sent once only, whatever its config's retries are.
    pub is_sent_once: bool,
    pub mode: RequestMode,
    /// The value of `Access-Control-Allow-Origin` for a page that may read the response.
    pub allowed_origin: Option<HeaderValue>,
    /// Of the attempt whose response the client gets, or of the last one that ended.
    pub facts: AttemptFacts,
    /// Observes a response that passes unchanged.
    pub tap: Option<Tap>,
    /// Patches a response, or has translated it.
    pub rewriter: Option<Rewriter>,
    pub record: RecordBuilder,
    /// The response that the next attempt has without a call.
    pub given: Option<Box<GivenResponse>>,
    /// What it holds of its limits.
    pub limits: LimitHolds,
    /// What the client's headers say about the cache.
    pub cache_headers: Option<Box<CacheHeaders>>,
    /// What hooks found on the request, for the body of a provider's error: the JSON of `hook_results`.
    pub hook_results: Option<Box<str>>,
    /// The error the client gets or got.
    pub failure: Option<Error>,
    /// Counts the request's body, and what attempts send in its place.
    pub held: Hold,
    /// Counts the request as in flight until it is recorded.
    pub in_flight: Option<InFlightGuard>,
}

impl RequestContext {
    /// Takes the current settings, and counts the request as in flight.
    pub fn new(shared: &Shared) -> Self {
        Self {
            started: Instant::now(),
            trace_id: Arc::default(),
            parent: None,
            used_prefixes: UsedPrefixes::default(),
            operation: Operation::Passthrough,
            dialect: Operation::Passthrough.dialect(),
            snapshot: shared.settings_arc(),
            prices: RequestPrices::new(shared.prices.load_full()),
            is_unpriced: false,
            is_http10: false,
            is_unlimited: false,
            is_sent_once: false,
            mode: RequestMode::Passthrough,
            allowed_origin: None,
            facts: AttemptFacts::default(),
            tap: None,
            rewriter: None,
            record: RecordBuilder::default(),
            given: None,
            limits: LimitHolds::default(),
            cache_headers: None,
            hook_results: None,
            failure: None,
            held: shared.held_bytes.holder(),
            in_flight: Some(shared.lifecycle.enter()),
        }
    }

    /// The client's workspace: which stored objects it may name.
    pub fn workspace(&self) -> Option<Uuid> {
        self.record.client.as_ref()?.workspace
    }

    /// The span of a new attempt, if the request's trace is recorded.
    pub fn new_span(&self, shared: &Shared) -> Option<TraceParent> {
        let trace = shared.spans.get()?.sampled(self.parent.as_ref(), &self.trace_id)?;
        Some(TraceParent::recorded(trace, fastrand::u64(1..)))
    }

    /// What was observed of the response so far.
    pub fn response_summary(&self) -> Option<&ResponseSummary> {
        let rewritten = self.rewriter.as_ref().and_then(Rewriter::summary);
        rewritten.or_else(|| self.tap.as_ref().map(Tap::summary))
    }
}

/// A trace id for a request without one: unique, and ordered by time.
pub fn new_trace_id() -> Arc<str> {
    Arc::from(&*Uuid::now_v7().as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
