//! The registry: every entry by its key, its age and its expiry, with its place and its bytes. For those who change the index;
//! a search does not look into it, and does not wait for its lock.
//!
//! Its maps are trees, not hash tables: a table of 100,000 entries that grows is copied for milliseconds.

use super::neighbour::Entry;
use super::partition::{Partition, PartitionKey};
use super::segment::Segment;
use super::sketch::Sketch;
use crate::cache::entry::CacheKey;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) type Partitions = RwLock<BTreeMap<PartitionKey, Arc<Partition>>>;

/// Bytes of an entry in the three trees here: keys and values, in nodes that are two thirds full.
const REGISTRY_BYTES: u64 = 136;
/// What a partition takes: itself, its list, its place in the map of partitions.
const PARTITION_BYTES: u64 = 256;
/// The most entries that an insertion spares because they were hits, before it evicts one nevertheless.
pub(super) const MAX_PASSED_OVER: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Registry {
    ids: BTreeMap<CacheKey, u64>,
    /// By id. Ids grow, so the first entry is the one that was added, or spared by eviction, the longest time ago.
    places: BTreeMap<u64, Place>,
    /// Milliseconds since 1970, and the id.
    expiries: BTreeSet<(i64, u64)>,
    next_id: u64,
    bytes: u64,
}

/// Where an entry is.
#[derive(Debug)]
struct Place {
    entry: Arc<Entry>,
    segment: Arc<Segment>,
    partition: Arc<Partition>,
}

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What an entry takes when it is alone in the index.
    pub(super) fn bytes_alone(entry: &Entry) -> u64 {
        PARTITION_BYTES + Segment::MIN_BYTES as u64 + REGISTRY_BYTES + entry.bytes()
    }

    /// Replaces the entry of this key.
    pub(super) fn insert(
        &mut self,
        partitions: &Partitions,
        key: PartitionKey,
        sketch: &Sketch,
        entry: Arc<Entry>,
    ) {
        self.remove(partitions, &entry.key);
        let partition = self.partition(partitions, key);
        let segment = partition.open_segment();
        // A segment counts while it has entries.
        let before = if segment.is_empty() { 0 } else { segment.bytes() };
        segment.push(sketch, Arc::clone(&entry));
        self.bytes += segment.bytes() + entry.bytes() + REGISTRY_BYTES;
        self.bytes -= before;
        self.list(Place { entry, segment, partition });
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, partitions: &Partitions, key: &CacheKey) -> bool {
        let Some(id) = self.ids.get(key).copied() else { return false };
        self.remove_id(partitions, id)
    }

    /// Removes up to `most` entries that have expired at `now` (milliseconds since 1970), and returns how many.
    pub(super) fn remove_expired(&mut self, partitions: &Partitions, now: i64, most: usize) -> usize {
        for removed in 0..most {
            let Some((expires_at, id)) = self.expiries.first().copied() else { return removed };
            if expires_at > now {
                return removed;
            }
            self.remove_id(partitions, id);
        }
        most
    }

    /// Removes the oldest entries until the rest has at most `max_bytes`. An entry that was a hit is spared once.
    pub(super) fn evict(&mut self, partitions: &Partitions, max_bytes: u64) {
        let mut passed_over = 0;
        while self.bytes > max_bytes {
            let Some((&id, place)) = self.places.first_key_value() else { return };
            if passed_over < MAX_PASSED_OVER && place.entry.used.swap(false, Ordering::Relaxed) {
                passed_over += 1;
                if let Some(place) = self.unlist(id) {
                    self.list(place);
                }
            } else {
                self.remove_id(partitions, id);
            }
        }
    }

    /// Removes those that `is_wanted` selects among up to `most` entries from the id `from`. The next id to look at, unless
    /// that were all, and how many were removed.
    pub(super) fn purge(
        &mut self,
        partitions: &Partitions,
        from: u64,
        most: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> (Option<u64>, u64) {
        let batch: Vec<(u64, bool)> =
            self.places.range(from..).take(most).map(|(id, place)| (*id, is_wanted(&place.entry))).collect();
        let wanted = batch.iter().filter(|(_, is_wanted)| *is_wanted);
        let removed = wanted.filter(|(id, _)| self.remove_id(partitions, *id)).count();
        let next = batch.last().filter(|_| batch.len() == most).map(|(id, _)| id + 1);
        (next, removed as u64)
    }

    fn remove_id(&mut self, partitions: &Partitions, id: u64) -> bool {
        let Some(Place { entry, segment, partition }) = self.unlist(id) else { return false };
        let before = segment.bytes();
        partition.remove(&segment, &entry);
        self.bytes += if segment.is_empty() { 0 } else { segment.bytes() };
        self.bytes -= before + entry.bytes() + REGISTRY_BYTES;
        if partition.is_empty() {
            self.bytes -= PARTITION_BYTES;
            partitions.write().remove(&partition.key);
        }
        true
    }

    /// Finds or makes it.
    fn partition(&mut self, partitions: &Partitions, key: PartitionKey) -> Arc<Partition> {
        if let Some(found) = partitions.read().get(&key) {
            return Arc::clone(found);
        }
        let made = Arc::new(Partition::new(key));
        self.bytes += PARTITION_BYTES;
        partitions.write().insert(key, Arc::clone(&made));
        made
    }

    fn list(&mut self, place: Place) {
        let id = self.next_id;
        self.next_id += 1;
        self.ids.insert(place.entry.key, id);
        self.expiries.insert((place.entry.expires_at, id));
        self.places.insert(id, place);
    }

    fn unlist(&mut self, id: u64) -> Option<Place> {
        let place = self.places.remove(&id)?;
        self.ids.remove(&place.entry.key);
        self.expiries.remove(&(place.entry.expires_at, id));
        Some(place)
    }
}
