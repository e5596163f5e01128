//! When the steps of an attempt happened, and its status: what the record keeps of it.
//!
//! Not what it came to (`route::outcome`).

use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttemptState {
    /// The gateway turned to the provider.
    pub sent_at: Option<Instant>,
    /// The response's header was read.
    pub header_at: Option<Instant>,
    /// The response's last byte was read.
    pub ended_at: Option<Instant>,
    pub status: Option<u16>,
}

impl AttemptState {
    pub fn header_read(&mut self, status: u16) {
        self.header_at = Some(Instant::now());
        self.status = Some(status);
    }

    pub fn response_ended(&mut self) {
        self.ended_at = Some(Instant::now());
    }

    /// How long it has been under way, or was.
    pub fn upstream_time(&self, now: Instant) -> Duration {
        self.sent_at.map_or(Duration::ZERO, |sent| self.ended_at.unwrap_or(now).duration_since(sent))
    }
}
