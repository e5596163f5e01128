//! Allows at most so many events a second: for events that anyone can cause and that cost something.
//!
//! Only the current second is counted. Time is an argument.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The events of the current second.
#[derive(Debug)]
pub struct Rate {
    max: u32,
    second: Mutex<Option<(Instant, u32)>>,
}

impl Rate {
    /// `max`: events a second.
    pub const fn new(max: u32) -> Self {
        Self { max, second: Mutex::new(None) }
    }

    /// Whether one more event may happen now.
    pub fn allows(&self, now: Instant) -> bool {
        let mut second = self.second.lock();
        let (begin, count) = second.unwrap_or((now, 0));
        let (begin, count) = if now.saturating_duration_since(begin) < Duration::from_secs(1) {
            (begin, count)
        } else {
            (now, 0)
        };
        *second = Some((begin, count.saturating_add(1)));
        count < self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_the_second() {
        let rate = Rate::new(2);
        let now = Instant::now();
        let at = |ms| rate.allows(now + Duration::from_millis(ms));
        assert_eq!([at(0), at(1), at(2), at(999)], [true, true, false, false]);
        assert_eq!([at(1000), at(1500), at(1999)], [true, true, false]);
        assert!(at(2001));
    }
}
