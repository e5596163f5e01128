//! All limits in force, and which of them are for a request.
//!
//! Immutable. Usage is not here (`buckets`): a new set goes on with the usage there is.

use super::fact_key::Condition;
use super::facts::Facts;
use super::limit::{Counted, Limit, LimitScope, OnMissing};
use super::recent_selections::{Found, RecentSelections};
use super::refusal::MissingFact;
use super::reservation::Reservation;
use foldhash::fast::RandomState;
use ring::digest;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;
use uuid::Uuid;

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

    fn start(self, limit: &Limit) -> StartedHash {
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
enum StartedHash {
    Keyed(SipHasher13),
    /// Boxed because it is large and rare.
    Common(Box<digest::Context>),
}

impl StartedHash {
    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Keyed(hasher) => hasher.write(bytes),
            Self::Common(digest) => digest.update(bytes),
        }
    }

    fn finish(&self) -> u128 {
        match self {
            Self::Keyed(hasher) => hasher.finish128().as_u128(),
            Self::Common(digest) => {
                let first = digest.clone().finish().as_ref().first_chunk().copied();
                first.map_or(0, u128::from_be_bytes)
            }
        }
    }
}

/// The limits in force.
#[derive(Debug)]
pub struct LimitSet {
    request: Index,
    target: Index,
    /// All of them, of requests and of targets.
    all: Vec<Arc<Limit>>,
    /// Of requests as a whole. `None`: their limits look at more than what is compared there.
    recent: Option<RecentSelections>,
    has_request_limits: bool,
    has_target_limits: bool,
    /// Whether any of requests as a whole counts tokens or costs.
    counts_usage_of_requests: bool,
    /// Whether any of them counts tokens or costs.
    counts_usage: bool,
}

/// The limits of one phase, by what they belong to.
#[derive(Debug, Default)]
struct Index {
    /// Policies of all the organisation.
    organisation: Vec<Placed>,
    /// Policies of one workspace.
    policies: HashMap<Uuid, Vec<Placed>, RandomState>,
    others: HashMap<(LimitScope, Uuid), Vec<Placed>, RandomState>,
    /// What integrations have for one workspace: by integration and workspace.
    workspaces: HashMap<(Uuid, Uuid), Vec<Placed>, RandomState>,
}

/// A limit, and the hash of its buckets before any value is added.
struct Placed {
    limit: Arc<Limit>,
    /// Where it stands in [`LimitSet::all`].
    place: usize,
    hash: StartedHash,
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
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
    pub fn new(limits: Vec<Limit>, hash: BucketHash) -> Self {
        let mut request = Index::default();
        let mut target = Index::default();
        let mut all = Vec::with_capacity(limits.len());
        let mut counts_usage = false;
        let mut names = HashSet::new();
        for limit in limits {
            if !names.insert((limit.id, limit.index)) {
                continue;
            }
            counts_usage |= limit.counts() != Counted::Requests;
            let index = if limit.is_for_targets() { &mut target } else { &mut request };
            let list = match limit.scope {
                LimitScope::Policy => match limit.workspace {
                    Some(workspace) => index.policies.entry(workspace).or_default(),
                    None => &mut index.organisation,
                },
                // Of a key of the settings, which has no record.
                LimitScope::Key if !limit.conditions.is_empty() => &mut index.organisation,
                scope => match (scope, limit.workspace) {
                    (LimitScope::Integration, Some(workspace)) => {
                        index.workspaces.entry((limit.record, workspace)).or_default()
                    }
                    _ => index.others.entry((scope, limit.record)).or_default(),
                },
            };
            let hash = hash.start(&limit);
            let limit = Arc::new(limit);
            list.push(Placed { hash, limit: Arc::clone(&limit), place: all.len() });
            all.push(limit);
        }
        let has_request_limits = request.all().count() > 0;
        let has_target_limits = target.all().count() > 0;
        let counts_usage_of_requests = request.all().any(|limit| limit.counts() != Counted::Requests);
        let recent =
            has_request_limits.then(|| RecentSelections::new(request.all().flat_map(|limit| limit.keys())));
        let recent = recent.flatten();
        Self {
            request,
            target,
            all,
            recent,
            has_request_limits,
            has_target_limits,
            counts_usage_of_requests,
            counts_usage,
        }
    }

    /// Whether any limit is for requests as a whole.
    pub fn has_request_limits(&self) -> bool {
        self.has_request_limits
    }

    /// Whether any limit is a hard budget, of requests as a whole or of targets.
    pub fn has_hard_budgets(&self) -> bool {
        self.all.iter().any(|limit| limit.hard && !limit.is_rate())
    }

    /// Whether any limit is for requests as a whole and counts tokens or costs.
    pub fn counts_usage_of_requests(&self) -> bool {
        self.counts_usage_of_requests
    }

    /// Whether any limit is for targets.
    pub fn has_target_limits(&self) -> bool {
        self.has_target_limits
    }

    /// Whether any limit counts tokens or costs, and not only requests.
    pub fn counts_usage(&self) -> bool {
        self.counts_usage
    }

    /// All limits, in no particular order.
    pub fn limits(&self) -> impl Iterator<Item = &Arc<Limit>> {
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

impl Placed {
    /// The bucket that the request has of this limit, if the limit is for it.
    fn bucket(&self, facts: &Facts<'_>) -> Result<Option<u128>, MissingFact> {
        let limit = &self.limit;
        if !limit.conditions.iter().all(|condition| is_met(limit, condition, facts)) {
            return Ok(None);
        }
        let mut hash = self.hash.clone();
        for key in &limit.group_by {
            match (facts.group_value(key), limit.on_missing) {
                (Some(value), _) => value.hash(&mut |bytes| hash.add(bytes)),
                (None, OnMissing::Shared) => hash.add(&u32::MAX.to_be_bytes()),
                (None, OnMissing::Skip) => return Ok(None),
                (None, OnMissing::Deny) => {
                    return Err(MissingFact { limit: Arc::clone(limit), key: key.to_string().into() });
                }
            }
        }
        Ok(Some(hash.finish()))
    }
}

/// Whether the request meets a condition of a limit. A request without a value does not. Exception: if the limit groups by the same key and
/// has a rule for requests without it (`on_missing`), such a request meets a condition that takes any value, since that rule could never
/// apply otherwise.
fn is_met(limit: &Limit, condition: &Condition, facts: &Facts<'_>) -> bool {
    match facts.value(&condition.key) {
        None if limit.on_missing != OnMissing::Skip && limit.group_by.contains(&condition.key) => {
            condition.takes_any()
        }
        value => condition.matches(value),
    }
}

impl Index {
    fn all(&self) -> impl Iterator<Item = &Arc<Limit>> {
        let by_owner = self.policies.values().chain(self.others.values()).chain(self.workspaces.values());
        self.organisation.iter().chain(by_owner.flatten()).map(|placed| &placed.limit)
    }

    /// Those of the organisation, workspace, key and target of the request.
    fn candidates<'a>(&'a self, facts: &'a Facts<'a>) -> impl Iterator<Item = &'a Placed> {
        let key = match facts.api_key {
            Some(super::facts::Id::Record(id)) => Some(id),
            _ => None,
        };
        let target = facts.target.as_ref();
        let provider = match target.and_then(|target| target.virtual_key?.id.into()) {
            Some(super::facts::Id::Record(id)) => Some(id),
            _ => None,
        };
        let others = [
            (LimitScope::Key, key),
            (LimitScope::Workspace, facts.workspace),
            (LimitScope::Provider, provider),
            (LimitScope::Integration, target.and_then(|target| target.integration)),
        ];
        let workspace = facts.workspace.filter(|_| !self.policies.is_empty());
        let policies = workspace.and_then(|workspace| self.policies.get(&workspace)).into_iter().flatten();
        let others = others.into_iter().filter(|_| !self.others.is_empty());
        let integration =
            target.and_then(|target| target.integration).filter(|_| !self.workspaces.is_empty());
        let of_workspace = integration.and_then(|id| self.workspaces.get(&(id, facts.workspace?)));
        let others = others.filter_map(|(scope, id)| self.others.get(&(scope, id?))).flatten();
        let of_owners = policies.chain(others).chain(of_workspace.into_iter().flatten());
        self.organisation.iter().chain(of_owners)
    }
}
