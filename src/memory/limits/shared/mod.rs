//! Counters that several gateways share: each reservation is one step in their store, by the store's clock.
//!
//! Of hot buckets an amount is borrowed ahead, and requests take of it here (`leases`). What is settled goes through a bounded queue: no
//! request waits for that. Not here: what the store does with it (`redis`, `postgres`). While the store is away, rate limits are counted
//! here with a part of their value, and budgets are as the settings have it (`fallback`).

mod claim;
mod keeping;
mod lease;
mod leases;
mod postgres;
mod recent_use;
mod redis;
mod settling;

pub(super) use leases::LeasedHolds;
pub(super) use settling::RemoteHold;

use super::amount::Estimate;
use super::buckets::Sink;
use super::events::EventKind;
use super::limit::Limit;
use super::limit_set::Selection;
use super::options::CounterBackend;
use super::refusal::{Cause, Refusal};
use super::reservation::Reservation;
use super::tightest::Tightest;
use super::usage_view::UsageView;
use super::value_key::value_key;
use super::window::{Calendar, Clock, Window};
use claim::{AS_IT_IS, BucketReply, Claim, CounterStore, Order, Reply, Rule, Verdict};
use keeping::LastKeeping;
use leases::Leases;
use settling::{RemoteItem, SettleQueue, Unclaimed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// How often a claim is sent again with what the store has replied: another window, less output, the bucket for all.
const MAX_TRIES: u32 = 6;
/// After a failed call, how long the store is not called again, in milliseconds. Requests take the fallback at once in that time.
const PAUSE: i64 = 1_000;
/// The store does not make a reservation that is older than this. The request gives up soon after, and cancels it.
const RESERVE_WITHIN: Duration = Duration::from_millis(700);
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// The shared counters, as one gateway sees them.
pub(super) struct Shared {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    inner: Arc<Inner>,
    queue: Arc<SettleQueue>,
    leases: Arc<Leases>,
}

struct Inner {
    store: Box<dyn CounterStore>,
    backend: &'static str,
    /// How far the store's clock is ahead of ours, in milliseconds: `offset` at most, `least_offset` at least. The store read its clock at
    /// some moment of a call, so the difference is known only within the length of the call.
    offset: AtomicI64,
    least_offset: AtomicI64,
    gateways: AtomicUsize,
    /// Requests that were counted in the common bucket, because there was no room for one of their own.
    overflowed: AtomicU64,
    health: StoreHealth,
    keeping: LastKeeping,
    hold_lifetime: Duration,
    sink: Arc<Sink>,
}

/// How the store is doing.
#[derive(Debug, Default)]
pub(super) struct StoreHealth {
    failures: AtomicU64,
    is_failing: AtomicBool,
    /// When it may be tried again, milliseconds since 1970.
    pause_until: AtomicI64,
}

impl StoreHealth {
    fn note<T>(&self, outcome: &Result<T, String>, now: i64) {
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Err(why) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                self.pause_until.store(now.saturating_add(PAUSE), Ordering::Relaxed);
                if !was_failing {
                    log::error!(target: "turnpike", "the store of the counters of limits cannot be reached: {why}");
                }
            }
            Ok(_) if was_failing => {
                log::info!(target: "turnpike", "the store of the counters of limits is there again");
            }
            Ok(_) => {}
        }
    }

    /// Whether the last call failed.
    fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Whether it is not to be tried now.
    fn pauses(&self, now: i64) -> bool {
        self.is_failing() && now < self.pause_until.load(Ordering::Relaxed)
    }
}

/// Why there is no reservation.
pub(super) enum Failure {
    Refused(Box<Refusal>),
    /// The store cannot be reached.
    Unreachable,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            self.queue.close();
            // It may be dropped on another runtime, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("health", &self.inner.health).finish_non_exhaustive()
    }
}

impl Shared {
    /// Counters in this store. Whether it can be reached is not looked at.
    ///
    /// # Errors
    /// The URL cannot be read, or the system has no thread left.
    pub(super) fn open(
        backend: &CounterBackend,
        hold_lifetime: Duration,
        has_leases: bool,
        sink: &Arc<Sink>,
    ) -> Result<Self, String> {
        // Connections live on a runtime of their own: requests come from several, and some of them end.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("limits-store").enable_all().build();
        let runtime = runtime.map_err(|why| why.to_string())?;
        let store: Box<dyn CounterStore> = {
            let _inside = runtime.enter();
            match backend {
                CounterBackend::Redis(url) => Box::new(redis::Redis::new(url.expose())?),
                CounterBackend::Postgres(url) => {
                    Box::new(postgres::Postgres::new(url.expose(), "limits.shared")?)
                }
            }
        };
        Ok(Self::with(runtime, store, backend.name(), hold_lifetime, has_leases, sink))
    }

    /// Counters in a store whose connections live on this runtime.
    fn with(
        runtime: Runtime,
        store: Box<dyn CounterStore>,
        backend: &'static str,
        hold_lifetime: Duration,
        has_leases: bool,
        sink: &Arc<Sink>,
    ) -> Self {
        let inner = Arc::new(Inner::new(store, backend, hold_lifetime, Arc::clone(sink)));
        let queue = Arc::new(SettleQueue::default());
        runtime.spawn(settling::settle(Arc::clone(&queue), Arc::clone(&inner)));
        runtime.spawn(announce(Arc::clone(&inner)));
        runtime.spawn(keeping::forget(Arc::clone(&inner)));
        runtime.spawn(keeping::watch(Arc::clone(&inner)));
        let leases = Arc::new(Leases::new(has_leases));
        runtime.spawn(leases::keep(Arc::clone(&leases), Arc::clone(&inner)));
        Self { runtime: Some(runtime), inner, queue, leases }
    }

    /// How many gateways share the counters, as last heard.
    pub(super) fn gateways(&self) -> usize {
        self.inner.gateways.load(Ordering::Relaxed).max(1)
    }

    /// Requests that were counted in the common bucket, because there was no room for one of their own.
    pub(super) fn overflowed(&self) -> u64 {
        self.inner.overflowed.load(Ordering::Relaxed)
    }

    /// `redis` or `postgres`.
    pub(super) fn backend(&self) -> &'static str {
        self.inner.backend
    }

    /// Failed calls, and whether the last one failed.
    pub(super) fn health(&self) -> (u64, bool) {
        let health = &self.inner.health;
        (health.failures.load(Ordering::Relaxed), health.is_failing())
    }

    /// Whether the store keeps counters when its memory is full: `kept`, `evicted`, or `unknown`.
    pub(super) fn keeping(&self) -> &'static str {
        self.inner.keeping.as_str()
    }

    /// Settlements that were given up.
    pub(super) fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Turns leases on or off (`limits.leases`).
    pub(super) fn set_leases(&self, are_on: bool) {
        self.leases.set_on(are_on);
    }

    /// Buckets of which something is borrowed, and the requests so far that had all they needed from such leases.
    pub(super) fn leases(&self) -> (usize, u64) {
        (self.leases.count(), self.leases.served())
    }

    /// Returns what is borrowed, and waits until all that was used by now is settled, at most this long. False: it is not.
    pub(super) async fn flush(&self, at_most: Duration) -> bool {
        let begin = Instant::now();
        let now = jiff::Timestamp::now().as_millisecond();
        let is_returned = self.leases.end(None, now, at_most).await;
        self.queue.flush(at_most.saturating_sub(begin.elapsed())).await && is_returned
    }

    /// Waits until what ended by now is settled, at most this long.
    pub(super) async fn returned(&self, at_most: Duration) {
        self.queue.flush(at_most).await;
    }

    /// Settles what was used of a limit's leases, so that a reset covers it too. Waits no longer than [`RESERVE_WITHIN`].
    pub(super) async fn end_leases(&self, limit: &Limit, now: i64) {
        self.leases.end(Some(limit), now, RESERVE_WITHIN).await;
    }

    /// Takes what leases have of what the request needs.
    pub(super) fn take(&self, selection: &Selection<'_>, estimate: &Estimate<'_>, now: i64) -> LeasedHolds {
        self.leases.take(selection, estimate, now, &self.inner)
    }

    /// The reservation of a request that has all it needs from leases.
    pub(super) fn leased(&self, leased: LeasedHolds) -> Reservation {
        let tightest = leased.tightest();
        let remote = RemoteHold::new(Uuid::nil(), Vec::new(), leased, Arc::clone(&self.queue));
        Reservation::remote(remote, tightest, None)
    }

    /// Runs a call of the store where its connections live.
    async fn run<T: Send + 'static, F: Future<Output = Result<T, String>> + Send + 'static>(
        &self,
        now: i64,
        call: impl FnOnce(Arc<Inner>) -> F,
    ) -> Result<T, String> {
        let Some(runtime) = &self.runtime else { return Err("it is being closed".to_owned()) };
        if self.inner.health.pauses(now) {
            return Err("it was not there a moment ago".to_owned());
        }
        let done = runtime.spawn(call(Arc::clone(&self.inner))).await;
        let outcome = done.unwrap_or_else(|why| Err(why.to_string()));
        self.inner.health.note(&outcome, now);
        outcome
    }

    /// Holds what the request needs of each of its limits, except what it has already taken from leases.
    pub(super) async fn reserve(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        assume_output: u64,
        leased: LeasedHolds,
        Clock { calendar, now }: Clock<'_>,
    ) -> Result<Reservation, Failure> {
        if self.inner.health.pauses(now) {
            return Err(Failure::Unreachable);
        }
        let hold = Uuid::now_v7();
        let may_fit = estimate.can_be_bounded && !estimate.is_made;
        let fits = may_fit && selection.limits().any(|limit| limit.fit && limit.hard);
        let assumed = assume_output.max(estimate.least_output());
        let mut fitted = (fits && estimate.max_output_tokens.is_none()).then_some(assumed);
        let mut overflowed = Vec::new();
        let mut has_returned = false;
        let begin = Instant::now();
        let clock = || now.saturating_add(i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX));
        for _ in 0..MAX_TRIES {
            let now = clock();
            let of = Needs { selection, estimate, fitted, leased: &leased, overflowed: &overflowed };
            let Some(order) = self.order(hold, &of, Clock { calendar, now }).map_err(Failure::Refused)?
            else {
                return Ok(self.leased(leased));
            };
            let Ok((reply, mut unclaimed)) = self.send(&order, now).await else {
                return Err(Failure::Unreachable);
            };
            match reply {
                Reply::OtherWindow { now: theirs } => self.inner.note_time(theirs, now, clock()),
                Reply::Overflow { claim } => {
                    self.inner.overflowed.fetch_add(1, Ordering::Relaxed);
                    overflowed.push(claim);
                }
                // More than can be counted was used already.
                Reply::Refused { .. } if estimate.is_made => return Ok(self.leased(leased)),
                Reply::Refused { now: theirs, buckets } => {
                    // Reported now: only one reply of the store says so, and the claim may be sent again.
                    self.report_exhausted(&order.claims, &buckets, theirs);
                    match lowered(estimate, fitted, &order.claims, &buckets, theirs) {
                        Some(lower) => fitted = Some(lower),
                        None if !has_returned && self.leases.give_up(&order.claims, &buckets, now).await => {
                            has_returned = true;
                        }
                        None => return Err(self.refused(estimate, &order.claims, &buckets, theirs)),
                    }
                }
                Reply::Held { now: theirs, buckets } => {
                    self.leases.note(&order.claims, &buckets, now, &self.inner);
                    let lower =
                        fitted.filter(|fitted| estimate.max_output_tokens.is_none_or(|most| *fitted < most));
                    let reservation = self.held(&order, &buckets, leased, lower, theirs);
                    unclaimed.claim();
                    return Ok(reservation);
                }
            }
        }
        Err(Failure::Unreachable)
    }

    /// Has the store make a reservation. If nobody waits for the reply any more, it is cancelled.
    async fn send(&self, order: &Arc<Order>, now: i64) -> Result<(Reply, Unclaimed), String> {
        let mut unclaimed = Unclaimed::new(order, &self.queue);
        let order = Arc::clone(order);
        let call = move |inner: Arc<Inner>| async move {
            // A call that fails may have made the reservation nevertheless: `unclaimed` is dropped then, which cancels it.
            let reply = inner.store.reserve(order).await?;
            if !matches!(reply, Reply::Held { .. }) {
                unclaimed.claim();
            }
            Ok((reply, unclaimed))
        };
        self.run(now, call).await
    }

    /// The order for the store. `None`: there is nothing to hold in it.
    fn order(
        &self,
        hold: Uuid,
        needs: &Needs<'_, '_>,
        Clock { calendar, now }: Clock<'_>,
    ) -> Result<Option<Arc<Order>>, Box<Refusal>> {
        let store_now = self.inner.their_time(now);
        let mut claims = needs.claims(calendar, store_now)?;
        if claims.is_empty() {
            return Ok(None);
        }
        for index in needs.overflowed {
            if let Some(claim) = claims.get_mut(*index) {
                claim.overflow();
            }
        }
        Ok(Some(Arc::new(Order {
            hold,
            claims,
            lifetime: self.inner.hold_lifetime,
            not_after: self
                .inner
                .their_earliest(now)
                .saturating_add(i64::try_from(RESERVE_WITHIN.as_millis()).unwrap_or(0)),
            is_made: needs.estimate.is_made,
        })))
    }

    fn refused(
        &self,
        estimate: &Estimate<'_>,
        claims: &[Claim],
        buckets: &[BucketReply],
        now: i64,
    ) -> Failure {
        let mut refusals = Vec::new();
        for (claim, bucket) in claims.iter().zip(buckets) {
            let cause = match bucket.verdict {
                Verdict::Room => continue,
                Verdict::Rate => Cause::Rate,
                Verdict::Reserved => Cause::Reserved,
                Verdict::Spent => Cause::Spent,
            };
            let wanted = estimate.least(&claim.limit);
            refusals.push(Refusal::by(&claim.limit, &bucket.state, &claim.value_key, cause, wanted, now));
        }
        let refusal = Refusal::reported(refusals, tightest(Tightest::default(), claims, buckets, now));
        refusal.map_or(Failure::Unreachable, |refusal| Failure::Refused(Box::new(refusal)))
    }

    fn report_exhausted(&self, claims: &[Claim], buckets: &[BucketReply], now: i64) {
        for (claim, bucket) in claims.iter().zip(buckets).filter(|(_, bucket)| bucket.is_exhausted_now) {
            let limit = &claim.limit;
            let value_key = &claim.value_key;
            self.inner.sink.send(EventKind::Exhausted, limit, value_key, &bucket.state, now);
        }
    }

    fn held(
        &self,
        order: &Order,
        buckets: &[BucketReply],
        leased: LeasedHolds,
        fitted: Option<u64>,
        now: i64,
    ) -> Reservation {
        let tightest = tightest(leased.tightest(), &order.claims, buckets, now);
        let items = order.claims.iter().zip(buckets);
        let items = items.map(|(claim, bucket)| RemoteItem::new(claim, bucket)).collect();
        let remote = RemoteHold::new(order.hold, items, leased, Arc::clone(&self.queue));
        Reservation::remote(remote, tightest, fitted)
    }

    /// All buckets of a limit; `only`: this one.
    pub(super) async fn look(
        &self,
        limit: &Limit,
        only: Option<u128>,
        reset: bool,
        Clock { calendar, now }: Clock<'_>,
    ) -> Result<Vec<UsageView>, String> {
        let theirs = self.inner.their_time(now);
        // To be looked at is no use.
        let window = match limit.idle_reset() {
            Some(_) => AS_IT_IS,
            None => calendar.window(&limit.kind, theirs),
        };
        let same = Arc::new(limit.clone());
        let shown = self.run(now, move |inner| async move {
            let buckets = match only {
                Some(only) => vec![only],
                None => inner.store.buckets(&same).await?,
            };
            inner.store.look(&same, window, &buckets, reset).await
        });
        let shown = shown.await?;
        let view = |shown: &claim::Shown| {
            UsageView::of(limit, shown.entity, &shown.value_key.as_str().into(), &shown.state, theirs)
        };
        Ok(shown.iter().map(view).collect())
    }
}

impl Inner {
    fn new(
        store: Box<dyn CounterStore>,
        backend: &'static str,
        hold_lifetime: Duration,
        sink: Arc<Sink>,
    ) -> Self {
        Self {
            store,
            backend,
            offset: AtomicI64::new(0),
            least_offset: AtomicI64::new(0),
            gateways: AtomicUsize::new(1),
            overflowed: AtomicU64::new(0),
            health: StoreHealth::default(),
            keeping: LastKeeping::default(),
            hold_lifetime,
            sink,
        }
    }

    /// The latest that it can be by the store's clock. By this time a lease ends before its window does.
    fn their_time(&self, now: i64) -> i64 {
        now.saturating_add(self.offset.load(Ordering::Relaxed))
    }

    /// The earliest that it can be by the store's clock. By this time no reservation is made after the request has given up.
    fn their_earliest(&self, now: i64) -> i64 {
        now.saturating_add(self.least_offset.load(Ordering::Relaxed))
    }

    /// Its clock was read by a call between `before` and `after`.
    fn note_time(&self, theirs: i64, before: i64, after: i64) {
        self.offset.store(theirs.saturating_sub(before), Ordering::Relaxed);
        self.least_offset.store(theirs.saturating_sub(after), Ordering::Relaxed);
    }
}

/// What a request needs of the store.
struct Needs<'a, 's> {
    selection: &'a Selection<'s>,
    estimate: &'a Estimate<'a>,
    fitted: Option<u64>,
    /// What it has already.
    leased: &'a LeasedHolds,
    /// The claims for whose buckets there is no room.
    overflowed: &'a [usize],
}

impl Needs<'_, '_> {
    /// What it needs of each bucket.
    fn claims(&self, calendar: &Calendar, now: i64) -> Result<Vec<Claim>, Box<Refusal>> {
        let Self { selection, estimate, leased, .. } = *self;
        let mut claims = Vec::with_capacity(selection.items.len());
        let items = selection.items.iter().filter(|item| estimate.concerns(item.limit));
        for item in items.filter(|item| !leased.has(item.bucket)) {
            let limit = item.limit;
            let window: Window = calendar.window(&limit.kind, now);
            let value_key: Arc<str> = value_key(limit, selection.facts).into();
            let likely = self.likely(limit);
            let amount = self.amount(limit).map_err(|cause| {
                let state = super::entity::State::reported(window, 0, 0, 0);
                let refusal = Refusal::by(limit, &state, &value_key, cause, 1, now);
                Box::new(Refusal { all: vec![Arc::clone(limit)], ..refusal })
            })?;
            let rule = Rule::of(limit);
            let limit = Arc::clone(limit);
            let entity = item.bucket;
            claims.push(Claim { limit, entity, value_key, window, amount, likely, rule, is_overflow: false });
        }
        Ok(claims)
    }

    /// Of a hard limit, what the request is likely to use: with less left, the limit may count as spent. 0 of other limits, and while the
    /// output bound can still be lowered.
    fn likely(&self, limit: &Limit) -> i64 {
        let is_least =
            !limit.fit || !self.estimate.can_be_bounded || self.fitted == Some(self.estimate.least_output());
        if limit.hard && is_least { self.estimate.likely(limit.counts()).unwrap_or(0) } else { 0 }
    }

    fn amount(&self, limit: &Limit) -> Result<i64, Cause> {
        let estimate = self.estimate;
        match limit.hard {
            true if estimate.is_made => Ok(estimate.most(limit.counts(), None).unwrap_or(0)),
            true => estimate.hard_amount(limit, self.fitted),
            false => Ok(estimate.likely(limit.counts()).unwrap_or(0)),
        }
    }
}

/// The output bound with which the request fits, in tokens and at least one for each choice, if every limit that refuses is a hard one with `fit`. `None`:
/// another limit refuses too, or the bound is no lower than before.
fn lowered(
    estimate: &Estimate<'_>,
    fitted: Option<u64>,
    claims: &[Claim],
    buckets: &[BucketReply],
    now: i64,
) -> Option<u64> {
    let mut lowest: Option<u64> = None;
    for (claim, bucket) in claims.iter().zip(buckets).filter(|(_, bucket)| bucket.verdict != Verdict::Room) {
        let limit = &claim.limit;
        if !(limit.hard && limit.fit && estimate.can_be_bounded) {
            return None;
        }
        let headroom = limit.value().saturating_sub(bucket.state.used(limit, now));
        let bounded = Estimate { max_output_tokens: estimate.max_output_tokens.or(fitted), ..*estimate };
        let fitting = bounded.fitting(limit.counts(), headroom).unwrap_or_else(|| estimate.least_output());
        lowest = Some(lowest.map_or(fitting, |lowest| lowest.min(fitting)));
    }
    let before = fitted.or(estimate.max_output_tokens);
    lowest.filter(|lowest| before.is_none_or(|before| *lowest < before))
}

fn tightest(mut tightest: Tightest, claims: &[Claim], buckets: &[BucketReply], now: i64) -> Tightest {
    for (claim, bucket) in claims.iter().zip(buckets) {
        tightest.add(bucket.state.remaining(&claim.limit, now));
    }
    tightest
}

/// Announces this gateway to the store every few seconds. The reply says how many gateways there are, and the store's time.
async fn announce(inner: Arc<Inner>) {
    let gateway = Uuid::now_v7();
    loop {
        announce_once(&inner, gateway, || jiff::Timestamp::now().as_millisecond()).await;
        tokio::time::sleep(ANNOUNCE_INTERVAL).await;
    }
}

async fn announce_once(inner: &Inner, gateway: Uuid, clock: impl Fn() -> i64) {
    let before = clock();
    let outcome = inner.store.announce(gateway).await;
    let after = clock();
    inner.health.note(&outcome, after);
    if let Ok((gateways, theirs)) = outcome {
        inner.gateways.store(gateways, Ordering::Relaxed);
        inner.note_time(theirs, before, after);
    }
}

#[cfg(test)]
mod tests;
