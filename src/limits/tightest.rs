//! What is left of the tightest rate limits, for the `x-ratelimit-*` headers.

use super::limit::RateOf;
use std::time::Duration;

/// The tightest rate limit of each kind; `None` where none applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tightest {
    pub requests: Option<Remaining>,
    pub tokens: Option<Remaining>,
}

/// What is left in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    pub limit: i64,
    /// At least 0.
    pub remaining: i64,
    /// Until the window ends.
    pub reset_in: Duration,
}

impl Tightest {
    /// Takes a rate limit into account.
    pub(super) fn add(&mut self, of: RateOf, candidate: Remaining) {
        let place = match of {
            RateOf::Requests => &mut self.requests,
            RateOf::Tokens => &mut self.tokens,
        };
        let is_tighter = |current: &Remaining| {
            (candidate.remaining, std::cmp::Reverse(candidate.reset_in))
                < (current.remaining, std::cmp::Reverse(current.reset_in))
        };
        if place.as_ref().is_none_or(is_tighter) {
            *place = Some(candidate);
        }
    }
}
