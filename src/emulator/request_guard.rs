//! One request while it is running: counted as in flight, and logged if it is tagged.
//!
//! It is owned by the response body. If it is dropped without [`RequestGuard::end`], the client has
//! disconnected.

use super::bill::Bill;
use super::request_body::RequestBody;
use super::socket::ConnectionHandle;
use super::state::State;
use http::request::Parts;
use serde::Serialize;
use std::sync::Arc;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// The last byte was handed to the connection.
    Complete,
    /// The client closed first.
    #[serde(rename = "caller_left")]
    ClientLeft,
    /// A script broke the connection.
    Fault,
}

/// Counts a request as in flight until it is dropped, and logs how it ended.
pub(super) struct RequestGuard {
    state: Arc<State>,
    connection: Arc<ConnectionHandle>,
    /// The number of its log entry.
    entry: Option<u64>,
    ended: Ended,
    bill: Option<Bill>,
    /// Events with content that were sent.
    sent: u64,
}

impl RequestGuard {
    pub(super) fn new(state: Arc<State>, connection: Arc<ConnectionHandle>) -> Self {
        state.stats.started();
        Self { state, connection, entry: None, ended: Ended::ClientLeft, bill: None, sent: 0 }
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn connection(&self) -> &ConnectionHandle {
        &self.connection
    }

    pub(super) fn logged(&self) -> bool {
        self.entry.is_some()
    }

    /// Adds a log entry.
    pub(super) fn log(&mut self, tag: Option<&str>, parts: &Parts) {
        if self.entry.is_none() {
            self.entry = Some(self.state.journal.open(tag, parts, &self.connection));
        }
    }

    /// Adds the request body to the log entry.
    pub(super) fn log_body(&self, request_body: &mut RequestBody) {
        if let Some(entry) = self.entry {
            let (text, bytes, sha256) = request_body.take_summary();
            self.state.journal.body(entry, text, bytes, sha256);
        }
    }

    /// The client pays this, or a part of it if the response ends early.
    pub(super) fn bill(&mut self, bill: Bill) {
        self.bill = Some(bill);
    }

    /// Notes how many events with content were sent.
    pub(super) fn sent(&mut self, events: u64) {
        self.sent = events;
    }

    /// Ends the request with this result.
    pub(super) fn end(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.connection.next_request();
        self.state.stats.ended();
        let charge = self.bill.map(|bill| match self.ended {
            Ended::Complete => bill.whole(),
            Ended::ClientLeft | Ended::Fault => bill.part(self.sent),
        });
        if let Some(charge) = charge {
            self.state.charges.add(charge);
        }
        if let Some(entry) = self.entry {
            self.state.journal.close(entry, self.ended, charge);
        }
    }
}
