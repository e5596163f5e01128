//! The budget for hedges: limits extra attempts to a ratio of the recent requests.
//!
//! Not here: when a request is slow enough to hedge, and which attempt wins (`route`, `engine`).
//!
//! Two counters decay together: whenever the request count reaches a thousand, both are halved. So
//! "recent" means the last five hundred to a thousand hedgeable requests, however long they took, and no budget
//! builds up while idle. The counters are per process, the ratio per config: a config with a high ratio can exhaust
//! the budget of one with a low ratio.
//!
//! Example: after 100 requests, a config with ratio 0.1 may hedge 10 times; if one with 0.5 hedged 50 times before,
//! it may not hedge at all.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Counted requests after which both counters are halved.
const WINDOW: f64 = 1_000.0;
/// Tolerance for floating-point errors in `ratio * requests`.
const ROUNDING: f64 = 1e-9;

/// The hedge budget of the process.
#[derive(Debug, Default)]
pub struct HedgeBudget(Mutex<HedgeCounts>);

/// The recent requests that might be hedged, and the hedges among them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HedgeCounts {
    requests: f64,
    hedges: f64,
}

impl HedgeBudget {
    pub fn counts(&self) -> HedgeCounts {
        *self.0.lock()
    }

    /// Goes on with the counts of another process.
    pub fn set(&self, counts: HedgeCounts) {
        let sound = |count: f64| if (0.0..WINDOW).contains(&count) { count } else { 0.0 };
        *self.0.lock() = HedgeCounts { requests: sound(counts.requests), hedges: sound(counts.hedges) };
    }

    /// Counts a request that may be hedged.
    pub fn deposit(&self) {
        let mut counts = self.0.lock();
        counts.requests += 1.0;
        if counts.requests >= WINDOW {
            counts.requests /= 2.0;
            counts.hedges /= 2.0;
        }
    }

    /// Whether one more hedge is allowed, which is then counted: all hedges including this one must be at most
    /// `ratio` of the recent requests.
    pub fn try_withdraw(&self, ratio: f64) -> bool {
        let mut counts = self.0.lock();
        let affordable = counts.hedges + 1.0 <= ratio * counts.requests + ROUNDING;
        if affordable {
            counts.hedges += 1.0;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hedges_stay_within_the_ratio() {
        // (ratio, requests that all try to hedge, hedges allowed)
        for (ratio, requests, wanted) in [
            (0.0, 5_000, 0),
            (0.1, 9, 0),
            (0.1, 10, 1),
            (0.1, 100, 10),
            (0.29, 100, 29),
            (0.05, 100_000, 5_000),
            (0.5, 10_001, 5_000),
            (1.0, 7, 7),
            (f64::NAN, 100, 0),
            (-1.0, 100, 0),
        ] {
            let budget = HedgeBudget::default();
            let hedge = |_: &u32| {
                budget.deposit();
                budget.try_withdraw(ratio)
            };
            let hedged = (0..requests).filter(hedge).count();
            // Halving leaves fractions of a hedge, which cannot be spent.
            let min_expected = wanted - wanted / 100;
            assert!(
                (min_expected..=wanted).contains(&hedged),
                "{ratio} of {requests}: {hedged}, not {wanted}"
            );
        }
    }

    #[test]
    fn old_deposits_decay() {
        let budget = HedgeBudget::default();
        (0..1_000_000).for_each(|_| budget.deposit());
        let spent = (0..10_000).filter(|_| budget.try_withdraw(0.1)).count();
        assert!((50..=100).contains(&spent), "{spent}");
    }

    #[test]
    fn a_high_ratio_config_exhausts_the_budget_of_a_low_ratio_one() {
        let budget = HedgeBudget::default();
        (0..100).for_each(|_| budget.deposit());
        assert_eq!((0..100).filter(|_| budget.try_withdraw(0.5)).count(), 50);
        assert!(!budget.try_withdraw(0.1));
    }
}
