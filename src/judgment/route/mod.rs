//! Routing: compiles configs, plans which target is tried next, and prepares the attempt for that target.
//!
//! Pure: time, random numbers and the state of the targets are arguments. Nothing here does network I/O.

pub mod admission;
pub mod attempt;
pub mod compile;
pub mod compiled;
pub mod config_cache;
pub mod config_hooks;
pub mod deadlines;
pub mod env;
pub mod explain;
pub mod facts;
pub mod outcome;
pub mod pick;
pub mod plan;
pub mod prompt_call;
pub mod provider_ref;
pub mod request_mode;
pub mod request_snapshot;
pub mod retry;
pub mod stored_calls;
pub mod target;
mod target_prompt;
pub mod vendor_headers;

#[cfg(test)]
mod tests;
