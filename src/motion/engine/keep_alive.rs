//! What keeps the connection of a silent stream alive. Not when it is sent (`forward`, `orchestrator`).

use bytes::Bytes;
use judgment::route::deadlines::Deadlines;
use std::time::{Duration, Instant};
use words::api::Dialect;
use words::api::operation::Operation;

/// A comment, which parsers of events ignore. No empty line follows: openai-python up to 2.37 takes it for an event where the
/// provider numbers its events (<https://github.com/openai/openai-python/issues/2722>).
pub(super) const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n");
/// Anthropic's own heartbeat. Clients' timers count events and no comments.
const PING: Bytes = Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n");
/// OpenAI's own heartbeat within a response. Before its first event SDKs take no other event than `response.created`.
const EVENT: Bytes = Bytes::from_static(b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n");
/// An empty line for Google's SDKs: older versions take every other line that is no data for JSON.
const EMPTY_LINE: Bytes = Bytes::from_static(b"\n");

/// The bytes to send to a client of `operation`. `has_events`: it has got an event of the response.
pub(super) fn bytes(operation: Operation, has_events: bool) -> Bytes {
    match operation.dialect() {
        Dialect::Google => EMPTY_LINE,
        Dialect::Anthropic if operation == Operation::Messages => PING,
        Dialect::Responses if has_events => EVENT,
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Responses | Dialect::Mcp => COMMENT,
    }
}

/// The timer of SSE comments before the response.
pub(super) struct Heartbeat {
    interval: Option<Duration>,
    at: Instant,
}

impl Heartbeat {
    /// `streamed`: the client requested a stream; only a stream can carry comments. `started`: its header was sent.
    pub fn new(deadlines: &Deadlines, streamed: bool, started: bool) -> Self {
        let interval = deadlines.heartbeat.filter(|_| streamed && (started || deadlines.early_heartbeat));
        Self { interval, at: Instant::now() + interval.unwrap_or_default() }
    }

    /// When the next comment is due; `None`: there are none.
    pub fn due(&self) -> Option<Instant> {
        self.interval.map(|_| self.at)
    }

    /// The comment that was due is sent.
    pub fn sent(&mut self) {
        self.at += self.interval.unwrap_or_default();
    }
}
