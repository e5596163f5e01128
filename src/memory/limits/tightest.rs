//! What is left of the tightest rate limits, for the `x-ratelimit-*` headers.

use super::limit::{Limit, LimitKind, RateOf};
use super::window::Window;
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

impl Remaining {
    /// Of a rate limit that has this much left in this window.
    pub(super) fn of(limit: &Limit, left: i64, window: Window, now: i64) -> Option<(RateOf, Self)> {
        let LimitKind::Rate { of, value, .. } = limit.kind else { return None };
        let reset_in = u64::try_from(window.end.saturating_sub(now)).unwrap_or(0);
        Some((of, Self { limit: value, remaining: left.max(0), reset_in: Duration::from_millis(reset_in) }))
    }
}

impl Tightest {
    /// Takes a limit into account, if it is one of a rate.
    pub(super) fn add(&mut self, rate: Option<(RateOf, Remaining)>) {
        let Some((of, candidate)) = rate else { return };
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
