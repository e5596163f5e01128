//! What an attempt came to, as far as the next one depends on it.
//!
//! Not the answer itself, and not what the caller is told.

use std::time::Duration;

pub use crate::provider::error_class::ErrorClass;

/// What an attempt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The provider answered with this status; a good one only if the answer is whole, or has begun well.
    Response { status: u16, class: ErrorClass, retry_after: Option<Duration> },
    /// No answer in time.
    TimedOut,
    /// No answer: refused, reset, cut before its first content, not what was asked for.
    Failed,
    /// It broke after the caller had got a part of it.
    Interrupted,
    /// The call cannot be made at this target: the gateway's own error has this status.
    Unsupported(u16),
}

impl Outcome {
    /// A provider's answer that needs no explaining.
    pub fn from_status(status: u16) -> Self {
        Self::Response { status, class: ErrorClass::Other, retry_after: None }
    }

    /// Whether this is what the caller asked for.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Response { status: 200..=299, .. })
    }
}
