//! The config object of the spec, as written: what a request asks of routing.
//!
//! Reading and judging are one pass that collects *all* problems with their paths. Not here: what a
//! config means when it runs (`route` compiles it).

pub mod account;
pub mod node;
pub mod read;
pub mod secret;
