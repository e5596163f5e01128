//! The request's span: its trace, the client's span above it, and when it began.
//!
//! Not the spans that are sent for a trace (`sinks::spans`).

use memory::state::Shared;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;
use words::api::trace::TraceParent;

/// The span of a request, as its context and its record have it.
#[derive(Debug, Clone)]
pub struct RequestSpan {
    /// Echoed to the client; empty until the request was admitted.
    pub trace_id: Arc<str>,
    /// The client's span.
    pub parent: Option<TraceParent>,
    /// When the client's request arrived.
    pub started: Instant,
}

impl RequestSpan {
    /// Of a request that arrives now.
    pub(super) fn new() -> Self {
        Self { trace_id: Arc::default(), parent: None, started: Instant::now() }
    }

    /// The span of a new attempt, if the request's trace is recorded.
    pub fn of_attempt(&self, shared: &Shared) -> Option<TraceParent> {
        let trace = shared.spans.get()?.sampled(self.parent.as_ref(), &self.trace_id)?;
        Some(TraceParent::recorded(trace, fastrand::u64(1..)))
    }
}

/// A trace id for a request without one: unique, and ordered by time.
pub fn new_trace_id() -> Arc<str> {
    Arc::from(&*Uuid::now_v7().as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
