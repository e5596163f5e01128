//! The outcome of an attempt, as far as the next attempt depends on it.
//!
//! Not the response itself, and not the error that the client gets.

use memory::state::targets::BreakerSignal;
use std::time::Duration;
use words::config::failure_class::FailureClass;
use words::config::policies::BreakerPolicy;

pub use words::api::error_class::ErrorClass;

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The provider responded with this status. 2xx only if the response is complete or its stream began
    /// well.
    Response { status: u16, class: ErrorClass, retry_after: Option<Duration> },
    /// No response before the timeout.
    TimedOut,
    /// No usable response: connection refused or reset, cut before the first content, or not the requested
    /// kind.
    Failed,
    /// The response broke off after the client had received a part of it.
    Interrupted,
    /// A request that was to resume a broken stream was refused because of its prefill.
    PrefillRefused,
    /// A chat was refused because the provider takes it only in another form (`provider::responses_only`).
    FormRefused,
    /// This target does not support the call. The gateway's own error has this status.
    Unsupported(u16),
    /// A limit of this target refused the attempt with this status; nothing was sent.
    Limited(u16),
    /// No place was free at this target; nothing was sent.
    Busy,
}

impl Outcome {
    /// The outcome of a response without a special error class.
    pub fn from_status(status: u16) -> Self {
        Self::Response { status, class: ErrorClass::Other, retry_after: None }
    }

    /// Whether the client gets the result it requested.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Response { status: 200..=299, .. })
    }

    /// Whether nothing was sent, because of a limit or for want of a place.
    pub(crate) fn is_refused_here(&self) -> bool {
        matches!(self, Self::Limited(_) | Self::Busy)
    }

    /// The class by which a strategy can name it; `None` for a success.
    pub fn failure_class(&self) -> Option<FailureClass> {
        let class = match *self {
            _ if self.is_success() => return None,
            // Without a body that says more, the status decides.
            Self::Response { status, class: ErrorClass::Other, .. } => ErrorClass::of_status(status),
            Self::Response { class, .. } => class,
            Self::Limited(429) | Self::Busy => return Some(FailureClass::RateLimit),
            Self::Limited(_) => return Some(FailureClass::Quota),
            Self::TimedOut => return Some(FailureClass::Timeout),
            Self::Failed | Self::Interrupted => return Some(FailureClass::Connection),
            Self::PrefillRefused | Self::FormRefused | Self::Unsupported(_) => ErrorClass::Other,
        };
        Some(match class {
            ErrorClass::ContextTooLong => FailureClass::ContextWindow,
            ErrorClass::ContentFiltered => FailureClass::ContentPolicy,
            ErrorClass::RateLimited => FailureClass::RateLimit,
            ErrorClass::QuotaExceeded => FailureClass::Quota,
            ErrorClass::TimedOut => FailureClass::Timeout,
            ErrorClass::Overloaded | ErrorClass::ServerError => FailureClass::ServerError,
            ErrorClass::InvalidKey | ErrorClass::PermissionDenied => FailureClass::Auth,
            ErrorClass::ModelNotFound => FailureClass::ModelNotFound,
            ErrorClass::Other | ErrorClass::NotFound | ErrorClass::RequestTooLarge => FailureClass::Other,
        })
    }

    /// What a circuit breaker learns about the target. Errors of the client and the gateway's own limits are
    /// ignored.
    pub fn breaker_signal(&self, policy: Option<&BreakerPolicy>) -> BreakerSignal {
        match self {
            _ if self.is_success() => BreakerSignal::Success,
            Self::Response { status, .. } if policy.is_some_and(|policy| policy.is_failure(*status)) => {
                BreakerSignal::Failure
            }
            Self::TimedOut | Self::Failed | Self::Interrupted => BreakerSignal::Failure,
            Self::Response { .. }
            | Self::PrefillRefused
            | Self::FormRefused
            | Self::Unsupported(_)
            | Self::Limited(_)
            | Self::Busy => BreakerSignal::Ignored,
        }
    }
}
