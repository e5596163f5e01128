//! What a request holds of its limits until it is over. Settled exactly once: a reservation that is dropped was used as estimated.

use super::advance::{Lending, Loan};
use super::amount::Actual;
use super::buckets::Buckets;
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
    held: Origin,
    tightest: Tightest,
    fitted_output: Option<u64>,
    /// Under which its holds of hard limits are journalled.
    journalled: Option<Uuid>,
    /// What it has taken of what its batch holds.
    loan: Option<Loan>,
    /// What it means to be dropped.
    at_drop: End,
}

/// What is held, and where it is settled.
#[derive(Debug)]
enum Origin {
    Buckets(Arc<Buckets>, Vec<Held>),
    /// Counters that are shared with other gateways.
    Remote(Box<RemoteHold>),
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
        let limit = self.entity.limit;
        let value_key = Arc::clone(&self.entity.value_key);
        HoldRow { id, name, amount, window_end: window.end, limit, value_key }
    }
}

/// How a reservation ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// This was used.
    Used(Actual),
    /// An attempt was sent and ended without a report: soft limits count what was used as far as that is known, hard ones what is held, and
    /// what other attempts reported.
    Open { used: Option<Actual>, reported: Option<Actual> },
    /// The request counts, and nothing else: nothing was used.
    Unused,
    /// As if the reservation had never been made.
    Cancelled,
    /// It is not known what was used: what is held counts as used.
    Unknown,
}

impl End {
    /// What was used of a limit of which so much is held.
    fn of(self, limit: &Limit, held: i64) -> i64 {
        let counted = limit.counts();
        match self {
            Self::Used(actual) => actual.of(counted, held, limit.hard),
            Self::Open { .. } if counted == Counted::Requests => held,
            Self::Open { reported, .. } if limit.hard => {
                held.saturating_add(reported.map_or(0, |actual| actual.of(counted, held, true)))
            }
            Self::Open { used, .. } => used.map_or(0, |actual| actual.of(counted, held, false)),
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
        buckets: Arc<Buckets>,
    ) -> Self {
        Self::of(Origin::Buckets(buckets, held), tightest, fitted_output)
    }

    /// Holds of shared counters.
    pub(super) fn remote(remote: RemoteHold, tightest: Tightest, fitted_output: Option<u64>) -> Self {
        Self::of(Origin::Remote(Box::new(remote)), tightest, fitted_output)
    }

    fn of(held: Origin, tightest: Tightest, fitted_output: Option<u64>) -> Self {
        let journalled = None;
        let at_drop = End::Unknown;
        Self(Box::new(Holds { held, tightest, fitted_output, journalled, loan: None, at_drop }))
    }

    /// `loan`: what was taken of what its batch holds. The batch has it again if nothing is charged for the request.
    pub(super) fn with_loan(mut self, loan: Option<Loan>) -> Self {
        self.0.loan = loan;
        self
    }

    fn journalled_holds(&self) -> impl Iterator<Item = &Held> {
        let held = match &self.0.held {
            Origin::Buckets(_, held) => held.as_slice(),
            // Shared counters keep their own.
            Origin::Remote(_) => &[],
        };
        held.iter().filter(|held| held.is_journalled())
    }

    /// The holds that must be on the disk before the request is sent, and are not yet. Until [`confirm`](Self::confirm) it is dropped without a trace.
    pub(super) fn unjournalled(&mut self) -> Vec<HoldRow> {
        if self.journalled_holds().next().is_none() {
            return Vec::new();
        }
        let id = Uuid::now_v7();
        self.0.journalled = Some(id);
        self.0.at_drop = End::Cancelled;
        self.journalled_holds().map(|held| held.row(id)).collect()
    }

    /// The holds are on the disk: from here on the provider may be paid.
    pub(super) fn confirm(&mut self) {
        self.0.at_drop = End::Unknown;
    }

    /// A limit whose hold is to be journalled, with its bucket.
    pub(super) fn first_journalled(&self) -> Option<(&Arc<Limit>, &Arc<Entity>)> {
        self.journalled_holds().next().map(|held| (&held.limit, &held.entity))
    }

    /// The rate limits with the least left, this request counted.
    pub fn tightest(&self) -> Tightest {
        self.0.tightest
    }

    /// While limits cannot be counted exactly, clients get no headers about what is left.
    pub(super) fn forget_tightest(&mut self) {
        self.0.tightest = Tightest::default();
    }

    /// The output bound that the request must be given, in tokens of all choices together: lower than its own, by a limit that fits.
    pub fn fitted_output(&self) -> Option<u64> {
        self.0.fitted_output
    }

    /// Whether no limit holds anything.
    pub fn is_empty(&self) -> bool {
        match &self.0.held {
            Origin::Buckets(_, held) => held.is_empty(),
            Origin::Remote(remote) => remote.is_empty(),
        }
    }

    /// Whether this limit holds less than was expected to be used, because there was not more: it may be exceeded by this one.
    pub(super) fn is_clamped(&self, limit: &Limit) -> bool {
        let is_it = |held: &Limit| (held.id, held.index) == (limit.id, limit.index);
        match &self.0.held {
            Origin::Buckets(_, held) => held.iter().any(|held| held.hold.is_clamped && is_it(&held.limit)),
            Origin::Remote(remote) => remote.is_clamped(is_it),
        }
    }

    /// Ends what is held of limits that count tokens or costs, as if it had never been. What counts requests stays held.
    pub(super) fn cancel_usage(&mut self, now: Timestamp) {
        match &mut self.0.held {
            Origin::Remote(remote) => remote.end_those(counts_usage, |_, _| 0),
            Origin::Buckets(buckets, held) => {
                let are_usage = held.iter().map(|held| counts_usage(&held.limit));
                let loan = self.0.loan.as_mut().map(|loan| loan.take_those(are_usage));
                let (usage, kept) =
                    std::mem::take(held).into_iter().partition(|held| counts_usage(&held.limit));
                *held = kept;
                settle(buckets, usage, End::Cancelled, now, self.0.journalled, loan);
            }
        }
    }

    /// What was used instead of what is held.
    pub fn settle(mut self, actual: Actual, now: Timestamp) {
        self.end(End::Used(actual), now);
    }

    /// As [`settle`](Self::settle), where the provider may charge more than is known: an attempt ended without a report. `reported`: what
    /// others used.
    pub fn settle_open(mut self, used: Option<Actual>, reported: Option<Actual>, now: Timestamp) {
        self.end(End::Open { used, reported }, now);
    }

    /// Whether a hard budget of tokens or costs holds a part of it.
    pub fn holds_hard(&self) -> bool {
        let is_hard = |limit: &Limit| limit.hard && counts_usage(limit);
        match &self.0.held {
            Origin::Buckets(_, held) => held.iter().any(|held| is_hard(&held.limit)),
            Origin::Remote(remote) => remote.holds_any(is_hard),
        }
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
        match &mut self.0.held {
            Origin::Remote(remote) => remote.end(|limit, held| end.of(limit, held)),
            Origin::Buckets(buckets, held) => {
                let loan = self.0.loan.take().filter(|_| matches!(end, End::Cancelled | End::Unused));
                settle(buckets, std::mem::take(held), end, now, self.0.journalled, loan);
            }
        }
    }
}

fn counts_usage(limit: &Limit) -> bool {
    limit.counts() != Counted::Requests
}

/// Ends holds in their buckets. `journalled`: under which those of hard limits are journalled. `loan`: what their batch holds again, at
/// once, so that no other request can have it in between.
fn settle(
    buckets: &Buckets,
    all_held: Vec<Held>,
    end: End,
    now: Timestamp,
    journalled: Option<Uuid>,
    loan: Option<Loan>,
) {
    let sink = &*buckets.sink;
    let now = now.as_millisecond();
    let parts = loan.as_ref().and_then(Loan::parts);
    let mut lending = parts.as_deref().map(Lending::new);
    let mut lent = loan.into_iter().flat_map(Loan::into_amounts);
    for held in all_held {
        let settled = journalled.filter(|_| held.is_journalled()).map(|id| held.row(id));
        let Held { limit, entity, hold } = held;
        let actual = end.of(&limit, hold.amount);
        let mut state = entity.state.lock();
        let past = state.settle(&hold, actual);
        if past.is_none() {
            state.touch(&limit, now);
        }
        if let (Some(lending), Some(lent)) = (&mut lending, lent.next()) {
            lending.take_back(&entity, &mut state, lent.saturating_sub(actual).max(0));
        }
        if past.is_none() {
            sink.marks(&limit, &entity, &mut state, now);
            sink.changed(&limit, &entity, &mut state);
        }
        sink.past(&limit, &entity, &mut state, past);
        drop(state);
        // After its usage was counted: a journal that has neither would have lost it.
        if let Some(row) = settled {
            sink.settled(Settled { id: row.id, name: row.name, amount: row.amount });
        }
    }
}

impl Drop for Reservation {
    /// Dropped without an end, by a panic, a cancelled task or a lost connection: the provider may have been paid.
    fn drop(&mut self) {
        if !self.is_empty() {
            self.end(self.0.at_drop, Timestamp::now());
        }
    }
}
