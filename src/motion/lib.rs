//! Carries requests out: the [`engine`] one at a time, [`batch`] many of them later.
//!
//! Neither knows a session: whoever asked is a `Downstream`, in Pingora or in memory. One byte sent to the client ends all retries.

pub mod engine;

pub mod batch;
