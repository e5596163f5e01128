//! How many hedges the process may afford: extra attempts stay below a part of its recent requests.
//!
//! Not when a request is slow enough to hedge, and not which attempt wins (`route`, `proxy`).
//!
//! Two counters that decay together: whenever a thousand hedgeable requests were counted, both are halved. So
//! "recent" means the last five hundred to a thousand, however long they took, and an idle night earns nothing.
//! The counters are the process's, the ratio is the asking config's: a generous config uses up the room of a
//! modest one, never the other way about.

use parking_lot::Mutex;

/// Counted requests after which both counters are halved.
const WINDOW: f64 = 1_000.0;
/// What ten times a tenth may be short of one.
const ROUNDING: f64 = 1e-9;

/// The process's count.
#[derive(Debug, Default)]
pub struct HedgeBudget(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: f64,
    hedges: f64,
}

impl HedgeBudget {
    /// A request came that may be hedged.
    pub fn deposit(&self) {
        let mut counts = self.0.lock();
        counts.requests += 1.0;
        if counts.requests >= WINDOW {
            counts.requests /= 2.0;
            counts.hedges /= 2.0;
        }
    }

    /// Whether one more extra attempt is affordable: all of them, this one counted, are at most `ratio` of the
    /// recent requests. Yes counts it.
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
        // (ratio, requests of which every one would be hedged, hedged)
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
            // Halving leaves fractions, and a fraction of a hedge is none.
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
