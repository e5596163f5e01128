//! What the request's record and the response's headers have of one attempt: what was sent, when its steps happened, its status, and
//! what the cache did for it.
//!
//! Not its outcome (`route::outcome`).

use super::caching::CacheNote;
use judgment::route::attempt::Attempt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The facts of the attempt that ended last, or whose response the client gets. An attempt under way keeps its own.
#[derive(Debug, Clone, Default)]
pub struct AttemptFacts {
    /// `None`: it could not be made.
    pub attempt: Option<Arc<Attempt>>,
    pub state: AttemptState,
    pub cache: CacheNote,
    /// Its response costs something that has no price.
    pub is_unpriced: bool,
    /// Its response has no finish reason.
    pub lacks_reason: bool,
}

/// The times and the status of one attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttemptState {
    /// When the gateway began to fetch credentials or to connect.
    pub sent_at: Option<Instant>,
    /// The whole request was written to the provider's connection, or a streamed upload was begun: the provider may charge for it, with or
    /// without a response.
    pub is_sent: bool,
    /// When the response's header was read.
    pub header_at: Option<Instant>,
    /// When the response's last byte was read.
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

    /// Time spent at the provider: up to the end of the response, or up to `now` while it has not ended.
    pub(crate) fn upstream_time(&self, now: Instant) -> Duration {
        self.sent_at.map_or(Duration::ZERO, |sent| self.ended_at.unwrap_or(now).duration_since(sent))
    }
}
