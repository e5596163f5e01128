//! Whether a target is asked once more, and after how long a wait.
//!
//! Pure: chance and what was waited already are arguments. Not which target comes next (`plan`).

use super::outcome::{ErrorClass, Outcome};
use crate::config::policy::Retry;
use std::time::Duration;

/// Statuses that are tried again when the config names none (reference section 5; 529 is Anthropic's word for
/// 503).
pub const STATUSES: [u16; 6] = [429, 500, 502, 503, 504, 529];
/// A wait the provider asks for is kept up to this length even where `use_retry_after_headers` is off: asking
/// sooner would only be refused again.
const SHORT: Duration = Duration::from_secs(5);

/// A target's retry policy, nothing left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Tries after the first one.
    pub attempts: u32,
    /// `None`: [`STATUSES`].
    pub statuses: Option<Vec<u16>>,
    pub keeps_hints: bool,
    pub backoff: Duration,
    pub max_backoff: Duration,
    /// All waits together.
    pub budget: Duration,
}

/// What retrying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Once more, after a wait.
    After(Duration),
    /// It would be worth another try, but no more are allowed (`x-gateway-retry-attempt-count: -1`).
    Exhausted,
    /// Trying again would change nothing.
    Useless,
}

/// What was done so far, for the target at hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Past {
    /// Tries beyond the first.
    pub made: u32,
    /// Waits of the whole request.
    pub waited: Duration,
    /// Another target is left to go to.
    pub has_other: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            attempts: 0,
            statuses: None,
            keeps_hints: false,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(8),
            budget: Duration::from_secs(60),
        }
    }
}

impl From<&Retry> for Rules {
    fn from(retry: &Retry) -> Self {
        let plain = Self::default();
        let millis = |ms: Option<u64>, plain| ms.map_or(plain, Duration::from_millis);
        Self {
            attempts: retry.attempts,
            statuses: retry.on_status_codes.clone(),
            keeps_hints: retry.use_retry_after,
            backoff: millis(retry.backoff_ms, plain.backoff),
            max_backoff: millis(retry.max_backoff_ms, plain.max_backoff),
            budget: millis(retry.budget_ms, plain.budget),
        }
    }
}

impl Rules {
    /// Decides. `draw`: chance, at least 0 and below 1.
    pub fn again(&self, outcome: &Outcome, past: Past, draw: f64) -> Again {
        if !self.is_worth_it(outcome, past) {
            return Again::Useless;
        }
        if past.made >= self.attempts {
            return if self.attempts == 0 { Again::Useless } else { Again::Exhausted };
        }
        let hint = match outcome {
            Outcome::Answered { wait, .. } => *wait,
            _ => None,
        };
        let wait = match hint {
            Some(hint) if self.keeps_hints => hint,
            Some(hint) if hint <= SHORT => hint.max(self.backoff(past.made, draw)),
            // Sooner than told would only be refused again.
            Some(_) => return Again::Exhausted,
            None => self.backoff(past.made, draw),
        };
        if past.waited.saturating_add(wait) >= self.budget {
            return Again::Exhausted;
        }
        Again::After(wait)
    }

    fn is_worth_it(&self, outcome: &Outcome, past: Past) -> bool {
        match outcome {
            // The same model would find it too long again.
            Outcome::Answered { said: ErrorClass::ContextTooLong, .. } => false,
            Outcome::Answered { status, said: ErrorClass::ContentFiltered, .. } => {
                self.statuses.as_ref().is_some_and(|listed| listed.contains(status))
            }
            Outcome::Answered { status, .. } => match &self.statuses {
                Some(listed) => listed.contains(status),
                None => STATUSES.contains(status),
            },
            // Asking a silent one again doubles the caller's wait.
            Outcome::Silent => {
                !past.has_other && self.statuses.as_ref().is_some_and(|listed| listed.contains(&408))
            }
            // Reference section 5: whatever the list says.
            Outcome::Broken => true,
            // The caller waits in mid-answer: another target first, without a pause.
            Outcome::Cut => !past.has_other,
            Outcome::Unfit(_) => false,
        }
    }

    /// Full jitter: anything up to the doubled wait, so that callers that failed together do not come back
    /// together.
    fn backoff(&self, made: u32, draw: f64) -> Duration {
        let doubled = self.backoff.saturating_mul(1_u32.checked_shl(made).unwrap_or(u32::MAX));
        doubled.min(self.max_backoff).mul_f64(draw.clamp(0.0, 1.0))
    }
}
