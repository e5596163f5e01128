//! Stream and whole tell the same, in Anthropic's grammar, whatever the events. Requests are tested in
//! `tests/reading.rs` beside this file.

pub(crate) mod grammar;
mod reading;
mod writing;
