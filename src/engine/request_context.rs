//! What one request carries through Pingora's phases.
//!
//! Its attempts know no session; what happens to them is noted in [`Marks`].

use super::record::Record;
use crate::api::operation::Operation;
use crate::api::tap::{ResponseSummary, Tap};
use crate::error::Error;
use crate::provider::rewriter::Rewriter;
use crate::provider::token_exchange::Credentials;
use crate::route::attempt::Attempt;
use crate::route::request_mode::RequestMode;
use crate::state::lifecycle::InFlightGuard;
use crate::state::snapshot::SettingsSnapshot;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// State of one Pingora session.
pub struct RequestContext {
    pub started: Instant,
    /// Echoed to the caller; empty until the request was admitted.
    pub trace_id: String,
    pub operation: Operation,
    /// The settings this request goes by, to its end.
    pub snapshot: Option<Arc<SettingsSnapshot>>,
    /// What is or was taken upstream: the direct way, or by an attempt.
    pub attempt_handle: Option<AttemptHandle>,
    /// The caller speaks HTTP/1.0: chunks mean nothing to it, an answer ends with its connection.
    pub is_http10: bool,
    /// The service key came as the bearer, which must not travel on.
    pub bearer_is_service_key: bool,
    pub mode: RequestMode,
    /// Watches an answer that passes.
    pub tap: Option<Tap>,
    /// Puts an answer right, or has translated it.
    pub rewriter: Option<Rewriter>,
    pub record: Record,
    /// The failure the caller is or was told.
    pub failure: Option<Error>,
    pub in_flight: Option<InFlightGuard>,
}

/// An attempt on its way.
#[derive(Debug, Clone)]
pub struct AttemptHandle {
    pub attempt: Arc<Attempt>,
    pub state: Arc<SharedAttemptState>,
}

/// Moments and findings of an attempt, noted where they happen and read by the record.
#[derive(Debug, Default)]
pub struct SharedAttemptState(Mutex<AttemptState>);

/// See [`Marks`].
#[derive(Debug, Default, Clone)]
pub struct AttemptState {
    /// The gateway turned to the provider.
    pub sent_at: Option<Instant>,
    /// The answer's head was there.
    pub header_at: Option<Instant>,
    /// The answer's last byte was there.
    pub ended_at: Option<Instant>,
    pub status: Option<u16>,
    /// Checked addresses, in the order to try them, and how many were.
    pub addresses: Vec<SocketAddr>,
    pub addresses_tried: usize,
    /// A dead connection was met: what follows goes out on a new one.
    pub bypass_pool: bool,
    /// What was fetched to authorize it.
    pub credentials: Option<Credentials>,
    /// What a hook found wrong; says more than Pingora's error.
    pub failure: Option<Error>,
}

impl SharedAttemptState {
    pub fn update(&self, change: impl FnOnce(&mut AttemptState)) {
        change(&mut self.0.lock());
    }

    /// The next checked address to try; starts over at the end.
    pub fn take_address(&self) -> Option<SocketAddr> {
        let mut state = self.0.lock();
        let tried = state.addresses_tried;
        state.addresses_tried += 1;
        state.addresses.get(tried % state.addresses.len().max(1)).copied()
    }

    /// The address tried last.
    pub fn last_address(&self) -> Option<SocketAddr> {
        let state = self.0.lock();
        let last = state.addresses_tried.checked_sub(1)?;
        state.addresses.get(last % state.addresses.len().max(1)).copied()
    }

    pub fn read<T>(&self, view: impl FnOnce(&AttemptState) -> T) -> T {
        view(&self.0.lock())
    }
}

impl AttemptHandle {
    pub fn new(attempt: Arc<Attempt>) -> Self {
        Self { attempt, state: Arc::default() }
    }
}

impl RequestContext {
    pub fn new() -> Self {
        let started = Instant::now();
        Self {
            started,
            trace_id: String::new(),
            operation: Operation::Passthrough,
            snapshot: None,
            attempt_handle: None,
            is_http10: false,
            bearer_is_service_key: false,
            mode: RequestMode::Passthrough,
            tap: None,
            rewriter: None,
            record: Record::default(),
            failure: None,
            in_flight: None,
        }
    }
}

impl RequestContext {
    /// What the answer told.
    pub fn response_summary(&self) -> Option<&ResponseSummary> {
        let rewritten = self.rewriter.as_ref().and_then(Rewriter::summary);
        rewritten.or_else(|| self.tap.as_ref().map(Tap::summary))
    }
}

/// A trace id for requests that bring none: time-ordered, unique.
pub fn new_trace_id() -> String {
    Uuid::now_v7().to_string()
}
