//! The entries whose sketches differ least from a query's, by their places. Not the entries, and not their similarity.

use super::segment::CAPACITY;
use std::collections::BinaryHeap;

/// The most entries whose exact similarity is computed, in up to 1 µs each, because the whole vector is read. So many are needed only
/// where very many entries are almost equal, as with one long template with small changes.
const CANDIDATES: usize = 256;

#[derive(Debug)]
pub(super) struct Candidates {
    /// Distance, number of the segment, position in it. The greatest distance is on top.
    heap: BinaryHeap<(i16, u32, u16)>,
    /// Number of the segment whose positions are offered.
    segment: u32,
    /// Only smaller distances are taken.
    bound: i16,
}

impl Candidates {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), segment: 0, bound: i16::MAX }
    }

    pub(super) fn bound(&self) -> i16 {
        self.bound
    }

    /// The positions that are offered from now on are in the next segment.
    pub(super) fn next_segment(&mut self) {
        self.segment += 1;
    }

    pub(super) fn offer(&mut self, distance: i16, position: usize) {
        // Below 1,024: `CAPACITY`.
        let candidate = (distance, self.segment, position as u16);
        if self.heap.len() < CANDIDATES {
            self.heap.push(candidate);
        } else if let Some(mut top) = self.heap.peek_mut() {
            *top = candidate;
        }
        if self.heap.len() >= CANDIDATES {
            self.bound = self.heap.peek().map_or(i16::MAX, |(distance, ..)| *distance);
        }
    }

    /// Those that differ least come first.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = Candidate> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted.map(|(distance, segment, position)| Candidate {
            distance,
            segment: segment as usize,
            position: usize::from(position),
        })
    }
}

/// Where an entry was when its segment was scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) distance: i16,
    /// Number of the segment.
    pub(super) segment: usize,
    pub(super) position: usize,
}

const _: () = assert!(CAPACITY <= u16::MAX as usize);
