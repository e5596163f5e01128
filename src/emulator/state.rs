//! The state of one emulator: counters, the request log, stored objects. All of it is bounded.
//!
//! Nothing is written to disk: a restart loses it.

use super::bill::Charges;
use super::journal::Journal;
use super::object_store::ObjectStore;
use super::script::Script;
use super::{Options, Recordings, chaos, sample_text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shared by all connections.
#[derive(Debug)]
pub(super) struct State {
    pub(super) stats: Stats,
    pub(super) charges: Charges,
    pub(super) journal: Journal,
    pub(super) log_all: bool,
    pub(super) recordings: Option<Recordings>,
    pub(super) files: ObjectStore,
    pub(super) responses: ObjectStore,
    pub(super) batches: ObjectStore,
    pub(super) jobs: ObjectStore,
    #[cfg(feature = "vendors")]
    pub(super) vendors: crate::vendors::VendorObjects,
    counts: Counts,
    /// Seeds the ids; starts at the clock so that two emulators generate different ones.
    serial: AtomicU64,
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        Self {
            stats: Stats::default(),
            charges: Charges::default(),
            journal: Journal::new(),
            log_all: options.log_all,
            recordings: options.recordings,
            files: ObjectStore::default(),
            responses: ObjectStore::default(),
            batches: ObjectStore::default(),
            jobs: ObjectStore::default(),
            #[cfg(feature = "vendors")]
            vendors: crate::vendors::VendorObjects::default(),
            counts: Counts::default(),
            serial: AtomicU64::new(since_epoch().as_nanos() as u64),
        }
    }

    /// A new id in the style of the providers: `prefix` and `length` letters and digits.
    pub(super) fn id(&self, prefix: &str, length: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut seed = sample_text::scramble(self.serial.fetch_add(1, Ordering::Relaxed));
        let mut bits = seed;
        let mut id = String::with_capacity(prefix.len() + length);
        id.push_str(prefix);
        for place in 0..length {
            if place % 10 == 9 {
                seed = sample_text::scramble(seed);
                bits = seed;
            }
            id.push(LETTERS.get((bits % 62) as usize).copied().unwrap_or(b'0').into());
            bits /= 62;
        }
        id
    }

    /// The script that applies to this request: counts one use of a script with `times`, `flap` or `chaos`.
    pub(super) fn spend(&self, script: Script) -> Script {
        if script.times.is_none() && script.flap.is_none() && script.chaos.is_none() {
            return script;
        }
        let used = self.counts.next(script.key.as_deref().unwrap_or_default(), Instant::now());
        if script.times.is_some_and(|times| used.before >= times) {
            return script.spent();
        }
        // The script applies in the first half of each period, not in the second.
        let half = |flap: Duration| used.since.as_nanos() / flap.as_nanos().max(1);
        if script.flap.is_some_and(|flap| half(flap) % 2 == 1) {
            return script.spent();
        }
        match script.chaos {
            Some(percent) => {
                let seed = script.seed;
                chaos::drawn(script, percent, seed, used.before)
            }
            None => script,
        }
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Unix seconds, for `created`.
pub(super) fn now() -> u64 {
    since_epoch().as_secs()
}

/// Counters, for tests that look for leaks.
#[derive(Debug, Default)]
pub(super) struct Stats {
    accepted: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    in_flight: AtomicU64,
}

impl Stats {
    /// Counts a new connection and returns its number, from 1.
    pub(super) fn connected(&self) -> u64 {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn disconnected(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn started(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn json(&self) -> Value {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "connections_accepted": read(&self.accepted),
            "connections_open": read(&self.open),
            "requests": read(&self.requests),
            "in_flight": read(&self.in_flight),
        })
    }
}

/// How often each script key was used.
#[derive(Debug, Default)]
struct Counts(Mutex<(HashMap<String, Count>, VecDeque<String>)>);

/// Uses of a key so far, and the time of the first.
type Count = (u32, Instant);

/// Uses of a key before this one, and the time since the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    before: u32,
    since: Duration,
}

impl Counts {
    const MAX_KEYS: usize = 10_000;

    /// Counts one more use of `key`.
    fn next(&self, key: &str, now: Instant) -> Used {
        let mut inner = self.0.lock();
        let (counts, order) = &mut *inner;
        if let Some((count, first)) = counts.get_mut(key) {
            let used = Used { before: *count, since: now.saturating_duration_since(*first) };
            *count = count.saturating_add(1);
            return used;
        }
        if order.len() == Self::MAX_KEYS
            && let Some(oldest) = order.pop_front()
        {
            counts.remove(&oldest);
        }
        order.push_back(key.to_owned());
        counts.insert(key.to_owned(), (1, now));
        Used { before: 0, since: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_with_times_is_used_up() {
        let state = State::new(Options::default());
        let script = || Script::parse("status=500&times=2&key=k&tokens=3").unwrap();
        assert_eq!(state.spend(script()), script());
        assert_eq!(state.spend(script()), script());
        let spent = state.spend(script());
        assert_eq!((spent.status, spent.tokens), (None, Some(3)));
        let other = Script::parse("status=500&times=2&key=other").unwrap();
        assert_eq!(state.spend(other.clone()), other);
    }

    #[test]
    fn counts_forget_the_oldest_key() {
        let counts = Counts::default();
        let now = Instant::now();
        for key in 0..=Counts::MAX_KEYS {
            assert_eq!(counts.next(&key.to_string(), now).before, 0);
        }
        assert_eq!(counts.next("0", now).before, 0, "forgotten");
        let later = counts.next("10000", now + Duration::from_secs(3));
        assert_eq!(later, Used { before: 1, since: Duration::from_secs(3) }, "remembered");
    }

    #[test]
    fn ids_differ() {
        let state = State::new(Options::default());
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| state.id("x-", 29)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 31 && id.is_ascii()));
    }
}
