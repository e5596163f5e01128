//! All limits of a set, each at a place of its own: by its place a limit is found without comparing anything.
//!
//! In chunks that are shared with the set before, so that a change copies one of them. A place that was freed is used again.

use super::limit::Limit;
use std::sync::Arc;

/// Limits of a chunk.
const CHUNK: usize = 256;

type Chunk = Vec<Option<Arc<Limit>>>;

#[derive(Debug, Clone, Default)]
pub(super) struct AllLimits {
    chunks: Vec<Arc<Chunk>>,
    /// The places without a limit, in all chunks.
    free: Vec<u32>,
}

impl AllLimits {
    /// The limit at a place.
    pub(super) fn get(&self, place: u32) -> Option<&Arc<Limit>> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)?.as_ref()
    }

    /// Adds a limit, and returns its place.
    pub(super) fn add(&mut self, limit: Arc<Limit>) -> u32 {
        if self.free.is_empty() {
            // More than 4 billion limits do not fit into memory.
            let first = u32::try_from(self.chunks.len() * CHUNK).unwrap_or(u32::MAX);
            self.free.extend((first..first.saturating_add(CHUNK as u32)).rev());
            self.chunks.push(Arc::new(vec![None; CHUNK]));
        }
        let place = self.free.pop().unwrap_or(u32::MAX);
        self.set(place, Some(limit));
        place
    }

    /// Removes the limit at a place.
    pub(super) fn remove(&mut self, place: u32) {
        self.set(place, None);
        self.free.push(place);
    }

    fn set(&mut self, place: u32, limit: Option<Arc<Limit>>) {
        let place = place as usize;
        let chunk = self.chunks.get_mut(place / CHUNK).map(Arc::make_mut);
        if let Some(slot) = chunk.and_then(|chunk| chunk.get_mut(place % CHUNK)) {
            *slot = limit;
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Limit>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten())
    }
}
