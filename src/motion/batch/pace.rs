//! How many lines of one batch may be in flight: what its providers bear. Pure; the time is an argument.
//!
//! It starts low, doubles with each round of good responses until a provider refuses one for its rate, and then goes on as
//! TCP does: halved by a refusal, one more with each round. Not how lines of several batches share the process (`turns`).

use std::time::{Duration, Instant};

/// The first limit.
const START: f64 = 8.0;
/// Refusals of one moment come from one round, and halve the limit once.
const ROUND: Duration = Duration::from_secs(1);
/// The longest wait before the next line, whatever a provider says.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The pace of one batch.
#[derive(Debug, Clone)]
pub struct Pace {
    limit: f64,
    max: f64,
    /// Whether no line was refused yet.
    is_starting: bool,
    halved_at: Option<Instant>,
    /// No line is sent before.
    paused_until: Option<Instant>,
}

impl Pace {
    /// `max`: lines in flight at most.
    pub fn new(max: usize) -> Self {
        let max = max.max(1) as f64;
        Self { limit: START.min(max), max, is_starting: true, halved_at: None, paused_until: None }
    }

    /// How many lines may be in flight; at least 1.
    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// A line has its response.
    pub fn succeed(&mut self) {
        let step = if self.is_starting { 1.0 } else { 1.0 / self.limit };
        self.limit = (self.limit + step).min(self.max);
    }

    /// A line was refused for the rate, or its provider is down; it says to wait this long, or nothing.
    pub fn refuse(&mut self, wait: Option<Duration>, now: Instant) {
        self.is_starting = false;
        if self.halved_at.is_none_or(|at| now >= at + ROUND) {
            self.limit = (self.limit / 2.0).max(1.0);
            self.halved_at = Some(now);
        }
        if let Some(wait) = wait {
            let until = now + wait.min(MAX_WAIT);
            self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
        }
    }

    /// Until when no line may be sent.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_until_a_refusal_halves_it() {
        let now = Instant::now();
        let mut pace = Pace::new(100);
        assert_eq!(pace.limit(), 8);
        (0..8).for_each(|_| pace.succeed());
        assert_eq!(pace.limit(), 16);
        (0..16).for_each(|_| pace.succeed());
        assert_eq!(pace.limit(), 32);
        // All refusals of a round are one.
        (0..10).for_each(|_| pace.refuse(None, now));
        assert_eq!(pace.limit(), 16);
        pace.refuse(None, now + ROUND);
        assert_eq!(pace.limit(), 8);
        (0..9).for_each(|_| pace.succeed());
        assert_eq!(pace.limit(), 9);
        for second in 2..20 {
            pace.refuse(None, now + ROUND * second);
        }
        assert_eq!(pace.limit(), 1);
        (0..100_000).for_each(|_| pace.succeed());
        assert_eq!(pace.limit(), 100);
        assert_eq!(Pace::new(0).limit(), 1);
    }

    #[test]
    fn a_provider_that_names_a_time_is_left_alone_until_then() {
        let now = Instant::now();
        let mut pace = Pace::new(100);
        assert_eq!(pace.paused_until(now), None);
        pace.refuse(Some(Duration::from_secs(5)), now);
        pace.refuse(Some(Duration::from_secs(2)), now);
        assert_eq!(pace.paused_until(now), Some(now + Duration::from_secs(5)));
        assert_eq!(pace.paused_until(now + Duration::from_secs(5)), None);
        pace.refuse(Some(Duration::from_secs(86_400)), now);
        assert_eq!(pace.paused_until(now), Some(now + MAX_WAIT));
    }
}
