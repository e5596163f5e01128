//! A segment: up to 1,024 entries of a partition, whose sketches lie one after the other. Not which segment an entry goes to.
//!
//! Its lock is held for one scan (5 µs when full) or for one change (1 µs): neither waits long for the other.

use super::candidates::Candidates;
use super::neighbour::Entry;
use super::sketch::{Sketch, WIDTH};
use parking_lot::RwLock;
use pulp::Arch;
use std::sync::Arc;

/// The most entries of a segment.
pub(super) const CAPACITY: usize = 1024;
/// Sketches in a block.
const LANES: usize = 8;
/// What an entry takes in the segment except for its sketch.
const ROW_BYTES: usize = size_of::<i64>() + size_of::<Arc<Entry>>();

/// Eight sketches, word by word: first word of all, second word of all, so that eight distances are added up at once.
type Block = [[u64; LANES]; WIDTH];

#[derive(Debug, Default)]
pub(super) struct Segment {
    rows: RwLock<Rows>,
}

/// The same entry has the same position in each.
#[derive(Debug, Default)]
struct Rows {
    blocks: Vec<Block>,
    /// Milliseconds since 1970. Beside the sketches, so that a scan need not look into the entries.
    expires_at: Vec<i64>,
    entries: Vec<Arc<Entry>>,
}

impl Segment {
    /// What the smallest one takes of memory, without its entries.
    pub(super) const MIN_BYTES: usize = size_of::<Self>() + size_of::<Block>() + LANES * ROW_BYTES;

    pub(super) fn is_full(&self) -> bool {
        self.rows.read().entries.len() >= CAPACITY
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.read().entries.is_empty()
    }

    /// What it takes of memory, without its entries.
    pub(super) fn bytes(&self) -> u64 {
        let rows = self.rows.read();
        let blocks = rows.blocks.capacity() * size_of::<Block>();
        (size_of::<Self>() + blocks + rows.entries.capacity() * ROW_BYTES) as u64
    }

    pub(super) fn push(&self, sketch: &Sketch, entry: Arc<Entry>) {
        self.rows.write().push(sketch, entry);
    }

    /// Does nothing when the entry is not here.
    pub(super) fn remove(&self, entry: &Arc<Entry>) {
        self.rows.write().remove(entry);
    }

    /// Offers the positions of entries that have not expired at `now` (milliseconds since 1970) to the candidates.
    pub(super) fn scan(&self, arch: Arch, query: &Sketch, now: i64, candidates: &mut Candidates) {
        let mut distances = [[0; LANES]; CAPACITY / LANES];
        let rows = self.rows.read();
        arch.dispatch(
            #[inline(always)]
            || measure(&rows.blocks, query, &mut distances),
        );
        let blocks = distances.iter().zip(rows.expires_at.chunks(LANES)).enumerate();
        for (block, (distances, expires_at)) in blocks {
            // Most blocks have none, and are passed with one comparison of all.
            let bound = candidates.bound();
            if !distances.iter().fold(false, |any, distance| any | (*distance < bound)) {
                continue;
            }
            for (lane, (distance, expires_at)) in distances.iter().zip(expires_at).enumerate() {
                if *distance < candidates.bound() && *expires_at > now {
                    candidates.offer(*distance, block * LANES + lane);
                }
            }
        }
    }

    /// Calls `read` with the entry at this position. After other changes it may be another than a scan saw, or none.
    pub(super) fn read<T>(&self, position: usize, read: impl FnOnce(&Arc<Entry>) -> T) -> Option<T> {
        self.rows.read().entries.get(position).map(read)
    }
}

impl Rows {
    fn push(&mut self, sketch: &Sketch, entry: Arc<Entry>) {
        let position = self.entries.len();
        if position == self.blocks.len() * LANES {
            if self.blocks.len() == self.blocks.capacity() {
                self.resize((self.blocks.len() * 2).max(1));
            }
            self.blocks.push([[0; LANES]; WIDTH]);
        }
        self.expires_at.push(entry.expires_at);
        self.entries.push(entry);
        self.set(position, sketch);
    }

    fn remove(&mut self, entry: &Arc<Entry>) {
        let Some(position) = self.entries.iter().position(|here| Arc::ptr_eq(here, entry)) else { return };
        // The last one takes its place.
        let sketch = self.sketch(self.entries.len() - 1);
        self.set(position, &sketch);
        self.expires_at.swap_remove(position);
        self.entries.swap_remove(position);
        self.blocks.truncate(self.entries.len().div_ceil(LANES));
        if self.blocks.len() * 4 <= self.blocks.capacity() {
            self.resize(self.blocks.len() * 2);
        }
    }

    /// Makes room for exactly this many blocks, at least those that there are.
    fn resize(&mut self, blocks: usize) {
        let more = blocks.saturating_sub(self.blocks.len());
        self.blocks.reserve_exact(more);
        self.blocks.shrink_to(blocks);
        self.expires_at.reserve_exact(more * LANES);
        self.expires_at.shrink_to(blocks * LANES);
        self.entries.reserve_exact(more * LANES);
        self.entries.shrink_to(blocks * LANES);
    }

    fn sketch(&self, position: usize) -> Sketch {
        let mut sketch = [0; WIDTH];
        if let Some(block) = self.blocks.get(position / LANES) {
            for (word, lanes) in sketch.iter_mut().zip(block) {
                *word = lanes.get(position % LANES).copied().unwrap_or_default();
            }
        }
        sketch
    }

    fn set(&mut self, position: usize, sketch: &Sketch) {
        let Some(block) = self.blocks.get_mut(position / LANES) else { return };
        for (word, lanes) in sketch.iter().zip(block) {
            if let Some(lane) = lanes.get_mut(position % LANES) {
                *lane = *word;
            }
        }
    }
}

/// In how many bits each sketch differs from the query.
#[inline(always)]
fn measure(blocks: &[Block], query: &Sketch, distances: &mut [[i16; LANES]]) {
    for (block, distances) in blocks.iter().zip(distances) {
        let mut sums = [0_u64; LANES];
        for (lanes, word) in block.iter().zip(query) {
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                *sum += u64::from((lane ^ word).count_ones());
            }
        }
        for (distance, sum) in distances.iter_mut().zip(sums) {
            *distance = sum as i16;
        }
    }
}
