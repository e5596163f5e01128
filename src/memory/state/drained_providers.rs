//! Providers that get no new attempts for a while, and then few and more and more, because an operator has said so
//! (`POST /v1/providers/{slug}/drain`).
//!
//! Kept by the process until it ends; attempts that are under way go on. Bounded by the stored providers. Not here: what a plan makes of
//! it (`route`): a drained target is passed over like one whose circuit is open, and used where there is no other.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The most that are drained at a time.
const MAX_DRAINED: usize = 10_000;

/// The drained providers, by record (nil for one of the settings) and slug.
#[derive(Debug, Default)]
pub struct DrainedProviders {
    drained: Mutex<BTreeMap<Uuid, BTreeMap<String, Drained>>>,
    /// How many there are, for requests: most processes drain none.
    count: AtomicUsize,
}

/// The least share of its turns that a provider takes while it warms up.
const LEAST_SHARE: f64 = 0.05;

/// Since when, and until when, a provider is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    pub since: Instant,
    /// `None`: until somebody ends it.
    pub until: Option<Instant>,
    /// How long it then takes until it gets all of its turns again.
    pub warms_for: Duration,
}

impl Drained {
    fn lasts(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until + self.warms_for)
    }

    /// The share of its turns that it takes.
    pub fn share(&self, now: Instant) -> f64 {
        let warm = self.until.and_then(|until| now.checked_duration_since(until));
        let Some(warm) = warm else { return 0.0 };
        if self.warms_for.is_zero() {
            return 1.0;
        }
        (warm.as_secs_f64() / self.warms_for.as_secs_f64()).clamp(LEAST_SHARE, 1.0)
    }
}

/// A drained provider as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainedView {
    pub record: Uuid,
    pub slug: String,
    pub drained: Drained,
}

impl DrainedProviders {
    /// Drains a provider, or changes until when; with `until` in the past it only warms up. `false`: too many are.
    pub fn insert(
        &self,
        record: Uuid,
        slug: &str,
        until: Option<Instant>,
        warms_for: Duration,
        now: Instant,
    ) -> bool {
        let mut all = self.drained.lock();
        forget_ended(&mut all, now);
        let is_new = !all.get(&record).is_some_and(|of| of.contains_key(slug));
        let has_room = !is_new || count(&all) < MAX_DRAINED;
        if has_room {
            let of_record = all.entry(record).or_default();
            let since = of_record.get(slug).map_or(now, |earlier| earlier.since);
            of_record.insert(slug.to_owned(), Drained { since, until, warms_for });
        }
        self.count.store(count(&all), Ordering::Release);
        has_room
    }

    /// Ends it; whether it was drained.
    pub fn remove(&self, record: Uuid, slug: &str, now: Instant) -> bool {
        let mut all = self.drained.lock();
        forget_ended(&mut all, now);
        let removed = all.get_mut(&record).and_then(|of| of.remove(slug)).is_some();
        forget_ended(&mut all, now);
        self.count.store(count(&all), Ordering::Release);
        removed
    }

    /// Whether none is drained; without a lock.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether the provider is drained at `now`, or warms up.
    pub fn get(&self, record: Uuid, slug: &str, now: Instant) -> Option<Drained> {
        let all = self.drained.lock();
        all.get(&record)?.get(slug).copied().filter(|drained| drained.lasts(now))
    }

    /// Those that are drained at `now`.
    pub fn list(&self, now: Instant) -> Vec<DrainedView> {
        let all = self.drained.lock();
        let views = all.iter().flat_map(|(record, of)| {
            of.iter().map(|(slug, drained)| DrainedView {
                record: *record,
                slug: slug.clone(),
                drained: *drained,
            })
        });
        views.filter(|view| view.drained.lasts(now)).collect()
    }
}

fn count(all: &BTreeMap<Uuid, BTreeMap<String, Drained>>) -> usize {
    all.values().map(BTreeMap::len).sum()
}

fn forget_ended(all: &mut BTreeMap<Uuid, BTreeMap<String, Drained>>, now: Instant) {
    all.retain(|_, of| {
        of.retain(|_, drained| drained.lasts(now));
        !of.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_drained_until_then_or_until_it_is_ended() {
        let drained = DrainedProviders::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let nil = Uuid::nil();
        let record = Uuid::from_u128(7);
        assert_eq!(drained.get(nil, "one", now), None);
        assert!(
            drained.insert(nil, "one", Some(later), Duration::ZERO, now)
                && drained.insert(record, "two", None, Duration::ZERO, now)
        );
        assert!(drained.get(nil, "one", now).is_some() && drained.get(record, "one", now).is_none());
        assert_eq!(drained.list(now).len(), 2);
        // It is drained since the first time.
        assert!(drained.insert(nil, "one", Some(later), Duration::ZERO, now + Duration::from_secs(1)));
        assert_eq!(drained.get(nil, "one", now).map(|drained| drained.since), Some(now));
        assert_eq!(drained.get(nil, "one", later), None);
        assert_eq!(drained.list(later).len(), 1);
        assert!(drained.remove(record, "two", later) && !drained.remove(record, "two", later));
        assert!(!drained.remove(nil, "one", later), "it has ended by itself");
        assert_eq!(drained.count.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_provider_that_warms_up_takes_more_and_more_of_its_turns() {
        let drained = DrainedProviders::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let warms_for = Duration::from_secs(100);
        assert!(drained.insert(Uuid::nil(), "one", Some(after(50)), warms_for, now));
        let share = |seconds| {
            let at = after(seconds);
            drained.get(Uuid::nil(), "one", at).map(|drained| drained.share(at))
        };
        let shares = [0, 49, 50, 52, 75, 149, 150].map(share);
        let wanted = [Some(0.0), Some(0.0), Some(0.05), Some(0.05), Some(0.25), Some(0.99), None];
        assert_eq!(shares, wanted);
        // One that was never drained: it is new.
        assert!(drained.insert(Uuid::nil(), "new", Some(now), warms_for, now));
        assert_eq!(drained.get(Uuid::nil(), "new", now).map(|drained| drained.share(now)), Some(0.05));
        assert_eq!(drained.list(after(99)).len(), 2);
        assert!(drained.insert(Uuid::nil(), "never", None, warms_for, now));
        assert_eq!(
            drained.get(Uuid::nil(), "never", after(1_000_000)).map(|drained| drained.share(now)),
            Some(0.0)
        );
    }
}
