//! How much output requests of a key to a model have: the estimate for the next ones, once twenty were counted.
//!
//! Bounded: a table of slots, each for the key and model that used it last. Numbers are rounded up to a fifth; old ones fade.

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use std::hash::BuildHasher as _;

const SLOTS: usize = 4096;
/// Samples before the estimate is used.
const MIN_SAMPLES: u32 = 20;
/// Samples after which all counts are halved.
const MAX_SAMPLES: u32 = 1_000;
/// Numbers from one power of two to the next have four bins.
const BINS: usize = 128;

/// What was counted.
#[derive(Debug)]
pub(super) struct LearntOutput {
    hasher: RandomState,
    slots: Box<[Mutex<Option<Box<Slot>>>]>,
}

#[derive(Debug)]
struct Slot {
    /// Which key and model.
    tag: u64,
    total: u32,
    /// Samples of other keys that came to this slot since the last one of its own.
    others: u32,
    bins: [u16; BINS],
}

impl Default for LearntOutput {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Self { hasher: RandomState::default(), slots }
    }
}

impl LearntOutput {
    fn slot(&self, key: &str, model: &str) -> Option<(u64, &Mutex<Option<Box<Slot>>>)> {
        let tag = self.hasher.hash_one((key, model));
        let index = usize::try_from(tag % SLOTS as u64).ok()?;
        Some((tag, self.slots.get(index)?))
    }

    /// Counts the output of one choice of a finished response.
    pub(super) fn note(&self, key: &str, model: &str, output: u64) {
        let Some((tag, slot)) = self.slot(key, model) else { return };
        let mut slot = slot.lock();
        if let Some(slot) = slot.as_mut().filter(|slot| slot.tag != tag) {
            slot.others += 1;
            // Two that share a slot do not take it from each other all the time.
            if slot.others < slot.total {
                return;
            }
            **slot = Slot::new(tag);
        }
        slot.get_or_insert_with(|| Box::new(Slot::new(tag))).add(output);
    }

    /// The output that 95 % of the samples do not exceed. `None`: there are too few samples.
    pub(super) fn p95(&self, key: &str, model: &str) -> Option<u64> {
        let (tag, slot) = self.slot(key, model)?;
        let slot = slot.lock();
        slot.as_ref().filter(|slot| slot.tag == tag && slot.total >= MIN_SAMPLES)?.p95()
    }
}

impl Slot {
    fn new(tag: u64) -> Self {
        Self { tag, total: 0, others: 0, bins: [0; BINS] }
    }

    fn add(&mut self, output: u64) {
        self.others = 0;
        if self.total >= MAX_SAMPLES {
            self.bins.iter_mut().for_each(|count| *count /= 2);
            self.total = self.bins.iter().map(|count| u32::from(*count)).sum();
        }
        if let Some(count) = self.bins.get_mut(bin(output)) {
            *count += 1;
            self.total += 1;
        }
    }

    fn p95(&self) -> Option<u64> {
        let wanted = (self.total * 19).div_ceil(20);
        let mut so_far = 0;
        let place = self.bins.iter().position(|count| {
            so_far += u32::from(*count);
            so_far >= wanted
        });
        place.map(upper)
    }
}

/// 0 to 3 have bins of their own; beyond, the highest bit and the two after it.
fn bin(output: u64) -> usize {
    if output < 4 {
        return usize::try_from(output).unwrap_or(0);
    }
    let highest = 63 - output.leading_zeros();
    let next_two = (output >> (highest - 2)) & 3;
    let index = u64::from(highest - 1) * 4 + next_two;
    usize::try_from(index).unwrap_or(BINS).min(BINS - 1)
}

/// The largest number of a bin.
fn upper(bin: usize) -> u64 {
    let bin = u64::try_from(bin).unwrap_or(0);
    if bin < 4 {
        return bin;
    }
    let shift = bin / 4 - 1;
    ((4 + bin % 4 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_a_fifth_wide_and_adjoin() {
        for output in (0..100_000).chain([1 << 20, (1 << 30) + 5]) {
            let most = upper(bin(output));
            assert!(most >= output && most <= output + output / 4 + 1, "{output}: {most}");
            assert_eq!(bin(most), bin(output));
            assert_eq!(bin(most + 1), bin(output) + 1);
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn the_estimate_follows_what_is_counted() {
        let learnt = LearntOutput::default();
        (0..19).for_each(|_| learnt.note("k", "m", 100));
        assert_eq!((learnt.p95("k", "m"), learnt.p95("k", "n")), (None, None));
        learnt.note("k", "m", 100);
        assert_eq!(learnt.p95("k", "m"), Some(111));
        learnt.note("k", "m", 4_000);
        assert_eq!(learnt.p95("k", "m"), Some(111), "one in twenty-one");
        (0..5).for_each(|_| learnt.note("k", "m", 4_000));
        assert_eq!(learnt.p95("k", "m"), Some(4_095));
        // Old ones fade.
        (0..20_000).for_each(|_| learnt.note("k", "m", 8));
        assert_eq!(learnt.p95("k", "m"), Some(9));
    }

    #[test]
    fn any_number_of_keys_takes_a_bounded_table() {
        let learnt = LearntOutput::default();
        (0..25).for_each(|_| learnt.note("k", "m", 8));
        for key in 0..3 * SLOTS {
            learnt.note(&key.to_string(), "m", 1_000);
        }
        // Few others came to its slot.
        assert_eq!(learnt.p95("k", "m"), Some(9));
        for key in 0..100 * SLOTS {
            learnt.note(&key.to_string(), "m", 1_000);
        }
        assert_eq!(learnt.p95("k", "m"), None);
    }
}
