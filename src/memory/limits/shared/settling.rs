//! How holds of shared counters end: through a bounded queue, in batches, again until the store has taken them.

use super::super::events::EventKind;
use super::super::limit::Limit;
use super::Inner;
use super::claim::{BucketReply, Claim, Order, Rule, Settlement, UNCONFIRMED};
use super::leases::LeasedHolds;
use crate::limits::entity::State;
use crate::limits::window::Window;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use uuid::Uuid;

/// Settlements that wait while the store is away. What does not fit is given up: its holds expire.
const MAX_WAITING: usize = 262_144;
const BATCH: usize = 128;
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Settlements that wait.
#[derive(Debug, Default)]
pub(super) struct SettleQueue {
    waiting: Mutex<VecDeque<Settlement>>,
    added: Notify,
    dropped: AtomicU64,
    is_closed: AtomicBool,
}

impl SettleQueue {
    fn push(&self, settlement: Settlement) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(settlement);
        drop(waiting);
        self.added.notify_one();
    }

    /// Cancels the holds that these claims may have made.
    fn cancel(&self, hold: Uuid, claims: &[Claim]) {
        for claim in claims {
            self.push(Settlement {
                hold,
                limit: Arc::clone(&claim.limit),
                entity: claim.entity,
                value_key: Arc::clone(&claim.value_key),
                window: claim.window,
                epoch: 0,
                generation: claim.limit.generation,
                resets: 0,
                amount: UNCONFIRMED,
                is_clamped: false,
                rule: claim.rule,
                actual: 0,
            });
        }
    }

    /// How many were given up.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.added.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// The next ones; they stay in the queue until [`done`](Self::done).
    fn next(&self) -> Vec<Settlement> {
        self.waiting.lock().iter().take(BATCH).cloned().collect()
    }

    fn done(&self, count: usize) {
        self.waiting.lock().drain(..count);
    }

    /// Waits until all that waits now is settled, at most this long. False: it is not.
    pub(super) async fn flush(&self, at_most: Duration) -> bool {
        let end = tokio::time::Instant::now() + at_most;
        while !self.is_empty() {
            if tokio::time::Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }
}

/// Sends settlements to the store, and reports the thresholds and limits that they reach.
pub(super) async fn settle(queue: Arc<SettleQueue>, inner: Arc<Inner>) {
    loop {
        let batch = queue.next();
        if batch.is_empty() {
            if queue.is_closed.load(Ordering::Relaxed) {
                return;
            }
            queue.added.notified().await;
            continue;
        }
        let outcome = inner.store.settle(&batch).await;
        let now = jiff::Timestamp::now().as_millisecond();
        inner.health.note(&outcome, now);
        let Ok(replies) = outcome else {
            // The store ignores a settlement that it has applied already.
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        queue.done(batch.len());
        for (settlement, reply) in batch.iter().zip(replies) {
            let state = State::reported(settlement.window, reply.spent, 0, 0);
            let limit = &settlement.limit;
            let value_key = &settlement.value_key;
            if reply.is_threshold_now {
                inner.sink.send(EventKind::Threshold, limit, value_key, &state, now);
            }
            if reply.is_exhausted_now {
                inner.sink.send(EventKind::Exhausted, limit, value_key, &state, now);
            }
        }
    }
}

/// What the store may hold for a request that has no reply yet. It is cancelled when this is dropped, because the call failed or
/// the request gave up waiting.
pub(super) struct Unclaimed {
    order: Arc<Order>,
    queue: Arc<SettleQueue>,
    is_claimed: bool,
}

impl Unclaimed {
    pub(super) fn new(order: &Arc<Order>, queue: &Arc<SettleQueue>) -> Self {
        Self { order: Arc::clone(order), queue: Arc::clone(queue), is_claimed: false }
    }

    /// Nothing is held, or a reservation has it.
    pub(super) fn claim(&mut self) {
        self.is_claimed = true;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if !self.is_claimed {
            self.queue.cancel(self.order.hold, &self.order.claims);
        }
    }
}

/// What a request holds of shared counters.
#[derive(Debug)]
pub(in crate::limits) struct RemoteHold {
    id: Uuid,
    items: Vec<RemoteItem>,
    leased: LeasedHolds,
    queue: Arc<SettleQueue>,
}

/// What it holds of one bucket.
#[derive(Debug)]
pub(super) struct RemoteItem {
    limit: Arc<Limit>,
    entity: u128,
    value_key: Arc<str>,
    window: Window,
    epoch: i64,
    generation: u32,
    resets: u32,
    amount: i64,
    is_clamped: bool,
    rule: Rule,
}

impl RemoteItem {
    pub(super) fn new(claim: &Claim, bucket: &BucketReply) -> Self {
        Self {
            limit: Arc::clone(&claim.limit),
            entity: claim.entity,
            value_key: Arc::clone(&claim.value_key),
            window: claim.window,
            epoch: bucket.epoch,
            generation: bucket.generation,
            resets: bucket.resets,
            amount: bucket.amount,
            is_clamped: bucket.is_clamped,
            rule: claim.rule,
        }
    }
}

impl RemoteHold {
    /// `id` names what the store holds.
    pub(super) fn new(
        id: Uuid,
        items: Vec<RemoteItem>,
        leased: LeasedHolds,
        queue: Arc<SettleQueue>,
    ) -> Self {
        Self { id, items, leased, queue }
    }

    pub(in crate::limits) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.leased.is_empty()
    }

    /// Whether it holds less of this limit than was wanted.
    pub(in crate::limits) fn is_clamped(&self, is_it: impl Fn(&Limit) -> bool) -> bool {
        self.items.iter().any(|item| item.is_clamped && is_it(&item.limit))
    }

    /// Whether it holds something of such a limit.
    pub(in crate::limits) fn holds_any(&self, is_such: impl Fn(&Limit) -> bool) -> bool {
        self.items.iter().any(|item| is_such(&item.limit))
    }

    /// Ends all holds; `actual` is what was used of a limit with this hold.
    pub(in crate::limits) fn end(&mut self, actual: impl Fn(&Limit, i64) -> i64) {
        self.end_those(|_| true, actual);
    }

    /// As [`RemoteHold::end`], of these limits; the others stay held.
    pub(in crate::limits) fn end_those(
        &mut self,
        which: impl Fn(&Limit) -> bool,
        actual: impl Fn(&Limit, i64) -> i64,
    ) {
        self.leased.settle_those(&which, &actual);
        for item in self.items.extract_if(.., |item| which(&item.limit)) {
            self.queue.push(Settlement {
                hold: self.id,
                actual: actual(&item.limit, item.amount),
                limit: item.limit,
                entity: item.entity,
                value_key: item.value_key,
                window: item.window,
                epoch: item.epoch,
                generation: item.generation,
                resets: item.resets,
                amount: item.amount,
                is_clamped: item.is_clamped,
                rule: item.rule,
            });
        }
    }
}
