//! The cache of host names: their last result, how long it is valid, and the lookup in flight.
//!
//! Does not check addresses; [`super::Dns`] does, on every use. At most one lookup per name runs at a time, and
//! concurrent requests wait for it. A result is refreshed before it expires, so a busy host never waits for DNS.
//!
//! Example with a TTL of 100 s: until 80 s the result is used as it is; from 80 s it is still used and one lookup
//! refreshes it in the background; from 100 s requests wait for a lookup. If lookups fail, operators' names keep the
//! old addresses until 700 s.

use super::{Resolve, ResolveError};
use moka::sync::Cache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(300);
/// How long a failure is cached.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// How long after its expiry the last good result is still used while lookups fail.
const MAX_STALE: Duration = Duration::from_secs(600);
/// The timeout of one lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of addresses of one result; the rest is dropped before any is checked or used.
const MAX_ADDRESSES: usize = 32;
/// Maximum number of concurrent lookups in each cache.
const MAX_LOOKUPS: usize = 512;

/// The result of a successful lookup.
#[derive(Debug, Clone)]
pub(crate) struct LookupResult {
    pub ips: Vec<IpAddr>,
    /// Clamped to 1 s to 5 min.
    pub ttl: Duration,
}

/// All names of one kind: operators' or clients'.
#[derive(Debug)]
pub(super) struct NameCache {
    entries: Cache<Arc<str>, Arc<Entry>>,
    lookups: Mutex<HashMap<Arc<str>, Lookup>>,
    /// These are operators' names: search domains apply, and stale results may be used.
    trusted: bool,
}

type Lookup = watch::Receiver<Option<Arc<Entry>>>;

/// The last result for a name.
#[derive(Debug)]
pub(super) struct Entry {
    ips: Box<[IpAddr]>,
    /// Index of the address to try first.
    first: AtomicUsize,
    /// Why the last lookup failed; `ips` then holds the addresses of the last good one.
    error: Option<ResolveError>,
    refresh_at: Instant,
    fresh_until: Instant,
    stale_until: Instant,
}

/// Whether an entry may be used at a given instant.
enum Usability {
    Fresh,
    WhileRefreshing,
    Expired,
}

impl NameCache {
    pub(super) fn new(trusted: bool, max_names: u64) -> Arc<Self> {
        let entries = Cache::builder().max_capacity(max_names).time_to_live(MAX_TTL + MAX_STALE).build();
        Arc::new(Self { entries, lookups: Mutex::default(), trusted })
    }

    /// Drops the results whose time is over.
    pub(super) fn drop_expired(&self) {
        self.entries.run_pending_tasks();
    }

    /// The addresses of `name`, from the cache or from `resolver`.
    pub(super) async fn entry(
        self: &Arc<Self>,
        name: &str,
        resolver: &Arc<dyn Resolve>,
        now: Instant,
    ) -> Result<Arc<Entry>, ResolveError> {
        if let Some(entry) = self.entries.get(name) {
            match entry.usability(self.trusted, now) {
                Usability::Fresh => return entry.outcome(self.trusted, now),
                Usability::WhileRefreshing => {
                    // Runs in the background; if it cannot be started, the old result is still good.
                    let _ = self.look_up(name, resolver, now);
                    return entry.outcome(self.trusted, now);
                }
                Usability::Expired => {}
            }
        }
        let mut lookup = self.look_up(name, resolver, now)?;
        let cancelled = |_| ResolveError::Failed("the lookup was cut off by a shutdown".to_owned());
        let entry = lookup.wait_for(Option::is_some).await.map_err(cancelled)?.clone();
        entry.ok_or(ResolveError::NotFound)?.outcome(self.trusted, now)
    }

    /// Joins the lookup of `name` in flight or starts one. A lookup runs as a task of its own, so that a request that
    /// is cancelled does not take the result away from the others that wait for it.
    fn look_up(
        self: &Arc<Self>,
        name: &str,
        resolver: &Arc<dyn Resolve>,
        now: Instant,
    ) -> Result<Lookup, ResolveError> {
        let mut lookups = self.lookups.lock();
        if let Some(lookup) = lookups.get(name) {
            // A lookup whose task ended with its runtime must not block the name for ever.
            if lookup.has_changed().is_ok() || lookup.borrow().is_some() {
                return Ok(lookup.clone());
            }
        }
        if lookups.len() >= MAX_LOOKUPS {
            lookups.retain(|_, lookup| lookup.has_changed().is_ok());
            if lookups.len() >= MAX_LOOKUPS {
                return Err(ResolveError::Failed("too many lookups at once".to_owned()));
            }
        }
        let name: Arc<str> = name.into();
        let (sender, lookup) = watch::channel(None);
        lookups.insert(Arc::clone(&name), lookup.clone());
        let cache = Arc::clone(self);
        let resolver = Arc::clone(resolver);
        tokio::spawn(async move {
            let result = tokio::time::timeout(LOOKUP_TIMEOUT, resolver.resolve(&name, cache.trusted)).await;
            let result = result.unwrap_or_else(|_| Err(ResolveError::Failed("no answer in time".to_owned())));
            let entry = Arc::new(Entry::following(cache.entries.get(&*name).as_deref(), result, now));
            cache.entries.insert(Arc::clone(&name), Arc::clone(&entry));
            cache.lookups.lock().remove(&*name);
            // Fails when no request waits any more.
            let _ = sender.send(Some(entry));
        });
        Ok(lookup)
    }

    /// Moves on from an address that could not be connected to, unless another request already did.
    pub(super) fn connect_failed(&self, name: &str, ip: IpAddr) {
        let Some(entry) = self.entries.get(name) else { return };
        let first = entry.first();
        if entry.ips.get(first) == Some(&ip) {
            let next = if first + 1 < entry.ips.len() { first + 1 } else { 0 };
            // Fails when another request has moved on at the same time.
            let _ = entry.first.compare_exchange(first, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Entry {
    pub(super) fn ips(&self) -> &[IpAddr] {
        &self.ips
    }

    pub(super) fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    /// The entry that replaces `old` after a lookup. Times count from the start of the lookup.
    fn following(old: Option<&Entry>, result: Result<LookupResult, ResolveError>, now: Instant) -> Self {
        let result = result
            .and_then(|result| if result.ips.is_empty() { Err(ResolveError::NotFound) } else { Ok(result) });
        match result {
            Ok(LookupResult { mut ips, ttl }) => {
                ips.truncate(MAX_ADDRESSES);
                let ttl = ttl.clamp(MIN_TTL, MAX_TTL);
                let fresh_until = now + ttl;
                // A new lookup must not put an address first again that failed to connect.
                let preferred = old.filter(|old| old.first() > 0).and_then(|old| old.ips.get(old.first()));
                let first =
                    preferred.and_then(|preferred| ips.iter().position(|ip| ip == preferred)).unwrap_or(0);
                Self {
                    ips: ips.into(),
                    first: first.into(),
                    error: None,
                    refresh_at: now + ttl / 5 * 4,
                    fresh_until,
                    stale_until: fresh_until + MAX_STALE,
                }
            }
            Err(error) => Self::following_failure(old, error, now),
        }
    }

    fn following_failure(old: Option<&Entry>, error: ResolveError, now: Instant) -> Self {
        let retry = now + FAILURE_TTL;
        let kept = old.filter(|_| matches!(error, ResolveError::Failed(_)));
        let (ips, first) = kept.map_or((Box::default(), 0), |old| (old.ips.clone(), old.first()));
        // A failed early refresh does not invalidate a result that is still fresh.
        let holds = kept.filter(|old| old.error.is_none() && old.fresh_until > retry);
        Self {
            ips,
            first: first.into(),
            error: if holds.is_some() { None } else { Some(error) },
            refresh_at: retry,
            fresh_until: holds.map_or(retry, |old| old.fresh_until),
            stale_until: kept.map_or(now, |old| old.stale_until),
        }
    }

    fn serves_stale(&self, trusted: bool, now: Instant) -> bool {
        trusted && !self.ips.is_empty() && now < self.stale_until
    }

    fn usability(&self, trusted: bool, now: Instant) -> Usability {
        if now < self.fresh_until {
            // A failure is also fresh for a second and is neither retried nor refreshed in that time.
            if self.error.is_none() && now >= self.refresh_at {
                Usability::WhileRefreshing
            } else {
                Usability::Fresh
            }
        } else if self.error.is_some() && self.serves_stale(trusted, now) {
            Usability::WhileRefreshing
        } else {
            Usability::Expired
        }
    }

    fn outcome(self: Arc<Self>, trusted: bool, now: Instant) -> Result<Arc<Self>, ResolveError> {
        match &self.error {
            Some(error) if !self.serves_stale(trusted, now) => Err(error.clone()),
            _ => Ok(self),
        }
    }
}
