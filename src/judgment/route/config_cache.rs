//! A cache of compiled configs, so that repeated requests do not parse their config again.
//!
//! The key is every value of the request that a config is compiled from, and the generation of the settings.
//! Bounded by weight; an entry unused for a minute is dropped, also while no request comes ([`ConfigCache::drop_expired`]).
//! Entries hold credentials for as long as they live.

use super::compile::{Sources, compile};
use super::compiled::CompiledConfig;
use foldhash::quality::RandomState;
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;
use words::error::Error;

/// Capacity in bytes, by the estimate of the weigher below; an inline config is part of its key.
const MAX_BYTES: u64 = 16 << 20;
/// Approximate bytes of one target, in addition to the key.
const TARGET_BYTES: usize = 2048;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The cache of compiled configs.
#[derive(Debug, Clone)]
pub struct ConfigCache {
    cache: Cache<String, Arc<CompiledConfig>, RandomState>,
}

impl Default for ConfigCache {
    fn default() -> Self {
        Self::with_idle_timeout(IDLE_TIMEOUT)
    }
}

impl ConfigCache {
    fn with_idle_timeout(idle_timeout: Duration) -> Self {
        let cache = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|key: &String, config: &Arc<CompiledConfig>| {
                let bytes = key.len() + TARGET_BYTES * config.targets().len() + config.patterns().bytes;
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .time_to_idle(idle_timeout)
            .build_with_hasher(RandomState::default());
        Self { cache }
    }

    /// Drops the entries whose time is over; otherwise only the next uses of the cache do.
    pub fn drop_expired(&self) {
        self.cache.run_pending_tasks();
    }

    /// The compiled config that was kept under this key ([`Sources::key`]).
    pub fn find(&self, key: Option<&str>) -> Option<Arc<CompiledConfig>> {
        key.and_then(|key| self.cache.get(key))
    }

    /// Compiles the config of `sources` and keeps it under `key`, if there is one.
    ///
    /// # Errors
    /// As [`compile`]. Failures are not kept.
    pub fn compile(&self, sources: &Sources<'_>, key: Option<String>) -> Result<Arc<CompiledConfig>, Error> {
        let config = Arc::new(compile(sources)?);
        if let Some(key) = key {
            self.cache.insert(key, Arc::clone(&config));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::{target, with_sources};

    #[test]
    fn an_unused_config_is_dropped_while_no_request_comes() {
        for (idle_timeout, is_dropped) in [(Duration::ZERO, true), (IDLE_TIMEOUT, false)] {
            let cache = ConfigCache::with_idle_timeout(idle_timeout);
            let compile = |sources: &Sources<'_>| cache.compile(sources, Some("key".to_owned())).unwrap();
            let config = Arc::downgrade(&with_sources(&target(""), compile));
            assert_eq!(config.strong_count(), 1, "the cache keeps it");
            // What is removed is freed when no thread, of any test, can be reading the cache any more.
            let ended = (0..1_000_000).any(|turn| {
                cache.drop_expired();
                std::thread::yield_now();
                config.strong_count() == 0 || turn > 1000 && !is_dropped
            });
            assert!(ended, "{idle_timeout:?}");
            assert_eq!(config.strong_count() == 0, is_dropped, "{idle_timeout:?}");
        }
    }
}
