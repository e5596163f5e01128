//! The leases of a gateway: found by bucket, bounded, and renewed in the background, before they are used up.
//!
//! A request that a lease has no room for goes to the store, and what it holds there is what the next lease follows. Not here: how much is
//! borrowed (`lease`).

use super::Inner;
use super::claim::{BucketReply, Claim, LeaseOrder, Verdict};
use super::lease::{Lease, LeaseHold, Marks, Moment};
use crate::limits::amount::Estimate;
use crate::limits::events::EventKind;
use crate::limits::limit::Limit;
use crate::limits::limit_set::Selection;
use crate::limits::tightest::Tightest;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The most buckets that are watched or leased at a time. Requests of further buckets go to the store, as they do without leases.
const MAX_LEASES: usize = 1_024;
/// How often leases are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Orders of one call.
const BATCH: usize = 128;
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How long a refused request waits until the room of a lease is back in the store.
const RETURN_WITHIN: Duration = Duration::from_millis(300);

/// One lease, shared with the requests that have taken of it.
type Shared = Arc<Mutex<Lease>>;

/// All leases.
#[derive(Debug)]
pub(super) struct Leases {
    is_on: AtomicBool,
    leases: RwLock<HashMap<u128, Shared, RandomState>>,
    /// There may be something to send.
    due: Notify,
    /// Something was replied to.
    replied: Notify,
    /// Requests that had all they needed from leases.
    served: AtomicU64,
}

/// What a request holds of leases. What is not settled is given back when it is dropped.
#[derive(Debug, Default)]
pub(in crate::limits) struct LeasedHolds {
    parts: SmallVec<[Part; 4]>,
    tightest: Tightest,
    /// Whether no claim is left for the store.
    pub is_all: bool,
}

#[derive(Debug)]
struct Part {
    entity: u128,
    limit: Arc<Limit>,
    lease: Shared,
    hold: LeaseHold,
}

/// When a lease has ended, or all of it was settled.
struct Goal {
    lease: Shared,
    replies: u64,
}

impl LeasedHolds {
    /// Whether it has what the request needs of this bucket.
    pub(super) fn has(&self, entity: u128) -> bool {
        self.parts.iter().any(|part| part.entity == entity)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// What is left of the rates among its limits.
    pub(super) fn tightest(&self) -> Tightest {
        self.tightest
    }

    /// Ends what it has of these limits; `actual` is what was used of a limit with this hold.
    pub(super) fn settle_those(
        &mut self,
        which: impl Fn(&Limit) -> bool,
        actual: impl Fn(&Limit, i64) -> i64,
    ) {
        self.parts.retain(|Part { limit, lease, hold, .. }| {
            let is_ended = which(limit);
            if is_ended {
                lease.lock().settle(*hold, actual(limit, hold.amount));
            }
            !is_ended
        });
    }
}

impl Drop for LeasedHolds {
    fn drop(&mut self) {
        self.settle_those(|_| true, |_, _| 0);
    }
}

impl Goal {
    fn is_reached(&self) -> bool {
        let lease = self.lease.lock();
        lease.replies() >= self.replies || lease.is_settled()
    }
}

/// Hard limits are exact: each of their holds is the store's own. And the store must see each use of a bucket that begins anew when it is
/// idle.
fn is_leased(limit: &Limit) -> bool {
    !limit.hard && limit.idle_reset().is_none()
}

impl Leases {
    pub(super) fn new(is_on: bool) -> Self {
        Self {
            is_on: AtomicBool::new(is_on),
            leases: RwLock::default(),
            due: Notify::new(),
            replied: Notify::new(),
            served: AtomicU64::new(0),
        }
    }

    /// As `limits.leases` has it. Turned off, all of them end.
    pub(super) fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
        self.due.notify_one();
    }

    /// Buckets of which something is borrowed.
    pub(super) fn count(&self) -> usize {
        self.leases.read().values().filter(|lease| lease.lock().is_held()).count()
    }

    /// Requests that had all they needed from leases.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn moment(&self, now: i64, inner: &Inner) -> Moment {
        Moment {
            now,
            theirs: inner.their_time(now),
            gateways: inner.gateways.load(Ordering::Relaxed),
            is_on: self.is_on.load(Ordering::Relaxed),
        }
    }

    /// Takes what leases have of what a request needs.
    pub(super) fn take(
        &self,
        selection: &Selection<'_>,
        estimate: &Estimate<'_>,
        now: i64,
        inner: &Inner,
    ) -> LeasedHolds {
        let mut taken = LeasedHolds::default();
        let leases = self.leases.read();
        let moment = self.moment(now, inner);
        if leases.is_empty() || !moment.is_on || estimate.is_made || inner.health.is_failing() {
            return taken;
        }
        let mut is_all = true;
        let mut is_low = false;
        for item in selection.items.iter().filter(|item| estimate.concerns(item.limit)) {
            let found = leases.get(&item.bucket).filter(|_| is_leased(item.limit));
            let amount = estimate.likely(item.limit.counts()).unwrap_or(0);
            let part = found.and_then(|shared| {
                let mut lease = shared.lock();
                let hold = lease.take(item.limit, amount, &moment)?;
                is_low |= lease.is_low();
                taken.tightest.add(lease.remaining(moment.theirs));
                let limit = Arc::clone(item.limit);
                let lease = Arc::clone(shared);
                Some(Part { entity: item.bucket, limit, lease, hold })
            });
            is_all &= part.is_some();
            taken.parts.extend(part);
        }
        if is_low {
            self.due.notify_one();
        }
        taken.is_all = is_all && !taken.parts.is_empty();
        if taken.is_all {
            self.served.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Notes what a request has taken of buckets in the store.
    pub(super) fn note(&self, claims: &[Claim], buckets: &[BucketReply], now: i64, inner: &Inner) {
        let moment = self.moment(now, inner);
        if !moment.is_on {
            return;
        }
        let mut is_due = false;
        for (claim, reply) in claims.iter().zip(buckets) {
            if is_leased(&claim.limit)
                && !claim.is_overflow
                && let Some(lease) = self.watched(claim)
            {
                is_due |= lease.lock().note(claim, reply, &moment);
            }
        }
        if is_due {
            self.due.notify_one();
        }
    }

    /// The lease of a bucket that was used; `None`: there is no room for it.
    fn watched(&self, claim: &Claim) -> Option<Shared> {
        if let Some(found) = self.leases.read().get(&claim.entity) {
            return Some(Arc::clone(found));
        }
        let mut leases = self.leases.write();
        if leases.len() >= MAX_LEASES {
            return None;
        }
        let new = || Arc::new(Mutex::new(Lease::new(claim)));
        let lease = Arc::clone(leases.entry(claim.entity).or_insert_with(new));
        if leases.len() == 1 {
            self.due.notify_one();
        }
        Some(lease)
    }

    /// After a refusal: ends the leases that have room left in the refused buckets, and waits until the store has it back. True: room was
    /// returned, so the request may be tried again.
    pub(super) async fn give_up(&self, claims: &[Claim], buckets: &[BucketReply], now: i64) -> bool {
        let mut goals = Vec::new();
        for (claim, reply) in claims.iter().zip(buckets) {
            if matches!(reply.verdict, Verdict::Rate | Verdict::Reserved) {
                let found = self.leases.read().get(&claim.entity).cloned();
                goals.extend(
                    found.filter(|lease| lease.lock().room() > 0).map(|lease| ended(lease, now, true)),
                );
            }
        }
        !goals.is_empty() && self.until_reached(&goals, RETURN_WITHIN).await
    }

    /// Ends the leases of a limit, or all: what was used of them is settled. False: it took longer.
    pub(super) async fn end(&self, of: Option<&Limit>, now: i64, at_most: Duration) -> bool {
        let is_of = |lease: &&Shared| of.is_none_or(|limit| lease.lock().is_of(limit));
        let leases: Vec<Shared> = self.leases.read().values().filter(is_of).cloned().collect();
        let goals: Vec<Goal> = leases.into_iter().map(|lease| ended(lease, now, false)).collect();
        self.until_reached(&goals, at_most).await
    }

    async fn until_reached(&self, goals: &[Goal], at_most: Duration) -> bool {
        self.due.notify_one();
        let all = async {
            loop {
                let replied = self.replied.notified();
                if goals.iter().all(Goal::is_reached) {
                    return;
                }
                replied.await;
            }
        };
        timeout(at_most, all).await.is_ok()
    }

    /// The orders that are due, sorted by bucket, which is the order in which the store locks them.
    fn orders(&self, moment: &Moment, inner: &Inner) -> Vec<(Shared, LeaseOrder)> {
        let leases = self.leases.read();
        let due = leases.values().filter_map(|shared| {
            let order = shared.lock().due(moment, inner.hold_lifetime)?;
            Some((Arc::clone(shared), order))
        });
        let mut due: Vec<(Shared, LeaseOrder)> = due.collect();
        due.sort_unstable_by_key(|(_, order)| order.entity);
        due
    }

    /// Sends the orders that are due. False: the store could not be reached.
    async fn renew(&self, inner: &Inner) -> bool {
        let now = jiff::Timestamp::now().as_millisecond();
        let (leases, orders): (Vec<_>, Vec<_>) =
            self.orders(&self.moment(now, inner), inner).into_iter().unzip();
        for (leases, orders) in leases.chunks(BATCH).zip(orders.chunks(BATCH)) {
            let outcome = inner.store.lease(orders).await;
            let now = jiff::Timestamp::now().as_millisecond();
            inner.health.note(&outcome, now);
            let Ok(replies) = outcome else { return false };
            for (lease, reply) in leases.iter().zip(replies) {
                let Some(Marks { limit, value_key, state }) = lease.lock().apply(&reply) else { continue };
                if reply.is_threshold_now {
                    inner.sink.send(EventKind::Threshold, &limit, &value_key, &state, now);
                }
                if reply.is_exhausted_now {
                    inner.sink.send(EventKind::Exhausted, &limit, &value_key, &state, now);
                }
            }
            self.replied.notify_waiters();
        }
        if self.leases.read().values().any(|lease| lease.lock().is_idle(now)) {
            self.leases.write().retain(|_, lease| !lease.lock().is_idle(now));
        }
        true
    }
}

/// Has a lease end.
fn ended(lease: Shared, now: i64, pause: bool) -> Goal {
    let mut locked = lease.lock();
    locked.end(now, pause);
    let replies = locked.replies_to_come();
    drop(locked);
    Goal { lease, replies }
}

/// Renews and settles leases, for as long as the gateway runs.
pub(super) async fn keep(leases: Arc<Leases>, inner: Arc<Inner>) {
    loop {
        if leases.leases.read().is_empty() {
            leases.due.notified().await;
        } else {
            let _ = timeout(TICK, leases.due.notified()).await;
        }
        if !leases.renew(&inner).await {
            // The store ignores an order that it has applied already.
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}
