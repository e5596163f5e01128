//! One circuit breaker: closed, open, half-open; a state machine that is told the time.
//!
//! Not here: the lock around it, who it belongs to, and what counts as a failure (`targets`, and whoever
//! ends a visit). Spec "Circuit breaker"; reference section 6 has no half-open state, ours has one: there a
//! target that is still down gets the whole traffic back at once, every cooldown.

use super::BreakerPolicy;
use std::time::Instant;

/// Successful probes that close the circuit.
pub(super) const SUCCESSES_TO_CLOSE: u32 = 5;
/// Probes under way at the same time, at most: 1, 2, 4, 8 after each success.
pub(super) const MAX_PROBES: u32 = 8;

/// A target's breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: State,
    /// Of the window while closed; else those that opened it.
    failures: u32,
    /// Goes up with every opening and every reset: what began before says nothing about what is now.
    generation: u64,
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
        last_probe_at: Instant,
        in_flight: u32,
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
pub enum CircuitStatus {
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
pub(super) struct Ticket {
    generation: u64,
    probe: bool,
}

/// The state as an operator sees it: half-open also while all probes are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    Closed,
    HalfOpen,
    Open,
}

impl Breaker {
    /// Changes nothing: time alone does not make an open breaker half-open, a visit does.
    pub fn status(&self, policy: &BreakerPolicy, now: Instant) -> CircuitStatus {
        match self.state {
            State::Closed(_) => CircuitStatus::Closed,
            State::Open { since } if now.saturating_duration_since(since) < policy.cooldown => {
                CircuitStatus::Open { since }
            }
            State::Open { .. } => CircuitStatus::HalfOpen,
            State::HalfOpen { since, last_probe_at, in_flight, succeeded } => {
                // A probe may be a stream of many minutes: it holds the others up for one cooldown only.
                let slow = now.saturating_duration_since(last_probe_at) >= policy.cooldown;
                match in_flight < max_probes(succeeded) || slow {
                    true => CircuitStatus::HalfOpen,
                    false => CircuitStatus::Open { since },
                }
            }
        }
    }

    /// A visit begins. One that comes although the breaker is open gets through and counts for nothing
    /// until the breaker is closed again.
    pub fn enter(&mut self, policy: &BreakerPolicy, now: Instant) -> (Ticket, Option<CircuitState>) {
        let probe = self.status(policy, now) == CircuitStatus::HalfOpen;
        let mut transition = None;
        if probe {
            self.state = match self.state {
                State::HalfOpen { since, in_flight, succeeded, .. } => State::HalfOpen {
                    since,
                    last_probe_at: now,
                    in_flight: in_flight.saturating_add(1),
                    succeeded,
                },
                State::Open { since } => {
                    transition = Some(CircuitState::HalfOpen);
                    State::HalfOpen { since, last_probe_at: now, in_flight: 1, succeeded: 0 }
                }
                closed @ State::Closed(_) => closed,
            };
        }
        (Ticket { generation: self.generation, probe }, transition)
    }

    /// A visit ended well or badly. Tells what the breaker turned to, when it did.
    pub fn report(
        &mut self,
        policy: &BreakerPolicy,
        ticket: Ticket,
        success: bool,
        now: Instant,
    ) -> Option<CircuitState> {
        if ticket.generation != self.generation {
            return None;
        }
        match &mut self.state {
            State::Closed(first) if !success => {
                let within =
                    first.is_some_and(|first| now.saturating_duration_since(first) <= policy.cooldown);
                if !within {
                    *first = Some(now);
                    self.failures = 0;
                }
                self.failures = self.failures.saturating_add(1);
                (self.failures >= policy.threshold).then(|| self.open(now))
            }
            State::HalfOpen { .. } if ticket.probe && !success => Some(self.open(now)),
            State::HalfOpen { in_flight, succeeded, .. } if ticket.probe => {
                *in_flight = in_flight.saturating_sub(1);
                *succeeded += 1;
                (*succeeded >= SUCCESSES_TO_CLOSE).then(|| self.close())
            }
            _ => None,
        }
    }

    /// A visit ended and says nothing about the target: a probe's place is free again.
    pub fn release(&mut self, ticket: Ticket) {
        if let State::HalfOpen { in_flight, .. } = &mut self.state
            && ticket.generation == self.generation
            && ticket.probe
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Closes it and forgets all failures. Whether it was anything but closed.
    pub fn reset(&mut self) -> bool {
        let was_closed = matches!(self.state, State::Closed(_));
        self.generation = self.generation.wrapping_add(1);
        self.close();
        !was_closed
    }

    pub fn circuit_state(&self, policy: &BreakerPolicy, now: Instant) -> CircuitState {
        match (self.state, self.status(policy, now)) {
            (State::Closed(_), _) => CircuitState::Closed,
            (State::HalfOpen { .. }, _) | (_, CircuitStatus::HalfOpen) => CircuitState::HalfOpen,
            _ => CircuitState::Open,
        }
    }

    /// Failures that count now: of the window while closed, else those that opened it.
    pub fn failures(&self, policy: &BreakerPolicy, now: Instant) -> u32 {
        match self.state {
            State::Closed(Some(first)) if now.saturating_duration_since(first) > policy.cooldown => 0,
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

    fn open(&mut self, now: Instant) -> CircuitState {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Open { since: now };
        CircuitState::Open
    }

    fn close(&mut self) -> CircuitState {
        self.state = State::Closed(None);
        self.failures = 0;
        CircuitState::Closed
    }
}

/// Probes that may be out at the same time after so many successes.
fn max_probes(succeeded: u32) -> u32 {
    1_u32.checked_shl(succeeded).unwrap_or(MAX_PROBES).min(MAX_PROBES)
}
