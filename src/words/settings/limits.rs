//! `limits`: bounds on one client, one request and one upstream connection, and how usage is counted.
//!
//! Not here: budgets and rate limits of tenants, and a target's own `request_timeout`.

use super::counting::Counting;
use crate::config::members::{MILLIS, MemberTable, whole};
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
    pub(super) const DOC: &str = "Limits for one client, one request, one connection, and how usage is counted. Sizes in bytes, times in milliseconds.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let limits = Self { counting: Counting::members(table), ..Self::default() };
        Some(limits.with_sizes(table).with_times(table))
    }

    fn with_sizes(self, table: &mut MemberTable<'_>) -> Self {
        let held = "Bodies and responses held in memory, of all requests together. Default: a quarter of the memory.";
        let kept = "Items of responses of /v1/responses that are kept for clients that refer to them, of all clients together; 0 keeps \
                    none. Read at the start.";
        let connections =
            "Connections from clients at the same time. Default: half of the file descriptors, less 192.";
        let rate =
            "Bytes per second at which a body that is read must arrive on average after body_timeout_ms.";
        Self {
            max_body_bytes: table.or(
                "max_body_bytes",
                whole(1024, 1 << 32),
                self.max_body_bytes,
                "A body that is read and inspected (JSON).",
            ),
            max_held_bytes: table.get("max_held_bytes", whole(1 << 20, 1 << 50), held),
            max_kept_items_bytes: table.or(
                "max_kept_items_bytes",
                whole(0, 1 << 40),
                self.max_kept_items_bytes,
                kept,
            ),
            max_header_bytes: table.or(
                "max_header_bytes",
                whole(1024, 1_048_575),
                self.max_header_bytes,
                "The whole header of a request.",
            ),
            max_connections: table.get("max_connections", whole(1, 10_000_000), connections),
            min_body_rate: table.or("min_body_rate", whole(1, 1 << 30), self.min_body_rate, rate),
            ..self
        }
    }

    fn with_times(self, table: &mut MemberTable<'_>) -> Self {
        let request = "Until a provider's response is complete, or a stream has its first token, where nothing else sets it. Default: \
                       no limit.";
        Self {
            header_timeout: table.or(
                "header_timeout_ms",
                MILLIS,
                self.header_timeout,
                "For the whole request header to arrive, from its first byte.",
            ),
            body_timeout: table.or(
                "body_timeout_ms",
                MILLIS,
                self.body_timeout,
                "Between two reads of a request's body.",
            ),
            idle_timeout: table.or(
                "idle_timeout_ms",
                MILLIS,
                self.idle_timeout,
                "Until the next request on a kept-alive connection.",
            ),
            write_timeout: table.or(
                "write_timeout_ms",
                MILLIS,
                self.write_timeout,
                "For a client that has stopped reading its response.",
            ),
            connect_timeout: table.or(
                "connect_timeout_ms",
                MILLIS,
                self.connect_timeout,
                "To connect to a provider: for TCP, and again for the TLS handshake.",
            ),
            request_timeout: table.get("request_timeout_ms", MILLIS, request),
            upstream_read_timeout: table.or(
                "upstream_read_timeout_ms",
                MILLIS,
                self.upstream_read_timeout,
                "Between two reads of a provider's response.",
            ),
            upstream_idle_timeout: table.or(
                "upstream_idle_timeout_ms",
                MILLIS,
                self.upstream_idle_timeout,
                "How long an idle connection to a provider is kept.",
            ),
            ..self
        }
    }
}
