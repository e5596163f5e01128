//! One circuit breaker: closed, open, half-open. A state machine; the time is an argument.
//!
//! Not here: the lock around it, its owner, and what counts as a failure (`targets`, and the code that finishes a
//! permit). Portkey's breaker has no half-open state: there, a target that is still
//! down gets all its traffic back at once after every cooldown. Ours sends probes first.
//!
//! ```text
//!            threshold failures within a cooldown             cooldown over, first probe starts
//!   Closed ---------------------------------------> Open -----------------------------------------> HalfOpen
//!     ^                                              ^                                              |  |
//!     |                                              +---------------- a probe fails ---------------+  |
//!     +------------------------- 5 probes succeed, or a reset from any state --------------------------+
//! ```

use crate::state::handed_over::{age, instant};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use words::config::policies::BreakerPolicy;

/// Successful probes that close the circuit.
pub(super) const SUCCESSES_TO_CLOSE: u32 = 5;
/// Maximum number of concurrent probes: 1 at first, then 2, 4 and 8 after one, two and three successes.
pub(super) const MAX_PROBES: u32 = 8;

/// A target's breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: State,
    /// Failures in the window while closed, otherwise the failures that opened it.
    failures: u32,
    /// Incremented when the breaker opens and at a reset: attempts that started before are not counted any more.
    generation: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The time of the first failure in the window, if any.
    Closed(Option<Instant>),
    Open {
        since: Instant,
    },
    HalfOpen {
        /// When it opened.
        since: Instant,
        /// When the last probe started.
        last_probe_at: Instant,
        in_flight: u32,
        succeeded: u32,
    },
}

/// A breaker as another process gets it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct BreakerMemory {
    failures: u32,
    /// How long ago the first failure in the window was, or it opened, milliseconds.
    since: Option<u64>,
    is_open: bool,
    /// Probes that succeeded; `None`: it is not half-open.
    succeeded: Option<u32>,
}

impl BreakerMemory {
    /// The breaker of another process: attempts of that one are not reported here, so no probe is in flight.
    pub(super) fn restored(self, now: Instant) -> Breaker {
        let since = self.since.map(|since| instant(since, now));
        let state = match (self.is_open, since, self.succeeded) {
            (true, Some(since), None) => State::Open { since },
            (true, Some(since), Some(succeeded)) => {
                State::HalfOpen { since, last_probe_at: now, in_flight: 0, succeeded }
            }
            _ => State::Closed(since),
        };
        Breaker { state, failures: self.failures, generation: 0 }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Closed(None)
    }
}

/// Whether the breaker lets a request through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitStatus {
    Closed,
    /// A probe is allowed.
    HalfOpen,
    /// No request should be sent: the cooldown is not over, or the maximum number of probes is in flight.
    Open {
        since: Instant,
    },
}

/// What an attempt carries from its start to its report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    generation: u64,
    probe: bool,
}

/// The state as operators see it: half-open also while the maximum number of probes is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    Closed,
    HalfOpen,
    Open,
}

impl Breaker {
    /// What another process needs to go on with it.
    pub fn carried(&self, now: Instant) -> BreakerMemory {
        let carried = |since: Option<Instant>, is_open, succeeded| BreakerMemory {
            failures: self.failures,
            since: since.map(|since| age(since, now)),
            is_open,
            succeeded,
        };
        match self.state {
            State::Closed(first) => carried(first, false, None),
            State::Open { since } => carried(Some(since), true, None),
            State::HalfOpen { since, succeeded, .. } => carried(Some(since), true, Some(succeeded)),
        }
    }

    /// The status for a request at `now`. Changes nothing: an open breaker becomes half-open when an attempt starts,
    /// not by the passing of time.
    pub fn status(&self, policy: &BreakerPolicy, now: Instant) -> CircuitStatus {
        match self.state {
            State::Closed(_) => CircuitStatus::Closed,
            State::Open { since } if now.saturating_duration_since(since) < policy.cooldown => {
                CircuitStatus::Open { since }
            }
            State::Open { .. } => CircuitStatus::HalfOpen,
            State::HalfOpen { since, last_probe_at, in_flight, succeeded } => {
                // A probe may be a stream of many minutes, so it blocks the next one for a cooldown at most.
                let slow = now.saturating_duration_since(last_probe_at) >= policy.cooldown;
                if in_flight < max_probes(succeeded) || slow {
                    CircuitStatus::HalfOpen
                } else {
                    CircuitStatus::Open { since }
                }
            }
        }
    }

    /// Starts an attempt. One that starts although the breaker is open is let through, but its outcome is ignored
    /// unless the breaker has closed by then. Returns the new state if it changed.
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

    /// Records the success or failure of an attempt. Returns the new state if it changed.
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

    /// Ends an attempt without a result. If it was a probe, another one may start.
    pub fn release(&mut self, ticket: Ticket) {
        if let State::HalfOpen { in_flight, .. } = &mut self.state
            && ticket.generation == self.generation
            && ticket.probe
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Closes it and clears all failures. Returns whether it was not closed before.
    pub fn reset(&mut self) -> bool {
        let was_closed = matches!(self.state, State::Closed(_));
        self.generation = self.generation.wrapping_add(1);
        self.close();
        !was_closed
    }

    pub(crate) fn circuit_state(&self, policy: &BreakerPolicy, now: Instant) -> CircuitState {
        match (self.state, self.status(policy, now)) {
            (State::Closed(_), _) => CircuitState::Closed,
            (State::HalfOpen { .. }, _) | (_, CircuitStatus::HalfOpen) => CircuitState::HalfOpen,
            _ => CircuitState::Open,
        }
    }

    /// The failures in the window while closed, otherwise the failures that opened it.
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

/// The number of concurrent probes allowed after this many successes.
fn max_probes(succeeded: u32) -> u32 {
    1_u32.checked_shl(succeeded).unwrap_or(MAX_PROBES).min(MAX_PROBES)
}
