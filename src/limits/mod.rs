//! Limits: what keys, workspaces, providers, integrations and policies may use, and what they have used (reference 1.3, 1.8 and 2).
//!
//! A request *reserves* what it is expected to use of all its limits, or is refused; when it is over, it *settles* what it did use.
//! Not here: the records that limits come from (`store`), what a request costs (`price`), and responses (`engine`).

pub mod amount;
mod buckets;
mod entity;
pub mod events;
pub mod fact_key;
pub mod facts;
pub mod from_records;
mod in_force;
mod judgment;
pub mod limit;
pub mod limit_set;
pub mod refusal;
pub mod reservation;
pub mod tightest;
mod usage_view;
pub mod window;

pub use amount::{Actual, Estimate};
pub use events::{EventKind, LimitEvent};
pub use fact_key::{Condition, FactKey, Pattern};
pub use facts::{Facts, Id, Metadata, Named, TargetFacts};
pub use limit::{Counted, Limit, LimitKind, LimitScope, OnMissing, RateOf, RateUnit, Reset, UsageOf};
pub use limit_set::{BucketHash, LimitSet, Phase, Selection};
pub use refusal::{Cause, MissingFact, Refusal};
pub use reservation::Reservation;
pub use tightest::{Remaining, Tightest};
pub use usage_view::{UsageStatus, UsageView};
pub use window::{Calendar, Window};

use crate::state::snapshot::SettingsSnapshot;
use arc_swap::ArcSwap;
use buckets::{Buckets, Sink};
use in_force::InForce;
use jiff::Timestamp;
use judgment::Judgment;
use std::sync::Arc;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Output of a request without a bound, until enough of its kind were seen (`limits.assume_output_tokens`).
pub const ASSUME_OUTPUT_TOKENS: u64 = 4096;

/// The counters of all limits.
#[derive(Debug)]
pub struct Limits {
    buckets: Buckets,
    calendar: ArcSwap<Calendar>,
    in_force: InForce,
}

impl Limits {
    /// Counters that end with the process.
    pub fn in_memory(calendar: Calendar) -> Self {
        let buckets = Buckets::new(BucketHash::random(), Sink::default());
        Self { buckets, calendar: ArcSwap::from_pointee(calendar), in_force: InForce::default() }
    }

    /// With this hash limits are compiled to a set ([`LimitSet::new`]).
    pub fn hash(&self) -> BucketHash {
        self.buckets.hash
    }

    /// The limits of the settings and stored objects in force. Compiled again when they have changed.
    pub fn in_force(&self, snapshot: &SettingsSnapshot) -> Arc<LimitSet> {
        self.in_force.set(snapshot, self.hash())
    }

    /// Where days and weeks begin.
    pub fn calendar(&self) -> Arc<Calendar> {
        self.calendar.load_full()
    }

    /// New settings. Windows that have begun end as they would have.
    pub fn set_calendar(&self, calendar: Calendar) {
        self.calendar.store(Arc::new(calendar));
    }

    /// Holds what the request is expected to use of all selected limits.
    ///
    /// # Errors
    /// The refusal; nothing is held or counted then.
    pub async fn reserve(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        let calendar = self.calendar.load();
        let now = now.as_millisecond();
        let assume_output = ASSUME_OUTPUT_TOKENS;
        let judgment = Judgment { estimate, assume_output, calendar: &calendar, now };
        judgment.reserve(&self.buckets, selection)
    }

    /// The usage of a limit in its present windows, bucket by bucket, in no particular order.
    pub fn peek(&self, limit: &Limit, now: Timestamp) -> Vec<UsageView> {
        let entities = self.buckets.of_limit(limit.id, limit.index);
        entities.iter().map(|entity| self.view(limit, entity, now)).collect()
    }

    /// The usage of a limit without `group_by`: it has one bucket.
    pub fn usage(&self, limit: &Limit, now: Timestamp) -> Option<UsageView> {
        let entity = self.buckets.get(self.buckets.hash.bucket(limit, std::iter::empty()))?;
        Some(self.view(limit, &entity, now))
    }

    fn view(&self, limit: &Limit, entity: &Arc<entity::Entity>, now: Timestamp) -> UsageView {
        let now = now.as_millisecond();
        let mut state = entity.state.lock();
        let past = state.bring_up_to(limit, &self.calendar.load(), now);
        self.buckets.sink.past(limit, entity, past);
        UsageView::of(limit, entity, &state, now)
    }

    /// Sets the usage of one bucket to nothing; what is held stays held. False: there is no such bucket.
    pub fn reset(&self, limit: &Limit, entity: Uuid, now: Timestamp) -> bool {
        let Some(entity) = self.buckets.get(entity.as_u128()) else { return false };
        if entity.limit != (limit.id, limit.index) {
            return false;
        }
        let mut state = entity.state.lock();
        let past = state.bring_up_to(limit, &self.calendar.load(), now.as_millisecond());
        self.buckets.sink.past(limit, &entity, past);
        let past = state.reset();
        self.buckets.sink.past(limit, &entity, past);
        self.buckets.sink.changed(limit, &entity, &mut state);
        true
    }

    /// Where thresholds and exhausted limits are reported. The first call gets it.
    pub fn events(&self) -> Option<mpsc::Receiver<LimitEvent>> {
        self.buckets.sink.events.receiver()
    }

    /// Forgets buckets whose window is over.
    pub fn drop_expired(&self, now: Timestamp) {
        self.buckets.drop_over(now.as_millisecond());
    }

    /// For the metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            live_buckets: self.buckets.len(),
            overflowed: self.buckets.overflowed(),
            dropped_events: self.buckets.sink.events.dropped(),
        }
    }
}

/// Numbers for the metrics, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// At present.
    pub live_buckets: usize,
    /// Requests that were counted in a bucket shared for want of room.
    pub overflowed: u64,
    /// Alerts that nobody took in time.
    pub dropped_events: u64,
}

#[cfg(test)]
mod tests;
