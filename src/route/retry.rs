//! Whether a target is asked once more, and after how long a wait.
//!
//! Pure: chance and what was waited already are arguments. Not which target comes next (`plan`).

use super::outcome::{ErrorClass, Outcome};
use crate::config::policies::{DEFAULT_STATUSES, RetryPolicy};
use std::time::Duration;

/// A wait the provider asks for is kept up to this length even where `use_retry_after_headers` is off: asking
/// sooner would only be refused again.
const MAX_IMPLICIT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// What retrying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Once more, after a wait.
    RetryAfter(Duration),
    /// It would be worth another try, but no more are allowed (`x-gateway-retry-attempt-count: -1`).
    Exhausted,
    /// Trying again would change nothing.
    NotRetryable,
}

/// What was done so far, for the target at hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryState {
    /// Tries beyond the first.
    pub retries: u32,
    /// Waits of the whole request.
    pub waited: Duration,
    /// Another target is left to go to.
    pub has_other: bool,
}

impl RetryPolicy {
    /// Decides. `draw`: chance, at least 0 and below 1.
    pub fn decide(&self, outcome: &Outcome, state: RetryState, random: f64) -> RetryDecision {
        if !self.is_retryable(outcome, state) {
            return RetryDecision::NotRetryable;
        }
        if state.retries >= self.attempts {
            return if self.attempts == 0 { RetryDecision::NotRetryable } else { RetryDecision::Exhausted };
        }
        let hint = match outcome {
            Outcome::Response { retry_after, .. } => *retry_after,
            _ => None,
        };
        let wait = match hint {
            Some(hint) if self.honours_retry_after => hint,
            Some(hint) if hint <= MAX_IMPLICIT_RETRY_AFTER => hint.max(self.backoff(state.retries, random)),
            // Sooner than told would only be refused again.
            Some(_) => return RetryDecision::Exhausted,
            None => self.backoff(state.retries, random),
        };
        if state.waited.saturating_add(wait) >= self.budget {
            return RetryDecision::Exhausted;
        }
        RetryDecision::RetryAfter(wait)
    }

    fn is_retryable(&self, outcome: &Outcome, state: RetryState) -> bool {
        match outcome {
            // The same model would find it too long again.
            Outcome::Response { class: ErrorClass::ContextTooLong, .. } => false,
            Outcome::Response { status, class: ErrorClass::ContentFiltered, .. } => {
                self.statuses.as_ref().is_some_and(|listed| listed.contains(status))
            }
            Outcome::Response { status, .. } => match &self.statuses {
                Some(listed) => listed.contains(status),
                None => DEFAULT_STATUSES.contains(status),
            },
            // Asking a silent one again doubles the caller's wait.
            Outcome::TimedOut => {
                !state.has_other && self.statuses.as_ref().is_some_and(|listed| listed.contains(&408))
            }
            // Reference section 5: whatever the list says.
            Outcome::Failed => true,
            // The caller waits in mid-answer: another target first, without a pause.
            Outcome::Interrupted => !state.has_other,
            Outcome::PrefillRefused | Outcome::Unsupported(_) => false,
        }
    }

    /// Full jitter: anything up to the doubled wait, so that callers that failed together do not come back
    /// together.
    fn backoff(&self, retries: u32, random: f64) -> Duration {
        let doubled = self.backoff.saturating_mul(1_u32.checked_shl(retries).unwrap_or(u32::MAX));
        doubled.min(self.max_backoff).mul_f64(random.clamp(0.0, 1.0))
    }
}
