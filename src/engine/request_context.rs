//! What is known of one request while it is under way: who sent it, how it is to be treated, what came of it so far.
//!
//! Knows no session: the data plane keeps it in Pingora's per-request context, anything else beside its downstream.

use super::attempt_state::AttemptState;
use super::record_builder::RecordBuilder;
use crate::api::operation::Operation;
use crate::api::tap::{ResponseSummary, Tap};
use crate::error::Error;
use crate::provider::rewriter::Rewriter;
use crate::route::attempt::Attempt;
use crate::route::request_mode::RequestMode;
use crate::state::Shared;
use crate::state::lifecycle::InFlightGuard;
use crate::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// See the module.
pub struct RequestContext {
    pub started: Instant,
    /// Echoed to the client; empty until the request was admitted.
    pub trace_id: Arc<str>,
    pub operation: Operation,
    /// The settings this request goes by, to its end.
    pub snapshot: Arc<SettingsSnapshot>,
    /// The client speaks HTTP/1.0: it knows no chunks, a response ends with its connection.
    pub is_http10: bool,
    /// The service key came as the bearer, which must not travel on.
    pub bearer_is_service_key: bool,
    pub mode: RequestMode,
    /// The attempt whose response the client gets, or the last one.
    pub attempt: Option<Arc<Attempt>>,
    pub attempt_state: AttemptState,
    /// Observes a response that passes.
    pub tap: Option<Tap>,
    /// Patches a response, or has translated it.
    pub rewriter: Option<Rewriter>,
    pub record: RecordBuilder,
    /// The failure the client is or was sent.
    pub failure: Option<Error>,
    /// Counts the request as under way until it is recorded.
    pub in_flight: Option<InFlightGuard>,
}

impl RequestContext {
    /// Takes the settings in force, and counts the request as under way.
    pub fn new(shared: &Shared) -> Self {
        Self {
            started: Instant::now(),
            trace_id: Arc::default(),
            operation: Operation::Passthrough,
            snapshot: shared.settings_arc(),
            is_http10: false,
            bearer_is_service_key: false,
            mode: RequestMode::Passthrough,
            attempt: None,
            attempt_state: AttemptState::default(),
            tap: None,
            rewriter: None,
            record: RecordBuilder::default(),
            failure: None,
            in_flight: Some(shared.lifecycle.enter()),
        }
    }

    /// What was observed of the response.
    pub fn response_summary(&self) -> Option<&ResponseSummary> {
        let rewritten = self.rewriter.as_ref().and_then(Rewriter::summary);
        rewritten.or_else(|| self.tap.as_ref().map(Tap::summary))
    }
}

/// A trace id for requests that bring none: time-ordered, unique.
pub fn new_trace_id() -> String {
    Uuid::now_v7().to_string()
}
