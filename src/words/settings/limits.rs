//! `limits`: bounds on one client, one request and one upstream connection, and how usage is counted.
//!
//! Not here: budgets and rate limits of tenants, and a target's own `request_timeout`.

use super::counting::{self, Counting};
use super::values::{count, millis};
use crate::config::read::ObjectReader;
use std::time::Duration;

/// Sizes in bytes, times as durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a body that is read and inspected (JSON). Streamed uploads are not bounded by it.
    pub max_body_bytes: usize,
    /// Maximum bytes of bodies and responses held in memory, all requests together. `None`: a quarter of the memory.
    pub max_held_bytes: Option<usize>,
    /// Maximum bytes of items of translated responses that are kept for `item_reference`; 0: none are. Read at the start.
    pub max_kept_items_bytes: usize,
    /// Maximum size of a request's whole header section. Pingora itself stops at 1 MiB (HTTP/1.1).
    pub max_header_bytes: usize,
    /// Maximum number of downstream connections at a time. `None`: derived from the file descriptors that the
    /// process may open.
    pub max_connections: Option<usize>,
    /// Until the whole request header section has arrived.
    pub header_timeout: Duration,
    /// Between two reads of a request body.
    pub body_timeout: Duration,
    /// How fast a request body that is read must arrive on average once `body_timeout` has passed, bytes per second.
    pub min_body_rate: usize,
    /// Until the next request on a kept-alive downstream connection.
    pub idle_timeout: Duration,
    /// For a write to a client that has stopped reading.
    pub write_timeout: Duration,
    /// Until an upstream connection is established, including its TLS handshake.
    pub connect_timeout: Duration,
    /// `request_timeout` of a target that gives none; `None`: no limit.
    pub request_timeout: Option<Duration>,
    /// Between two reads of a response; a last bound on upstreams that hang.
    pub upstream_read_timeout: Duration,
    /// How long an idle upstream connection is kept in the pool.
    pub upstream_idle_timeout: Duration,
    pub counting: Counting,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 32 * 1024 * 1024,
            max_held_bytes: None,
            max_kept_items_bytes: 16 << 20,
            max_header_bytes: 64 * 1024,
            max_connections: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            min_body_rate: 4096,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            request_timeout: None,
            upstream_read_timeout: Duration::from_secs(600),
            upstream_idle_timeout: Duration::from_secs(60),
            counting: Counting::default(),
        }
    }
}

impl Limits {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let f = &mut fields;
        let defaults = Self::default();
        let limits = Self {
            max_body_bytes: count(f, "max_body_bytes", 1024, 1 << 32).unwrap_or(defaults.max_body_bytes),
            max_held_bytes: count(f, "max_held_bytes", 1 << 20, 1 << 50),
            max_kept_items_bytes: count(f, "max_kept_items_bytes", 0, 1 << 40)
                .unwrap_or(defaults.max_kept_items_bytes),
            max_header_bytes: count(f, "max_header_bytes", 1024, 1_048_575)
                .unwrap_or(defaults.max_header_bytes),
            max_connections: count(f, "max_connections", 1, 10_000_000),
            header_timeout: millis(f, "header_timeout_ms").unwrap_or(defaults.header_timeout),
            body_timeout: millis(f, "body_timeout_ms").unwrap_or(defaults.body_timeout),
            min_body_rate: count(f, "min_body_rate", 1, 1 << 30).unwrap_or(defaults.min_body_rate),
            idle_timeout: millis(f, "idle_timeout_ms").unwrap_or(defaults.idle_timeout),
            write_timeout: millis(f, "write_timeout_ms").unwrap_or(defaults.write_timeout),
            connect_timeout: millis(f, "connect_timeout_ms").unwrap_or(defaults.connect_timeout),
            request_timeout: millis(f, "request_timeout_ms"),
            upstream_read_timeout: millis(f, "upstream_read_timeout_ms")
                .unwrap_or(defaults.upstream_read_timeout),
            upstream_idle_timeout: millis(f, "upstream_idle_timeout_ms")
                .unwrap_or(defaults.upstream_idle_timeout),
            counting: Counting::read(f),
        };
        let mut keys = vec![
            "max_body_bytes",
            "max_held_bytes",
            "max_kept_items_bytes",
            "max_header_bytes",
            "max_connections",
            "header_timeout_ms",
            "body_timeout_ms",
            "min_body_rate",
            "idle_timeout_ms",
            "write_timeout_ms",
            "connect_timeout_ms",
            "request_timeout_ms",
            "upstream_read_timeout_ms",
            "upstream_idle_timeout_ms",
        ];
        keys.extend(counting::KEYS);
        fields.reject_unknown(&keys);
        limits
    }
}
