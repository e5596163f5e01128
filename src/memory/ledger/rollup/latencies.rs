//! How long requests took, so that percentiles of many hours can be merged: the buckets of a DDSketch (crate `sketches-ddsketch`).
//!
//! A percentile is within half a per cent of the value at its rank. The crate maps values to buckets and reads percentiles; at rest only the buckets
//! that are in use are kept, because most cells have few requests.

use super::bytes::{Damaged, Reader, put_number};
use sketches_ddsketch::{Config, DDSketch};
use std::sync::LazyLock;

/// Relative distance of a percentile from the exact one, at most.
const ACCURACY: f64 = 0.005;
/// The shortest latency, in milliseconds; shorter ones, such as those of the cache, are counted as this one.
const SHORTEST: f64 = 0.01;
/// The longest latency, in milliseconds (eleven days); longer ones are counted as this one.
const LONGEST: f64 = 1e9;
/// A bound on the number of buckets from the shortest to the longest latency.
const MAX_BUCKETS: u32 = 4096;

/// So many times fewer buckets are added one by one, more are joined in one pass.
const FEW: usize = 16;

static CONFIG: LazyLock<Config> = LazyLock::new(|| Config::new(ACCURACY, MAX_BUCKETS, SHORTEST / 10.0));
static FIRST_KEY: LazyLock<i32> = LazyLock::new(|| CONFIG.key(SHORTEST));

/// The bucket of a latency in microseconds.
fn bucket(latency: u64) -> u16 {
    let key = CONFIG.key((latency as f64 / 1000.0).clamp(SHORTEST, LONGEST)) - *FIRST_KEY;
    u16::try_from(key).unwrap_or(0)
}

/// The latencies of one cell: its buckets in order, with their counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    buckets: Vec<(u16, u64)>,
}

impl Latencies {
    /// Adds a latency in microseconds.
    pub fn add(&mut self, latency: u64) {
        self.add_count(bucket(latency), 1);
    }

    fn add_count(&mut self, bucket: u16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => {
                if let Some((_, present)) = self.buckets.get_mut(at) {
                    *present = present.saturating_add(count);
                }
            }
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    pub fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else if other.buckets.len() * FEW < self.buckets.len() {
            other.buckets.iter().for_each(|(bucket, count)| self.add_count(*bucket, *count));
        } else {
            self.buckets = joined(&self.buckets, &other.buckets);
        }
    }

    /// Appends its bytes, with their number before them so that a reader can pass over them.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.buckets.len() * 3);
        let mut previous = 0;
        for (bucket, count) in &self.buckets {
            put_number(&mut bytes, u64::from(bucket - previous));
            put_number(&mut bytes, *count);
            previous = *bucket;
        }
        put_number(out, bytes.len() as u64);
        out.extend_from_slice(&bytes);
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut latencies = Self::default();
        each_bucket(bytes, |bucket, count| latencies.buckets.push((bucket, count)))?;
        Ok(latencies)
    }
}

/// Both, in order.
fn joined(one: &[(u16, u64)], other: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let mut ones = one.iter().copied().peekable();
    for (bucket, count) in other.iter().copied() {
        while let Some(before) = ones.next_if(|(first, _)| *first < bucket) {
            all.push(before);
        }
        let same = ones.next_if(|(first, _)| *first == bucket).map_or(0, |(_, count)| count);
        all.push((bucket, count.saturating_add(same)));
    }
    all.extend(ones);
    all
}

fn each_bucket(bytes: &[u8], mut visit: impl FnMut(u16, u64)) -> Result<(), Damaged> {
    let mut reader = Reader::new(bytes);
    let mut bucket = 0_u64;
    while !reader.is_empty() {
        bucket = bucket.saturating_add(reader.number()?);
        let bucket = u16::try_from(bucket).ok().filter(|bucket| u32::from(*bucket) < MAX_BUCKETS);
        visit(bucket.ok_or(Damaged)?, reader.number()?);
    }
    Ok(())
}

/// The latencies of many cells, merged: a counter for each bucket between the first and the last one in use.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    first: usize,
    counts: Vec<u64>,
}

impl Distribution {
    /// Adds a latency in microseconds.
    pub fn add(&mut self, latency: u64) {
        self.add_count(bucket(latency), 1);
    }

    fn add_count(&mut self, bucket: u16, count: u64) {
        let bucket = usize::from(bucket);
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let before = std::iter::repeat_n(0, self.first - bucket);
            self.counts.splice(0..0, before);
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(present) = self.counts.get_mut(at) {
            *present = present.saturating_add(count);
        }
    }

    /// Adds latencies as `Latencies::put` has written them, without their length.
    pub(crate) fn add_encoded(&mut self, bytes: &[u8]) -> Result<(), Damaged> {
        each_bucket(bytes, |bucket, count| self.add_count(bucket, count))
    }

    pub fn merge(&mut self, other: &Self) {
        for (at, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bucket = u16::try_from(other.first + at).unwrap_or(u16::MAX);
            self.add_count(bucket, *count);
        }
    }

    /// Memory in bytes.
    pub fn size(&self) -> usize {
        self.counts.len() * size_of::<u64>()
    }

    /// The latencies in milliseconds at these quantiles (0 to 1). `None` without a request.
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [Option<f64>; N] {
        let mut sketch = DDSketch::new(*CONFIG);
        for (at, count) in self.counts.iter().enumerate() {
            let key = i32::try_from(self.first + at).unwrap_or(0) + *FIRST_KEY;
            sketch.add_with_count(CONFIG.value(key), *count);
        }
        quantiles.map(|quantile| sketch.quantile(quantile).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value at the rank that the sketch looks for.
    fn exact(sorted: &[f64], quantile: f64) -> f64 {
        sorted[(quantile * (sorted.len() as f64 - 1.0)) as usize]
    }

    #[test]
    fn percentiles_of_merged_cells_are_within_one_per_cent() {
        let mut random = fastrand::Rng::with_seed(7);
        for requests in [1, 2, 10, 1000, 20_000] {
            let mut merged = Distribution::default();
            let mut all = Vec::new();
            for _ in 0..10 {
                let mut cell = Latencies::default();
                for _ in 0..requests {
                    let latency = (random.f64() * 18.0 + 3.0).exp() as u64;
                    cell.add(latency);
                    all.push(latency as f64 / 1000.0);
                }
                let mut bytes = Vec::new();
                cell.put(&mut bytes);
                let bytes = Reader::new(&bytes).bytes().unwrap();
                assert_eq!(Latencies::read(bytes).unwrap(), cell);
                merged.add_encoded(bytes).unwrap();
            }
            all.sort_by(f64::total_cmp);
            let quantiles = [0.5, 0.9, 0.95, 0.99];
            for (quantile, found) in quantiles.into_iter().zip(merged.quantiles(quantiles)) {
                let found = found.unwrap();
                let exact = exact(&all, quantile);
                assert!((found - exact).abs() <= exact * 0.0051, "{requests}: {found} for {exact}");
            }
        }
    }

    #[test]
    fn what_is_out_of_range_is_counted_at_the_end() {
        let mut cell = Latencies::default();
        [0, 1, u64::MAX, 1 << 60].into_iter().for_each(|latency| cell.add(latency));
        assert_eq!(cell.buckets.len(), 2, "{cell:?}");
        assert_eq!(Distribution::default().quantiles([0.5]), [None]);
    }
}
