//! The timeouts of one attempt: those of its target's config, or else defaults.
//!
//! The defaults are short when another target is left to try; otherwise they only bound a hang.

use super::mcp_target::CALL_TIMEOUT;
use super::target::Target;
use knowledge::provider::mcp;
use std::time::{Duration, Instant};
use words::config::policies::StreamRescue;
use words::config::policies::time_limits::Timeouts;
use words::error::Error;

/// The timeouts and deadlines of one attempt.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// `request_timeout`, counted from the start of the attempt: when a whole response must be complete, or a stream have
    /// its first content.
    pub request_deadline: Option<Instant>,
    pub header_timeout: Option<Duration>,
    pub first_token_timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    /// When the whole request, all attempts together, must be finished.
    pub total_deadline: Option<Instant>,
    pub heartbeat: Option<Duration>,
    pub early_heartbeat: bool,
    pub rescue: StreamRescue,
    /// Whether the client requested a stream.
    streamed: bool,
    /// Whether `first_token_ms` is configured: it then counts from the start of the attempt, streamed or not.
    is_configured: bool,
}

/// Which timeout expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutKind {
    /// `request_timeout`.
    Request,
    Header,
    FirstToken,
    Idle,
    Total,
}

/// When a timeout expires, if it does, and which one it is.
type Deadline = (Option<Instant>, TimeoutKind);

/// The error for an attempt that took longer than its target's `request_timeout`.
pub fn request_timed_out(target: &Target) -> Error {
    let ms = target.policies.request_timeout.unwrap_or_default().as_millis() as u64;
    if target.provider.id() == mcp::ID {
        // No request sets it.
        let server = target.slug.as_deref().unwrap_or_default();
        let default = CALL_TIMEOUT.as_secs();
        return Error::deadline_exceeded(format!(
            "The MCP server {server} gave no response within {ms} ms (limits.request_timeout_ms of the settings; without it, a call may \
             take {default} seconds)."
        ));
    }
    Error::request_timed_out(ms)
}

/// The earlier of two deadlines; of equal ones the first.
fn earlier(one: Deadline, other: Deadline) -> Deadline {
    match (one.0, other.0) {
        (Some(at), Some(before)) if before < at => other,
        (None, _) => other,
        _ => one,
    }
}

impl Deadlines {
    /// `started`: when the request began, and `attempt_started` the attempt, before its credentials were fetched;
    /// `has_other`: whether another target is left to try.
    pub fn new(
        target: &Target,
        started: Instant,
        attempt_started: Instant,
        has_other: bool,
        streamed: bool,
    ) -> Self {
        let policies = &target.policies;
        let Timeouts { request, header, first_token, idle, total, heartbeat } = policies.timeouts(has_other);
        Self {
            request_deadline: request.map(|limit| attempt_started + limit),
            header_timeout: header,
            is_configured: policies.time_limits.first_token.is_some(),
            first_token_timeout: first_token,
            idle_timeout: idle,
            total_deadline: total.map(|limit| started + limit),
            heartbeat,
            early_heartbeat: policies.time_limits.early_heartbeat.unwrap_or_default(),
            rescue: policies.stream_rescue(),
            streamed,
        }
    }

    /// When a request that began at `started` must be finished.
    pub fn total(target: &Target, started: Instant) -> Option<Instant> {
        target.policies.total_timeout().map(|limit| started + limit)
    }

    /// When the response's head must have arrived. The first-token timeout bounds it as well, because no token of a
    /// stream comes before its head.
    pub fn header_deadline(&self, started: Instant) -> Deadline {
        let token = self.first_token_timeout.filter(|_| self.streamed || self.is_configured);
        let (limit, kind) = match (self.header_timeout, token) {
            (Some(byte), Some(token)) if token < byte => (Some(token), TimeoutKind::FirstToken),
            (None, Some(token)) => (Some(token), TimeoutKind::FirstToken),
            (byte, _) => (byte, TimeoutKind::Header),
        };
        self.bounded((limit.map(|limit| started + limit), kind), true)
    }

    /// When the first content must have arrived. Counts from the start of the attempt for a stream or a configured
    /// `first_token_ms`, otherwise from the response's head. `last_read`: when bytes last arrived.
    pub fn first_token_deadline(&self, started: Instant, header_at: Instant, last_read: Instant) -> Deadline {
        let from = if self.streamed || self.is_configured { started } else { header_at };
        let token = self.first_token_timeout.map(|limit| from + limit);
        let gap = self.idle_timeout.map(|limit| last_read + limit);
        let content = earlier((token, TimeoutKind::FirstToken), (gap, TimeoutKind::Idle));
        self.bounded(content, true)
    }

    /// When the next piece of a response that has content already must have arrived. `is_stream`: the response is one, so that
    /// `request_timeout` no longer bounds it. `is_other_kind`: the client gets it converted, once it is complete; `request_timeout` bounds it.
    pub fn idle_deadline(&self, last_read: Instant, is_stream: bool, is_other_kind: bool) -> Deadline {
        let idle = self.idle_timeout.map(|limit| last_read + limit);
        self.bounded((idle, TimeoutKind::Idle), is_other_kind || !(is_stream || self.streamed))
    }

    /// When the body of a failing response must be complete; `at`: how long it is awaited at most.
    pub fn error_body_deadline(&self, at: Instant) -> Deadline {
        self.bounded((Some(at), TimeoutKind::Idle), true)
    }

    /// The earliest of a deadline, that of the whole request, and, if it `counts`, `request_timeout`.
    fn bounded(&self, deadline: Deadline, counts: bool) -> Deadline {
        let request = (self.request_deadline.filter(|_| counts), TimeoutKind::Request);
        earlier((self.total_deadline, TimeoutKind::Total), earlier(request, deadline))
    }

    /// The error the client gets for an expired timeout.
    pub fn timeout_error(&self, kind: TimeoutKind, target: &Target, started: Instant) -> Error {
        let ms = |limit: Option<Duration>| limit.unwrap_or_default().as_millis();
        let provider = target.display_name();
        let error = match kind {
            TimeoutKind::Request => request_timed_out(target),
            TimeoutKind::Header => Error::deadline_exceeded(format!(
                "The provider {provider} did not begin to answer within {} ms (time_limits.first_byte_ms). Retry your \
                 request, or use another provider.",
                ms(self.header_timeout)
            )),
            TimeoutKind::FirstToken => Error::deadline_exceeded(format!(
                "The provider {provider} sent no content within {} ms (time_limits.first_token_ms). Retry your request, or \
                 use another provider.",
                ms(self.first_token_timeout)
            )),
            TimeoutKind::Idle => Error::deadline_exceeded(format!(
                "The provider {provider} fell silent in its answer for {} ms (time_limits.gap_ms). Retry your request, \
                 or use another provider.",
                ms(self.idle_timeout)
            )),
            TimeoutKind::Total => Error::deadline_exceeded(format!(
                "The request took longer than time_limits.total_ms allows ({} ms, all attempts together).",
                self.total_deadline.map_or(0, |total| total.saturating_duration_since(started).as_millis())
            )),
        };
        error.with_provider(target.provider.id())
    }
}
