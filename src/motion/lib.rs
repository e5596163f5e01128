//! Carries requests out: the [`engine`] one at a time, [`tools`] those in which a model has tools called, [`batch`] many of them later.
//!
//! None knows a session: whoever asked is a `Downstream`, in Pingora or in memory. One byte sent to the client ends all retries.

pub mod engine;

pub mod tools;

pub mod batch;
