//! When a grant is good, when it is to be renewed and when nobody should ask again. Time is an argument.

use crate::error::Error;
use crate::provider::grant::Credentials;
use std::time::{Duration, SystemTime};

/// A failure is told again for so long before the token server is asked again; twice as long after each
/// further one.
const PEACE: Duration = Duration::from_secs(2);
const LONGEST_PEACE: Duration = Duration::from_secs(60);
/// A renewal that takes longer than this is taken for lost.
const RENEWAL: Duration = Duration::from_secs(30);
/// So long before its end it is not used any more: the call must still arrive.
const MARGIN: Duration = Duration::from_secs(60);
/// Whatever a token server says: nothing is held longer.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// A provider's refusal says nothing about a grant younger than this: the account itself lacks the right.
const NEW: Duration = Duration::from_secs(60);

/// What is known of one grant.
#[derive(Default)]
pub(super) struct Shelf {
    held: Option<Held>,
    failure: Option<Failure>,
    /// Somebody was sent to renew it.
    renewing: Option<SystemTime>,
}

struct Held {
    granted: Credentials,
    got: SystemTime,
    life: Duration,
}

struct Failure {
    error: Error,
    at: SystemTime,
    in_row: u32,
}

/// How things stand at a moment.
#[derive(Debug)]
pub(super) enum Standing {
    Good(Credentials),
    /// Good, and whoever hears this is to renew it: said once.
    Ageing(Credentials),
    /// Asking again would do no good yet.
    Failed(Error),
    Absent,
}

impl Shelf {
    pub(super) fn standing(&mut self, now: SystemTime) -> Standing {
        if let Some(held) = self.held.as_ref().filter(|held| held.is_good(now)) {
            let granted = held.granted.clone();
            let at_work = self.renewing.is_some_and(|since| within(since, RENEWAL, now));
            if !held.is_ageing(now) || at_work || self.is_in_peace(now) {
                return Standing::Good(granted);
            }
            self.renewing = Some(now);
            return Standing::Ageing(granted);
        }
        match &self.failure {
            Some(failure) if self.is_in_peace(now) => Standing::Failed(failure.error.clone()),
            _ => Standing::Absent,
        }
    }

    pub(super) fn put(&mut self, granted: Credentials, life: Duration, now: SystemTime) {
        let life = life.min(LONGEST_LIFE);
        *self = Self { held: Some(Held { granted, got: now, life }), ..Self::default() };
    }

    pub(super) fn fail(&mut self, error: Error, now: SystemTime) {
        let in_row = self.failure.as_ref().map_or(0, |failure| failure.in_row).saturating_add(1);
        self.failure = Some(Failure { error, at: now, in_row });
        self.renewing = None;
    }

    pub(super) fn doubt(&mut self, now: SystemTime) {
        self.held.take_if(|held| !within(held.got, NEW, now));
    }

    fn is_in_peace(&self, now: SystemTime) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            let doubled = PEACE * (1 << failure.in_row.saturating_sub(1).min(5));
            within(failure.at, doubled.min(LONGEST_PEACE), now)
        })
    }
}

impl Held {
    /// Short lives have a short margin: a tenth.
    fn is_good(&self, now: SystemTime) -> bool {
        within(self.got, self.life.saturating_sub(MARGIN.min(self.life / 10)), now)
    }

    fn is_ageing(&self, now: SystemTime) -> bool {
        !within(self.got, self.life * 4 / 5, now)
    }
}

/// Whether less than `span` passed since. A clock that was put back proves nothing: then it did not.
fn within(since: SystemTime, span: Duration, now: SystemTime) -> bool {
    now.duration_since(since).is_ok_and(|passed| passed < span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::Secret;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn token(text: &str) -> Credentials {
        Credentials::Bearer(Secret::new(text))
    }

    fn word(shelf: &mut Shelf, seconds: u64) -> &'static str {
        match shelf.standing(at(seconds)) {
            Standing::Good(_) => "good",
            Standing::Ageing(_) => "ageing",
            Standing::Failed(_) => "failed",
            Standing::Absent => "absent",
        }
    }

    #[test]
    fn an_hour_from_first_to_last() {
        let mut shelf = Shelf::default();
        assert_eq!(word(&mut shelf, 0), "absent");
        shelf.put(token("a"), HOUR, at(0));
        assert_eq!(word(&mut shelf, 0), "good");
        assert_eq!(word(&mut shelf, 2879), "good");
        assert_eq!(word(&mut shelf, 2880), "ageing");
        assert_eq!(word(&mut shelf, 2881), "good", "one renews, the others go on");
        assert_eq!(word(&mut shelf, 2910), "ageing", "the renewal was lost");
        assert_eq!(word(&mut shelf, 3539), "ageing");
        assert_eq!(word(&mut shelf, 3540), "absent");
        shelf.put(token("b"), Duration::MAX, at(3540));
        assert_eq!(word(&mut shelf, 3541), "good");
    }

    #[test]
    fn a_clock_that_was_put_back_is_not_trusted() {
        let mut shelf = Shelf::default();
        shelf.put(token("a"), HOUR, at(100));
        assert_eq!(word(&mut shelf, 99), "absent");
        shelf.fail(Error::internal("x"), at(100));
        assert_eq!(word(&mut shelf, 99), "absent");
    }

    #[test]
    fn what_lives_no_time_is_never_held() {
        let mut shelf = Shelf::default();
        shelf.put(token("a"), Duration::ZERO, at(0));
        assert_eq!(word(&mut shelf, 0), "absent");
        shelf.put(token("a"), Duration::from_secs(10), at(0));
        assert_eq!(
            (word(&mut shelf, 7), word(&mut shelf, 8), word(&mut shelf, 9)),
            ("good", "ageing", "absent")
        );
    }

    #[test]
    fn a_server_that_fails_is_left_in_peace_longer_each_time() {
        let mut shelf = Shelf::default();
        let mut now = 0;
        for peace in [2, 4, 8, 16, 32, 60, 60] {
            shelf.fail(Error::internal("x"), at(now));
            assert_eq!(word(&mut shelf, now + peace - 1), "failed", "{peace}");
            assert_eq!(word(&mut shelf, now + peace), "absent", "{peace}");
            now += peace;
        }
        shelf.put(token("a"), HOUR, at(now));
        shelf.fail(Error::internal("x"), at(now + 3000));
        assert_eq!(word(&mut shelf, now + 3001), "good", "what is held is used on");
        assert_eq!(word(&mut shelf, now + 3002), "ageing");
    }

    #[test]
    fn a_refusal_counts_against_what_is_not_new() {
        let mut shelf = Shelf::default();
        shelf.put(token("a"), HOUR, at(0));
        shelf.doubt(at(59));
        assert_eq!(word(&mut shelf, 59), "good");
        shelf.doubt(at(60));
        assert_eq!(word(&mut shelf, 60), "absent");
    }
}
