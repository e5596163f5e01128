//! Decides whether a target is retried, and after how long a wait.
//!
//! Pure: the random number and the waits so far are arguments. Not here: which target comes next (`plan`).

use super::outcome::{ErrorClass, Outcome};
use std::time::Duration;
use words::config::policies::{DEFAULT_STATUSES, RetryPolicy};

/// A `retry-after` up to this length is respected even if `use_retry_after_headers` is off, since an earlier
/// attempt would only be refused again. A longer one is then ignored: the config asks for its retries.
const MAX_IMPLICIT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Whether to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after this wait.
    RetryAfter(Duration),
    /// A retry could help, but no more are allowed (`x-gateway-retry-attempt-count: -1`).
    Exhausted,
    /// A retry would not change the outcome.
    NotRetryable,
}

/// The retries and waits so far, for the current target.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryState {
    /// Attempts beyond the first.
    pub retries: u32,
    /// The sum of all waits of the request.
    pub waited: Duration,
    /// There is another target to fall back to.
    pub has_other: bool,
}

/// Decides whether to retry after `outcome` under this policy. `random`: at least 0 and below 1.
pub fn decide(policy: &RetryPolicy, outcome: &Outcome, state: RetryState, random: f64) -> RetryDecision {
    if !is_retryable(policy, outcome, state) {
        return RetryDecision::NotRetryable;
    }
    if state.retries >= policy.attempts {
        return if policy.attempts == 0 { RetryDecision::NotRetryable } else { RetryDecision::Exhausted };
    }
    let hint = match outcome {
        Outcome::Response { retry_after, .. } => *retry_after,
        _ => None,
    };
    let fits = |wait: Duration| state.waited.saturating_add(wait) < policy.budget;
    let backoff = backoff(policy, state.retries, random);
    let wait = match hint {
        Some(hint) if policy.honours_retry_after => hint,
        Some(hint) if hint <= MAX_IMPLICIT_RETRY_AFTER && fits(hint) => hint.max(backoff),
        _ => backoff,
    };
    if !fits(wait) {
        return RetryDecision::Exhausted;
    }
    RetryDecision::RetryAfter(wait)
}

fn is_retryable(policy: &RetryPolicy, outcome: &Outcome, state: RetryState) -> bool {
    match outcome {
        // The request would be too long for the same model again.
        Outcome::Response { class: ErrorClass::ContextTooLong, .. } => false,
        Outcome::Response { status, class: ErrorClass::ContentFiltered, .. } => {
            policy.statuses.as_ref().is_some_and(|listed| listed.contains(status))
        }
        Outcome::Response { status, .. } => match &policy.statuses {
            Some(listed) => listed.contains(status),
            None => DEFAULT_STATUSES.contains(status),
        },
        // Retrying a target that does not respond doubles the client's wait.
        Outcome::TimedOut => {
            !state.has_other && policy.statuses.as_ref().is_some_and(|listed| listed.contains(&408))
        }
        // Retried whatever the status list contains.
        Outcome::Failed => true,
        // The client is waiting in the middle of a response, so another target comes first, without a
        // wait.
        Outcome::Interrupted => !state.has_other,
        Outcome::PrefillRefused
        | Outcome::FormRefused
        | Outcome::Unsupported(_)
        | Outcome::Limited(_)
        | Outcome::Busy => false,
    }
}

/// Full jitter: a random wait up to the doubled one, so that clients that failed together do not retry
/// together.
fn backoff(policy: &RetryPolicy, retries: u32, random: f64) -> Duration {
    let doubled = policy.backoff.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
    doubled.min(policy.max_backoff).mul_f64(random.clamp(0.0, 1.0))
}
