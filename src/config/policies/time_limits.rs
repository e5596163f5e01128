//! The timeouts of a target as written: an extension of the spec's config object.
//!
//! Not here: the defaults. They depend on whether another target is left to try, which the plan knows
//! (`route`).

use super::policy::MAX_MS;
use super::read::Cursor;

/// `time_limits`, each in milliseconds. `None`: the default; zero: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// For a connection, its TLS handshake included.
    pub connect: Option<u64>,
    /// Until the response header. `request_timeout` is the spec's name of the same limit and takes
    /// precedence.
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
    pub fn read(at: &Cursor<'_>) -> Option<Self> {
        const KEYS: [&str; 7] = [
            "connect_ms",
            "first_byte_ms",
            "first_token_ms",
            "gap_ms",
            "total_ms",
            "heartbeat_ms",
            "early_heartbeat",
        ];
        let mut fields = at.fields()?;
        let mut millis = |name: &str| {
            let ms: u64 = fields.get(&[name])?.integer_within(0, i64::MAX)?.try_into().ok()?;
            Some(ms.min(MAX_MS))
        };
        let mut limits = Self {
            connect: millis("connect_ms"),
            first_byte: millis("first_byte_ms"),
            first_token: millis("first_token_ms"),
            gap: millis("gap_ms"),
            total: millis("total_ms"),
            heartbeat: millis("heartbeat_ms"),
            early_heartbeat: None,
        };
        limits.early_heartbeat = fields.flag(&["early_heartbeat"]);
        fields.reject_unknown(&KEYS);
        Some(limits)
    }

    /// These limits, with each absent one taken from the level above.
    pub fn or(self, above: Self) -> Self {
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
