//! Vectors to measure with: stored ones in three shapes, and queries near them. Not embeddings of a model: their geometry.

use fastrand::Rng;

/// How the stored vectors lie to each other.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// As of questions: 1,000 topics, 20 questions in each, 5 wordings of each. Cosine 0.90 between wordings, 0.55 in a
    /// topic, 0.20 between topics.
    Clustered,
    /// As of one long template with small changes: cosine 0.90 between any two.
    Template,
    /// Independent directions: cosine about 0 between any two. The hard case for an index that walks from neighbour to neighbour.
    Uniform,
}

/// `count` unit vectors of `dimensions`, one after the other.
pub(crate) fn stored(shape: Shape, count: usize, dimensions: usize) -> Vec<f32> {
    let mut random = Rng::with_seed(17);
    let mean = direction(&mut random, dimensions);
    let topics: Vec<_> = (0..1_000).map(|_| direction(&mut random, dimensions)).collect();
    let mut question = Vec::new();
    let mut vectors = Vec::with_capacity(count * dimensions);
    for index in 0..count {
        let own = direction(&mut random, dimensions);
        if index % 5 == 0 {
            question = direction(&mut random, dimensions);
        }
        let Some(topic) = topics.get(index / 100 % 1_000) else { continue };
        let parts: &[(f32, &[f32])] = match shape {
            Shape::Clustered => &[(0.20, &mean), (0.35, topic), (0.35, &question), (0.10, &own)],
            Shape::Template => &[(0.90, &mean), (0.10, &own)],
            Shape::Uniform => &[(1.0, &own)],
        };
        vectors.extend(normalised(sum(parts, dimensions)));
    }
    vectors
}

/// A vector at `cosine` from the unit vector `near`.
pub(crate) fn query(near: &[f32], cosine: f32, random: &mut Rng) -> Vec<f32> {
    let noise = direction(random, near.len());
    let along: f32 = noise.iter().zip(near).map(|(noise, near)| noise * near).sum();
    let across = normalised(noise.iter().zip(near).map(|(noise, near)| noise - along * near).collect());
    sum(&[(cosine * cosine, near), (1.0 - cosine * cosine, &across)], near.len())
}

/// A random direction.
pub(crate) fn direction(random: &mut Rng, dimensions: usize) -> Vec<f32> {
    normalised((0..dimensions).map(|_| normal(random)).collect())
}

/// Parts with their share of the squared length.
fn sum(parts: &[(f32, &[f32])], dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0; dimensions];
    for (share, part) in parts {
        let factor = share.sqrt();
        sum.iter_mut().zip(*part).for_each(|(sum, value)| *sum += factor * value);
    }
    sum
}

fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

/// Normally distributed, near enough: a sum of eight uniform numbers of 16 bits.
fn normal(random: &mut Rng) -> f32 {
    let (a, b) = (random.u64(..), random.u64(..));
    let sum: u64 = (0..4).map(|part| ((a >> (part * 16)) & 0xffff) + ((b >> (part * 16)) & 0xffff)).sum();
    sum as f32 - 4.0 * 65_535.0
}
