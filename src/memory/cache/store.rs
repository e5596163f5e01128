//! The responses that are kept: in memory, and in the store that gateways share where there is one.
//!
//! Not here: which response is kept under which key, and what a hit is (`engine`). No request waits for a write, and for a look-up only as long as
//! `lookup_timeout` while the shared store responds at all. A purge is in force here at once, and at the other gateways within a second (`redis`); a
//! gateway that cannot reach the shared store goes on with its memory, and catches up when it can.

use super::codec;
use super::compression;
use super::entry::{CacheKey, CachedResponse, Scope};
use super::memory::{Memory, Watcher};
use super::purge::{CacheError, Purge};
use super::redis::{self, Order};
use super::remote::Remote;
use super::store_metrics::{CacheStats, Dropped, Sources, StoreMetrics};
use super::write_queue::{Write, WriteQueue};
use jiff::Timestamp;
use prometheus::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;
use words::config::secret::Secret;

/// What [`ResponseStore::new`] needs.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Of the process's memory.
    pub max_bytes: u64,
    /// Of one body; larger ones are not kept.
    pub max_entry_bytes: u64,
    /// Redis or Valkey, for all gateways that name it. `None`: each keeps its own.
    pub url: Option<Secret>,
    /// How long a request waits for the shared store.
    pub lookup_timeout: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            max_entry_bytes: 4 << 20,
            url: None,
            lookup_timeout: Duration::from_millis(50),
        }
    }
}

/// The responses that are kept.
pub struct ResponseStore {
    sources: Sources,
    queue: Arc<WriteQueue>,
    max_entry_bytes: u64,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for ResponseStore {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped on another runtime, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for ResponseStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl ResponseStore {
    /// Begins with an empty memory. Does not check whether the shared store can be reached.
    ///
    /// # Errors
    /// The URL cannot be read, or the system has no thread left.
    pub fn new(options: &CacheOptions) -> Result<Self, CacheError> {
        // Connections live on a runtime of their own: requests come from several, and some of them end.
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("cache-store").enable_all().build();
        let runtime = runtime.map_err(|why| CacheError::Misconfigured(why.to_string()))?;
        let memory = Arc::new(Memory::new(options.max_bytes));
        let remote = match &options.url {
            Some(url) => {
                let _inside = runtime.enter();
                let remote = Remote::new(url.expose(), options.lookup_timeout);
                Some(Arc::new(remote.map_err(CacheError::Misconfigured)?))
            }
            None => None,
        };
        if let Some(remote) = &remote {
            runtime.spawn(Arc::clone(remote).follow(Arc::clone(&memory)));
        }
        let sources = Sources { memory, remote, dropped: Arc::default() };
        let queue = Arc::new(WriteQueue::default());
        runtime.spawn(write(sources.clone(), Arc::clone(&queue)));
        Ok(Self { sources, queue, max_entry_bytes: options.max_entry_bytes, runtime: Some(runtime) })
    }

    /// Sets the function that is called before each purge, also before those of other gateways. To be called once.
    pub fn on_removal(&self, watcher: Watcher) {
        self.sources.memory.watch(watcher);
    }

    /// Registers its metrics with those of the process.
    ///
    /// # Errors
    /// Metrics of these names are registered already, by another store.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(StoreMetrics::new(self.sources.clone())?))
    }

    /// The response that is kept under this key, unless it has expired or is of another scope. Does not wait where it is in memory, where
    /// there is no shared store, and while that does not respond.
    pub async fn get(&self, key: &CacheKey, scope: &Scope, now: Timestamp) -> Option<Arc<CachedResponse>> {
        if let Some(found) = self.sources.memory.get(key, scope, now) {
            return Some(found);
        }
        let remote = self.sources.remote.as_ref().filter(|remote| remote.is_up())?;
        let generation = self.sources.memory.generation();
        let shared = Arc::clone(remote);
        let name = redis::name(key, scope);
        let value = self.runtime.as_ref()?.spawn(async move { shared.get(&name).await }).await.ok()??;
        match codec::decode(&value, self.max_entry_bytes) {
            Ok((response, compressed)) => {
                let lifetime = lifetime(now, &response).filter(|_| response.scope == *scope)?;
                let response = Arc::new(response);
                self.sources.memory.fill(*key, &response, compressed, lifetime, generation);
                Some(response)
            }
            Err(why) => {
                remote.note_unreadable(why);
                None
            }
        }
    }

    /// As [`Self::get`], without looking into the shared store.
    pub fn in_memory(&self, key: &CacheKey, scope: &Scope, now: Timestamp) -> Option<Arc<CachedResponse>> {
        self.sources.memory.get(key, scope, now)
    }

    /// Whether there may be a response with this key: one is in memory, or there is a shared store, which is not read for this.
    pub fn may_have(&self, key: &CacheKey) -> bool {
        self.sources.remote.is_some() || self.sources.memory.has(key)
    }

    /// Keeps a response: in memory at once, in the shared store soon. Its body should not be a part of a larger buffer.
    pub fn put(&self, key: CacheKey, response: CachedResponse) {
        if response.body.len() as u64 > self.max_entry_bytes {
            self.sources.dropped.too_large.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Some(lifetime) = lifetime(response.stored_at, &response) else { return };
        let response = Arc::new(response);
        self.sources.memory.insert(key, Arc::clone(&response), lifetime);
        if self.sources.remote.is_some() || Memory::may_shrink(&response) {
            let position = self.sources.remote.as_ref().and_then(|remote| remote.position());
            self.push(Write::Put { key, response, position });
        }
    }

    /// Removes an entry, here at once and elsewhere soon.
    pub fn remove(&self, key: &CacheKey, scope: &Scope) {
        self.sources.memory.remove(key);
        if self.sources.remote.is_some() {
            self.push(Write::Remove { key: *key, scope: scope.clone() });
        }
    }

    fn push(&self, write: Write) {
        if !self.queue.push(write) && self.sources.remote.is_some() {
            self.sources.dropped.queue_full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes all entries of a purge. Returns how many there were.
    ///
    /// # Errors
    /// The shared store failed: the entries are removed here, and may be left there and at other gateways.
    pub async fn purge(&self, purge: Purge) -> Result<u64, CacheError> {
        let (Some(runtime), memory, remote) =
            (&self.runtime, Arc::clone(&self.sources.memory), self.sources.remote.clone())
        else {
            return Ok(0);
        };
        let done = runtime.spawn(async move {
            let purge = Arc::new([purge]);
            let memory = memory;
            let in_memory = async || {
                let purge = Arc::clone(&purge);
                let memory = Arc::clone(&memory);
                tokio::task::spawn_blocking(move || memory.purge(&*purge)).await.unwrap_or_default()
            };
            let counted = in_memory().await;
            let here = counted.len() as u64;
            let Some(remote) = remote else { return Ok(here) };
            let [only] = &*purge;
            let there = remote.purge(only, &counted).await;
            // Entries that were read from the shared store in the meantime.
            in_memory().await;
            Ok(here + there.map_err(CacheError::Unreachable)?)
        });
        done.await.unwrap_or_else(|why| Err(CacheError::Unreachable(why.to_string())))
    }

    /// Waits until all writes and removals were made or given up, at most this long. `false`: some still wait.
    pub async fn flush(&self, at_most: Duration) -> bool {
        self.queue.flush(at_most).await
    }

    /// Frees the memory of expired entries. Each use of the cache does that too, so this is for a process without requests.
    pub fn drop_expired(&self) {
        self.sources.memory.drop_expired();
    }

    pub fn stats(&self) -> CacheStats {
        self.sources.stats()
    }
}

/// How long the response is still to be kept. `None`: it has expired.
fn lifetime(now: Timestamp, response: &CachedResponse) -> Option<Duration> {
    let left = response.expires_at.duration_since(now);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// After a response was put: compresses it, and writes it to the shared store.
async fn write(sources: Sources, queue: Arc<WriteQueue>) {
    loop {
        let batch = queue.next().await;
        let memory = Arc::clone(&sources.memory);
        let is_shared = sources.remote.is_some();
        // Compressing takes too long for the thread of the connections: 1 ms for 400 KiB.
        let prepare =
            move || batch.into_iter().filter_map(|write| order(write, &memory, is_shared)).collect();
        let orders: Vec<Order> = tokio::task::spawn_blocking(prepare).await.unwrap_or_default();
        if let Some(remote) = sources.remote.as_deref().filter(|_| !orders.is_empty()) {
            send(remote, &orders, &sources.dropped).await;
        }
        queue.done();
    }
}

async fn send(remote: &Remote, orders: &[Order], dropped: &Dropped) {
    let count = |count: &AtomicU64, number: usize| count.fetch_add(number as u64, Ordering::Relaxed);
    if !remote.takes_writes() {
        count(&dropped.store_down, orders.len());
        return;
    }
    let Some(written) = remote.write(orders).await else {
        count(&dropped.failed, orders.len());
        return;
    };
    count(&dropped.failed, written.iter().filter(|written| written.is_err()).count());
    count(&dropped.purged, written.iter().filter(|written| matches!(written, Ok(false))).count());
}

/// Has the memory keep the response compressed where that pays, and makes of it what the shared store gets.
fn order(write: Write, memory: &Memory, is_shared: bool) -> Option<Order> {
    match write {
        Write::Remove { key, scope } => Some(Order::Remove { name: redis::name(&key, &scope), key }),
        Write::Put { key, response, position } => {
            let compressed = compression::compress(&response.body);
            if let Some(compressed) = &compressed {
                memory.shrink(key, &response, compressed);
            }
            let lifetime = lifetime(Timestamp::now(), &response).filter(|_| is_shared)?;
            let value = codec::encode(&response, compressed.as_deref())?;
            let position = position.map(|position| (*position).clone());
            Some(Order::Put { name: redis::name(&key, &response.scope), value, lifetime, position })
        }
    }
}
