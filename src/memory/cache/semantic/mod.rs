//! The semantic index: which stored response answers the question that lies nearest to this one.
//!
//! It holds vectors and the keys of their responses. It makes no vectors, holds no responses, and does not decide which similarity is
//! a hit: the caller compares the similarity with its threshold.
//!
//! # How it searches
//!
//! Each entry has a sketch of 512 bits (`sketch.rs`): the share of bits in which two sketches differ is the angle between
//! their vectors, within a few degrees. A search compares its sketch with all of its partition, which reads 64 bytes an entry, one after
//! the other, and then computes the cosine similarity of the entries whose sketches differ least: the first 64, and up to 256
//! as long as one of them can be nearer than the best so far. A partition of up to 64 entries is so searched exactly. In a
//! larger one, a nearest entry with a similarity below 0.7 may be missed for another one.
//!
//! # Why it is no graph (HNSW)
//!
//! - A cache replaces its entries all the time. The kept crates cannot remove (`hnsw_rs`: all links around a removed point would
//!   have to be made again), are built once and take no more entries (`instant-distance`), or keep their index on a disk
//!   (`arroy`) or behind an interface for databases (`diskann`).
//! - A graph finds its way only where neighbours lead to neighbours. Measured with `hnsw_rs` 0.3.5 (16 links, 100 candidates while
//!   building), 20,000 vectors of 1,536 numbers, queries at a cosine of 0.93 to 0.99 from one of them, on a busy machine: where any
//!   two vectors have a cosine of 0.90, as with one long template, recall at 1 is 0.66 with 32 candidates (1.2 ms) and 0.94 with
//!   256 (5.9 ms). It adds 310 to 470 entries a second, of 8.2 KB each.
//! - This index has recall 1.000 there, among clustered and among independent vectors, at 100,000 entries (`cargo bench --bench
//!   semantic`). A search takes 0.4 to 0.7 ms (p50) and 0.7 to 1.3 ms (p99 with a core of its own), an entry 3.4 KB, an insertion
//!   10 to 20 µs. Its time grows with the partition, which the limit of bytes bounds.

mod candidates;
mod index;
mod neighbour;
mod partition;
mod registry;
mod segment;
mod sketch;
#[cfg(test)]
mod tests;
mod vector;

pub use index::{IndexStats, SemanticIndex};
pub use neighbour::{Nearest, Neighbour};
pub use vector::VectorError;
