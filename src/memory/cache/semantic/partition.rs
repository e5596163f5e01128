//! A partition: the entries whose responses may serve each other's requests, as a list of segments. It is changed only under the
//! registry's lock.

use super::candidates::Candidates;
use super::neighbour::{Entry, Nearest};
use super::segment::Segment;
use super::sketch::{Sketch, plausible_distance};
use super::vector::UnitVector;
use arc_swap::ArcSwap;
use pulp::Arch;
use std::sync::Arc;

/// How many candidates have their similarity computed in any case.
const ALWAYS_COMPUTED: usize = 64;
/// Below this similarity the nearest entry of a large partition may be missed. Thresholds are higher.
const RELIABLE_FROM: f32 = 0.7;

/// The digest, and the length of the vectors: vectors of different lengths cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartitionKey {
    pub(super) digest: [u8; 32],
    pub(super) dimensions: u16,
}

/// Searches read the list without a lock; it is replaced when a segment is added or removed, once in up to 1,024 entries.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) key: PartitionKey,
    segments: ArcSwap<Vec<Arc<Segment>>>,
}

impl Partition {
    pub(super) fn new(key: PartitionKey) -> Self {
        Self { key, segments: ArcSwap::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.load().is_empty()
    }

    pub(super) fn nearest(
        &self,
        arch: Arch,
        query: &UnitVector,
        sketch: &Sketch,
        now: i64,
    ) -> Option<Nearest> {
        let segments = self.segments.load_full();
        let mut candidates = Candidates::new();
        for segment in segments.iter() {
            segment.scan(arch, sketch, now, &mut candidates);
            candidates.next_segment();
        }
        let mut nearest: Option<Nearest> = None;
        let mut max_distance = plausible_distance(RELIABLE_FROM);
        for (number, candidate) in candidates.into_sorted().enumerate() {
            if number >= ALWAYS_COMPUTED && candidate.distance > max_distance {
                break;
            }
            let Some(segment) = segments.get(candidate.segment) else { continue };
            let better = segment.read(candidate.position, |entry| {
                let similarity = entry.vector.similarity(arch, query);
                let is_better = nearest.as_ref().is_none_or(|best| similarity > best.similarity);
                // The scan has checked it, but another entry may have taken the place since.
                (entry.expires_at > now && is_better).then(|| Nearest::new(entry, similarity))
            });
            if let Some(better) = better.flatten() {
                max_distance = max_distance.min(plausible_distance(better.similarity));
                nearest = Some(better);
            }
        }
        nearest
    }

    /// The segment that the next entry goes to; a new one where all are full. For one thread at a time.
    pub(super) fn open_segment(&self) -> Arc<Segment> {
        let segments = self.segments.load_full();
        if let Some(open) = segments.iter().rev().find(|segment| !segment.is_full()) {
            return Arc::clone(open);
        }
        let added = Arc::new(Segment::default());
        self.segments.store(Arc::new(segments.iter().cloned().chain([Arc::clone(&added)]).collect()));
        added
    }

    /// For one thread at a time.
    pub(super) fn remove(&self, segment: &Arc<Segment>, entry: &Arc<Entry>) {
        segment.remove(entry);
        if segment.is_empty() {
            let rest =
                self.segments.load().iter().filter(|other| !Arc::ptr_eq(other, segment)).cloned().collect();
            self.segments.store(Arc::new(rest));
        }
    }
}
