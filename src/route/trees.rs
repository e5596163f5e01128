//! Compiled configs of the last requests, so that a hot request parses nothing.
//!
//! Keyed by every word of the request that a config is made from, and by the settings it was made under.
//! Bounded by weight; what nobody uses for ten minutes goes. Holds credentials as long as that.

use super::tree::Tree;
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of keys kept (an inline config is its own key).
const MOST_BYTES: u64 = 16 << 20;
/// What a target weighs beside the key, roughly.
const TREE_BYTES: usize = 2048;
const UNUSED: Duration = Duration::from_secs(600);

/// The memory of compiled configs.
#[derive(Debug, Clone)]
pub struct Trees {
    cache: Cache<String, Arc<Tree>>,
}

impl Default for Trees {
    fn default() -> Self {
        let cache = Cache::builder()
            .max_capacity(MOST_BYTES)
            .weigher(|key: &String, tree: &Arc<Tree>| {
                let bytes = key.len() + TREE_BYTES * tree.leaves().len() + tree.pattern_bytes();
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .time_to_idle(UNUSED)
            .build();
        Self { cache }
    }
}

impl Trees {
    pub fn find(&self, key: &str) -> Option<Arc<Tree>> {
        self.cache.get(key)
    }

    pub fn keep(&self, key: String, tree: &Arc<Tree>) {
        self.cache.insert(key, Arc::clone(tree));
    }
}
