//! The buckets in memory: found by their hash in shards, bounded, and forgotten when their window is over.
//!
//! Not here: judging (`judgment`).

use super::entity::{Entity, Past, State};
use super::events::{EventKind, EventQueue, LimitEvent};
use super::journal::Settled;
use super::limit::Limit;
use super::limit_set::{BucketHash, Selected};
use super::options::LimitsOptions;
use super::value_key::{OVERFLOW_KEY, bytes, max_buckets, value_key};
use super::window::Clock;
use crate::auth::facts::Facts;
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use uuid::Uuid;

const SHARDS: usize = 64;

/// The hash is random already.
#[derive(Debug, Default)]
struct HashOfHash(u64);

impl Hasher for HashOfHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, number: u128) {
        // The shard is chosen by the lowest bits.
        self.0 = u64::try_from(number >> 64).unwrap_or(0);
    }
}

type Shard = HashMap<u128, Arc<Entity>, BuildHasherDefault<HashOfHash>>;

/// All buckets of the process.
#[derive(Debug)]
pub(super) struct Buckets {
    pub hash: BucketHash,
    shards: Box<[RwLock<Shard>]>,
    /// How many buckets each limit has.
    live: Mutex<HashMap<(Uuid, u8), usize>>,
    /// What all of them take, and may take (`limits.max_bucket_bytes`).
    bytes: AtomicUsize,
    max_bytes: AtomicUsize,
    /// Requests that were counted in the common bucket, because there was no room for one of their own.
    overflowed: AtomicU64,
    pub sink: Arc<Sink>,
}

/// Where buckets leave what others take: alerts, and what is to be written.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub events: EventQueue,
    /// `None`: nothing is written.
    pub unwritten: Option<Mutex<Unwritten>>,
}

/// What is not in the journal yet.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    pub dirty: Vec<Arc<Entity>>,
    pub past: Vec<(Arc<Entity>, Past)>,
    /// Holds that have ended and are still in the journal.
    pub settled: Vec<Settled>,
}

impl Buckets {
    pub(super) fn new(hash: BucketHash, sink: Sink) -> Arc<Self> {
        Arc::new(Self {
            hash,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            live: Mutex::default(),
            bytes: AtomicUsize::new(0),
            max_bytes: AtomicUsize::new(LimitsOptions::default().max_bucket_bytes),
            overflowed: AtomicU64::new(0),
            sink: Arc::new(sink),
        })
    }

    fn shard(&self, id: u128) -> Option<&RwLock<Shard>> {
        let index = usize::try_from(id % SHARDS as u128).unwrap_or(0);
        self.shards.get(index)
    }

    /// The bucket with this hash, if there is one.
    pub(super) fn get(&self, id: u128) -> Option<Arc<Entity>> {
        self.shard(id)?.read().get(&id).cloned()
    }

    /// The bucket of a selected limit. It is made if there is none; if there is no room, it is the common bucket of
    /// this limit.
    pub(super) fn entity(
        &self,
        selected: &Selected<'_>,
        facts: &Facts<'_>,
        Clock { calendar, now }: Clock<'_>,
    ) -> Arc<Entity> {
        if let Some(entity) = self.get(selected.bucket) {
            return entity;
        }
        let limit = selected.limit;
        let make = |id, value_key: String| {
            let state = Mutex::new(State::new(limit, calendar, now));
            Entity { id, limit: (limit.id, limit.index), value_key: value_key.into(), state }
        };
        if self.has_room(limit) {
            return self.insert(make(selected.bucket, value_key(limit, facts)));
        }
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        let id = self.hash.overflow(limit);
        self.get(id).unwrap_or_else(|| self.insert(make(id, OVERFLOW_KEY.to_owned())))
    }

    /// The bucket of a selected limit as it is now, or would be made, by itself: nothing that is done to it counts.
    pub(super) fn copy(
        &self,
        selected: &Selected<'_>,
        facts: &Facts<'_>,
        Clock { calendar, now }: Clock<'_>,
    ) -> Entity {
        let limit = selected.limit;
        let overflow = || (!self.has_room(limit)).then(|| self.get(self.hash.overflow(limit))).flatten();
        match self.get(selected.bucket).or_else(overflow) {
            Some(found) => {
                let state = found.state.lock().clone();
                Entity::copied(limit, found.id, Arc::clone(&found.value_key), state)
            }
            None => {
                let state = State::new(limit, calendar, now);
                Entity::copied(limit, selected.bucket, value_key(limit, facts).into(), state)
            }
        }
    }

    fn has_room(&self, limit: &Limit) -> bool {
        // One that has a single bucket must find it again. There are as many of these as limits.
        if limit.group_by.is_empty() {
            return true;
        }
        self.bytes() < self.max_bytes.load(Ordering::Relaxed)
            && self.live.lock().get(&(limit.id, limit.index)).is_none_or(|live| *live < max_buckets(limit))
    }

    /// Adds a bucket, or returns the one that is there.
    pub(super) fn insert(&self, entity: Entity) -> Arc<Entity> {
        let entity = Arc::new(entity);
        let Some(shard) = self.shard(entity.id) else { return entity };
        match shard.write().entry(entity.id) {
            Entry::Occupied(there) => return Arc::clone(there.get()),
            Entry::Vacant(place) => {
                place.insert(Arc::clone(&entity));
            }
        }
        self.bytes.fetch_add(bytes(&entity.value_key), Ordering::Relaxed);
        *self.live.lock().entry(entity.limit).or_default() += 1;
        entity
    }

    /// Forgets buckets whose window is over. Their usage is in the journal.
    pub(super) fn drop_over(&self, now: i64) {
        self.drop_where(|entity| entity.state.lock().is_over(now));
    }

    /// Removes buckets, except those that a reservation holds.
    pub(super) fn drop_where(&self, is_over: impl Fn(&Entity) -> bool) {
        for shard in &self.shards {
            let mut dropped = Vec::new();
            shard.write().retain(|_, entity| {
                // A bucket that a reservation refers to is used soon.
                let keep = Arc::strong_count(entity) > 1 || !is_over(entity);
                if !keep {
                    self.bytes.fetch_sub(bytes(&entity.value_key), Ordering::Relaxed);
                    dropped.push(entity.limit);
                }
                keep
            });
            let mut live = self.live.lock();
            for limit in dropped {
                let Entry::Occupied(mut count) = live.entry(limit) else { continue };
                *count.get_mut() = count.get().saturating_sub(1);
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// The buckets of a limit.
    pub(super) fn of_limit(&self, id: Uuid, index: u8) -> Vec<Arc<Entity>> {
        let mut found = Vec::new();
        for shard in &self.shards {
            found.extend(shard.read().values().filter(|entity| entity.limit == (id, index)).cloned());
        }
        found
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// What they take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What they may take together. Those that are there stay.
    pub(super) fn set_max_bytes(&self, max: usize) {
        self.max_bytes.store(max, Ordering::Relaxed);
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

impl Sink {
    /// Has usage of a window that is over written, and the one that took its place.
    #[inline]
    pub(super) fn past(&self, limit: &Limit, entity: &Arc<Entity>, state: &mut State, past: Option<Past>) {
        if let Some(past) = past {
            self.write_past(limit, entity, state, past);
        }
    }

    fn write_past(&self, limit: &Limit, entity: &Arc<Entity>, state: &mut State, past: Past) {
        if let (Some(unwritten), true) = (&self.unwritten, limit.is_journalled()) {
            unwritten.lock().past.push((Arc::clone(entity), past));
            self.changed(limit, entity, state);
        }
    }

    /// Has a hold removed that the journal has.
    pub(super) fn settled(&self, settled: Settled) {
        if let Some(unwritten) = &self.unwritten {
            unwritten.lock().settled.push(settled);
        }
    }

    /// Reports the marks that usage has reached.
    pub(super) fn marks(&self, limit: &Arc<Limit>, entity: &Entity, state: &mut State, now: i64) {
        if limit.is_rate() {
            return;
        }
        if let Some(at) = limit.alert_at()
            && state.spent >= at
            && !state.is_threshold_sent(limit)
        {
            state.threshold_sent = at.max(1);
            self.send(EventKind::Threshold, limit, &entity.value_key, state, now);
        }
        if state.spent >= limit.value() {
            self.exhausted(limit, entity, state, now);
        }
    }

    /// Reports once that nothing is left. A limit of 0 reports nothing: it never lets anything pass.
    pub(super) fn exhausted(&self, limit: &Arc<Limit>, entity: &Entity, state: &mut State, now: i64) {
        if limit.value() > 0 && !state.is_exhausted_sent(limit) {
            state.exhausted_sent = limit.value();
            self.send(EventKind::Exhausted, limit, &entity.value_key, state, now);
        }
    }

    /// Reports a mark.
    pub(super) fn send(
        &self,
        kind: EventKind,
        limit: &Arc<Limit>,
        value_key: &Arc<str>,
        state: &State,
        now: i64,
    ) {
        self.events.send(LimitEvent {
            kind,
            limit: Arc::clone(limit),
            value_key: Arc::clone(value_key),
            spent: state.spent,
            at: Timestamp::from_millisecond(now).unwrap_or_default(),
            reset_at: state.window.reset_at(),
        });
    }

    /// Has the bucket written. `state` is the bucket's.
    pub(super) fn changed(&self, limit: &Limit, entity: &Arc<Entity>, state: &mut State) {
        let Some(unwritten) = &self.unwritten else { return };
        if !state.is_dirty && limit.is_journalled() {
            state.is_dirty = true;
            unwritten.lock().dirty.push(Arc::clone(entity));
        }
    }
}
