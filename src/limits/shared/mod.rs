//! Counters that several gateways share: each reservation is one step in their store, by the store's clock.
//!
//! Not here: what the store does with it (`redis`, `postgres`). What is settled goes through a bounded queue: no request waits for that. While the
//! store is away, rate limits are counted here with a part of their value, and budgets are as the settings have it (`fallback`).

mod claim;
mod postgres;
mod redis;
mod settling;

pub(super) use settling::{RemoteHold, SettleQueue};

use super::amount::Estimate;
use super::buckets::Sink;
use super::events::EventKind;
use super::limit::Limit;
use super::limit_set::{Selection, value_key};
use super::options::Backend;
use super::refusal::{Cause, Refusal};
use super::reservation::Reservation;
use super::tightest::Tightest;
use super::usage_view::UsageView;
use super::window::{Calendar, Window};
use claim::{BucketReply, Claim, CounterStore, Order, Reply, Rule, Verdict};
use settling::RemoteItem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// How often a claim is sent again with what the store has replied: another window, less output, the bucket for all.
const MAX_TRIES: u32 = 6;
/// How long the store is not tried after it failed: requests do not wait for it then.
const PAUSE: i64 = 1_000;
/// After so long a reservation is no longer made: whoever waited for it has given up soon after, and cancels it.
const RESERVE_WITHIN: Duration = Duration::from_millis(700);
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(5);

/// The shared counters, as one gateway sees them.
pub(super) struct Shared {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    inner: Arc<Inner>,
    pub queue: Arc<SettleQueue>,
}

struct Inner {
    store: Box<dyn CounterStore>,
    backend: &'static str,
    /// What the store's clock is ahead, milliseconds.
    offset: AtomicI64,
    gateways: AtomicUsize,
    /// Requests that were counted in a bucket shared for want of room.
    overflowed: AtomicU64,
    health: StoreHealth,
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

    /// Whether it is not to be tried now.
    fn pauses(&self, now: i64) -> bool {
        self.is_failing.load(Ordering::Relaxed) && now < self.pause_until.load(Ordering::Relaxed)
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
    pub(super) fn open(backend: &Backend, hold_lifetime: Duration, sink: &Arc<Sink>) -> Result<Self, String> {
        // Connections live on a runtime of their own: requests come from several, and some of them end.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("limits-store").enable_all().build();
        let runtime = runtime.map_err(|why| why.to_string())?;
        let store: Box<dyn CounterStore> = {
            let _inside = runtime.enter();
            match backend {
                Backend::Redis(url) => Box::new(redis::Redis::new(url.expose())?),
                Backend::Postgres(url) => Box::new(postgres::Postgres::new(url.expose(), "limits.shared")?),
            }
        };
        let inner = Arc::new(Inner {
            store,
            backend: backend.name(),
            offset: AtomicI64::new(0),
            gateways: AtomicUsize::new(1),
            overflowed: AtomicU64::new(0),
            health: StoreHealth::default(),
            hold_lifetime,
            sink: Arc::clone(sink),
        });
        let queue = Arc::new(SettleQueue::default());
        runtime.spawn(settling::settle(Arc::clone(&queue), Arc::clone(&inner)));
        runtime.spawn(announce(Arc::clone(&inner)));
        Ok(Self { runtime: Some(runtime), inner, queue })
    }

    /// How many gateways share the counters, as last heard.
    pub(super) fn gateways(&self) -> usize {
        self.inner.gateways.load(Ordering::Relaxed).max(1)
    }

    /// Requests that were counted in a bucket shared for want of room.
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
        (health.failures.load(Ordering::Relaxed), health.is_failing.load(Ordering::Relaxed))
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

    /// Holds what the request needs of all its limits.
    pub(super) async fn reserve(
        &self,
        selection: &Selection<'_>,
        (estimate, assume_output): (&Estimate<'_>, u64),
        (calendar, now): (&Calendar, i64),
    ) -> Result<Reservation, Failure> {
        if self.inner.health.pauses(now) {
            return Err(Failure::Unreachable);
        }
        let hold = Uuid::now_v7();
        let fits = selection.limits().any(|limit| limit.fit && limit.hard);
        let mut fitted = (fits && estimate.max_output_tokens.is_none()).then_some(assume_output);
        let mut overflowed: Vec<usize> = Vec::new();
        let begin = Instant::now();
        let clock = || now.saturating_add(i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX));
        for _ in 0..MAX_TRIES {
            let now = clock();
            let store_now = now.saturating_add(self.inner.offset.load(Ordering::Relaxed));
            let mut claims =
                claims(selection, estimate, fitted, (calendar, store_now)).map_err(Failure::Refused)?;
            if claims.is_empty() {
                let sink = Arc::clone(&self.inner.sink);
                return Ok(Reservation::new(Vec::new(), Tightest::default(), None, sink));
            }
            for index in &overflowed {
                if let Some(claim) = claims.get_mut(*index) {
                    claim.overflow();
                }
            }
            let order = Arc::new(Order {
                hold,
                claims,
                lifetime: self.inner.hold_lifetime,
                not_after: store_now.saturating_add(i64::try_from(RESERVE_WITHIN.as_millis()).unwrap_or(0)),
            });
            let sent = Arc::clone(&order);
            let reply = self.run(now, move |inner| async move { inner.store.reserve(sent).await }).await;
            let Ok(reply) = reply else {
                // It may have been made all the same.
                self.queue.cancel(hold, &order.claims);
                return Err(Failure::Unreachable);
            };
            match reply {
                Reply::OtherWindow { now: theirs } => {
                    self.inner.offset.store(theirs.saturating_sub(clock()), Ordering::Relaxed);
                }
                Reply::Overflow { claim } => {
                    self.inner.overflowed.fetch_add(1, Ordering::Relaxed);
                    overflowed.push(claim);
                }
                Reply::Refused { now: theirs, buckets } => {
                    match lowered(estimate, fitted, &order.claims, &buckets, theirs) {
                        Some(lower) => fitted = Some(lower),
                        None => return Err(self.refused(estimate, &order.claims, &buckets, theirs)),
                    }
                }
                Reply::Held { now: theirs, buckets } => {
                    let lower =
                        fitted.filter(|fitted| estimate.max_output_tokens.is_none_or(|most| *fitted < most));
                    return Ok(self.held(&order, &buckets, (lower, theirs)));
                }
            }
        }
        Err(Failure::Unreachable)
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
            if bucket.is_exhausted_now {
                let (limit, value_key) = (&claim.limit, &claim.value_key);
                self.inner.sink.send(EventKind::Exhausted, limit, value_key, (&bucket.state, now));
            }
            let wanted = estimate.least(&claim.limit);
            refusals.push(Refusal::by(&claim.limit, (&bucket.state, &claim.value_key), cause, (wanted, now)));
        }
        let refusal = Refusal::reported(refusals, tightest(claims, buckets, now));
        refusal.map_or(Failure::Unreachable, |refusal| Failure::Refused(Box::new(refusal)))
    }

    fn held(&self, order: &Order, buckets: &[BucketReply], (fitted, now): (Option<u64>, i64)) -> Reservation {
        let tightest = tightest(&order.claims, buckets, now);
        let items = order.claims.iter().zip(buckets);
        let items = items.map(|(claim, bucket)| RemoteItem::new(claim, bucket)).collect();
        let remote = RemoteHold::new(order.hold, items, Arc::clone(&self.queue));
        Reservation::remote(remote, tightest, fitted, Arc::clone(&self.inner.sink))
    }

    /// All buckets of a limit; `only`: this one.
    pub(super) async fn look(
        &self,
        limit: &Limit,
        only: Option<u128>,
        reset: bool,
        (calendar, now): (&Calendar, i64),
    ) -> Result<Vec<UsageView>, String> {
        let theirs = now.saturating_add(self.inner.offset.load(Ordering::Relaxed));
        let window = calendar.window(&limit.kind, theirs);
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
            UsageView::of(limit, (shown.entity, &shown.value_key.as_str().into()), &shown.state, theirs)
        };
        Ok(shown.iter().map(view).collect())
    }
}

/// What the request needs of each bucket.
fn claims(
    selection: &Selection<'_>,
    estimate: &Estimate<'_>,
    fitted: Option<u64>,
    (calendar, now): (&Calendar, i64),
) -> Result<Vec<Claim>, Box<Refusal>> {
    let mut claims = Vec::with_capacity(selection.items.len());
    for item in selection.items.iter().filter(|item| estimate.concerns(item.limit)) {
        let limit = item.limit;
        let window: Window = calendar.window(&limit.kind, now);
        let value_key: Arc<str> = value_key(limit, selection.facts).into();
        let amount = if limit.hard {
            estimate.hard_amount(limit, fitted).map_err(|cause| {
                let state = super::entity::State::reported(window, 0, 0, 0);
                let refusal = Refusal::by(limit, (&state, &value_key), cause, (1, now));
                Box::new(Refusal { all: vec![Arc::clone(limit)], ..refusal })
            })?
        } else {
            estimate.likely(limit.counts()).unwrap_or(0)
        };
        let (limit, rule) = (Arc::clone(limit), Rule::of(limit));
        let entity = item.bucket;
        claims.push(Claim { limit, entity, value_key, window, amount, rule, is_overflow: false });
    }
    Ok(claims)
}

/// The output that fits, or one token, where limits that fit are all that refuses. `None`: nothing is to be gained.
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
        if !(limit.hard && limit.fit) {
            return None;
        }
        let headroom = limit.value().saturating_sub(bucket.state.used(limit, now));
        let bounded = Estimate { max_output_tokens: estimate.max_output_tokens.or(fitted), ..*estimate };
        let fitting = bounded.fitting(limit.counts(), headroom).unwrap_or(1);
        lowest = Some(lowest.map_or(fitting, |lowest| lowest.min(fitting)));
    }
    let before = fitted.or(estimate.max_output_tokens);
    lowest.filter(|lowest| before.is_none_or(|before| *lowest < before))
}

fn tightest(claims: &[Claim], buckets: &[BucketReply], now: i64) -> Tightest {
    let mut tightest = Tightest::default();
    for (claim, bucket) in claims.iter().zip(buckets) {
        if let Some((of, remaining)) = bucket.state.remaining(&claim.limit, now) {
            tightest.add(of, remaining);
        }
    }
    tightest
}

/// Has the others count this gateway, and learns how many there are and what time it is there.
async fn announce(inner: Arc<Inner>) {
    let gateway = Uuid::now_v7();
    loop {
        let outcome = inner.store.announce(gateway).await;
        let now = jiff::Timestamp::now().as_millisecond();
        inner.health.note(&outcome, now);
        if let Ok((gateways, theirs)) = outcome {
            inner.gateways.store(gateways, Ordering::Relaxed);
            inner.offset.store(theirs.saturating_sub(now), Ordering::Relaxed);
        }
        tokio::time::sleep(ANNOUNCE_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests;
