//! `cargo bench --bench semantic`: look-ups among 100,000 entries of 1,536 numbers in one partition, their recall against a full
//! comparison, insertions, and memory an entry. Arguments: how many entries, and the shape's name.
//!
//! Not here: the embedding that a look-up needs first, and the gateway as a whole (`load`).

mod vectors;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use memory::cache::{CacheKey, Neighbour, Scope, SemanticIndex};
use std::io::Write as _;
use std::time::{Duration, Instant};
use uuid::Uuid;
use vectors::Shape;

const DIMENSIONS: usize = 1536;
const QUERIES: usize = 1_000;
/// Of them, how many are compared with all vectors.
const COMPARED: usize = 300;
const PARTITION: [u8; 32] = [7; 32];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let count = wanted.iter().find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let shapes =
        [("clustered", Shape::Clustered), ("template", Shape::Template), ("uniform", Shape::Uniform)];
    print(
        "| vectors | queries | p50 | p99 | max | recall at 1 | largest error of a similarity |\n|---|---|---:|---:|---:|---:|---:|",
    );
    for (name, shape) in shapes {
        if wanted.iter().any(|argument| argument.parse::<usize>().is_err())
            && !wanted.iter().any(|argument| argument == name)
        {
            continue;
        }
        let vectors = vectors::stored(shape, count, DIMENSIONS);
        let index = filled(&vectors);
        let mut random = Rng::with_seed(5);
        let near: Vec<Vec<f32>> = (0..QUERIES)
            .filter_map(|_| {
                let position = random.usize(..count);
                let stored = vectors.chunks_exact(DIMENSIONS).nth(position)?;
                let cosine = 0.93 + 0.06 * random.f32();
                Some(vectors::query(stored, cosine, &mut random))
            })
            .collect();
        look_up(&index, &vectors, &near, &format!("{count} {name} | near one, cosine 0.93 to 0.99"));
        let far: Vec<_> = (0..QUERIES).map(|_| vectors::direction(&mut random, DIMENSIONS)).collect();
        look_up(
            &index,
            &vectors,
            &far,
            &format!("{count} {name} | near none: similarity below 0.3, no answer for anybody"),
        );
        while_inserting(&index, &vectors, &near, name);
    }
}

/// Look-ups while another thread replaces up to 1,000 entries a second.
fn while_inserting(index: &SemanticIndex, vectors: &[f32], queries: &[Vec<f32>], name: &str) {
    let now = Timestamp::now();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (position, vector) in vectors.chunks_exact(DIMENSIONS).enumerate().cycle() {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                if let Err(error) = index.insert(neighbour(position, vector, now), now) {
                    print(&error.to_string());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut times: Vec<Duration> = queries.iter().map(|query| timed(index, query, now).0).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        times.sort_unstable();
        print(&format!(
            "| {name} | near one, while another thread replaces entries | {} | | |",
            percentiles(&times)
        ));
    });
}

fn look_up(index: &SemanticIndex, vectors: &[f32], queries: &[Vec<f32>], name: &str) {
    let now = Timestamp::now();
    let (mut times, mut found) = (Vec::new(), Vec::new());
    for query in queries {
        let (time, nearest) = timed(index, query, now);
        times.push(time);
        found.push(nearest);
    }
    times.sort_unstable();
    let best = best_of_all(vectors, queries.get(..COMPARED).unwrap_or(queries));
    let (mut right, mut error) = (0, 0.0_f32);
    for ((key, similarity), (position, cosine)) in found.iter().zip(&best) {
        if *key == Some(key_of(*position)) {
            right += 1;
            error = error.max((similarity - cosine).abs());
        }
    }
    let recall = f64::from(right) / best.len() as f64;
    print(&format!("| {name} | {} | {recall:.3} | {error:.6} |", percentiles(&times)));
}

fn timed(index: &SemanticIndex, query: &[f32], now: Timestamp) -> (Duration, (Option<CacheKey>, f32)) {
    let start = Instant::now();
    let nearest = index.nearest(&PARTITION, query, now);
    let time = start.elapsed();
    (time, nearest.map_or((None, 0.0), |nearest| (Some(nearest.key), nearest.similarity)))
}

fn percentiles(sorted: &[Duration]) -> String {
    let at = |share: f64| {
        let position = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(position).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("{:.2} ms | {:.2} ms | {:.2} ms", at(0.5), at(0.99), at(1.0))
}

/// An index with all of them, as in the row that it prints.
fn filled(vectors: &[f32]) -> SemanticIndex {
    let now = Timestamp::now();
    let index = SemanticIndex::new(u64::MAX);
    let (before, start) = (resident_bytes(), Instant::now());
    let mut times = Vec::new();
    for (position, vector) in vectors.chunks_exact(DIMENSIONS).enumerate() {
        let neighbour = neighbour(position, vector, now);
        let start = Instant::now();
        if let Err(error) = index.insert(neighbour, now) {
            print(&format!("{position}: {error}"));
        }
        times.push(start.elapsed());
    }
    let (rate, resident) =
        (times.len() as f64 / start.elapsed().as_secs_f64(), resident_bytes().saturating_sub(before));
    times.sort_unstable();
    let entries = index.stats().entries.max(1);
    print(&format!(
        "| {entries} insertions, {rate:.0} a second; an entry takes {} bytes as counted, {} of resident memory | | {} | | |",
        index.stats().bytes / entries,
        resident / entries,
        percentiles(&times)
    ));
    index
}

fn neighbour(position: usize, vector: &[f32], now: Timestamp) -> Neighbour {
    Neighbour {
        partition: PARTITION,
        key: key_of(position),
        scope: Scope { workspace: Uuid::nil(), namespace: None },
        vector: vector.to_vec(),
        expires_at: now + SignedDuration::from_hours(1),
    }
}

fn key_of(position: usize) -> CacheKey {
    // As a digest: its first bytes are no order.
    let mut key = [0; 32];
    let mixed = (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key.iter_mut().zip(mixed.to_le_bytes()).for_each(|(byte, mixed)| *byte = mixed);
    CacheKey(key)
}

/// For each query the position of the nearest vector and their cosine, by comparison with all.
fn best_of_all(vectors: &[f32], queries: &[Vec<f32>]) -> Vec<(usize, f32)> {
    let mut best = vec![(usize::MAX, f32::NEG_INFINITY); queries.len()];
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            for (position, vector) in vectors.chunks_exact(DIMENSIONS).enumerate() {
                for (best, query) in best.iter_mut().zip(queries) {
                    let cosine = dot(vector, query);
                    if cosine > best.1 {
                        *best = (position, cosine);
                    }
                }
            }
        },
    );
    best
}

#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 32];
    for (left, right) in left.as_chunks::<32>().0.iter().zip(right.as_chunks::<32>().0) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    sums.iter().sum()
}

/// Of this process. 0 where the system does not say.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn print(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
