//! What is sent to a store that several gateways share, and what it replies: one claim for each bucket of a request.

use super::super::entity::State;
use super::super::limit::{Counted, Limit};
use super::super::limit_set::BucketHash;
use super::super::value_key::{OVERFLOW_KEY, max_buckets};
use super::super::window::{NEVER, Window};
use super::keeping::Keeping;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// What a request needs of one bucket.
#[derive(Debug, Clone)]
pub(in crate::limits) struct Claim {
    pub limit: Arc<Limit>,
    pub entity: u128,
    pub value_key: Arc<str>,
    pub window: Window,
    pub amount: i64,
    /// Of a hard limit: what the request is likely to use. If less than this is left, and less than a tenth of the limit, the limit counts
    /// as spent.
    pub likely: i64,
    pub rule: Rule,
    /// Whether it is the overflow bucket, which counts the requests for whose own bucket there is no room.
    pub is_overflow: bool,
}

/// The claims of one request.
#[derive(Debug)]
pub(in crate::limits) struct Order {
    /// Names what is held.
    pub hold: Uuid,
    pub claims: Vec<Claim>,
    /// How long it is held at most.
    pub lifetime: Duration,
    /// The store must not make it after this time by its own clock: it may have been cancelled by then. Milliseconds since 1970.
    pub not_after: i64,
    /// The request already ran and is paid for: nothing refuses it.
    pub is_made: bool,
}

/// How it is judged. The scripts have the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::limits) enum Rule {
    Usage = 0,
    HardUsage = 1,
    Requests = 2,
    Tokens = 3,
    HardRate = 4,
}

impl Rule {
    pub(super) fn of(limit: &Limit) -> Self {
        match (limit.is_rate(), limit.hard, limit.counts()) {
            (false, false, _) => Self::Usage,
            (false, true, _) => Self::HardUsage,
            (true, true, _) => Self::HardRate,
            (true, false, Counted::Requests) => Self::Requests,
            (true, false, _) => Self::Tokens,
        }
    }
}

impl Claim {
    /// Takes the common bucket in place of its own.
    pub(super) fn overflow(&mut self) {
        self.entity = BucketHash::Common.overflow(&self.limit);
        self.value_key = OVERFLOW_KEY.into();
        self.is_overflow = true;
    }

    pub(super) fn max_buckets(&self) -> u32 {
        if self.is_overflow { u32::MAX } else { u32::try_from(max_buckets(&self.limit)).unwrap_or(u32::MAX) }
    }

    /// The threshold, -1 for none.
    pub(super) fn alert_at(&self) -> i64 {
        self.limit.alert_at().unwrap_or(-1)
    }
}

/// The window that a bucket has, whichever that is.
pub(super) const AS_IT_IS: Window = Window { start: 0, end: -2 };

/// The window's end, -1 for none.
pub(super) fn end_of(window: &Window) -> i64 {
    if window.end == NEVER { -1 } else { window.end }
}

/// The store's reply to the claims of a request. Times are by the store's clock, in milliseconds since 1970.
#[derive(Debug)]
pub(in crate::limits) enum Reply {
    /// A window is not that of the store's clock, or it is too late.
    OtherWindow {
        now: i64,
    },
    /// The limit of this claim has no room for another bucket.
    Overflow {
        claim: usize,
    },
    Refused {
        now: i64,
        buckets: Vec<BucketReply>,
    },
    Held {
        now: i64,
        buckets: Vec<BucketReply>,
    },
}

/// One bucket.
#[derive(Debug, Clone)]
pub(in crate::limits) struct BucketReply {
    pub verdict: Verdict,
    pub state: State,
    pub epoch: i64,
    pub resets: u32,
    /// What is held of it.
    pub amount: i64,
    pub is_clamped: bool,
    /// Whether this is the first refusal of a bucket that is spent.
    pub is_exhausted_now: bool,
    /// Of the bucket, where the hold does not have it itself. Later than that of the claim, if the limit was reset meanwhile.
    pub generation: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::limits) enum Verdict {
    Room,
    Rate,
    Reserved,
    Spent,
}

/// The amount of a hold that may have been made: the store got the claim and did not reply. It is cancelled.
pub(in crate::limits) const UNCONFIRMED: i64 = -1;

/// A hold that ends.
#[derive(Debug, Clone)]
pub(in crate::limits) struct Settlement {
    /// Of the reservation.
    pub hold: Uuid,
    pub limit: Arc<Limit>,
    pub entity: u128,
    pub value_key: Arc<str>,
    pub window: Window,
    pub epoch: i64,
    pub generation: u32,
    pub resets: u32,
    pub amount: i64,
    pub is_clamped: bool,
    pub rule: Rule,
    pub actual: i64,
}

/// What a settlement came to.
#[derive(Debug, Clone, Copy)]
pub(in crate::limits) struct SettleReply {
    pub spent: i64,
    pub is_threshold_now: bool,
    pub is_exhausted_now: bool,
}

/// One step of a lease: what was used of it is settled, and the lease continues under a new hold.
#[derive(Debug, Clone)]
pub(in crate::limits) struct LeaseOrder {
    pub limit: Arc<Limit>,
    pub entity: u128,
    pub value_key: Arc<str>,
    /// Only in this window more is lent.
    pub window: Window,
    /// The hold of before and its amount. `None`: nothing was held.
    pub before: Option<(Uuid, i64)>,
    pub epoch: i64,
    pub resets: u32,
    /// What was used of it.
    pub actual: i64,
    /// Names the hold that takes its place.
    pub next: Uuid,
    /// What stays held: by requests, and `room` for requests to come.
    pub kept: i64,
    pub room: i64,
    /// The room that is wanted; 0: none.
    pub wanted: i64,
    /// The least room for which a lease is worth it.
    pub least: i64,
    /// A lease may have one of so many parts of what is left.
    pub share: i64,
    /// After this time of the store nothing is lent: an order that was sent again may come late. Milliseconds since 1970.
    pub not_after: i64,
    /// How long it is held at most.
    pub lifetime: Duration,
}

/// What a lease is from now on.
#[derive(Debug, Clone)]
pub(in crate::limits) struct LeaseReply {
    pub state: State,
    pub epoch: i64,
    pub resets: u32,
    /// What is held under the next name. Less than was to be kept: nothing of the lease is held any more.
    pub amount: i64,
    /// The room that the store has lent.
    pub room: i64,
    pub is_threshold_now: bool,
    pub is_exhausted_now: bool,
}

/// A bucket that is shown.
#[derive(Debug, Clone)]
pub(in crate::limits) struct Shown {
    pub entity: u128,
    pub value_key: String,
    pub state: State,
}

/// Counters that several gateways share. All of it is atomic, by the store's clock.
#[async_trait]
pub(in crate::limits) trait CounterStore: Send + Sync {
    /// Holds all claims, or none.
    async fn reserve(&self, order: Arc<Order>) -> Result<Reply, String>;
    /// Ends holds. A second call changes nothing.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<SettleReply>, String>;
    /// Settles, keeps and lends. An order that is sent again changes nothing, and has the same reply. Each is of another bucket.
    async fn lease(&self, orders: &[LeaseOrder]) -> Result<Vec<LeaseReply>, String>;
    /// All buckets of a limit.
    async fn buckets(&self, limit: &Limit) -> Result<Vec<u128>, String>;
    /// These buckets at present; they are set to nothing before if `reset`.
    async fn look(
        &self,
        limit: &Limit,
        window: Window,
        buckets: &[u128],
        reset: bool,
    ) -> Result<Vec<Shown>, String>;
    /// Announces this gateway. Returns how many there are, and the store's time.
    async fn announce(&self, gateway: Uuid) -> Result<(usize, i64), String>;
    /// Whether it may drop counters by itself. A database does not.
    async fn keeping(&self) -> Result<Keeping, String> {
        Ok(Keeping::Keeps)
    }
    /// Forgets buckets of long ago, some at a time. Does nothing where they expire by themselves.
    async fn forget(&self) -> Result<(), String> {
        Ok(())
    }
}
