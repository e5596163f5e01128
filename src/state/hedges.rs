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
pub struct Hedges(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    asked: f64,
    extra: f64,
}

impl Hedges {
    /// A request came that may be hedged.
    pub fn asked(&self) {
        let mut counts = self.0.lock();
        counts.asked += 1.0;
        if counts.asked >= WINDOW {
            counts.asked /= 2.0;
            counts.extra /= 2.0;
        }
    }

    /// Whether one more extra attempt is affordable: all of them, this one counted, are at most `ratio` of the
    /// recent requests. Yes counts it.
    pub fn may(&self, ratio: f64) -> bool {
        let mut counts = self.0.lock();
        let affordable = counts.extra + 1.0 <= ratio * counts.asked + ROUNDING;
        if affordable {
            counts.extra += 1.0;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_the_requests_and_no_more() {
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
            let hedges = Hedges::default();
            let hedge = |_: &u32| {
                hedges.asked();
                hedges.may(ratio)
            };
            let hedged = (0..requests).filter(hedge).count();
            // Halving leaves fractions, and a fraction of a hedge is none.
            let least = wanted - wanted / 100;
            assert!((least..=wanted).contains(&hedged), "{ratio} of {requests}: {hedged}, not {wanted}");
        }
    }

    #[test]
    fn what_was_saved_long_ago_is_not_spent_at_once() {
        let hedges = Hedges::default();
        (0..1_000_000).for_each(|_| hedges.asked());
        let spent = (0..10_000).filter(|_| hedges.may(0.1)).count();
        assert!((50..=100).contains(&spent), "{spent}");
    }

    #[test]
    fn a_greedy_config_leaves_a_modest_one_nothing() {
        let hedges = Hedges::default();
        (0..100).for_each(|_| hedges.asked());
        assert_eq!((0..100).filter(|_| hedges.may(0.5)).count(), 50);
        assert!(!hedges.may(0.1));
    }
}
