//! `time_limits`: the timeouts of a target (a key of our own).
//!
//! Inherited one by one. The defaults are short where another target is left to try; where none is, they only bound a
//! hang. Not here: when the time is up (`route::deadlines`).

use super::{DescribeContext, Policies, PolicyKey};
use crate::config::members::{self, FLAG, Form, MemberTable, default_shown, form, object, see};
use crate::config::values::MAX_MS;
use crate::json::schema;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let limits = see("time_limits", object(TimeLimits::members));
        let limits = table.get("time_limits", limits, "In milliseconds; 0 is no limit.");
        policies.time_limits = limits.unwrap_or_default();
    },
    definitions: &[("time_limits", || {
        members::schema("Time limits of a target, in milliseconds; 0 is no limit.", TimeLimits::members)
    })],
    inherit: |policies, above| policies.time_limits = policies.time_limits.or(above.time_limits),
    describe: Some(describe),
    ..PolicyKey::NONE
};

/// To the first content of a stream, where another target is left.
const FIRST_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// To the response header, where another target is left: a response that is not streamed may take minutes.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two chunks of a response, where another target is left.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// For any of these, where no other target is left.
const HANG_TIMEOUT: Duration = Duration::from_secs(600);
/// Idle time of a stream before the client gets a comment.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// `time_limits`, each in milliseconds. `None`: the default; zero: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// For a connection, its TLS handshake included.
    pub connect: Option<u64>,
    /// Until the response header.
    pub first_byte: Option<u64>,
    /// Until the first content of a stream, or the first byte of any other body.
    pub first_token: Option<u64>,
    /// Between two chunks of a response body.
    pub gap: Option<u64>,
    /// For the whole request: all attempts and backoffs together.
    pub total: Option<u64>,
    /// Idle time of a stream after which a heartbeat comment is sent to the client.
    pub heartbeat: Option<u64>,
    /// Whether heartbeats may start before the response is committed. The status is then always 200
    /// and a failure becomes an error event.
    pub early_heartbeat: Option<bool>,
}

impl TimeLimits {
    /// Of a config and of the settings.
    pub(crate) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const TIME: Form<u64> = form(
            |at| Some(u64::try_from(at.integer_within(0, i64::MAX)?).ok()?.min(MAX_MS)),
            |doc| schema::integer(doc, 0, None),
        )
        .written(|ms| Some((*ms).into()));
        let first_token = "Until the first content of a stream. Default: 10,000 where another target is left, else 600,000.";
        let gap =
            "Between two chunks of a response. Default: 15,000 where another target is left, else 600,000.";
        let heartbeat = "Silence of a stream after which the client gets a comment.";
        let early = "Whether comments may start before the response: the status is then always 200.";
        Some(Self {
            connect: table.get("connect_ms", TIME, "For a connection, its TLS handshake included."),
            first_byte: table.get("first_byte_ms", TIME, "Until the response header."),
            first_token: table.get("first_token_ms", TIME, first_token),
            gap: table.get("gap_ms", TIME, gap),
            total: table.get("total_ms", TIME, "For the whole request. Default: no limit."),
            heartbeat: table.get("heartbeat_ms", default_shown(TIME, 15_000), heartbeat),
            early_heartbeat: table.get("early_heartbeat", default_shown(FLAG, false), early),
        })
    }

    /// These limits, with each absent one taken from the level above.
    fn or(self, above: Self) -> Self {
        Self {
            connect: self.connect.or(above.connect),
            first_byte: self.first_byte.or(above.first_byte),
            first_token: self.first_token.or(above.first_token),
            gap: self.gap.or(above.gap),
            total: self.total.or(above.total),
            heartbeat: self.heartbeat.or(above.heartbeat),
            early_heartbeat: self.early_heartbeat.or(above.early_heartbeat),
        }
    }
}

/// The timeouts of one attempt, defaults filled in. `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `request_timeout`: for a whole response, or until the first content of a stream.
    pub request: Option<Duration>,
    /// `first_byte_ms`, at most `request_timeout`, which also replaces the default.
    pub header: Option<Duration>,
    pub first_token: Option<Duration>,
    pub idle: Option<Duration>,
    /// For the whole request.
    pub total: Option<Duration>,
    pub heartbeat: Option<Duration>,
}

impl TimeLimits {
    /// After how much silence a stream gets a heartbeat; `None`: it gets none.
    pub fn heartbeat_interval(&self) -> Option<Duration> {
        self.heartbeat.map_or(Some(HEARTBEAT_INTERVAL), |ms| (ms > 0).then(|| Duration::from_millis(ms)))
    }
}

impl Policies {
    /// The timeouts in force. `has_other`: another target is left to try.
    pub fn timeouts(&self, has_other: bool) -> Timeouts {
        let limits = self.time_limits;
        let limit = |ms: Option<u64>, default: Duration| match ms {
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
            None => Some(default),
        };
        let short = |default: Duration| if has_other { default } else { HANG_TIMEOUT };
        let header = match (self.request_timeout, limits.first_byte) {
            (Some(request), None) => Some(request),
            (request, first_byte) => {
                limit(first_byte, short(HEADER_TIMEOUT)).into_iter().chain(request).min()
            }
        };
        Timeouts {
            request: self.request_timeout,
            header,
            first_token: limit(limits.first_token, short(FIRST_TOKEN_TIMEOUT)),
            idle: limit(limits.gap, short(IDLE_TIMEOUT)),
            total: self.total_timeout(),
            heartbeat: limits.heartbeat_interval(),
        }
    }

    /// The time for the whole request.
    pub fn total_timeout(&self) -> Option<Duration> {
        self.time_limits.total.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// The timeout for a connection; `default`: that of the settings.
    pub fn connect_timeout(&self, default: Duration) -> Duration {
        self.time_limits.connect.filter(|ms| *ms > 0).map_or(default, Duration::from_millis)
    }
}

fn describe(policies: &Policies, context: &DescribeContext) -> (&'static str, Value) {
    let timeouts = |has_other| {
        let Timeouts { header, first_token, idle, total, heartbeat, .. } = policies.timeouts(has_other);
        json!({
            "connect_ms": millis(policies.connect_timeout(context.connect_timeout)),
            "first_byte_ms": header.map(millis),
            "first_token_ms": first_token.map(millis),
            "gap_ms": idle.map(millis),
            "total_ms": total.map(millis),
            "heartbeat_ms": heartbeat.map(millis),
        })
    };
    ("time_limits", json!({"another_left": timeouts(true), "none_left": timeouts(false)}))
}

/// A time in whole milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
