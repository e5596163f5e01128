//! All limits in force, and which of them are for a request.
//!
//! Immutable. Usage is not here (`buckets`): a new set goes on with the usage there is.

use super::all_limits::AllLimits;
use super::limit::{Counted, Limit};
use super::limit_counts::LimitCounts;
use super::limit_index::{Bucket, LimitIndex, LimitOwner, Placed};
use super::recent_selections::{Found, RecentSelections};
use super::refusal::MissingFact;
use super::reservation::Reservation;
use crate::auth::facts::Facts;
use ring::digest;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::hash::Hasher as _;
use std::sync::Arc;
use uuid::Uuid;

/// Limits that are added to a set at a time.
const MAX_CHANGES: usize = 10_000;

/// Which limits are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Those of the request as a whole, once.
    Request,
    /// Those of the request as a whole that count tokens or costs, for an attempt beside or after one that may be charged: that one is
    /// held with the request.
    Further,
    /// Those of an attempt's target, for each attempt.
    Target,
}

/// How buckets are named: by 128 bits of their limit and values. Nobody outside can find two clients that share one.
#[derive(Debug, Clone, Copy)]
pub enum BucketHash {
    /// With a secret, which is kept where usage is.
    Keyed(u64, u64),
    /// The same in all gateways, for counters that they share. It costs more.
    Common,
}

impl BucketHash {
    pub fn random() -> Self {
        Self::Keyed(fastrand::u64(..), fastrand::u64(..))
    }

    /// The secret.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        match self {
            Self::Keyed(first, second) => (u128::from(first) << 64 | u128::from(second)).to_be_bytes(),
            Self::Common => [0; 16],
        }
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, second) = bytes.split_at_checked(8)?;
        let first = u64::from_be_bytes(first.try_into().ok()?);
        Some(Self::Keyed(first, u64::from_be_bytes(second.try_into().ok()?)))
    }

    /// The common bucket of a limit, for requests without room for a bucket of their own.
    pub(super) fn overflow(self, limit: &Limit) -> u128 {
        let mut started = self.start(limit);
        started.add(b"overflow");
        started.finish()
    }

    /// The bucket of a limit without `group_by`.
    pub(super) fn only(self, limit: &Limit) -> u128 {
        self.start(limit).finish()
    }

    /// The hash of the buckets of a limit before any value is added.
    pub(super) fn start(self, limit: &Limit) -> StartedHash {
        let mut started = match self {
            Self::Keyed(first, second) => StartedHash::Keyed(SipHasher13::new_with_keys(first, second)),
            Self::Common => StartedHash::Common(Box::new(digest::Context::new(&digest::SHA256))),
        };
        started.add(limit.id.as_bytes());
        started.add(&[limit.index]);
        started
    }
}

/// The hash of a bucket to which values are being added.
#[derive(Clone)]
pub(super) enum StartedHash {
    Keyed(SipHasher13),
    /// Boxed because it is large and rare.
    Common(Box<digest::Context>),
}

impl StartedHash {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Keyed(hasher) => hasher.write(bytes),
            Self::Common(digest) => digest.update(bytes),
        }
    }

    pub(super) fn finish(&self) -> u128 {
        match self {
            Self::Keyed(hasher) => hasher.finish128().as_u128(),
            Self::Common(digest) => {
                let first = digest.clone().finish().as_ref().first_chunk().copied();
                first.map_or(0, u128::from_be_bytes)
            }
        }
    }
}

/// The limits in force. The next set is made of the one before, and shares what has not changed.
#[derive(Debug)]
pub struct LimitSet {
    hash: BucketHash,
    request: LimitIndex,
    target: LimitIndex,
    /// All of them, of requests and of targets.
    all: AllLimits,
    /// Of requests as a whole. `None`: their limits look at more than what is compared there.
    recent: Option<RecentSelections>,
    counts: LimitCounts,
}

/// The limits that are for one request or attempt, each with its bucket.
pub struct Selection<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) items: SmallVec<[Selected<'a>; 4]>,
}

#[derive(Clone, Copy)]
pub(super) struct Selected<'a> {
    pub limit: &'a Arc<Limit>,
    pub bucket: u128,
}

impl Selection<'_> {
    /// Whether no limit is for it: it passes.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The limits, in no particular order.
    pub fn limits(&self) -> impl Iterator<Item = &Arc<Limit>> {
        self.items.iter().map(|item| item.limit)
    }

    /// Leaves out limits of which this request holds all that there is: it is the one that may exceed them.
    pub fn leave_out_clamped<'r>(&mut self, held: impl Iterator<Item = &'r Reservation>) {
        for reservation in held {
            self.items.retain(|item| !reservation.is_clamped(item.limit));
        }
    }
}

impl LimitSet {
    /// Of two limits with the same id and index, the first is in force.
    pub fn new(limits: impl IntoIterator<Item = Limit>, hash: BucketHash) -> Self {
        let none = Self {
            hash,
            request: LimitIndex::default(),
            target: LimitIndex::default(),
            all: AllLimits::default(),
            recent: None,
            counts: LimitCounts::default(),
        };
        none.with(&[], limits)
    }

    /// This set without all limits of the records of `removed`, and with `added`. It takes the time of these, and not of all limits.
    #[must_use]
    pub(super) fn with(&self, removed: &[Limit], added: impl IntoIterator<Item = Limit>) -> Self {
        let mut next = Self {
            hash: self.hash,
            request: self.request.clone(),
            target: self.target.clone(),
            all: self.all.clone(),
            recent: None,
            counts: self.counts.clone(),
        };
        let mut changes = Changes::default();
        for limit in removed {
            changes.of(limit).gone.push(limit.record);
            next.counts.forget_raises(limit.record);
        }
        next.apply(&mut changes);
        for limit in added {
            changes.of(&limit).added.push(limit);
            changes.count += 1;
            // So that the limits of a large store are not there twice.
            if changes.count >= MAX_CHANGES {
                next.apply(&mut changes);
            }
        }
        next.apply(&mut changes);
        let has_any = next.counts.request > 0;
        next.recent = has_any.then(|| RecentSelections::new(next.counts.request_keys())).flatten();
        next
    }

    fn apply(&mut self, changes: &mut Changes) {
        for ((owner, is_for_targets), change) in std::mem::take(changes).lists {
            let index = if is_for_targets { &mut self.target } else { &mut self.request };
            let before = index.list(&owner);
            let mut list: Vec<Placed> = Vec::with_capacity(before.len() + change.added.len());
            for placed in before {
                if change.gone.contains(&placed.limit.record) {
                    self.counts.remove(&placed.limit);
                    self.all.remove(placed.place);
                } else {
                    list.push(placed.clone());
                }
            }
            let mut names: HashSet<(Uuid, u8)> =
                list.iter().map(|placed| (placed.limit.id, placed.limit.index)).collect();
            for limit in change.added {
                if !names.insert((limit.id, limit.index)) {
                    continue;
                }
                self.counts.add(&limit);
                let bucket = Bucket::of(&limit, self.hash);
                let limit = Arc::new(limit);
                let place = self.all.add(Arc::clone(&limit));
                list.push(Placed { limit, place, bucket });
            }
            index.set(owner, list);
        }
    }

    /// Whether any limit is for requests as a whole.
    pub fn has_request_limits(&self) -> bool {
        self.counts.request > 0
    }

    /// Whether any limit is a hard budget, of requests as a whole or of targets.
    pub fn has_hard_budgets(&self) -> bool {
        self.counts.hard_budgets > 0
    }

    /// Whether any limit is a budget, of requests as a whole or of targets.
    pub fn has_budgets(&self) -> bool {
        self.counts.budgets > 0
    }

    /// Whether any limit is for requests as a whole and counts tokens or costs.
    pub fn counts_usage_of_requests(&self) -> bool {
        self.counts.usage_of_requests > 0
    }

    /// Whether any limit is for targets.
    pub fn has_target_limits(&self) -> bool {
        self.counts.target > 0
    }

    /// Whether any limit counts tokens or costs, and not only requests.
    pub fn counts_usage(&self) -> bool {
        self.counts.usage > 0
    }

    /// When the first raise of a limit ends, milliseconds since 1970.
    pub(super) fn raised_until(&self) -> Option<i64> {
        self.counts.raised_until()
    }

    /// The records with a raise that has ended by `now`, milliseconds since 1970.
    pub(super) fn raised_no_more(&self, now: i64) -> Vec<Uuid> {
        self.counts.raised_no_more(now)
    }

    /// All limits, in no particular order.
    #[cfg(test)]
    pub(super) fn limits(&self) -> impl Iterator<Item = &Arc<Limit>> {
        self.all.iter()
    }

    /// The limits that are for this request or attempt.
    ///
    /// # Errors
    /// It lacks a value that a limit insists on.
    pub fn select<'a>(&'a self, facts: &'a Facts<'a>, phase: Phase) -> Result<Selection<'a>, MissingFact> {
        let recent = self.recent.as_ref().filter(|_| phase == Phase::Request);
        if let Some(found) = recent.and_then(|recent| recent.find(facts)) {
            let mut items = SmallVec::new();
            for &Found { place, bucket } in found.iter().flat_map(|recent| recent.found.as_slice()) {
                if let Some(limit) = self.all.get(place) {
                    items.push(Selected { limit, bucket });
                }
            }
            return Ok(Selection { facts, items });
        }
        let mut items = SmallVec::new();
        let mut all_found = SmallVec::new();
        for placed in self.placed(facts, phase) {
            if let Some(bucket) = placed.bucket(facts)? {
                items.push(Selected { limit: &placed.limit, bucket });
                all_found.push(Found { place: placed.place, bucket });
            }
        }
        if let Some(recent) = recent {
            recent.keep(facts, all_found);
        }
        Ok(Selection { facts, items })
    }

    /// Budgets of requests that already ran. A budget whose required value is missing does not apply.
    pub fn select_budgets<'a>(&'a self, facts: &'a Facts<'a>, phase: Phase) -> Selection<'a> {
        let budgets = self.placed(facts, phase).filter(|placed| !placed.limit.is_rate());
        let selected = budgets.filter_map(|placed| {
            Some(Selected { limit: &placed.limit, bucket: placed.bucket(facts).ok()?? })
        });
        Selection { facts, items: selected.collect() }
    }

    fn placed<'a>(&'a self, facts: &'a Facts<'a>, phase: Phase) -> impl Iterator<Item = &'a Placed> {
        let index = match phase {
            Phase::Request | Phase::Further => &self.request,
            Phase::Target => &self.target,
        };
        let candidates = index.candidates(facts);
        candidates.filter(move |placed| phase != Phase::Further || placed.limit.counts() != Counted::Requests)
    }
}

/// What changes of the lists, by their owner and whether they are for targets.
#[derive(Default)]
struct Changes {
    lists: HashMap<(LimitOwner, bool), ListChange>,
    /// Limits that are added.
    count: usize,
}

#[derive(Default)]
struct ListChange {
    /// Records of which all limits go.
    gone: Vec<Uuid>,
    added: Vec<Limit>,
}

impl Changes {
    fn of(&mut self, limit: &Limit) -> &mut ListChange {
        self.lists.entry((LimitOwner::of(limit), limit.is_for_targets())).or_default()
    }
}
