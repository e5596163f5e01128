//! What an attempt came to, as far as the next one depends on it.
//!
//! Not the answer itself, and not what the caller is told.

use std::time::Duration;

pub use crate::provider::said::ErrorClass;

/// What an attempt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The provider answered with this status; a good one only if the answer is whole, or has begun well.
    Answered { status: u16, said: ErrorClass, wait: Option<Duration> },
    /// No answer in time.
    Silent,
    /// No answer: refused, reset, cut before its first content, not what was asked for.
    Broken,
    /// It broke after the caller had got a part of it.
    Cut,
    /// The call cannot be made at this target: the gateway's own error has this status.
    Unfit(u16),
}

impl Outcome {
    /// A provider's answer that needs no explaining.
    pub fn answered(status: u16) -> Self {
        Self::Answered { status, said: ErrorClass::Other, wait: None }
    }

    /// Whether this is what the caller asked for.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }
}
