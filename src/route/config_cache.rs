//! Compiled configs of the last requests, so that a hot request parses nothing.
//!
//! Keyed by every word of the request that a config is made from, and by the settings it was made under.
//! Bounded by weight; what nobody uses for ten minutes goes. Holds credentials as long as that.

use super::compile::{Sources, compile};
use super::compiled::CompiledConfig;
use crate::error::Error;
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
    /// What `sources` compile to, from memory where they were compiled before. `generation`: that of the settings
    /// among them.
    ///
    /// # Errors
    /// As [`compile`]. Failures are not remembered.
    pub fn find_or_compile(
        &self,
        sources: &Sources<'_>,
        generation: u64,
    ) -> Result<Arc<CompiledConfig>, Error> {
        let key = sources.key(generation);
        if let Some(config) = key.as_deref().and_then(|key| self.cache.get(key)) {
            return Ok(config);
        }
        let config = Arc::new(compile(sources)?);
        if let Some(key) = key {
            self.cache.insert(key, Arc::clone(&config));
        }
        Ok(config)
    }
}
