//! What a request holds of its limits until it is over. Settled exactly once: a reservation that is dropped was used as estimated.

use super::amount::Actual;
use super::buckets::Sink;
use super::entity::{Entity, Hold};
use super::journal::{BucketName, HoldRow, Settled};
use super::limit::{Counted, Limit};
use super::shared::RemoteHold;
use super::tightest::Tightest;
use jiff::Timestamp;
use std::sync::Arc;
use uuid::Uuid;

/// Holds of all limits of a request or attempt.
#[derive(Debug)]
pub struct Reservation(Box<Holds>);

/// Boxed, because it passes through several hands before it is kept.
#[derive(Debug)]
struct Holds {
    held: Vec<Held>,
    /// Holds of counters that are shared with other gateways.
    remote: Option<RemoteHold>,
    tightest: Tightest,
    fitted_output: Option<u64>,
    /// Under which its holds of hard limits are journalled.
    journalled: Option<Uuid>,
    /// What it means to be dropped.
    at_drop: End,
    sink: Arc<Sink>,
}

/// A hold of one limit.
#[derive(Debug)]
pub(super) struct Held {
    pub limit: Arc<Limit>,
    pub entity: Arc<Entity>,
    pub hold: Hold,
}

impl Held {
    /// Whether it must be on the disk before a request is sent.
    fn is_journalled(&self) -> bool {
        self.limit.hard && !self.limit.is_rate()
    }

    fn row(&self, id: Uuid) -> HoldRow {
        let Hold { amount, generation, window, .. } = self.hold;
        let name = BucketName { entity: self.entity.id, window_start: window.start, generation };
        let (limit, value_key) = (self.entity.limit, Arc::clone(&self.entity.value_key));
        HoldRow { id, name, amount, window_end: window.end, limit, value_key }
    }
}

/// How a reservation ends.
#[derive(Debug, Clone, Copy)]
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

impl End {
    /// What was used of a limit of which so much is held.
    fn of(self, limit: &Limit, held: i64) -> i64 {
        let counted = limit.counts();
        match self {
            Self::Used(actual) => actual.of(counted, held, limit.hard),
            Self::Unused if counted == Counted::Requests => held,
            Self::Unused | Self::Cancelled => 0,
            Self::Unknown => held,
        }
    }
}

impl Reservation {
    pub(super) fn new(
        held: Vec<Held>,
        tightest: Tightest,
        fitted_output: Option<u64>,
        sink: Arc<Sink>,
    ) -> Self {
        let (remote, journalled, at_drop) = (None, None, End::Unknown);
        Self(Box::new(Holds { held, remote, tightest, fitted_output, journalled, at_drop, sink }))
    }

    /// Holds of shared counters.
    pub(super) fn remote(
        remote: RemoteHold,
        tightest: Tightest,
        fitted_output: Option<u64>,
        sink: Arc<Sink>,
    ) -> Self {
        let mut reservation = Self::new(Vec::new(), tightest, fitted_output, sink);
        reservation.0.remote = Some(remote);
        reservation
    }

    /// The holds that must be on the disk before the request is sent, and are not yet. Until [`confirm`](Self::confirm) it is dropped without a trace.
    pub(super) fn unjournalled(&mut self) -> Vec<HoldRow> {
        if !self.0.held.iter().any(Held::is_journalled) {
            return Vec::new();
        }
        let id = Uuid::now_v7();
        self.0.journalled = Some(id);
        self.0.at_drop = End::Cancelled;
        self.0.held.iter().filter(|held| held.is_journalled()).map(|held| held.row(id)).collect()
    }

    /// The holds are on the disk: from here on the provider may be paid.
    pub(super) fn confirm(&mut self) {
        self.0.at_drop = End::Unknown;
    }

    /// A limit whose hold is to be journalled, with its bucket.
    pub(super) fn first_journalled(&self) -> Option<(&Arc<Limit>, &Arc<Entity>)> {
        self.0.held.iter().find(|held| held.is_journalled()).map(|held| (&held.limit, &held.entity))
    }

    /// The rate limits with the least left, this request counted.
    pub fn tightest(&self) -> Tightest {
        self.0.tightest
    }

    /// While limits are not counted as they should be, nobody is told what is left.
    pub(super) fn forget_tightest(&mut self) {
        self.0.tightest = Tightest::default();
    }

    /// The output bound that the request must be given, in tokens of all choices together: lower than its own, by a limit that fits.
    pub fn fitted_output(&self) -> Option<u64> {
        self.0.fitted_output
    }

    /// Whether no limit holds anything.
    pub fn is_empty(&self) -> bool {
        self.0.held.is_empty() && self.0.remote.as_ref().is_none_or(|remote| remote.is_empty())
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
        if let Some(remote) = &mut self.0.remote {
            remote.end(|limit, held| end.of(limit, held));
        }
        for held in std::mem::take(&mut self.0.held) {
            let settled = self.0.journalled.filter(|_| held.is_journalled()).map(|id| held.row(id));
            let Held { limit, entity, hold } = held;
            let actual = end.of(&limit, hold.amount);
            let mut state = entity.state.lock();
            let past = state.settle(&hold, actual);
            if past.is_none() {
                self.0.sink.marks(&limit, &entity, &mut state, now);
                self.0.sink.changed(&limit, &entity, &mut state);
            }
            self.0.sink.past(&limit, &entity, &mut state, past);
            drop(state);
            // After its usage was counted: a journal that has neither would have lost it.
            if let Some(row) = settled {
                self.0.sink.settled(Settled { id: row.id, name: row.name, amount: row.amount });
            }
        }
    }
}

impl Drop for Reservation {
    /// The provider may have been paid: of a panic, a cancelled task, a connection that was lost.
    fn drop(&mut self) {
        if !self.is_empty() {
            self.end(self.0.at_drop, Timestamp::now());
        }
    }
}
