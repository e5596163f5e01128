//! Opens the cache of responses, as the settings say.
//!
//! Not what is cached (`engine::caching`).

use memory::cache::{CacheOptions, ResponseStore, SemanticIndex};
use memory::state::Shared;
use motion::engine::caching::Caching;
use std::sync::Arc;

/// The cache, and the index of texts.
pub fn open(shared: &Shared) -> Result<Arc<Caching>, String> {
    let snapshot = shared.settings_arc();
    let settings = &snapshot.settings.cache;
    let options = CacheOptions {
        max_bytes: settings.max_bytes,
        max_entry_bytes: settings.max_entry_bytes,
        url: settings.url.clone(),
        lookup_timeout: settings.timeout,
    };
    let store = ResponseStore::new(&options).map_err(|why| why.to_string())?;
    store.register(shared.metrics.registry()).map_err(|why| format!("metrics: {why}"))?;
    // A reload may add `semantic_cache`. An index without texts takes no memory.
    let max_bytes = snapshot.settings.semantic_cache.as_ref().map_or(0, |semantic| semantic.max_bytes);
    let index = SemanticIndex::new(max_bytes);
    Ok(Arc::new(Caching::new(Arc::new(store), index)))
}
