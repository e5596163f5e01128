//! The index against a full comparison, and its rules: partitions, removal, expiry, purge, the limit of bytes, many threads.

use super::registry::MAX_PASSED_OVER;
use super::segment::CAPACITY;
use super::sketch::{BITS, Sketcher};
use super::vector::UnitVector;
use super::{Nearest, Neighbour, SemanticIndex, VectorError};
use crate::cache::entry::{CacheKey, Scope};
use crate::cache::purge::Purge;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use pulp::Arch;
use std::collections::HashMap;
use std::f64::consts::PI;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

const ANN: Uuid = Uuid::from_u128(1);
const BOB: Uuid = Uuid::from_u128(2);
const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn later(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

fn key(number: usize) -> CacheKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    CacheKey(key)
}

fn partition(number: u8) -> [u8; 32] {
    [number; 32]
}

fn neighbour(number: usize, vector: &[f32]) -> Neighbour {
    Neighbour {
        partition: partition(0),
        key: key(number),
        scope: Scope { workspace: ANN, namespace: None },
        vector: vector.to_vec(),
        expires_at: later(60),
    }
}

fn filled(neighbours: impl IntoIterator<Item = Neighbour>) -> SemanticIndex {
    let index = SemanticIndex::new(u64::MAX);
    for neighbour in neighbours {
        index.insert(neighbour, NOW).unwrap();
    }
    index
}

fn found(index: &SemanticIndex, vector: &[f32]) -> Option<CacheKey> {
    index.nearest(&partition(0), vector, NOW).map(|nearest| nearest.key)
}

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5
    }

    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.next()).collect()
    }

    /// A vector near this one: its cosine is about 1 - noise² / 2.
    fn near(&mut self, vector: &[f32], noise: f32) -> Vec<f32> {
        vector.iter().map(|value| value + noise * self.next()).collect()
    }
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |left: &[f32], right: &[f32]| -> f64 {
        left.iter().zip(right).map(|(left, right)| f64::from(*left) * f64::from(*right)).sum()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

fn best_of_all(vectors: &[Vec<f32>], query: &[f32]) -> (usize, f64) {
    let cosines = vectors.iter().map(|vector| cosine(vector, query)).enumerate();
    cosines.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap()
}

#[test]
fn similarities_are_exact_to_a_ten_thousandth() {
    let mut numbers = Numbers(1);
    for dimensions in [1, 2, 3, 7, 32, 33, 384, 1000, 1536, 4096] {
        for outlier in [0.0, 1.0, 30.0] {
            let mut stored = numbers.vector(dimensions);
            stored[dimensions / 2] += outlier;
            let index = filled([neighbour(0, &stored)]);
            for noise in [0.0, 0.1, 1.0, 10.0] {
                let query = numbers.near(&stored, noise);
                let nearest = index.nearest(&partition(0), &query, NOW).unwrap();
                let error = (f64::from(nearest.similarity) - cosine(&stored, &query)).abs();
                assert!(error < 1e-4, "{dimensions} numbers, outlier {outlier}, noise {noise}: {error}");
            }
        }
    }
}

#[test]
fn the_length_of_a_vector_does_not_matter() {
    for factor in [1e-38, 1e-3, 1.0, 1e3, 1e38] {
        let stored: Vec<f32> = [1.0, 2.0, -1.0].map(|value| value * factor).to_vec();
        let index = filled([neighbour(0, &stored)]);
        let nearest = index.nearest(&partition(0), &[3.0, 6.0, -3.0], NOW).unwrap();
        assert!(nearest.similarity > 0.9999, "{factor}: {}", nearest.similarity);
    }
}

#[test]
fn the_opposite_of_a_vector_has_the_similarity_minus_one() {
    let index = filled([neighbour(0, &[1.0, 2.0])]);
    let nearest = index.nearest(&partition(0), &[-1.0, -2.0], NOW).unwrap();
    assert!((nearest.similarity + 1.0).abs() < 1e-4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small partitions are searched exactly, whatever is inserted, replaced and removed.
    #[test]
    fn a_small_index_finds_what_a_full_comparison_finds(
        dimensions in 1_usize..40,
        steps in prop::collection::vec((any::<bool>(), 0_usize..40, any::<u64>()), 1..120),
        seed: u64,
    ) {
        let index = SemanticIndex::new(u64::MAX);
        let mut model: HashMap<usize, Vec<f32>> = HashMap::new();
        for (inserts, number, seed) in steps {
            if inserts {
                let vector = Numbers(seed).vector(dimensions);
                index.insert(neighbour(number, &vector), NOW).unwrap();
                model.insert(number, vector);
            } else {
                prop_assert_eq!(index.remove(&key(number)), model.remove(&number).is_some());
            }
        }
        prop_assert_eq!(index.stats().entries, model.len() as u64);
        let query = Numbers(seed).vector(dimensions);
        let best = model.values().map(|vector| cosine(vector, &query)).max_by(f64::total_cmp);
        let nearest = index.nearest(&partition(0), &query, NOW);
        prop_assert_eq!(nearest.is_some(), best.is_some());
        if let (Some(Nearest { key: CacheKey(found), similarity, .. }), Some(best)) = (nearest, best) {
            prop_assert!((f64::from(similarity) - best).abs() < 1e-4);
            let number = usize::from_be_bytes(found[..8].try_into().unwrap());
            prop_assert!((cosine(&model[&number], &query) - best).abs() < 1e-4);
        }
    }
}

/// More than are compared exactly, in more than one segment. Recall among 100,000: `cargo bench --bench semantic`.
#[test]
fn among_thousands_the_nearest_is_found_by_its_sketch() {
    let mut numbers = Numbers(3);
    let topics: Vec<_> = (0..50).map(|_| numbers.vector(128)).collect();
    let vectors: Vec<_> =
        (0..CAPACITY + 500).map(|number| numbers.near(&topics[number % topics.len()], 0.6)).collect();
    let index = filled(vectors.iter().enumerate().map(|(number, vector)| neighbour(number, vector)));
    let mut right = 0;
    let queries = 50;
    for number in 0..queries {
        let query = numbers.near(&vectors[number * 30], 0.3);
        let (best, cosine) = best_of_all(&vectors, &query);
        let nearest = index.nearest(&partition(0), &query, NOW).unwrap();
        right += usize::from(nearest.key == key(best));
        assert!(f64::from(nearest.similarity) <= cosine + 1e-4);
    }
    assert!(right * 100 >= queries * 98, "{right} of {queries}");
}

/// Also where vectors are much unlike random ones: few numbers, few of them not zero, all of them positive.
#[test]
fn sketches_differ_in_proportion_to_the_angle() {
    let sketcher = Sketcher::new();
    let mut numbers = Numbers(9);
    for dimensions in [2, 3, 64, 1000, 1536, 4096] {
        for shift in [0.0, 1.0] {
            let left: Vec<f32> = numbers.vector(dimensions).iter().map(|value| value + shift).collect();
            let mut peak = vec![0.0; dimensions];
            peak[dimensions / 2] = 1.0;
            let opposite = left.iter().map(|value| -value).collect();
            for right in [numbers.near(&left, 0.5), numbers.near(&left, 2.0), peak, opposite] {
                let sketch = |vector: &[f32]| sketcher.sketch(Arch::new(), &UnitVector::new(vector).unwrap());
                let pairs = sketch(&left).into_iter().zip(sketch(&right));
                let bits = pairs.map(|(left, right)| (left ^ right).count_ones());
                let share = f64::from(bits.sum::<u32>()) / BITS as f64;
                let angle = cosine(&left, &right).clamp(-1.0, 1.0).acos() / PI;
                // Five standard deviations.
                assert!(
                    (share - angle).abs() < 0.11,
                    "{dimensions} numbers, shift {shift}: {share} for {angle}"
                );
            }
        }
    }
}

#[test]
fn no_answer_crosses_partitions_or_dimensions() {
    let vector = Numbers(4).vector(64);
    let index = filled([
        Neighbour { partition: partition(1), ..neighbour(1, &vector) },
        Neighbour { partition: partition(2), ..neighbour(2, &vector) },
        Neighbour { partition: partition(2), ..neighbour(3, &vector[..63]) },
    ]);
    let nearest =
        |number, vector: &[f32]| index.nearest(&partition(number), vector, NOW).map(|near| near.key);
    assert_eq!(nearest(0, &vector), None);
    assert_eq!(nearest(1, &vector), Some(key(1)));
    assert_eq!(nearest(2, &vector), Some(key(2)));
    assert_eq!(nearest(1, &vector[..63]), None);
    assert_eq!(nearest(2, &vector[..63]), Some(key(3)));
    assert_eq!(index.stats().partitions, 3);
}

#[test]
fn a_key_has_one_entry_the_last() {
    let index = filled([
        neighbour(1, &[1.0, 0.0]),
        Neighbour { partition: partition(9), ..neighbour(1, &[0.0, 1.0]) },
    ]);
    assert_eq!(found(&index, &[1.0, 0.0]), None);
    assert_eq!(index.nearest(&partition(9), &[0.0, 1.0], NOW).unwrap().key, key(1));
    assert_eq!((index.stats().entries, index.stats().partitions), (1, 1));
}

#[test]
fn vectors_without_a_direction_are_refused_with_the_reason() {
    let index = SemanticIndex::new(1_000_000);
    let refusal = |vector: &[f32]| index.insert(neighbour(1, vector), NOW).unwrap_err();
    assert_eq!(refusal(&[]), VectorError::Length(0));
    assert_eq!(refusal(&[0.1; 4097]).to_string(), "a vector has 1 to 4096 numbers, this one has 4097");
    assert_eq!(refusal(&[0.0, -0.0]), VectorError::Zero);
    assert_eq!(refusal(&[0.0, f32::NAN]), VectorError::NotFinite(1));
    assert_eq!(refusal(&[f32::INFINITY, 1.0]), VectorError::NotFinite(0));
    assert_eq!(index.stats().entries, 0);
    index.insert(neighbour(1, &[1.0, 1.0]), NOW).unwrap();
    for query in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[], &[1.0]] {
        assert_eq!(found(&index, query), None);
    }
    let small = SemanticIndex::new(1_000);
    let error = small.insert(neighbour(1, &[0.1; 1536]), NOW).unwrap_err();
    assert!(matches!(error, VectorError::TooLarge { bytes: 3_000.., max_bytes: 1_000 }), "{error:?}");
}

#[test]
fn what_was_removed_is_found_no_more_and_takes_no_memory() {
    let mut numbers = Numbers(5);
    let vectors: Vec<_> = (0..2 * CAPACITY + 100).map(|_| numbers.vector(32)).collect();
    let index = filled(vectors.iter().enumerate().map(|(number, vector)| neighbour(number, vector)));
    let full = index.stats().bytes;
    for number in (0..vectors.len()).step_by(2) {
        assert!(index.remove(&key(number)));
        assert!(!index.remove(&key(number)));
    }
    for (number, vector) in vectors.iter().enumerate() {
        assert_eq!(found(&index, vector) == Some(key(number)), number % 2 == 1, "{number}");
    }
    assert!(index.stats().bytes < full * 2 / 3);
    for number in (1..vectors.len()).step_by(2) {
        assert!(index.remove(&key(number)));
    }
    let stats = index.stats();
    assert_eq!((stats.entries, stats.bytes, stats.partitions), (0, 0, 0));
}

#[test]
fn an_expired_entry_is_not_found_and_makes_room() {
    let index = filled([
        Neighbour { expires_at: later(10), ..neighbour(1, &[1.0, 0.0]) },
        Neighbour { expires_at: later(30), ..neighbour(2, &[1.0, 0.1]) },
    ]);
    let at = |seconds| index.nearest(&partition(0), &[1.0, 0.0], later(seconds)).map(|nearest| nearest.key);
    assert_eq!(at(9), Some(key(1)));
    assert_eq!(at(10), Some(key(2)));
    assert_eq!(at(30), None);
    index.insert(Neighbour { expires_at: later(60), ..neighbour(3, &[0.0, 1.0]) }, later(20)).unwrap();
    assert_eq!(index.stats().entries, 2);
    assert!(!index.remove(&key(1)));
}

#[test]
fn all_that_has_expired_or_lost_its_response_is_dropped() {
    let mut numbers = Numbers(9);
    let count = 3 * CAPACITY;
    // A third expires.
    let index = filled((0..count).map(|number| Neighbour {
        expires_at: later(if number % 3 == 0 { 10 } else { 60 }),
        ..neighbour(number, &numbers.vector(8))
    }));
    index.drop_expired(later(9));
    assert_eq!(index.stats().entries, count as u64);
    let full = index.stats().bytes;
    index.drop_expired(later(10));
    assert_eq!(index.stats().entries, 2 * CAPACITY as u64);
    assert!(index.stats().bytes < full);
    // Half of the rest has no response; each call looks at a part.
    let is_gone = |wanted: &CacheKey| (0..count).step_by(2).any(|number| key(number) == *wanted);
    index.drop_gone(is_gone);
    assert!((CAPACITY as u64..2 * CAPACITY as u64).contains(&index.stats().entries));
    index.drop_gone(is_gone);
    index.drop_gone(is_gone);
    assert_eq!(index.stats().entries, CAPACITY as u64);
    assert!(index.remove(&key(1)) && !index.remove(&key(2)) && !index.remove(&key(3)));
    // It begins again behind the end.
    for _ in 0..3 {
        index.drop_gone(|_| true);
    }
    let stats = index.stats();
    assert_eq!((stats.entries, stats.bytes, stats.partitions), (0, 0, 0));
}

/// More than have their similarity computed.
#[test]
fn expired_entries_hide_no_other() {
    let mut numbers = Numbers(10);
    let query = numbers.vector(64);
    let expired = (0..400).map(|_| numbers.near(&query, 0.1)).enumerate();
    let mut all: Vec<_> = expired
        .map(|(number, vector)| Neighbour { expires_at: later(1), ..neighbour(number, &vector) })
        .collect();
    all.push(neighbour(1_000, &Numbers(11).near(&query, 0.5)));
    let index = filled(all);
    assert_eq!(index.nearest(&partition(0), &query, later(1)).unwrap().key, key(1_000));
}

#[test]
fn a_purge_removes_what_belongs_to_it_and_nothing_else() {
    let namespaces: [Option<Arc<str>>; 3] = [None, Some("red".into()), Some("blue".into())];
    let number_of =
        |workspace: usize, namespace: usize, number: usize| workspace * 10_000 + namespace * 1_000 + number;
    let all = || {
        let mut numbers = Numbers(6);
        let mut all = Vec::new();
        for (workspace, id) in [ANN, BOB].into_iter().enumerate() {
            for (namespace, name) in namespaces.iter().enumerate() {
                for number in 0..400 {
                    let scope = Scope { workspace: id, namespace: name.clone() };
                    let vector = numbers.vector(8);
                    all.push(Neighbour {
                        scope,
                        ..neighbour(number_of(workspace, namespace, number), &vector)
                    });
                }
            }
        }
        filled(all)
    };
    let red = Purge::Namespace { workspace: BOB, namespace: "red".into() };
    for (what, removed) in [
        (red, 400),
        (Purge::Workspace(ANN), 1200),
        (Purge::All, 2400),
        (Purge::Key(key(5)), 1),
        (Purge::OwnKey { workspace: ANN, key: key(5) }, 1),
        (Purge::OwnKey { workspace: BOB, key: key(5) }, 0),
    ] {
        let index = all();
        assert_eq!(index.purge(&what), removed, "{what:?}");
        assert_eq!(index.purge(&what), 0, "{what:?}");
        assert_eq!(index.stats().entries, 2400 - removed);
        let remains = |workspace, namespace| index.remove(&key(number_of(workspace, namespace, 5)));
        match what {
            Purge::Key(_) => assert!(!remains(0, 0) && remains(0, 1) && remains(1, 0)),
            Purge::OwnKey { .. } => assert_eq!(remains(0, 0), removed == 0),
            Purge::Namespace { .. } => {
                assert!(!remains(1, 1) && remains(1, 0) && remains(1, 2) && remains(0, 1));
            }
            Purge::Workspace(_) => assert!(!remains(0, 0) && !remains(0, 2) && remains(1, 0)),
            Purge::All => assert_eq!(index.stats().bytes, 0),
        }
    }
}

#[test]
fn bytes_stay_below_the_limit_and_the_oldest_goes_first() {
    let max_bytes = 400_000;
    let index = SemanticIndex::new(max_bytes);
    let mut numbers = Numbers(7);
    let vectors: Vec<_> = (0..1_000).map(|_| numbers.vector(128)).collect();
    for (number, vector) in vectors.iter().enumerate() {
        // In many partitions, and in few: what a partition takes counts.
        let partition = partition((number % 5) as u8 * (number % 50) as u8);
        index.insert(Neighbour { partition, ..neighbour(number, vector) }, NOW).unwrap();
        assert!(index.stats().bytes <= max_bytes, "{:?}", index.stats());
    }
    let left = index.stats().entries as usize;
    assert!((300..900).contains(&left), "{left}");
    for number in 0..1_000 {
        assert_eq!(index.remove(&key(number)), number >= 1_000 - left, "{number} of {left}");
    }
}

#[test]
fn an_entry_that_was_a_hit_outlives_those_that_were_not() {
    let vectors: Vec<_> = (0..600).map(|number| Numbers(number).vector(128)).collect();
    let index = SemanticIndex::new(60_000);
    for (number, vector) in vectors.iter().enumerate() {
        index.insert(neighbour(number, vector), NOW).unwrap();
        index.nearest(&partition(0), &vectors[0], NOW).unwrap().mark_used();
    }
    assert_eq!(found(&index, &vectors[0]), Some(key(0)));
    assert_ne!(found(&index, &vectors[1]), Some(key(1)));
    // Once it is used no more, it goes like the others.
    for (number, vector) in vectors.iter().enumerate().skip(1) {
        index.insert(neighbour(number, vector), NOW).unwrap();
    }
    assert_ne!(found(&index, &vectors[0]), Some(key(0)));
}

/// An insertion passes over so many used entries that it stays short, and then evicts one that was used.
#[test]
fn eviction_ends_where_every_entry_was_a_hit() {
    let vectors: Vec<_> = (0..200).map(|number| Numbers(number).vector(32)).collect();
    let size =
        filled(vectors.iter().enumerate().map(|(number, vector)| neighbour(number, vector))).stats().bytes;
    let index = SemanticIndex::new(size);
    for (number, vector) in vectors.iter().enumerate() {
        index.insert(neighbour(number, vector), NOW).unwrap();
        index.nearest(&partition(0), vector, NOW).unwrap().mark_used();
    }
    assert_eq!(index.stats().entries, 200);
    index.insert(neighbour(1_000, &Numbers(1_000).vector(384)), NOW).unwrap();
    assert!(index.stats().bytes <= size);
    let lost: Vec<_> = (0..200).filter(|number| !index.remove(&key(*number))).collect();
    assert_eq!(lost, (MAX_PASSED_OVER..MAX_PASSED_OVER + lost.len()).collect::<Vec<_>>());
    assert!((1..10).contains(&lost.len()), "{lost:?}");
    assert!(index.remove(&key(1_000)));
}

/// What a search returns while others insert, remove and purge is an entry of its partition, with its own similarity.
#[test]
fn searches_are_right_while_others_change_the_index() {
    let mut numbers = Numbers(8);
    let vectors: Vec<Vec<_>> = (0..4).map(|_| (0..1_000).map(|_| numbers.vector(48)).collect()).collect();
    let index = SemanticIndex::new(1_000_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for (number, vectors) in vectors.iter().enumerate() {
            let index = &index;
            writers.push(scope.spawn(move || {
                for (position, vector) in vectors.iter().enumerate() {
                    let partition = partition(number as u8 % 2);
                    let neighbour = Neighbour { partition, ..neighbour(number * 10_000 + position, vector) };
                    index.insert(neighbour, NOW).unwrap();
                    if position % 3 == 0 {
                        index.remove(&key(number * 10_000 + position / 2));
                    }
                    if position == 800 && number == 0 {
                        index.purge(&Purge::Workspace(BOB));
                    }
                }
            }));
        }
        for reader in 0..2_u8 {
            let index = &index;
            let vectors = &vectors;
            let is_over = &is_over;
            scope.spawn(move || {
                let mut numbers = Numbers(u64::from(reader));
                while !is_over.load(Ordering::Relaxed) {
                    let query = numbers.vector(48);
                    let Some(nearest) = index.nearest(&partition(reader), &query, NOW) else { continue };
                    let number = usize::from_be_bytes(nearest.key.0[..8].try_into().unwrap());
                    let owner = number / 10_000;
                    let position = number % 10_000;
                    assert_eq!(owner % 2, usize::from(reader));
                    let error = cosine(&vectors[owner][position], &query) - f64::from(nearest.similarity);
                    assert!(error.abs() < 1e-4);
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = index.stats();
    assert!(stats.entries > 500 && stats.bytes <= 1_000_000, "{stats:?}");
    assert_eq!(index.purge(&Purge::All), stats.entries);
    assert_eq!((index.stats().entries, index.stats().bytes, index.stats().partitions), (0, 0, 0));
}
