//! What an attempt came to, as far as the next one depends on it.
//!
//! Not the answer itself, and not what the caller is told.

use crate::config::policies::BreakerPolicy;
use crate::state::targets::BreakerSignal;
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
    /// A request that was to resume a broken stream was refused for its prefill.
    PrefillRefused,
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

    /// What it says about the target to a circuit breaker: not what the client did wrong, not our own limits.
    pub fn breaker_signal(&self, policy: Option<&BreakerPolicy>) -> BreakerSignal {
        match self {
            _ if self.is_success() => BreakerSignal::Success,
            Self::Response { status, .. } if policy.is_some_and(|policy| policy.is_failure(*status)) => {
                BreakerSignal::Failure
            }
            Self::TimedOut | Self::Failed | Self::Interrupted => BreakerSignal::Failure,
            Self::Response { .. } | Self::PrefillRefused | Self::Unsupported(_) => BreakerSignal::Ignored,
        }
    }
}
