//! When the next place is expected, from how long places were held, and whether that is too late to wait for (`queue.overflow_ms`).
//!
//! Pure: times are passed in. Not here: who waits (`queue`).

use std::time::Duration;

/// The share of a new time in the mean.
const NEW_SHARE: f64 = 0.1;
/// Requests go elsewhere until the expected wait is below this share of the bound: with one bound for both they would go back and forth
/// with each place that is free.
const BACK_BELOW: f64 = 0.5;

/// How long the places of one owner are held.
#[derive(Debug, Default)]
pub(super) struct ExpectedWait {
    /// Seconds; `None`: no place was ever free again.
    mean_hold: Option<f64>,
    /// The last expectation was beyond the bound, and none since was well below it.
    is_over: bool,
}

impl ExpectedWait {
    /// A place is free again after so long.
    pub fn note_hold(&mut self, held: Duration) {
        let held = held.as_secs_f64();
        self.mean_hold = Some(self.mean_hold.map_or(held, |mean| mean + (held - mean) * NEW_SHARE));
    }

    /// How long one would wait before whom so many are served, with so many places. `None`: that is not known yet.
    pub fn after(&self, ahead: usize, places: u32) -> Option<Duration> {
        let seconds = self.mean_hold? * (ahead as f64 + 1.0) / f64::from(places.max(1));
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Whether a wait of `expected` is too long, by the bound and by what was said of the last one.
    pub fn is_too_long(&mut self, expected: Duration, bound: Duration) -> bool {
        let bound = if self.is_over { bound.mul_f64(BACK_BELOW) } else { bound };
        self.is_over = expected > bound;
        self.is_over
    }

    /// A place was free.
    pub fn note_free(&mut self) {
        self.is_over = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_is_expected_from_the_places_and_those_ahead() {
        let mut wait = ExpectedWait::default();
        assert_eq!(wait.after(0, 4), None);
        wait.note_hold(SECOND * 8);
        assert_eq!(wait.after(0, 4), Some(SECOND * 2));
        assert_eq!(wait.after(9, 4), Some(SECOND * 20));
        assert_eq!(wait.after(0, 0), Some(SECOND * 8));
        (0..100).for_each(|_| wait.note_hold(SECOND * 2));
        let later = wait.after(0, 1).unwrap();
        assert!((SECOND * 2..SECOND * 3).contains(&later), "{later:?}");
    }

    #[test]
    fn requests_come_back_when_the_wait_is_well_below_the_bound() {
        let mut wait = ExpectedWait::default();
        let bound = SECOND * 10;
        let verdicts = [10, 11, 10, 6, 5, 10, 11].map(|seconds| wait.is_too_long(SECOND * seconds, bound));
        assert_eq!(verdicts, [false, true, true, true, false, false, true]);
        wait.note_free();
        assert!(!wait.is_too_long(bound, bound));
    }
}
