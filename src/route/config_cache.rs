//! Compiled configs of the last requests, so that a hot request parses nothing.
//!
//! Keyed by every word of the request that a config is made from, and by the settings it was made under.
//! Bounded by weight; what nobody uses for ten minutes goes. Holds credentials as long as that.

use super::compiled::CompiledConfig;
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of keys kept (an inline config is its own key).
const MAX_BYTES: u64 = 16 << 20;
/// What a target weighs beside the key, roughly.
const TARGET_BYTES: usize = 2048;
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// The memory of compiled configs.
#[derive(Debug, Clone)]
pub struct ConfigCache {
    cache: Cache<String, Arc<CompiledConfig>>,
}

impl Default for ConfigCache {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|key: &String, config: &Arc<CompiledConfig>| {
                let bytes = key.len() + TARGET_BYTES * config.targets().len() + config.pattern_bytes();
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .time_to_idle(IDLE_TIMEOUT)
            .build();
        Self { cache }
    }
}

impl ConfigCache {
    pub fn get(&self, key: &str) -> Option<Arc<CompiledConfig>> {
        self.cache.get(key)
    }

    pub fn insert(&self, key: String, config: &Arc<CompiledConfig>) {
        self.cache.insert(key, Arc::clone(config));
    }
}
