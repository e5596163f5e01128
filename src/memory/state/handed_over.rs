//! What a process has learned that its successor would otherwise learn anew: breakers, latencies, sticky choices, the hedge budget.
//!
//! Plain data, sent when a new binary takes over without a stop. Times are ages, in milliseconds: instants mean nothing in another
//! process. Members that one of two versions lacks are left out. Not here: usage of limits, which both processes keep in the journal
//! or the shared counters, and the counters of metrics (`metrics::inherited`).

use super::Shared;
use super::hedge_budget::HedgeCounts;
use super::sticky_sessions::StickyChoice;
use super::targets::TargetMemory;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What goes along.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HandedOver {
    pub targets: Vec<TargetMemory>,
    pub sticky: Vec<StickyChoice>,
    pub hedges: HedgeCounts,
}

impl Shared {
    /// What this process has learned until `now`.
    pub fn hand_over(&self, now: Instant) -> HandedOver {
        HandedOver {
            targets: self.targets.memories(now),
            sticky: self.sticky_sessions.choices(now),
            hedges: self.hedge_budget.counts(),
        }
    }

    /// Goes on with what another process has learned.
    pub fn take_over(&self, learned: HandedOver, now: Instant) {
        self.targets.remember(learned.targets, now);
        self.sticky_sessions.remember(&learned.sticky, now);
        self.hedge_budget.set(learned.hedges);
    }
}

/// Milliseconds between the two.
pub(super) fn age(since: Instant, now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
}

/// The instant so many milliseconds before `now`; `now` itself where the clock does not reach back so far.
pub(super) fn instant(age: u64, now: Instant) -> Instant {
    now.checked_sub(Duration::from_millis(age)).unwrap_or(now)
}
