//! Who gets the next try: configs compiled to trees, trees walked by a plan, attempts made from targets.
//!
//! Pure: time, chance and what is known of the world are arguments. Nothing here sends a byte.

pub mod admission;
pub mod attempt;
pub mod compile;
pub mod compiled;
pub mod config_cache;
pub mod deadlines;
pub mod env;
pub mod explain;
pub mod facts;
pub mod outcome;
pub mod pick;
pub mod plan;
pub mod request_mode;
pub mod request_snapshot;
pub mod retry;
pub mod target;
pub mod vendor_headers;

#[cfg(test)]
mod tests;
