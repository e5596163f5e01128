//! When the next place is expected, from how long places were held, and whether that is too late to wait for (`queue.overflow_ms`).
//!
//! Pure: times are passed in. Not here: who waits (`queue`).

use std::time::{Duration, Instant};
use words::config::policies::Priority;

/// The share of a new time in the mean.
const NEW_SHARE: f64 = 0.1;
/// Requests go elsewhere until the expected wait is below this share of the bound: with one bound for both they would go back and forth
/// with each place that is free.
const BACK_BELOW: f64 = 0.5;

/// How long the places of one owner are held.
#[derive(Debug, Default)]
pub(super) struct ExpectedWait {
    /// Seconds, of attempts that were responded to; `None`: there was none.
    mean_hold: Option<f64>,
    /// The time from which the ages of the places that are held now are counted, and the sum of their starts after it.
    base: Option<Instant>,
    starts: Duration,
    /// By priority: the last expectation was beyond the bound, and none since was well below it.
    is_over: [bool; 3],
}

impl ExpectedWait {
    /// A place is taken.
    pub fn note_taken(&mut self, now: Instant) {
        let base = *self.base.get_or_insert(now);
        self.starts += now.saturating_duration_since(base);
    }

    /// A place that was taken at `since` is free again. `is_success`: its attempt had a response. What has failed says only that it takes
    /// so long at least.
    pub fn note_left(&mut self, since: Instant, now: Instant, is_success: bool) {
        let base = self.base.unwrap_or(since);
        self.starts = self.starts.saturating_sub(since.saturating_duration_since(base));
        let held = now.saturating_duration_since(since).as_secs_f64();
        if is_success || self.mean_hold.is_some_and(|mean| held > mean) {
            self.mean_hold = Some(self.mean_hold.map_or(held, |mean| mean + (held - mean) * NEW_SHARE));
        }
    }

    /// How long one would wait before whom so many are served, with so many places, of which `in_use` are taken. `None`: that is not
    /// known yet.
    pub fn after(&self, ahead: usize, places: u32, in_use: u32, now: Instant) -> Option<Duration> {
        let hold = self.mean_hold.into_iter().chain(self.mean_age(in_use, now)).reduce(f64::max)?;
        let seconds = hold * (ahead as f64 + 1.0) / f64::from(places.max(1));
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// How long the places that are taken have been held, seconds: they will be for so long at least.
    fn mean_age(&self, in_use: u32, now: Instant) -> Option<f64> {
        let elapsed = now.saturating_duration_since(self.base?).as_secs_f64();
        (in_use > 0).then(|| (elapsed - self.starts.as_secs_f64() / f64::from(in_use)).max(0.0))
    }

    /// Whether a wait of `expected` is too long, by the bound and by what was said of the last one of this priority.
    pub fn is_too_long(&mut self, priority: Priority, expected: Duration, bound: Duration) -> bool {
        let is_over = self.is_over_of(priority);
        let bound = if *is_over { bound.mul_f64(BACK_BELOW) } else { bound };
        *is_over = expected > bound;
        *is_over
    }

    /// A place was free.
    pub fn note_free(&mut self) {
        self.is_over = [false; 3];
    }

    fn is_over_of(&mut self, priority: Priority) -> &mut bool {
        let [low, normal, high] = &mut self.is_over;
        match priority {
            Priority::Low => low,
            Priority::Normal => normal,
            Priority::High => high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_is_expected_from_the_places_and_those_ahead() {
        let start = Instant::now();
        let mut wait = ExpectedWait::default();
        assert_eq!(wait.after(0, 4, 0, start), None);
        let held = |wait: &mut ExpectedWait, time: Duration, is_success: bool| {
            wait.note_taken(start);
            wait.note_left(start, start + time, is_success);
        };
        held(&mut wait, SECOND, false);
        assert_eq!(wait.after(0, 4, 0, start), None, "a failure says nothing");
        held(&mut wait, SECOND * 8, true);
        assert_eq!(wait.after(0, 4, 0, start), Some(SECOND * 2));
        assert_eq!(wait.after(9, 4, 0, start), Some(SECOND * 20));
        (0..20).for_each(|_| held(&mut wait, SECOND / 10, false));
        assert_eq!(wait.after(0, 0, 0, start), Some(SECOND * 8), "failures are quick");
        (0..100).for_each(|_| held(&mut wait, SECOND * 2, true));
        let later = wait.after(0, 1, 0, start).unwrap();
        assert!((SECOND * 2..SECOND * 3).contains(&later), "{later:?}");
    }

    #[test]
    fn places_that_are_held_for_long_now_count() {
        let start = Instant::now();
        let mut wait = ExpectedWait::default();
        wait.note_taken(start);
        wait.note_taken(start + SECOND * 2);
        assert_eq!(wait.after(0, 2, 2, start + SECOND * 11), Some(SECOND * 5), "ten seconds on average");
        wait.note_left(start, start + SECOND * 11, false);
        assert_eq!(wait.after(0, 2, 1, start + SECOND * 12), Some(SECOND * 5));
        wait.note_left(start + SECOND * 2, start + SECOND * 12, true);
        assert_eq!(wait.after(0, 2, 0, start + SECOND * 99), Some(SECOND * 5));
    }

    #[test]
    fn requests_come_back_when_the_wait_is_well_below_the_bound() {
        let mut wait = ExpectedWait::default();
        let bound = SECOND * 10;
        let mut verdict = |seconds| wait.is_too_long(Priority::Low, SECOND * seconds, bound);
        assert_eq!(
            [10, 11, 10, 6, 5, 10, 11].map(&mut verdict),
            [false, true, true, true, false, false, true]
        );
        assert!(
            !wait.is_too_long(Priority::High, bound, bound),
            "what is said of low ones says nothing of others"
        );
        wait.note_free();
        assert!(!wait.is_too_long(Priority::Low, bound, bound));
    }
}
