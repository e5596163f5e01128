//! Responses in the process's memory, bounded by what they use of it.
//!
//! Not here: the store that gateways share (`redis`). The crate moka evicts entries by TinyLFU: the least frequently used of the
//! least recently used, so that responses which are never requested again do not displace those that are.
//!
//! A body is kept compressed if it shrinks to a third or less. Recorded streams shrink to 16 to 23 %, and decompressing 10 KiB of one
//! takes 6 µs, little compared to forwarding it. Whole responses shrink to 60 % and are kept as they are: 4 µs at each hit would save
//! 0.7 KiB of 2.

use super::compression;
use super::entry::{CacheKey, CachedResponse, Scope};
use super::purge::Purge;
use arc_swap::ArcSwap;
use bytes::Bytes;
use jiff::Timestamp;
use moka::Expiry;
use moka::notification::RemovalCause;
use moka::ops::compute::Op;
use moka::sync::Cache;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What an entry uses besides its texts, its body and its pace: itself and its place in the table, as measured.
const OVERHEAD: usize = 540;

/// Called with each removal, and with what it removes.
pub(crate) type Watcher = Box<dyn Fn(&dyn Fn(&CacheKey, &Scope) -> bool) + Send + Sync>;

/// A response in memory.
#[derive(Clone)]
struct Kept {
    /// The body is compressed if `size` is some.
    response: Arc<CachedResponse>,
    /// Bytes of the body after decompression.
    size: Option<u32>,
    lifetime: Duration,
    /// The memory's generation when it was put, or when reading it from the shared store began.
    generation: u64,
}

impl Kept {
    fn weight(&self) -> u32 {
        let response = &self.response;
        let texts = response.content_type.len() + response.scope.namespace.as_deref().map_or(0, str::len);
        let pace = response.pace.len() * size_of::<(u32, u32)>();
        u32::try_from(OVERHEAD + texts + pace + response.body.len()).unwrap_or(u32::MAX)
    }

    fn response(&self) -> Option<Arc<CachedResponse>> {
        let Some(size) = self.size else { return Some(Arc::clone(&self.response)) };
        let body = compression::decompress(&self.response.body, usize::try_from(size).ok()?)?;
        Some(Arc::new(CachedResponse { body, ..(*self.response).clone() }))
    }
}

struct Lifetime;

impl Expiry<CacheKey, Kept> for Lifetime {
    fn expire_after_create(&self, _: &CacheKey, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.lifetime)
    }

    fn expire_after_update(
        &self,
        _: &CacheKey,
        kept: &Kept,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.lifetime)
    }
}

/// How many left the memory, by why.
#[derive(Debug, Default)]
struct Evictions {
    size: AtomicU64,
    expired: AtomicU64,
    removed: AtomicU64,
}

/// A purge that has begun. Its entries are no longer found, although they are not all removed yet.
struct Mark {
    /// The purge removes only entries that are older than this.
    generation: u64,
    purges: Vec<Purge>,
}

impl Mark {
    fn concerns(&self, key: &CacheKey, kept: &Kept) -> bool {
        let is_older = kept.generation < self.generation;
        is_older && self.purges.iter().any(|purge| purge.concerns(key, &kept.response.scope))
    }
}

/// The responses.
pub(super) struct Memory {
    cache: Cache<CacheKey, Kept, foldhash::fast::RandomState>,
    /// Raised before each removal. A response that was read from the shared store before that is not kept.
    generation: AtomicU64,
    /// The number of removals that have begun and not ended. Raised before a removal changes the generation.
    removing: AtomicUsize,
    marks: ArcSwap<Vec<Arc<Mark>>>,
    evictions: Arc<Evictions>,
    watcher: OnceLock<Watcher>,
}

impl Memory {
    pub(super) fn new(max_bytes: u64) -> Self {
        let evictions = Arc::new(Evictions::default());
        let counts = Arc::clone(&evictions);
        let cache = Cache::builder()
            .max_capacity(max_bytes)
            .weigher(|_, kept: &Kept| kept.weight())
            .expire_after(Lifetime)
            .eviction_listener(move |_, _, cause| {
                let count = match cause {
                    RemovalCause::Size => &counts.size,
                    RemovalCause::Expired => &counts.expired,
                    RemovalCause::Explicit => &counts.removed,
                    RemovalCause::Replaced => return,
                };
                count.fetch_add(1, Ordering::Relaxed);
            })
            .build_with_hasher(foldhash::fast::RandomState::default());
        Self {
            cache,
            generation: AtomicU64::new(0),
            removing: AtomicUsize::new(0),
            marks: ArcSwap::default(),
            evictions,
            watcher: OnceLock::new(),
        }
    }

    /// The response, unless it has expired or is of another scope.
    pub(super) fn get(&self, key: &CacheKey, scope: &Scope, now: Timestamp) -> Option<Arc<CachedResponse>> {
        let kept = self.cache.get(key)?;
        let is_current = kept.response.expires_at > now && kept.response.scope == *scope;
        let is_purged = || self.marks.load().iter().any(|mark| mark.concerns(key, &kept));
        if !is_current || is_purged() {
            return None;
        }
        kept.response()
    }

    /// Whether there is an unexpired response, of any scope. Does not count as a use of it.
    pub(super) fn has(&self, key: &CacheKey) -> bool {
        self.cache.contains_key(key)
    }

    pub(super) fn insert(&self, key: CacheKey, response: Arc<CachedResponse>, lifetime: Duration) {
        let generation = self.generation();
        self.cache.insert(key, Kept { response, size: None, lifetime, generation });
    }

    /// To be called before the response that is given to [`fill`](Self::fill) is read from the shared store.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Keeps a response of the shared store, unless anything was removed since this generation.
    pub(super) fn fill(
        &self,
        key: CacheKey,
        response: &Arc<CachedResponse>,
        compressed: Option<&[u8]>,
        lifetime: Duration,
        generation: u64,
    ) {
        let compressed = compressed.and_then(|compressed| Self::compressed(response, compressed));
        let (response, size) = match compressed {
            Some((response, size)) => (response, Some(size)),
            None => (Arc::clone(response), None),
        };
        if self.generation() == generation {
            self.cache.insert(key, Kept { response, size, lifetime, generation });
        }
        self.take_back(&key, generation);
    }

    /// Keeps the body of this response compressed, where that is worth it and the response is still the one that is kept.
    pub(super) fn shrink(&self, key: CacheKey, response: &Arc<CachedResponse>, compressed: &[u8]) {
        let Some((shrunk, size)) = Self::compressed(response, compressed) else { return };
        let generation = self.generation();
        // A removal that is under way may be between what is read here and what is put: it would come back. One that
        // begins from now on changes the generation.
        if self.removing.load(Ordering::SeqCst) > 0 {
            return;
        }
        self.cache.entry(key).and_compute_with(|current| match current.map(|entry| entry.into_value()) {
            Some(kept) if Arc::ptr_eq(&kept.response, response) => {
                Op::Put(Kept { response: shrunk, size: Some(size), ..kept })
            }
            _ => Op::Nop,
        });
        self.take_back(&key, generation);
    }

    /// Removes the response that was just kept, if anything was removed since this generation: that removal may have missed it.
    /// Later removals find it.
    fn take_back(&self, key: &CacheKey, generation: u64) {
        if self.generation() != generation {
            self.cache.invalidate(key);
        }
    }

    /// Whether [`shrink`](Self::shrink) can compress it.
    pub(super) fn may_shrink(response: &CachedResponse) -> bool {
        response.body.len() > compression::MIN_SIZE
    }

    fn compressed(response: &CachedResponse, body: &[u8]) -> Option<(Arc<CachedResponse>, u32)> {
        let size = response.body.len();
        let pays = body.len() <= size / 3;
        let size = u32::try_from(size).ok().filter(|_| pays)?;
        // A copy, because the given bytes may be a part of a larger buffer, which would stay in memory.
        let body = Bytes::copy_from_slice(body);
        Some((Arc::new(CachedResponse { body, ..response.clone() }), size))
    }

    pub(super) fn watch(&self, watcher: Watcher) {
        let _there_is_one_already = self.watcher.set(watcher);
    }

    fn notify(&self, concerns: &dyn Fn(&CacheKey, &Scope) -> bool) {
        if let Some(watcher) = self.watcher.get() {
            watcher(concerns);
        }
    }

    /// Removes the entries that another gateway has removed.
    pub(super) fn remove_all(&self, keys: &HashSet<CacheKey>) {
        if !keys.is_empty() {
            self.notify(&|key, _| keys.contains(key));
        }
        keys.iter().for_each(|key| self.remove(key));
    }

    pub(super) fn remove(&self, key: &CacheKey) {
        self.removing.fetch_add(1, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.cache.invalidate(key);
        self.removing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Removes the present entries of these purges. [`get`](Self::get) no longer finds them at once; freeing their memory takes a second for
    /// 100,000 entries, so that no thread that others wait for may call this.
    pub(super) fn purge(&self, purges: &[Purge]) -> HashSet<CacheKey> {
        self.notify(&|key, scope| purges.iter().any(|purge| purge.concerns(key, scope)));
        self.removing.fetch_add(1, Ordering::SeqCst);
        let mark = self.mark(purges);
        let mut purged = HashSet::new();
        for (key, kept) in &self.cache {
            if mark.concerns(&key, &kept) {
                self.cache.invalidate(&*key);
                purged.insert(*key);
            }
        }
        self.marks.rcu(|marks| {
            marks.iter().filter(|other| !Arc::ptr_eq(other, &mark)).cloned().collect::<Vec<_>>()
        });
        self.removing.fetch_sub(1, Ordering::SeqCst);
        purged
    }

    fn mark(&self, purges: &[Purge]) -> Arc<Mark> {
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let mark = Arc::new(Mark { generation, purges: purges.to_vec() });
        self.marks.rcu(|marks| marks.iter().chain([&mark]).cloned().collect::<Vec<_>>());
        mark
    }

    pub(super) fn drop_expired(&self) {
        self.cache.run_pending_tasks();
    }

    /// How many there are, and what they use, bytes.
    pub(super) fn usage(&self) -> (u64, u64) {
        self.drop_expired();
        (self.cache.entry_count(), self.cache.weighted_size())
    }

    pub(super) fn evictions(&self) -> Vec<(&'static str, u64)> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Evictions { size, expired, removed } = &*self.evictions;
        vec![("size", count(size)), ("expired", count(expired)), ("removed", count(removed))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::{entry, key, scope, start, streamed};

    const HOUR: Duration = Duration::from_secs(3600);

    fn is_there(memory: &Memory, number: u8) -> bool {
        memory.get(&key(number), &scope(1, None), start()).is_some()
    }

    #[test]
    fn what_a_purge_concerns_is_gone_before_it_is_removed() {
        let memory = Memory::new(1 << 20);
        memory.insert(key(1), Arc::new(entry("{}")), HOUR);
        memory.insert(key(2), Arc::new(entry("{}")), HOUR);
        let mark = memory.mark(&[Purge::Key(key(9)), Purge::Key(key(1))]);
        assert!(!is_there(&memory, 1) && is_there(&memory, 2));
        // Entries that are put from now on are not removed.
        memory.insert(key(1), Arc::new(entry("[]")), HOUR);
        assert!(is_there(&memory, 1));
        assert_eq!(memory.purge(&[Purge::All]), HashSet::from([key(1), key(2)]));
        assert_eq!((memory.marks.load().len(), memory.marks.load()[0].generation), (1, mark.generation));
        assert_eq!(memory.usage(), (0, 0));
    }

    #[test]
    fn what_was_read_elsewhere_before_a_removal_is_not_kept() {
        let memory = Memory::new(1 << 20);
        let response = Arc::new(entry("{}"));
        for (number, remove) in [
            (1, None),
            (2, Some((|memory: &Memory| memory.remove(&key(9))) as fn(&Memory))),
            (3, Some(|memory: &Memory| drop(memory.purge(&[Purge::Key(key(3))])))),
        ] {
            let generation = memory.generation();
            if let Some(remove) = remove {
                remove(&memory);
            }
            memory.fill(key(number), &response, None, HOUR, generation);
            assert_eq!(is_there(&memory, number), remove.is_none(), "{number}");
        }
    }

    #[test]
    fn a_purge_at_the_same_time_leaves_nothing_older() {
        let memory = Memory::new(1 << 20);
        let response = Arc::new(entry("{}"));
        let barrier = std::sync::Barrier::new(2);
        for round in 0..5_000 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait();
                    let generation = memory.generation();
                    memory.fill(key(1), &response, None, HOUR, generation);
                });
                barrier.wait();
                memory.purge(&[Purge::All]);
            });
            let kept = memory.cache.get(&key(1));
            assert!(kept.is_none_or(|kept| kept.generation == memory.generation()), "round {round}");
            memory.remove(&key(1));
        }
    }

    #[test]
    fn only_the_response_that_is_kept_is_shrunk() {
        let memory = Memory::new(1 << 20);
        let old = Arc::new(streamed(100));
        let new = Arc::new(streamed(101));
        let compressed = compression::compress(&old.body).unwrap();
        memory.shrink(key(1), &old, &compressed);
        assert_eq!(memory.usage().0, 0, "it was removed");
        memory.insert(key(1), Arc::clone(&new), HOUR);
        memory.shrink(key(1), &old, &compressed);
        assert_eq!(*memory.get(&key(1), &new.scope, start()).unwrap(), *new);
        memory.insert(key(1), Arc::clone(&old), HOUR);
        let before = memory.usage().1;
        memory.shrink(key(1), &old, &compressed);
        assert_eq!(*memory.get(&key(1), &old.scope, start()).unwrap(), *old);
        assert!(memory.usage().1 * 2 < before);
    }
}
