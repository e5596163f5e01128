//! One circuit breaker: closed, open, half-open; a state machine that is told the time.
//!
//! Not here: the lock around it, who it belongs to, and what counts as a failure (`targets`, and whoever
//! ends a visit). Spec "Circuit breaker"; reference section 6 has no half-open state, ours has one: there a
//! target that is still down gets the whole traffic back at once, every cooldown.

use super::Rules;
use std::time::Instant;

/// Successful probes that close the circuit.
pub(super) const CLOSED_AFTER: u32 = 5;
/// Probes under way at the same time, at most: 1, 2, 4, 8 after each success.
pub(super) const MOST_PROBES: u32 = 8;

/// A target's breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: State,
    /// Of the window while closed; else those that opened it.
    failures: u32,
    /// Goes up with every opening and every reset: what began before says nothing about what is now.
    era: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Since the first failure of the window, when there was one.
    Closed(Option<Instant>),
    Open {
        since: Instant,
    },
    HalfOpen {
        /// When it opened.
        since: Instant,
        /// When the last probe went.
        last: Instant,
        out: u32,
        succeeded: u32,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Closed(None)
    }
}

/// What the breaker is to a request that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Closed,
    /// A probe may go.
    HalfOpen,
    /// No request should go: the cooldown is not over, or all probes are out.
    Open {
        since: Instant,
    },
}

/// What a visit carries from its beginning to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    era: u64,
    probe: bool,
}

/// The state as an operator sees it: half-open also while all probes are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Closed,
    HalfOpen,
    Open,
}

impl Breaker {
    /// Changes nothing: time alone does not make an open breaker half-open, a visit does.
    pub fn standing(&self, rules: &Rules, now: Instant) -> Standing {
        match self.state {
            State::Closed(_) => Standing::Closed,
            State::Open { since } if now.saturating_duration_since(since) < rules.cooldown => {
                Standing::Open { since }
            }
            State::Open { .. } => Standing::HalfOpen,
            State::HalfOpen { since, last, out, succeeded } => {
                // A probe may be a stream of many minutes: it holds the others up for one cooldown only.
                let slow = now.saturating_duration_since(last) >= rules.cooldown;
                match out < at_once(succeeded) || slow {
                    true => Standing::HalfOpen,
                    false => Standing::Open { since },
                }
            }
        }
    }

    /// A visit begins. One that comes although the breaker is open gets through and counts for nothing
    /// until the breaker is closed again.
    pub fn enter(&mut self, rules: &Rules, now: Instant) -> (Pass, Option<Phase>) {
        let probe = self.standing(rules, now) == Standing::HalfOpen;
        let mut turned = None;
        if probe {
            self.state = match self.state {
                State::HalfOpen { since, out, succeeded, .. } => {
                    State::HalfOpen { since, last: now, out: out.saturating_add(1), succeeded }
                }
                State::Open { since } => {
                    turned = Some(Phase::HalfOpen);
                    State::HalfOpen { since, last: now, out: 1, succeeded: 0 }
                }
                closed @ State::Closed(_) => closed,
            };
        }
        (Pass { era: self.era, probe }, turned)
    }

    /// A visit ended well or badly. Tells what the breaker turned to, when it did.
    pub fn leave(&mut self, rules: &Rules, pass: Pass, well: bool, now: Instant) -> Option<Phase> {
        if pass.era != self.era {
            return None;
        }
        match &mut self.state {
            State::Closed(first) if !well => {
                let within =
                    first.is_some_and(|first| now.saturating_duration_since(first) <= rules.cooldown);
                if !within {
                    *first = Some(now);
                    self.failures = 0;
                }
                self.failures = self.failures.saturating_add(1);
                (self.failures >= rules.threshold).then(|| self.open(now))
            }
            State::HalfOpen { .. } if pass.probe && !well => Some(self.open(now)),
            State::HalfOpen { out, succeeded, .. } if pass.probe => {
                *out = out.saturating_sub(1);
                *succeeded += 1;
                (*succeeded >= CLOSED_AFTER).then(|| self.close())
            }
            _ => None,
        }
    }

    /// A visit ended and says nothing about the target: a probe's place is free again.
    pub fn give_back(&mut self, pass: Pass) {
        if let State::HalfOpen { out, .. } = &mut self.state
            && pass.era == self.era
            && pass.probe
        {
            *out = out.saturating_sub(1);
        }
    }

    /// Closes it and forgets all failures. Whether it was anything but closed.
    pub fn reset(&mut self) -> bool {
        let was_closed = matches!(self.state, State::Closed(_));
        self.era = self.era.wrapping_add(1);
        self.close();
        !was_closed
    }

    pub fn phase(&self, rules: &Rules, now: Instant) -> Phase {
        match (self.state, self.standing(rules, now)) {
            (State::Closed(_), _) => Phase::Closed,
            (State::HalfOpen { .. }, _) | (_, Standing::HalfOpen) => Phase::HalfOpen,
            _ => Phase::Open,
        }
    }

    /// Failures that count now: of the window while closed, else those that opened it.
    pub fn failures(&self, rules: &Rules, now: Instant) -> u32 {
        match self.state {
            State::Closed(Some(first)) if now.saturating_duration_since(first) > rules.cooldown => 0,
            _ => self.failures,
        }
    }

    /// When it opened; `None` while closed.
    pub fn since(&self) -> Option<Instant> {
        match self.state {
            State::Closed(_) => None,
            State::Open { since } | State::HalfOpen { since, .. } => Some(since),
        }
    }

    fn open(&mut self, now: Instant) -> Phase {
        self.era = self.era.wrapping_add(1);
        self.state = State::Open { since: now };
        Phase::Open
    }

    fn close(&mut self) -> Phase {
        self.state = State::Closed(None);
        self.failures = 0;
        Phase::Closed
    }
}

/// Probes that may be out at the same time after so many successes.
fn at_once(succeeded: u32) -> u32 {
    1_u32.checked_shl(succeeded).unwrap_or(MOST_PROBES).min(MOST_PROBES)
}
