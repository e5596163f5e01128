//! The cache of responses: what an entry is, what its key is made of, where entries are kept, and which texts mean the same.
//!
//! | File | For |
//! |---|---|
//! | [`entry`] | a response as its provider sent it |
//! | [`key`] | all that decides a response, as a digest |
//! | [`store`] | what the engine uses: entries in memory, and in the store that gateways share |
//! | [`memory`], [`compression`] | entries in the process, bounded by bytes; bodies in a smaller form |
//! | [`remote`], [`redis`], [`codec`] | the shared store as this gateway uses it; its commands; entries as bytes |
//! | [`circuit`], [`write_queue`] | when the shared store is left alone; writes that no request waits for |
//! | [`semantic`] | the nearest vector among requests that differ in their text alone |
//! | [`purge`] | what is removed on an operator's request |
//! | [`store_metrics`] | what is counted |
//!
//! Not here: which requests are cached, and how a request takes part (`engine::caching`).

mod circuit;
mod codec;
mod compression;
mod entry;
mod key;
mod memory;
mod purge;
mod redis;
mod remote;
mod semantic;
mod store;
mod store_metrics;
mod write_queue;

pub use entry::{CacheKey, CachedResponse, Scope};
pub use key::{KeyParts, TargetDigest, is_neutral};
pub use purge::{CacheError, Purge};
pub use semantic::{IndexStats, Nearest, Neighbour, SemanticIndex, VectorError};
pub use store::{CacheOptions, ResponseStore};
pub use store_metrics::CacheStats;

#[cfg(test)]
mod tests;
