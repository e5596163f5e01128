//! Limits: what keys, workspaces, providers, integrations and policies may use, and what they have used.
//!
//! A request *reserves* what it is expected to use of all its limits, or is refused; when it is over, it *settles* what it did use.
//! Not here: the records that limits come from (`store`), what a request costs (`price`), and responses (`engine`).
//!
//! `LimitSet::select` finds the limits of a request or attempt, `Limits::reserve` holds what it may use of all of them or
//! refuses, and the `Reservation` is settled exactly once (dropped: as estimated). `entity` is one bucket, `judgment` has the
//! rules. The buckets of a request are locked together in one order. What was counted goes to `limits.db` (`journal`) in batches,
//! holds of hard limits before the request is sent. With `limits.shared` the same rules run in Redis or PostgreSQL (`shared`), `fallback` is for when that is
//! away, and of hot buckets an amount is borrowed and spent here (`shared/lease`). A batch holds the sum of its lines first
//! (`advance`); while a line is judged, what its batch holds is lent to it.

mod advance;
mod all_limits;
pub mod amount;
mod buckets;
mod entity;
pub mod events;
mod fallback;
pub mod from_records;
mod in_force;
mod journal;
mod judgment;
mod learnt_output;
pub mod limit;
mod limit_counts;
mod limit_index;
pub(crate) mod limit_set;
mod of_client;
pub mod options;
pub mod preview;
mod recent_selections;
pub mod refusal;
pub mod reservation;
mod shared;
pub mod tightest;
mod usage_view;
mod value_key;
pub mod window;

pub use crate::auth::fact_key::{Condition, FactKey, Pattern};
pub use crate::auth::facts::{Facts, Id, Metadata, Named, TargetFacts};
pub use advance::{Advance, AdvanceEstimate};
pub use amount::{Actual, Estimate};
pub use events::{EventKind, LimitEvent};
pub use limit::{Counted, Limit, LimitKind, LimitScope, OnMissing, RateOf, RateUnit, Reset, UsageOf};
pub use limit_set::{BucketHash, LimitSet, Phase, Selection};
pub use options::{CounterBackend, LimitsOptions};
pub use preview::{Decision, Preview};
pub use refusal::{Cause, MissingFact, Refusal};
pub use reservation::Reservation;
pub use tightest::{Remaining, Tightest};
pub use usage_view::{UsageStatus, UsageView};
use window::Clock;
pub use window::{Calendar, Window};

use crate::state::snapshot::SettingsSnapshot;
use arc_swap::ArcSwap;
use buckets::{Buckets, Sink};
use in_force::InForce;
use jiff::Timestamp;
use journal::{Journal, Writer};
use judgment::Judgment;
use learnt_output::LearntOutput;
use parking_lot::Mutex;
use shared::{LeasedHolds, Shared};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use uuid::Uuid;
use words::settings::{Counting, OnStoreError, Settings};

/// How long a request waits until what it holds of a hard limit is on the disk.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a request that is held anew waits until the shared counters have what it held before.
const RETURNED_WITHIN: Duration = Duration::from_millis(100);

/// The counters of all limits.
#[derive(Debug)]
pub struct Limits {
    // Ends first: it writes what the buckets have.
    journal: Option<Writer>,
    buckets: Arc<Buckets>,
    /// Counters of several gateways. `None`: this one counts alone.
    shared: Option<Shared>,
    /// Whether budgets let requests pass while the shared counters are away.
    is_open_without_store: AtomicBool,
    calendar: ArcSwap<Calendar>,
    in_force: InForce,
    assume_output: AtomicU64,
    learnt: LearntOutput,
}

impl Limits {
    /// Counters that end with the process.
    pub fn in_memory(calendar: Calendar) -> Self {
        Self::new(Buckets::new(BucketHash::random(), Sink::default()), calendar)
    }

    fn new(buckets: Arc<Buckets>, calendar: Calendar) -> Self {
        Self {
            journal: None,
            buckets,
            shared: None,
            is_open_without_store: AtomicBool::new(true),
            calendar: ArcSwap::from_pointee(calendar),
            assume_output: AtomicU64::new(LimitsOptions::default().assume_output_tokens),
            learnt: LearntOutput::default(),
            in_force: InForce::default(),
        }
    }

    /// Opens the journal and takes over the usage it has, or turns to the counters that gateways share. Blocks.
    ///
    /// # Errors
    /// The file cannot be used, or the URL not read, and why. That a store cannot be reached is none.
    pub fn open(options: &LimitsOptions, now: Timestamp) -> Result<Self, String> {
        let limits = match (&options.shared, &options.journal) {
            (Some(backend), _) => {
                let buckets = Buckets::new(BucketHash::Common, Sink::default());
                let shared = Shared::open(backend, options.hold_lifetime, options.leases, &buckets.sink);
                let shared = shared.map_err(|why| format!("limits.shared: {why}"))?;
                Self { shared: Some(shared), ..Self::new(buckets, options.calendar.clone()) }
            }
            (None, Some(file)) => Self::with_journal(file, options, now)
                .map_err(|why| format!("the journal of limits, {}: {why}", file.display()))?,
            (None, None) => Self::in_memory(options.calendar.clone()),
        };
        limits.assume_output.store(options.assume_output_tokens, Ordering::Relaxed);
        limits.buckets.set_max_bytes(options.max_bucket_bytes);
        limits.is_open_without_store.store(options.on_store_error == OnStoreError::Allow, Ordering::Relaxed);
        Ok(limits)
    }

    fn with_journal(file: &Path, options: &LimitsOptions, now: Timestamp) -> Result<Self, String> {
        let lifetime = i64::try_from(options.hold_lifetime.as_millis()).unwrap_or(i64::MAX);
        let mut journal = Journal::open(file, lifetime)?;
        let sink = Sink { unwritten: Some(Mutex::default()), ..Sink::default() };
        let mut limits = Self::new(Buckets::new(journal.hash()?, sink), options.calendar.clone());
        journal.load(&limits.buckets, now.as_millisecond())?;
        limits.journal = Some(Writer::start(journal, Arc::clone(&limits.buckets))?);
        Ok(limits)
    }

    /// With this hash limits are compiled to a set ([`LimitSet::new`]).
    pub fn hash(&self) -> BucketHash {
        self.buckets.hash
    }

    /// The limits of the settings and stored objects in force. Compiled again when they have changed, and when a raise has ended.
    pub fn in_force(&self, snapshot: &SettingsSnapshot) -> Arc<LimitSet> {
        let on_settings = |settings: &Settings| self.set_counting(&settings.limits.counting);
        self.in_force.set(snapshot, self.hash(), Timestamp::now, on_settings)
    }

    /// Where days and weeks begin.
    pub fn calendar(&self) -> Arc<Calendar> {
        self.calendar.load_full()
    }

    /// New settings. Windows that have begun end as they would have.
    fn set_counting(&self, counting: &Counting) {
        self.calendar.store(Arc::new(Calendar::of(counting)));
        self.assume_output.store(counting.assume_output_tokens as u64, Ordering::Relaxed);
        self.buckets.set_max_bytes(counting.max_bucket_bytes);
        let is_open = counting.on_store_error == OnStoreError::Allow;
        self.is_open_without_store.store(is_open, Ordering::Relaxed);
        if let Some(shared) = &self.shared {
            shared.set_leases(counting.leases);
        }
    }

    /// Holds what the request is expected to use of all selected limits. `advance`: what is held for it, and others, already.
    ///
    /// # Errors
    /// The refusal; nothing is held or counted then.
    pub async fn reserve(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        advance: Option<&Advance>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        if let Some(shared) = &self.shared {
            let leased = shared.take(selection, estimate, now.as_millisecond());
            if leased.is_all {
                return Ok(shared.leased(leased));
            }
            return Box::pin(self.reserve_shared(shared, leased, selection, estimate, now)).await;
        }
        let mut reservation = self.reserve_here(selection, estimate, advance, now)?;
        if let Some(journal) = &self.journal {
            let holds = reservation.unjournalled();
            if !holds.is_empty() {
                let written = Box::pin(timeout(JOURNAL_TIMEOUT, journal.write_holds(holds))).await;
                if !matches!(written, Ok(Ok(())))
                    && !estimate.is_made
                    && let Some(refusal) = Refusal::unavailable(&reservation)
                {
                    reservation.cancel(now);
                    return Err(Box::new(refusal));
                }
                reservation.confirm();
            }
        }
        Ok(reservation)
    }

    /// Holds what another request is expected to use in the place of the one for which `held` is, of limits that count tokens or costs. What
    /// counts requests stays held: `estimate` has none.
    ///
    /// # Errors
    /// As for [`Limits::reserve`]; nothing but what counts requests is held then.
    pub async fn renew(
        &self,
        held: &mut Reservation,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        advance: Option<&Advance>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        held.cancel_usage(now);
        if let Some(shared) = &self.shared {
            // Else the request would wait for what it held itself.
            shared.returned(RETURNED_WITHIN).await;
        }
        self.reserve(selection, estimate, advance, now).await
    }

    fn reserve_here(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        advance: Option<&Advance>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        let now = now.as_millisecond();
        let calendar = self.calendar.load();
        let assume_output = self.assume_output.load(Ordering::Relaxed);
        let judgment = Judgment { estimate, assume_output, calendar: &calendar, now };
        judgment.reserve(&self.buckets, selection, advance)
    }

    /// Adds a request to what a batch is expected to use. Nothing is added where gateways count together: there each line holds its own.
    pub fn add_to_advance(
        &self,
        sum: &mut AdvanceEstimate,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: Timestamp,
    ) {
        if self.shared.is_none() {
            let calendar = self.calendar.load();
            let clock = Clock { calendar: &calendar, now: now.as_millisecond() };
            sum.add(&self.buckets, selection, estimate, clock);
        }
    }

    /// Holds what a batch is expected to use of its budgets.
    ///
    /// # Errors
    /// The refusal; nothing is held then.
    pub fn advance(&self, sum: &AdvanceEstimate, now: Timestamp) -> Result<Advance, Box<Refusal>> {
        sum.hold(&self.buckets, Clock { calendar: &self.calendar.load(), now: now.as_millisecond() })
    }

    async fn reserve_shared(
        &self,
        shared: &Shared,
        leased: LeasedHolds,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: Timestamp,
    ) -> Result<Reservation, Box<Refusal>> {
        let calendar = self.calendar.load_full();
        let assume_output = self.assume_output.load(Ordering::Relaxed);
        let clock = Clock { calendar: &calendar, now: now.as_millisecond() };
        match shared.reserve(selection, estimate, assume_output, leased, clock).await {
            Ok(reservation) => Ok(reservation),
            Err(shared::Failure::Refused(refusal)) => Err(refusal),
            Err(shared::Failure::Unreachable) => {
                let is_open = self.is_open_without_store.load(Ordering::Relaxed);
                fallback::check(selection, estimate, is_open, clock)?;
                let scaled = fallback::rates(selection, shared.gateways());
                let selection = fallback::selection(selection, &scaled);
                let mut reservation = self.reserve_here(&selection, estimate, None, now)?;
                // What is left of a part is not what is left.
                reservation.forget_tightest();
                Ok(reservation)
            }
        }
    }

    /// What all selected limits would decide now. Nothing is held, counted or reported.
    ///
    /// # Errors
    /// The counters cannot be reached.
    pub async fn preview(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: Timestamp,
    ) -> Result<Preview, CountersFailure> {
        let calendar = self.calendar.load_full();
        let clock = Clock { calendar: &calendar, now: now.as_millisecond() };
        let mut buckets = Vec::with_capacity(selection.items.len());
        for item in selection.items.iter().filter(|item| estimate.concerns(item.limit)) {
            let shown = match &self.shared {
                Some(shared) => self.look(shared, item.limit, Some(item.bucket), false, now).await?.pop(),
                None => None,
            };
            let bucket = match shown {
                Some(view) => entity::Entity::shown(item.limit, &view),
                None => self.buckets.copy(item, selection.facts, clock),
            };
            buckets.push((item.limit, bucket));
        }
        let assume_output = self.assume_output.load(Ordering::Relaxed);
        let judgment = Judgment { estimate, assume_output, calendar: &calendar, now: now.as_millisecond() };
        Ok(judgment.preview(buckets))
    }

    /// Has the journal write all that was counted so far. What was borrowed of shared counters is returned, and what was used settled there.
    ///
    /// # Errors
    /// It could not be written, and is tried again.
    pub async fn flush(&self) -> Result<(), CountersFailure> {
        if let Some(shared) = &self.shared
            && !shared.flush(JOURNAL_TIMEOUT).await
        {
            return Err(CountersFailure("the store of the counters does not take what was used".to_owned()));
        }
        match &self.journal {
            Some(journal) => journal.flush().await.map_err(CountersFailure),
            None => Ok(()),
        }
    }

    /// How much output is likely, in tokens of all `choices` together: what requests of this key to this model had, once enough were
    /// counted, and no more than the request's own `bound` for each choice.
    pub fn expected_output(&self, key: &str, model: &str, bound: Option<u64>, choices: u64) -> u64 {
        let bound = bound.unwrap_or_else(|| self.assume_output.load(Ordering::Relaxed));
        let each = self.learnt.p95(key, model).map_or(bound, |learnt| learnt.min(bound));
        each.saturating_mul(choices.max(1))
    }

    /// Counts the output of a finished response, in tokens of all `choices` together.
    pub fn note_output(&self, key: &str, model: &str, output: u64, choices: u64) {
        self.learnt.note(key, model, output / choices.max(1));
    }

    /// The usage of a limit in its present windows, bucket by bucket, in no particular order.
    ///
    /// # Errors
    /// The counters cannot be reached.
    pub async fn peek(&self, limit: &Limit, now: Timestamp) -> Result<Vec<UsageView>, CountersFailure> {
        if let Some(shared) = &self.shared {
            return self.look(shared, limit, None, false, now).await;
        }
        let entities = self.buckets.of_limit(limit.id, limit.index);
        Ok(entities.iter().map(|entity| self.view(limit, entity, now)).collect())
    }

    /// The usage of a limit without `group_by`: it has one bucket. `None`: nothing was used.
    ///
    /// # Errors
    /// The counters cannot be reached.
    pub async fn usage(&self, limit: &Limit, now: Timestamp) -> Result<Option<UsageView>, CountersFailure> {
        self.bucket(limit, self.buckets.hash.only(limit), now).await
    }

    async fn bucket(
        &self,
        limit: &Limit,
        bucket: u128,
        now: Timestamp,
    ) -> Result<Option<UsageView>, CountersFailure> {
        if let Some(shared) = &self.shared {
            return Ok(self.look(shared, limit, Some(bucket), false, now).await?.pop());
        }
        Ok(self.buckets.get(bucket).map(|entity| self.view(limit, &entity, now)))
    }

    /// Output of a request without a bound, in tokens (`limits.assume_output_tokens`).
    pub fn assume_output_tokens(&self) -> u64 {
        self.assume_output.load(Ordering::Relaxed)
    }

    async fn look(
        &self,
        shared: &Shared,
        limit: &Limit,
        only: Option<u128>,
        reset: bool,
        now: Timestamp,
    ) -> Result<Vec<UsageView>, CountersFailure> {
        let calendar = self.calendar.load_full();
        let clock = Clock { calendar: &calendar, now: now.as_millisecond() };
        let views = shared.look(limit, only, reset, clock).await;
        views.map_err(CountersFailure)
    }

    fn view(&self, limit: &Limit, entity: &Arc<entity::Entity>, now: Timestamp) -> UsageView {
        let now = now.as_millisecond();
        let mut state = entity.state.lock();
        let past = state.bring_up_to(limit, &self.calendar.load(), now);
        self.buckets.sink.past(limit, entity, &mut state, past);
        UsageView::of(limit, entity.id, &entity.value_key, &state, now)
    }

    /// Sets the usage of one bucket to nothing, for good; what is held stays held. False: there is no such bucket.
    ///
    /// # Errors
    /// The counters cannot be reached, or not written: the reset may be forgotten when the process ends.
    pub async fn reset(&self, limit: &Limit, entity: Uuid, now: Timestamp) -> Result<bool, CountersFailure> {
        if let Some(shared) = &self.shared {
            shared.end_leases(limit, now.as_millisecond()).await;
            let is_its_own = self.look(shared, limit, None, false, now).await?;
            if !is_its_own.iter().any(|view| view.entity == entity) {
                return Ok(false);
            }
            return Ok(!self.look(shared, limit, Some(entity.as_u128()), true, now).await?.is_empty());
        }
        if !self.reset_in_memory(limit, entity, now) {
            return Ok(false);
        }
        self.flush().await.map(|()| true)
    }

    fn reset_in_memory(&self, limit: &Limit, entity: Uuid, now: Timestamp) -> bool {
        let Some(entity) = self.buckets.get(entity.as_u128()) else { return false };
        if entity.limit != (limit.id, limit.index) {
            return false;
        }
        let mut state = entity.state.lock();
        let past = state.bring_up_to(limit, &self.calendar.load(), now.as_millisecond());
        self.buckets.sink.past(limit, &entity, &mut state, past);
        let past = state.reset();
        self.buckets.sink.past(limit, &entity, &mut state, past);
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

    /// Has usage of limits that are no more dropped from the journal, once they have been gone for a week. Reads all records: an hour
    /// apart is often enough.
    pub fn drop_gone(&self, snapshot: &SettingsSnapshot) {
        if let Some(journal) = &self.journal {
            journal.note_present(in_force::present_ids(snapshot));
        }
    }

    /// For the metrics.
    pub fn counts(&self) -> Counts {
        let shared = self.shared.as_ref();
        Counts {
            backend: match (shared, &self.journal) {
                (Some(shared), _) => shared.backend(),
                (None, Some(_)) => "journal",
                (None, None) => "memory",
            },
            live_buckets: self.buckets.len(),
            bucket_bytes: self.buckets.bytes(),
            overflowed: self.buckets.overflowed().saturating_add(shared.map_or(0, Shared::overflowed)),
            dropped_events: self.buckets.sink.events.dropped(),
            journal_failures: self.journal.as_ref().map_or(0, |journal| journal.health.failures()),
            journal_given_up: self.journal.as_ref().map_or(0, |journal| journal.health.given_up()),
            store_failures: shared.map_or(0, |shared| shared.health().0),
            is_store_failing: shared.is_some_and(|shared| shared.health().1),
            counters_kept: shared.map_or("kept", Shared::keeping),
            dropped_settlements: shared.map_or(0, Shared::dropped),
            leases: shared.map_or(0, |shared| shared.leases().0),
            served_by_leases: shared.map_or(0, |shared| shared.leases().1),
            gateways: shared.map_or(1, Shared::gateways),
            is_journal_failing: self.journal.as_ref().is_some_and(|journal| journal.health.is_failing()),
        }
    }
}

/// The counters cannot be reached or written; why, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountersFailure(pub String);

/// Numbers for the metrics, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Where usage is kept: `memory`, `journal`, `redis` or `postgres`.
    pub backend: &'static str,
    /// At present.
    pub live_buckets: usize,
    /// What they take, about.
    pub bucket_bytes: usize,
    /// Requests that were counted in the common bucket, because there was no room for one of their own.
    pub overflowed: u64,
    /// Alerts that nobody took in time.
    pub dropped_events: u64,
    /// Writes to the journal that failed.
    pub journal_failures: u64,
    /// Buckets whose usage will be lacking from the journal: there was too much that could not be written.
    pub journal_given_up: u64,
    /// Whether the journal cannot be written at present: what is counted now ends with the process.
    pub is_journal_failing: bool,
    /// Calls of the store of shared counters that failed.
    pub store_failures: u64,
    /// Whether that store is away at present.
    pub is_store_failing: bool,
    /// Whether counters are kept when memory is short where they are: `kept`, `evicted`, or `unknown`.
    pub counters_kept: &'static str,
    /// Settlements that did not fit into the queue for that store: their holds expire there.
    pub dropped_settlements: u64,
    /// Buckets of shared counters of which this gateway has borrowed something.
    pub leases: usize,
    /// Requests that had all they needed from such leases: nothing was sent to the store for them.
    pub served_by_leases: u64,
    /// How many gateways share the counters, as last heard.
    pub gateways: usize,
}

impl Counts {
    /// Whether usage can be written where it is kept.
    pub fn is_available(&self) -> bool {
        !self.is_journal_failing && !self.is_store_failing
    }
}

#[cfg(test)]
pub(in crate::limits) mod tests;
