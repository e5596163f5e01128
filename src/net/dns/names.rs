//! What we remember of host names: their last answer, how long it holds, and the lookup under way.
//!
//! Judges nothing: whether an address may be used is asked on every use, in [`super::Dns`]. One lookup per
//! name runs at a time; whoever asks meanwhile waits for it. An answer is renewed before it runs out, so a
//! busy host never waits for DNS.

use super::{NetError, Resolve};
use moka::sync::Cache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const SHORTEST_TTL: Duration = Duration::from_secs(1);
const LONGEST_TTL: Duration = Duration::from_secs(300);
/// How long a failure is remembered.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// How long after its end the last good answer still helps out when the resolver fails.
const STALE: Duration = Duration::from_secs(600);
/// A lookup that takes longer has failed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Most addresses used of one answer; a longer one is cut, and only what is kept is checked and used.
const MOST_ADDRESSES: usize = 32;
/// Most lookups under way at once, for either kind of name.
const MOST_LOOKUPS: usize = 512;

/// What a resolver answers.
#[derive(Debug, Clone)]
pub struct Answer {
    pub ips: Vec<IpAddr>,
    /// Clamped to 1 s to 5 min.
    pub ttl: Duration,
}

/// All names of one kind (operators' or callers').
#[derive(Debug)]
pub(super) struct Names {
    known: Cache<Arc<str>, Arc<Entry>>,
    lookups: Mutex<HashMap<Arc<str>, Lookup>>,
    /// Operators' names: search domains apply, and old answers may help out.
    trusted: bool,
}

type Lookup = watch::Receiver<Option<Arc<Entry>>>;

/// The last answer for a name.
#[derive(Debug)]
pub(super) struct Entry {
    ips: Box<[IpAddr]>,
    /// Index of the address to try first.
    first: AtomicUsize,
    /// Why the last lookup failed; `ips` are then those of the last good one.
    error: Option<NetError>,
    renew_at: Instant,
    fresh_until: Instant,
    stale_until: Instant,
}

/// What an entry is good for at some instant.
enum Use {
    AsIs,
    WhileRenewing,
    NotAnyMore,
}

impl Names {
    pub(super) fn new(trusted: bool, most: u64) -> Arc<Self> {
        let known = Cache::builder().max_capacity(most).time_to_live(LONGEST_TTL + STALE).build();
        Arc::new(Self { known, lookups: Mutex::default(), trusted })
    }

    /// The addresses of `name`, from memory or from `resolver`.
    pub(super) async fn entry(
        self: &Arc<Self>,
        name: &str,
        resolver: &Arc<dyn Resolve>,
        now: Instant,
    ) -> Result<Arc<Entry>, NetError> {
        if let Some(entry) = self.known.get(name) {
            match entry.usable(self.trusted, now) {
                Use::AsIs => return entry.outcome(self.trusted, now),
                Use::WhileRenewing => {
                    // Nobody waits for it, so nobody needs to know that it could not be started.
                    let _ = self.look_up(name, resolver, now);
                    return entry.outcome(self.trusted, now);
                }
                Use::NotAnyMore => {}
            }
        }
        let mut lookup = self.look_up(name, resolver, now)?;
        let gone = |_| NetError::Failed("the lookup was cut off by a shutdown".to_owned());
        let entry = lookup.wait_for(Option::is_some).await.map_err(gone)?.clone();
        entry.ok_or(NetError::NotFound)?.outcome(self.trusted, now)
    }

    /// Joins the lookup of `name` under way, or starts one. It runs as its own task: a caller that leaves
    /// does not take the answer from those who wait with it.
    fn look_up(
        self: &Arc<Self>,
        name: &str,
        resolver: &Arc<dyn Resolve>,
        now: Instant,
    ) -> Result<Lookup, NetError> {
        let mut lookups = self.lookups.lock();
        if let Some(lookup) = lookups.get(name) {
            // A lookup whose task died with its runtime must not block the name for ever.
            if lookup.has_changed().is_ok() || lookup.borrow().is_some() {
                return Ok(lookup.clone());
            }
        }
        if lookups.len() >= MOST_LOOKUPS {
            lookups.retain(|_, lookup| lookup.has_changed().is_ok());
            if lookups.len() >= MOST_LOOKUPS {
                return Err(NetError::Failed("too many lookups at once".to_owned()));
            }
        }
        let name: Arc<str> = name.into();
        let (tell, lookup) = watch::channel(None);
        lookups.insert(Arc::clone(&name), lookup.clone());
        let (names, resolver) = (Arc::clone(self), Arc::clone(resolver));
        tokio::spawn(async move {
            let answer = tokio::time::timeout(LOOKUP_TIMEOUT, resolver.resolve(&name, names.trusted)).await;
            let answer = answer.unwrap_or_else(|_| Err(NetError::Failed("no answer in time".to_owned())));
            let entry = Arc::new(Entry::after(names.known.get(&*name).as_deref(), answer, now));
            names.known.insert(Arc::clone(&name), Arc::clone(&entry));
            names.lookups.lock().remove(&*name);
            // Nobody may be waiting.
            let _ = tell.send(Some(entry));
        });
        Ok(lookup)
    }

    /// Moves on from an address that did not answer, unless somebody else already has.
    pub(super) fn failed(&self, name: &str, ip: IpAddr) {
        let Some(entry) = self.known.get(name) else { return };
        let first = entry.first();
        if entry.ips.get(first) == Some(&ip) {
            let next = if first + 1 < entry.ips.len() { first + 1 } else { 0 };
            // Lost the race: another request has moved on already.
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

    /// The entry that follows `old` once `answer` is in. Times count from the start of the lookup.
    fn after(old: Option<&Entry>, answer: Result<Answer, NetError>, now: Instant) -> Self {
        let answer = answer.and_then(|answer| match answer.ips.is_empty() {
            true => Err(NetError::NotFound),
            false => Ok(answer),
        });
        match answer {
            Ok(Answer { mut ips, ttl }) => {
                ips.truncate(MOST_ADDRESSES);
                let ttl = ttl.clamp(SHORTEST_TTL, LONGEST_TTL);
                let fresh_until = now + ttl;
                // An address that was moved away from must not come first again because DNS was asked.
                let liked = old.filter(|old| old.first() > 0).and_then(|old| old.ips.get(old.first()));
                let first = liked.and_then(|liked| ips.iter().position(|ip| ip == liked)).unwrap_or(0);
                Self {
                    ips: ips.into(),
                    first: first.into(),
                    error: None,
                    renew_at: now + ttl / 5 * 4,
                    fresh_until,
                    stale_until: fresh_until + STALE,
                }
            }
            Err(error) => Self::after_failure(old, error, now),
        }
    }

    fn after_failure(old: Option<&Entry>, error: NetError, now: Instant) -> Self {
        let retry = now + FAILURE_TTL;
        let kept = old.filter(|_| matches!(error, NetError::Failed(_)));
        let (ips, first) = kept.map_or((Box::default(), 0), |old| (old.ips.clone(), old.first()));
        // An early renewal that failed takes nothing from an answer that still holds.
        let holds = kept.filter(|old| old.error.is_none() && old.fresh_until > retry);
        Self {
            ips,
            first: first.into(),
            error: if holds.is_some() { None } else { Some(error) },
            renew_at: retry,
            fresh_until: holds.map_or(retry, |old| old.fresh_until),
            stale_until: kept.map_or(now, |old| old.stale_until),
        }
    }

    fn helps_out(&self, trusted: bool, now: Instant) -> bool {
        trusted && !self.ips.is_empty() && now < self.stale_until
    }

    fn usable(&self, trusted: bool, now: Instant) -> Use {
        if now < self.fresh_until {
            // A failure is "fresh" for its second: neither asked again nor renewed.
            if self.error.is_none() && now >= self.renew_at { Use::WhileRenewing } else { Use::AsIs }
        } else if self.error.is_some() && self.helps_out(trusted, now) {
            Use::WhileRenewing
        } else {
            Use::NotAnyMore
        }
    }

    fn outcome(self: Arc<Self>, trusted: bool, now: Instant) -> Result<Arc<Self>, NetError> {
        match &self.error {
            Some(error) if !self.helps_out(trusted, now) => Err(error.clone()),
            _ => Ok(self),
        }
    }
}
