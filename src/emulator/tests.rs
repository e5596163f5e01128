//! The emulator over real sockets on loopback: dialects, faults, the log. Its parts have unit tests of their
//! own.

#[cfg(feature = "vendors")]
mod buckets_and_jobs;
mod client;
mod dialects;
mod faults;
mod request_log;
mod stores;
mod streams;
