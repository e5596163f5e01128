//! What a request holds of its limits until it is over. Settled exactly once: a reservation that is dropped was used as estimated.

use super::amount::Actual;
use super::buckets::Sink;
use super::entity::{Entity, Hold};
use super::limit::{Counted, Limit};
use super::tightest::Tightest;
use jiff::Timestamp;
use smallvec::SmallVec;
use std::sync::Arc;

/// Holds of all limits of a request or attempt.
#[derive(Debug)]
pub struct Reservation {
    held: SmallVec<[Held; 4]>,
    tightest: Tightest,
    fitted_output: Option<u64>,
    sink: Arc<Sink>,
}

/// A hold of one limit.
#[derive(Debug)]
pub(super) struct Held {
    pub limit: Arc<Limit>,
    pub entity: Arc<Entity>,
    pub hold: Hold,
}

/// How a reservation ends.
#[derive(Clone, Copy)]
enum End {
    /// This was used.
    Used(Actual),
    /// The request counts, and nothing else: nothing was used.
    Unused,
    /// As if it had never been.
    Cancelled,
    /// Nobody knows: what is held was used.
    Unknown,
}

impl Reservation {
    pub(super) fn new(
        held: SmallVec<[Held; 4]>,
        tightest: Tightest,
        fitted_output: Option<u64>,
        sink: Arc<Sink>,
    ) -> Self {
        Self { held, tightest, fitted_output, sink }
    }

    /// The rate limits with the least left, this request counted.
    pub fn tightest(&self) -> Tightest {
        self.tightest
    }

    /// The output bound that the request must be given, in tokens of all choices together: lower than its own, by a limit that fits.
    pub fn fitted_output(&self) -> Option<u64> {
        self.fitted_output
    }

    /// Whether no limit holds anything.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What was used instead of what is held.
    pub fn settle(mut self, actual: Actual, now: Timestamp) {
        self.end(End::Used(actual), now);
    }

    /// Nothing was used, by an attempt that failed or a request that a cache responded to. It stays counted as a request.
    pub fn release(mut self, now: Timestamp) {
        self.end(End::Unused, now);
    }

    /// The request was refused after all: it counts nowhere.
    pub fn cancel(mut self, now: Timestamp) {
        self.end(End::Cancelled, now);
    }

    fn end(&mut self, end: End, now: Timestamp) {
        let now = now.as_millisecond();
        for Held { limit, entity, hold } in self.held.drain(..) {
            let counted = limit.counts();
            let actual = match end {
                End::Used(actual) => actual.of(counted, hold.amount, limit.hard),
                End::Unused if counted == Counted::Requests => hold.amount,
                End::Unused | End::Cancelled => 0,
                End::Unknown => hold.amount,
            };
            let mut state = entity.state.lock();
            let past = state.settle(&hold, actual);
            if past.is_none() {
                self.sink.marks(&limit, &entity, &mut state, now);
                self.sink.changed(&limit, &entity, &mut state);
            }
            self.sink.past(&limit, &entity, past);
        }
    }
}

impl Drop for Reservation {
    /// The provider may have been paid: of a panic, a cancelled task, a connection that was lost.
    fn drop(&mut self) {
        if !self.held.is_empty() {
            self.end(End::Unknown, Timestamp::now());
        }
    }
}
