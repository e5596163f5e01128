//! Who gets the next try: configs compiled to trees, trees walked by a plan, attempts made from targets.
//!
//! Pure: time, chance and what is known of the world are arguments. Nothing here sends a byte.

pub mod asked;
pub mod attempt;
pub mod compile;
pub mod explain;
pub mod facts;
mod inherit;
pub mod leaf;
pub mod outcome;
pub mod patience;
pub mod pick;
pub mod plan;
pub mod retry;
pub mod told;
pub mod tree;
pub mod trees;
pub mod world;

#[cfg(test)]
mod tests;
