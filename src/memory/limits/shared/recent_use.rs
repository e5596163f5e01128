//! What was taken of a bucket in the last two seconds. Pure: the time is an argument.

/// Parts of the two seconds, and how long each is in milliseconds.
const SLOTS: i64 = 8;
const SLOT: i64 = 250;

/// Amounts and requests, by quarters of a second.
#[derive(Debug, Default)]
pub(super) struct RecentUse {
    slots: [Use; SLOTS as usize],
    /// The last one that is counted in, from 1970.
    last: i64,
}

/// What was taken, by how many requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub amount: i64,
    pub requests: i64,
}

impl RecentUse {
    /// Counts a request at this time, milliseconds since 1970.
    pub(super) fn add(&mut self, amount: i64, now: i64) {
        self.bring_up_to(now);
        let place = usize::try_from(self.last.rem_euclid(SLOTS)).unwrap_or(0);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.amount = slot.amount.saturating_add(amount);
            slot.requests = slot.requests.saturating_add(1);
        }
    }

    /// All of the last two seconds.
    pub(super) fn sum(&mut self, now: i64) -> Use {
        self.bring_up_to(now);
        self.slots.iter().fold(Use::default(), |sum, slot| Use {
            amount: sum.amount.saturating_add(slot.amount),
            requests: sum.requests.saturating_add(slot.requests),
        })
    }

    fn bring_up_to(&mut self, now: i64) {
        let slot = now.div_euclid(SLOT);
        let passed = slot.saturating_sub(self.last);
        // Requests read their clocks before they come here: some are a little late.
        if (-SLOTS..=0).contains(&passed) {
            return;
        }
        if !(1..SLOTS).contains(&passed) {
            self.slots = <[Use; SLOTS as usize]>::default();
        }
        for step in 1..passed.clamp(1, SLOTS) {
            self.clear(self.last.saturating_add(step));
        }
        self.clear(slot);
        self.last = slot;
    }

    fn clear(&mut self, slot: i64) {
        let place = usize::try_from(slot.rem_euclid(SLOTS)).unwrap_or(0);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = Use::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_two_seconds_is_forgotten() {
        let mut recent = RecentUse::default();
        let sum = |recent: &mut RecentUse, now| {
            let Use { amount, requests } = recent.sum(now);
            (amount, requests)
        };
        for now in [10_000, 10_100, 10_300, 11_000, 11_990] {
            recent.add(2, now);
        }
        // One that read its clock before the last one.
        recent.add(1, 11_700);
        assert_eq!(sum(&mut recent, 11_999), (11, 6));
        assert_eq!(sum(&mut recent, 12_000), (7, 4), "the first quarter is over");
        assert_eq!(sum(&mut recent, 12_600), (5, 3));
        assert_eq!(sum(&mut recent, 13_749), (3, 2));
        assert_eq!(sum(&mut recent, 13_750), (0, 0));
        recent.add(5, 20_000);
        assert_eq!(sum(&mut recent, 20_000), (5, 1));
        // A clock that was set back.
        assert_eq!(sum(&mut recent, 5_000), (0, 0));
        recent.add(3, 5_000);
        assert_eq!(sum(&mut recent, 5_100), (3, 1));
    }
}
