//! Vectors: checked and of length one, and the form in which they are stored. Not the sketches.

use pulp::Arch;
use std::fmt;

/// The most numbers of a vector. The models of 2026 give up to 4,096.
pub(super) const MAX_DIMENSIONS: usize = 4096;
/// How many sums are added up at once, so that they fit the widest registers.
const LANES: usize = 32;

/// Why a vector, or its entry, was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorError {
    /// No numbers, or more than 4,096.
    Length(usize),
    /// The number at this index is infinite or not a number.
    NotFinite(usize),
    /// All numbers are zero: it has no direction.
    Zero,
    /// The entry alone is larger than the index may be.
    TooLarge { bytes: u64, max_bytes: u64 },
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => {
                write!(f, "a vector has 1 to {MAX_DIMENSIONS} numbers, this one has {length}")
            }
            Self::NotFinite(index) => write!(f, "the vector's number at index {index} is not finite"),
            Self::Zero => f.write_str("the vector's numbers are all zero, so it has no direction"),
            Self::TooLarge { bytes, max_bytes } => {
                write!(f, "the entry takes {bytes} bytes, and the semantic index has {max_bytes} in all")
            }
        }
    }
}

impl std::error::Error for VectorError {}

/// A vector of length one.
#[derive(Debug)]
pub(super) struct UnitVector(Vec<f32>);

impl UnitVector {
    pub(super) fn new(vector: &[f32]) -> Result<Self, VectorError> {
        if vector.is_empty() || vector.len() > MAX_DIMENSIONS {
            return Err(VectorError::Length(vector.len()));
        }
        if let Some(index) = vector.iter().position(|value| !value.is_finite()) {
            return Err(VectorError::NotFinite(index));
        }
        // In f64: squares of large and small numbers of an f32 do not fit one.
        let length = vector.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
        if length == 0.0 {
            return Err(VectorError::Zero);
        }
        Ok(Self(vector.iter().map(|value| (f64::from(*value) / length) as f32).collect()))
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.0
    }

    pub(super) fn dimensions(&self) -> u16 {
        // Checked by `new`: at most 4,096.
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }
}

/// A vector in whole numbers of 16 bits: half the memory of `f32`, and similarities within 0.0001 of the exact ones (0.000002
/// at 1,536 numbers). Eight bits would take half of that again. But where few of a vector's numbers are large, as several
/// models have it, they shift a similarity by 0.002 and more, and whether it reaches a threshold with it.
#[derive(Debug)]
pub(super) struct StoredVector {
    parts: Box<[i16]>,
    /// Makes the length of `parts` one.
    scale: f32,
}

impl StoredVector {
    pub(super) fn new(arch: Arch, vector: &UnitVector) -> Self {
        let mut parts = vec![0; vector.values().len()].into_boxed_slice();
        let square = arch.dispatch(
            #[inline(always)]
            || fill(&mut parts, vector.values()),
        );
        Self { parts, scale: (1.0 / square.sqrt()) as f32 }
    }

    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.parts) as u64
    }

    /// The cosine of the angle between the two, which have the same number of dimensions.
    pub(super) fn similarity(&self, arch: Arch, query: &UnitVector) -> f32 {
        let product = arch.dispatch(
            #[inline(always)]
            || dot(query.values(), &self.parts),
        );
        (product * self.scale).clamp(-1.0, 1.0)
    }
}

/// Sets the parts so that the largest has the largest number. Returns the square of their length.
#[inline(always)]
fn fill(parts: &mut [i16], values: &[f32]) -> f64 {
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let factor = f32::from(i16::MAX) / largest;
    let mut square = 0.0;
    for (part, value) in parts.iter_mut().zip(values) {
        *part = (value * factor).round_ties_even() as i16;
        square += f64::from(*part) * f64::from(*part);
    }
    square
}

#[inline(always)]
fn dot(query: &[f32], parts: &[i16]) -> f32 {
    let (query_blocks, query_rest) = query.as_chunks::<LANES>();
    let (part_blocks, part_rest) = parts.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (query, parts) in query_blocks.iter().zip(part_blocks) {
        for ((sum, value), part) in sums.iter_mut().zip(query).zip(parts) {
            *sum += value * f32::from(*part);
        }
    }
    let rest: f32 = query_rest.iter().zip(part_rest).map(|(value, part)| value * f32::from(*part)).sum();
    sums.iter().sum::<f32>() + rest
}
