//! The entries of the index: as they are added, as they are stored, and as a search returns them. Not how they are found.

use super::vector::StoredVector;
use crate::cache::entry::{CacheKey, Scope};
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A response that can be found by its question.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// A digest of everything that the response depends on except the user's text. A search finds entries of its own partition only.
    pub partition: [u8; 32],
    /// The response's key in the response store.
    pub key: CacheKey,
    pub scope: Scope,
    /// The text's embedding, of 1 to 4,096 numbers and any length.
    pub vector: Vec<f32>,
    pub expires_at: Timestamp,
}

/// A stored neighbour.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: CacheKey,
    pub(super) scope: Scope,
    pub(super) vector: StoredVector,
    /// Milliseconds since 1970.
    pub(super) expires_at: i64,
    /// Whether it was a hit since eviction last looked at it.
    pub(super) used: AtomicBool,
}

impl Entry {
    /// Its memory in bytes, with the counters of its `Arc`.
    pub(super) fn bytes(&self) -> u64 {
        let namespace = self.scope.namespace.as_ref().map_or(0, |namespace| namespace.len());
        (size_of::<Self>() + 2 * size_of::<usize>() + namespace) as u64 + self.vector.bytes()
    }
}

/// The entry that lies nearest to a query.
#[derive(Debug, Clone)]
pub struct Nearest {
    pub key: CacheKey,
    /// Cosine similarity, -1 to 1.
    pub similarity: f32,
    entry: Arc<Entry>,
}

impl Nearest {
    pub(super) fn new(entry: &Arc<Entry>, similarity: f32) -> Self {
        Self { key: entry.key, similarity, entry: Arc::clone(entry) }
    }

    /// For a search that ended as a hit: eviction passes the entry over once. Without it the oldest entry goes first.
    pub fn mark_used(&self) {
        self.entry.used.store(true, Ordering::Relaxed);
    }
}
