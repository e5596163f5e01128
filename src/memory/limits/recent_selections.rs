//! Which limits and buckets the last requests of clients had. The next request of a client mostly has the same: to compare what it is
//! costs a sixth of matching conditions and hashing values again.
//!
//! Of one set of limits, so nothing in it ever becomes wrong. Bounded: a table of slots, each for the client that used it last.

use crate::auth::fact_key::FactKey;
use crate::auth::facts::{Facts, Id, Value};
use arc_swap::{ArcSwapOption, Guard};
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use uuid::Uuid;

const SLOTS: usize = 1024;
/// What all values of a request may have to be compared, bytes: clients choose them, and there are as many as slots.
const MAX_VALUES: usize = 1024;
/// One in so many requests takes a slot from another client: two that share one do not take it from each other all the time.
const TAKES_ONE_IN: u8 = 16;

/// The last selections, for limits that look at nothing but workspace, service key and `keys`.
#[derive(Debug)]
pub(super) struct RecentSelections {
    keys: Box<[FactKey]>,
    hasher: RandomState,
    slots: Box<[ArcSwapOption<Recent>]>,
}

/// What a request is, and what was selected for it.
#[derive(Debug)]
pub(super) struct Recent {
    workspace: Option<Uuid>,
    api_key: Option<OwnedValue>,
    values: SmallVec<[Option<OwnedValue>; 2]>,
    pub found: SmallVec<[Found; 4]>,
}

/// A limit, by its place in its set, and the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub place: u32,
    pub bucket: u128,
}

#[derive(Debug)]
enum OwnedValue {
    Text(Box<str>),
    Id(Uuid),
}

impl OwnedValue {
    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(Self::Text(text.into())),
            Value::Id(id) => Some(Self::Id(id)),
            // Only attempts have these.
            Value::ModelName { .. } | Value::ModelOf { .. } => None,
        }
    }

    fn is(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (Self::Text(text), Value::Text(value)) => **text == *value,
            (Self::Id(id), Value::Id(value)) => *id == value,
            _ => false,
        }
    }
}

/// Whether a value is the one of before, or both are absent.
fn is_same(before: Option<&OwnedValue>, now: Option<Value<'_>>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => before.is(now),
        (None, None) => true,
        _ => false,
    }
}

impl RecentSelections {
    /// For limits with these keys. `None`: with one of them, the facts that are compared do not decide which limits are for a request.
    pub(super) fn new<'a>(keys: impl Iterator<Item = &'a FactKey>) -> Option<Self> {
        let mut others: Vec<FactKey> = Vec::new();
        for key in keys {
            match key {
                FactKey::ApiKey | FactKey::Workspace => {}
                // Its slug, which conditions compare, may change, and its id, which names buckets, remains.
                FactKey::Config => return None,
                key if key.is_of_target() => return None,
                key if others.contains(key) => {}
                key => others.push(key.clone()),
            }
        }
        let slots = (0..SLOTS).map(|_| ArcSwapOption::empty()).collect();
        Some(Self { keys: others.into(), hasher: RandomState::default(), slots })
    }

    fn slot(&self, facts: &Facts<'_>) -> Option<&ArcSwapOption<Recent>> {
        let mut hasher = self.hasher.build_hasher();
        match facts.api_key {
            Some(Id::Record(id)) => hasher.write_u128(id.as_u128()),
            Some(Id::Settings(name)) => hasher.write(name.as_bytes()),
            None => {}
        }
        for value in self.keys.iter().filter_map(|key| facts.group_value(key)) {
            match value {
                Value::Text(text) => hasher.write(text.as_bytes()),
                value => value.hash(&mut |bytes| hasher.write(bytes)),
            }
        }
        self.slots.get(usize::try_from(hasher.finish() % SLOTS as u64).unwrap_or(0))
    }

    /// What was selected for a request with the same facts.
    pub(super) fn find(&self, facts: &Facts<'_>) -> Option<Guard<Option<Arc<Recent>>>> {
        let recent = self.slot(facts)?.load();
        recent.as_ref().is_some_and(|recent| self.is_for(recent, facts)).then_some(recent)
    }

    fn is_for(&self, recent: &Recent, facts: &Facts<'_>) -> bool {
        recent.workspace == facts.workspace
            && is_same(recent.api_key.as_ref(), facts.group_value(&FactKey::ApiKey))
            && self
                .keys
                .iter()
                .zip(&recent.values)
                .all(|(key, value)| is_same(value.as_ref(), facts.group_value(key)))
    }

    /// Keeps what was selected for a request with these facts.
    pub(super) fn keep(&self, facts: &Facts<'_>, found: SmallVec<[Found; 4]>) {
        let Some(slot) = self.slot(facts) else { return };
        if slot.load().is_some() && fastrand::u8(..TAKES_ONE_IN) > 0 {
            return;
        }
        let length = |value: Value<'_>| if let Value::Text(text) = value { text.len() } else { 0 };
        if self.keys.iter().filter_map(|key| facts.group_value(key)).map(length).sum::<usize>() > MAX_VALUES {
            return;
        }
        let owned = |key: &FactKey| facts.group_value(key).and_then(OwnedValue::of);
        let values = self.keys.iter().map(owned).collect();
        let api_key = owned(&FactKey::ApiKey);
        slot.store(Some(Arc::new(Recent { workspace: facts.workspace, api_key, values, found })));
    }
}
