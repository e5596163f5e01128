//! When a grant is good, when it is to be renewed and when nobody should ask again. Time is an argument.

use crate::error::Error;
use crate::provider::token_exchange::Credentials;
use std::time::{Duration, SystemTime};

/// A failure is told again for so long before the token server is asked again; twice as long after each
/// further one.
const FAILURE_BACKOFF: Duration = Duration::from_secs(2);
const MAX_FAILURE_BACKOFF: Duration = Duration::from_secs(60);
/// A renewal that takes longer than this is taken for lost.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);
/// So long before its end it is not used any more: the call must still arrive.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);
/// Whatever a token server says: nothing is held longer.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// A provider's refusal says nothing about a grant younger than this: the account itself lacks the right.
const INVALIDATION_GRACE: Duration = Duration::from_secs(60);

/// What is known of one grant.
#[derive(Default)]
pub(super) struct CachedCredential {
    held: Option<Held>,
    failure: Option<Failure>,
    /// Somebody was sent to renew it.
    refreshing_since: Option<SystemTime>,
}

struct Held {
    credentials: Credentials,
    fetched_at: SystemTime,
    lifetime: Duration,
}

struct Failure {
    error: Error,
    at: SystemTime,
    consecutive: u32,
}

/// How things stand at a moment.
#[derive(Debug)]
pub(super) enum Freshness {
    Fresh(Credentials),
    /// Good, and whoever hears this is to renew it: said once.
    Stale(Credentials),
    /// Asking again would do no good yet.
    Failing(Error),
    Missing,
}

impl CachedCredential {
    pub(super) fn freshness(&mut self, now: SystemTime) -> Freshness {
        if let Some(held) = self.held.as_ref().filter(|held| held.is_usable(now)) {
            let credentials = held.credentials.clone();
            let refreshing = self.refreshing_since.is_some_and(|since| within(since, REFRESH_TIMEOUT, now));
            if !held.is_stale(now) || refreshing || self.is_backing_off(now) {
                return Freshness::Fresh(credentials);
            }
            self.refreshing_since = Some(now);
            return Freshness::Stale(credentials);
        }
        match &self.failure {
            Some(failure) if self.is_backing_off(now) => Freshness::Failing(failure.error.clone()),
            _ => Freshness::Missing,
        }
    }

    pub(super) fn store(&mut self, credentials: Credentials, lifetime: Duration, now: SystemTime) {
        let lifetime = lifetime.min(MAX_LIFETIME);
        *self = Self { held: Some(Held { credentials, fetched_at: now, lifetime }), ..Self::default() };
    }

    pub(super) fn record_failure(&mut self, error: Error, now: SystemTime) {
        let consecutive = self.failure.as_ref().map_or(0, |failure| failure.consecutive).saturating_add(1);
        self.failure = Some(Failure { error, at: now, consecutive });
        self.refreshing_since = None;
    }

    pub(super) fn invalidate(&mut self, now: SystemTime) {
        self.held.take_if(|held| !within(held.fetched_at, INVALIDATION_GRACE, now));
    }

    fn is_backing_off(&self, now: SystemTime) -> bool {
        self.failure.as_ref().is_some_and(|failure| {
            let doubled = FAILURE_BACKOFF * (1 << failure.consecutive.saturating_sub(1).min(5));
            within(failure.at, doubled.min(MAX_FAILURE_BACKOFF), now)
        })
    }
}

impl Held {
    /// Short lives have a short margin: a tenth.
    fn is_usable(&self, now: SystemTime) -> bool {
        within(self.fetched_at, self.lifetime.saturating_sub(EXPIRY_MARGIN.min(self.lifetime / 10)), now)
    }

    fn is_stale(&self, now: SystemTime) -> bool {
        !within(self.fetched_at, self.lifetime * 4 / 5, now)
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

    fn freshness_at(cached: &mut CachedCredential, seconds: u64) -> &'static str {
        match cached.freshness(at(seconds)) {
            Freshness::Fresh(_) => "good",
            Freshness::Stale(_) => "ageing",
            Freshness::Failing(_) => "failed",
            Freshness::Missing => "absent",
        }
    }

    #[test]
    fn freshness_over_the_lifetime_of_one_hour() {
        let mut cached = CachedCredential::default();
        assert_eq!(freshness_at(&mut cached, 0), "absent");
        cached.store(token("a"), HOUR, at(0));
        assert_eq!(freshness_at(&mut cached, 0), "good");
        assert_eq!(freshness_at(&mut cached, 2879), "good");
        assert_eq!(freshness_at(&mut cached, 2880), "ageing");
        assert_eq!(freshness_at(&mut cached, 2881), "good", "one renews, the others go on");
        assert_eq!(freshness_at(&mut cached, 2910), "ageing", "the renewal was lost");
        assert_eq!(freshness_at(&mut cached, 3539), "ageing");
        assert_eq!(freshness_at(&mut cached, 3540), "absent");
        cached.store(token("b"), Duration::MAX, at(3540));
        assert_eq!(freshness_at(&mut cached, 3541), "good");
    }

    #[test]
    fn a_clock_set_back_is_not_trusted() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), HOUR, at(100));
        assert_eq!(freshness_at(&mut cached, 99), "absent");
        cached.record_failure(Error::internal("x"), at(100));
        assert_eq!(freshness_at(&mut cached, 99), "absent");
    }

    #[test]
    fn a_zero_lifetime_is_never_cached() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), Duration::ZERO, at(0));
        assert_eq!(freshness_at(&mut cached, 0), "absent");
        cached.store(token("a"), Duration::from_secs(10), at(0));
        assert_eq!(
            (freshness_at(&mut cached, 7), freshness_at(&mut cached, 8), freshness_at(&mut cached, 9)),
            ("good", "ageing", "absent")
        );
    }

    #[test]
    fn the_backoff_doubles_after_each_failure() {
        let mut cached = CachedCredential::default();
        let mut now = 0;
        for backoff in [2, 4, 8, 16, 32, 60, 60] {
            cached.record_failure(Error::internal("x"), at(now));
            assert_eq!(freshness_at(&mut cached, now + backoff - 1), "failed", "{backoff}");
            assert_eq!(freshness_at(&mut cached, now + backoff), "absent", "{backoff}");
            now += backoff;
        }
        cached.store(token("a"), HOUR, at(now));
        cached.record_failure(Error::internal("x"), at(now + 3000));
        assert_eq!(freshness_at(&mut cached, now + 3001), "good", "what is held is used on");
        assert_eq!(freshness_at(&mut cached, now + 3002), "ageing");
    }

    #[test]
    fn invalidation_spares_recent_credentials() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), HOUR, at(0));
        cached.invalidate(at(59));
        assert_eq!(freshness_at(&mut cached, 59), "good");
        cached.invalidate(at(60));
        assert_eq!(freshness_at(&mut cached, 60), "absent");
    }
}
