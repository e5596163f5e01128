//! Sketches: 512 bits that keep the angles between vectors, roughly. Not the vectors, and not where sketches are stored.
//!
//! A bit says on which side of a plane a vector lies. Two vectors at an angle of x degrees differ in x/180 of the bits of
//! random planes, with a standard deviation of up to 0.022 (SimHash: Charikar 2002). The planes are made by turning the vector
//! at random and taking the signs of its coordinates. To turn it, flip signs at random and apply the Walsh-Hadamard transform,
//! three times: that needs no matrix, and n log n additions (Andoni and others 2015). The flips are the same in every process.

use super::vector::{MAX_DIMENSIONS, UnitVector};
use pulp::Arch;
use std::f32::consts::PI;

/// 512 bits. With 1,024 a search reads twice as much memory, which is most of its time in a large partition.
pub(super) const WIDTH: usize = 8;
pub(super) const BITS: usize = WIDTH * 64;
/// One turn mixes pairs of coordinates only; after three, the planes are as good as independent.
const TURNS: usize = 3;

pub(super) type Sketch = [u64; WIDTH];

/// The random turning that all sketches of an index share.
#[derive(Debug)]
pub(super) struct Sketcher {
    /// +1 and -1, for each turn as many as the widest vector needs.
    flips: Vec<Vec<f32>>,
}

impl Sketcher {
    pub(super) fn new() -> Self {
        let mut state = 0;
        let mut flips = || if split_mix(&mut state) & 1 == 0 { 1.0 } else { -1.0 };
        Self { flips: (0..TURNS).map(|_| (0..MAX_DIMENSIONS).map(|_| flips()).collect()).collect() }
    }

    pub(super) fn sketch(&self, arch: Arch, vector: &UnitVector) -> Sketch {
        let padded = vector.values().len().max(BITS).next_power_of_two();
        let mut values = Vec::with_capacity(padded);
        values.extend_from_slice(vector.values());
        values.resize(padded, 0.0);
        arch.dispatch(
            #[inline(always)]
            || {
                for flips in &self.flips {
                    values.iter_mut().zip(flips).for_each(|(value, flip)| *value *= flip);
                    transform(&mut values);
                }
            },
        );
        let mut sketch = [0; WIDTH];
        for (word, values) in sketch.iter_mut().zip(values.chunks_exact(64)) {
            *word = values.iter().fold(0, |bits, value| bits << 1 | u64::from(value.is_sign_negative()));
        }
        sketch
    }
}

/// In how many bits the sketches of two vectors of this similarity differ at most: five standard deviations more than expected,
/// which one pair in three million exceeds.
pub(super) fn plausible_distance(similarity: f32) -> i16 {
    let bits = BITS as f32;
    let share = similarity.acos() / PI;
    (bits * share + 5.0 * (bits * share * (1.0 - share)).sqrt()).ceil() as i16
}

/// The Walsh-Hadamard transform in place, unscaled: signs do not depend on the scale.
#[inline(always)]
fn transform(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for block in values.chunks_exact_mut(half * 2) {
            let (left, right) = block.split_at_mut(half);
            for (left, right) in left.iter_mut().zip(right) {
                (*left, *right) = (*left + *right, *left - *right);
            }
        }
        half *= 2;
    }
}

/// SplitMix64 (Steele and others 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
