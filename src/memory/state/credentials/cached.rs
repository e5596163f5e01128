//! One cached credential: when it may be used, when to refresh it, and the backoff after failures. Time is an argument.
//!
//! Example with a lifetime of one hour: used as it is until 48 min (4/5), then still used while one request refreshes
//! it in the background, and missing from 59 min (60 s before its end). Failures back off 2, 4, 8, .. 60 s.

use knowledge::provider::token_exchange::Credentials;
use std::time::{Duration, SystemTime};
use words::error::Error;

/// After a failure, requests get the same error for this long without a new exchange; it doubles after each further
/// failure.
const FAILURE_BACKOFF: Duration = Duration::from_secs(2);
const MAX_FAILURE_BACKOFF: Duration = Duration::from_secs(60);
/// After this long a refresh is assumed lost, and another one may start.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);
/// Credentials are not used in this time before their expiry, so that the request still arrives in time.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);
/// Maximum lifetime, even if the token server reports a longer one.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Credentials younger than this are not invalidated when a provider rejects them: then the account itself lacks the
/// permission.
const INVALIDATION_GRACE: Duration = Duration::from_secs(60);

/// The last credentials and the last failure of one token exchange.
#[derive(Default)]
pub(super) struct CachedCredential {
    held: Option<Held>,
    failure: Option<Failure>,
    /// When a caller last got [`Freshness::Stale`] and so had to refresh the credentials.
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

/// The state at a given time.
#[derive(Debug)]
pub(super) enum Freshness {
    Fresh(Credentials),
    /// Usable, and the caller must refresh them; returned to one caller only.
    Stale(Credentials),
    /// The last exchange failed, and the backoff is not over.
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
    /// The margin is at most a tenth of the lifetime.
    fn is_usable(&self, now: SystemTime) -> bool {
        within(self.fetched_at, self.lifetime.saturating_sub(EXPIRY_MARGIN.min(self.lifetime / 10)), now)
    }

    fn is_stale(&self, now: SystemTime) -> bool {
        !within(self.fetched_at, self.lifetime * 4 / 5, now)
    }
}

/// Whether less than `span` has passed since `since`. False when the clock was set back.
fn within(since: SystemTime, span: Duration, now: SystemTime) -> bool {
    now.duration_since(since).is_ok_and(|passed| passed < span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::secret::Secret;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn token(text: &str) -> Credentials {
        Credentials::Bearer(Secret::new(text))
    }

    fn freshness_at(cached: &mut CachedCredential, seconds: u64) -> &'static str {
        match cached.freshness(at(seconds)) {
            Freshness::Fresh(_) => "fresh",
            Freshness::Stale(_) => "stale",
            Freshness::Failing(_) => "failing",
            Freshness::Missing => "missing",
        }
    }

    #[test]
    fn freshness_over_the_lifetime_of_one_hour() {
        let mut cached = CachedCredential::default();
        assert_eq!(freshness_at(&mut cached, 0), "missing");
        cached.store(token("a"), HOUR, at(0));
        assert_eq!(freshness_at(&mut cached, 0), "fresh");
        assert_eq!(freshness_at(&mut cached, 2879), "fresh");
        assert_eq!(freshness_at(&mut cached, 2880), "stale");
        assert_eq!(freshness_at(&mut cached, 2881), "fresh", "one request refreshes, the others just use it");
        assert_eq!(freshness_at(&mut cached, 2910), "stale", "the refresh was lost");
        assert_eq!(freshness_at(&mut cached, 3539), "stale");
        assert_eq!(freshness_at(&mut cached, 3540), "missing");
        cached.store(token("b"), Duration::MAX, at(3540));
        assert_eq!(freshness_at(&mut cached, 3541), "fresh");
    }

    #[test]
    fn a_clock_set_back_is_not_trusted() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), HOUR, at(100));
        assert_eq!(freshness_at(&mut cached, 99), "missing");
        cached.record_failure(Error::internal("x"), at(100));
        assert_eq!(freshness_at(&mut cached, 99), "missing");
    }

    #[test]
    fn a_zero_lifetime_is_never_cached() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), Duration::ZERO, at(0));
        assert_eq!(freshness_at(&mut cached, 0), "missing");
        cached.store(token("a"), Duration::from_secs(10), at(0));
        assert_eq!(
            (freshness_at(&mut cached, 7), freshness_at(&mut cached, 8), freshness_at(&mut cached, 9)),
            ("fresh", "stale", "missing")
        );
    }

    #[test]
    fn the_backoff_doubles_after_each_failure() {
        let mut cached = CachedCredential::default();
        let mut now = 0;
        for backoff in [2, 4, 8, 16, 32, 60, 60] {
            cached.record_failure(Error::internal("x"), at(now));
            assert_eq!(freshness_at(&mut cached, now + backoff - 1), "failing", "{backoff}");
            assert_eq!(freshness_at(&mut cached, now + backoff), "missing", "{backoff}");
            now += backoff;
        }
        cached.store(token("a"), HOUR, at(now));
        cached.record_failure(Error::internal("x"), at(now + 3000));
        assert_eq!(freshness_at(&mut cached, now + 3001), "fresh", "the held credentials stay in use");
        assert_eq!(freshness_at(&mut cached, now + 3002), "stale");
    }

    #[test]
    fn invalidation_spares_recent_credentials() {
        let mut cached = CachedCredential::default();
        cached.store(token("a"), HOUR, at(0));
        cached.invalidate(at(59));
        assert_eq!(freshness_at(&mut cached, 59), "fresh");
        cached.invalidate(at(60));
        assert_eq!(freshness_at(&mut cached, 60), "missing");
    }
}
