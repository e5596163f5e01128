//! Gives memory back while no request runs: entries of caches whose time is over, and what the allocator keeps.
//!
//! The caches drop expired entries only when they are used. jemalloc gives back what has been free for ten seconds, but it looks only once in a thousand allocations: a process
//! without requests would keep what the last burst took. Nor does a thread without allocations give back what its own cache
//! holds, so the threads of the data port look too. Its own background thread is no way out: with it, free memory
//! of large bodies is given back late, and a burst takes three times as much. Decides nothing about how much is kept.

use async_trait::async_trait;
use jiff::Timestamp;
use judgment::route::config_cache::ConfigCache;
use memory::limits::Limits;
use memory::state::Shared;
use motion::engine::caching::Caching;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// How often expired entries are dropped and the allocator gets to look.
const INTERVAL: Duration = Duration::from_secs(1);
/// Seconds from one look at the buckets of limits to the next: there may be a million.
const LIMITS_EVERY: u32 = 60;
/// Seconds from one look for limits that are no more to the next. The first comes when the process has its records.
const GONE_EVERY: u32 = 3600;
const FIRST_GONE: u32 = 60;
/// After how many allocations and frees it looks for sure.
const ALLOCATIONS: usize = 1200;
/// The same on a thread of the data port, where a request may just come: a tenth of a millisecond. Once in twenty, the cache
/// gives back what one of its size classes has not used; after half a minute little is left in any.
const DATA_ALLOCATIONS: usize = 240;
/// Bytes of such an allocation, more than a thread's cache takes. They are never touched, so they take no memory.
const ALLOCATION_BYTES: usize = 96 << 10;

/// Drops expired entries of all caches every second, and makes the allocator look at its free memory while no request runs;
/// half a millisecond of work, and a tenth of one for each thread of the data port.
pub struct MemoryReturner {
    pub shared: Arc<Shared>,
    pub config_cache: ConfigCache,
    pub limits: Arc<Limits>,
    pub caching: Arc<Caching>,
}

#[async_trait]
impl BackgroundService for MemoryReturner {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for second in 0_u32.. {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            self.shared.drop_expired(Instant::now());
            self.config_cache.drop_expired();
            let semantic = &self.shared.settings().settings.semantic_cache;
            self.caching.drop_expired(Timestamp::now(), semantic.as_ref());
            if second % LIMITS_EVERY == 0 {
                self.limits.drop_expired(Timestamp::now());
            }
            // Without a store nothing is gone: it is just not there.
            if second % GONE_EVERY == FIRST_GONE && self.shared.store().is_some() {
                self.limits.drop_gone(&self.shared.settings());
            }
            if self.shared.lifecycle.in_flight() == 0 {
                allocate(ALLOCATIONS);
                self.shared.data_runtimes.on_threads(|| allocate(DATA_ALLOCATIONS));
            }
        }
    }
}

/// Allocates and frees `count` times: the allocator gives back what has been free for long, and what the cache of this thread
/// has not used lately.
fn allocate(count: usize) {
    for _ in 0..count {
        drop(black_box(Vec::<u8>::with_capacity(ALLOCATION_BYTES)));
    }
}
