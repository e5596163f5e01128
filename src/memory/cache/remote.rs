//! The store that gateways share, as this gateway uses it: reads, writes, the purges of other gateways, and whether the store responds.
//!
//! The commands are in `redis`.

use super::circuit::Circuit;
use super::codec::Unreadable;
use super::entry::CacheKey;
use super::memory::Memory;
use super::purge::Purge;
use super::redis::{Cause, Changes, Failure, Order, Position, Redis, Written};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// How often a gateway reads the purges of others.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);
/// How long nothing is written after a write failed.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// Failed calls, and values that cannot be read.
#[derive(Debug, Default)]
struct Errors {
    timeout: AtomicU64,
    connection: AtomicU64,
    full: AtomicU64,
    refused: AtomicU64,
    version: AtomicU64,
    damaged: AtomicU64,
}

/// The shared store.
pub(super) struct Remote {
    redis: Redis,
    lookup_timeout: Duration,
    circuit: Circuit,
    errors: Errors,
    /// The last purge that this gateway has read. `None`: it has not read the stream yet.
    position: Mutex<Option<Arc<String>>>,
    /// No writes before this time.
    paused_until: Mutex<Option<Instant>>,
    is_full: AtomicBool,
    follow_now: Notify,
}

impl Remote {
    /// To be called on the runtime it is used on.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub(super) fn new(url: &str, lookup_timeout: Duration) -> Result<Self, String> {
        Ok(Self {
            redis: Redis::new(url, lookup_timeout)?,
            lookup_timeout,
            circuit: Circuit::default(),
            errors: Errors::default(),
            position: Mutex::new(None),
            paused_until: Mutex::new(None),
            is_full: AtomicBool::new(false),
            follow_now: Notify::new(),
        })
    }

    /// Whether it responds in time.
    pub(super) fn is_up(&self) -> bool {
        !self.circuit.is_open()
    }

    pub(super) fn position(&self) -> Option<Arc<String>> {
        self.position.lock().clone()
    }

    /// The value of an entry, if there is one and the store gives it in time.
    pub(super) async fn get(&self, name: &str) -> Option<Vec<u8>> {
        let outcome = timeout(self.lookup_timeout, self.redis.get(name)).await;
        match outcome.unwrap_or_else(|_| Err(self.too_slow())) {
            Ok(value) => {
                self.circuit.succeed();
                value
            }
            Err(failure) => {
                self.count(&failure);
                if self.circuit.fail() {
                    report_down(&failure);
                }
                None
            }
        }
    }

    fn too_slow(&self) -> Failure {
        let reason = format!("no response within {} ms", self.lookup_timeout.as_millis());
        Failure { cause: Cause::Timeout, reason }
    }

    /// Counts a value that cannot be read as an entry.
    pub(super) fn note_unreadable(&self, why: Unreadable) {
        let count = match why {
            Unreadable::Version => &self.errors.version,
            Unreadable::Damaged => &self.errors.damaged,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether writes are allowed now: not while the store does not respond, nor right after a write failed.
    pub(super) fn takes_writes(&self) -> bool {
        let is_paused = self.paused_until.lock().is_some_and(|end| Instant::now() < end);
        self.is_up() && !is_paused
    }

    /// Writes and removes, in this order. `None`: everything failed.
    pub(super) async fn write(&self, orders: &[Order]) -> Option<Vec<Written>> {
        let outcome = self.redis.write(orders).await;
        let failures: Vec<&Failure> = match &outcome {
            Ok(written) => written.iter().filter_map(|written| written.as_ref().err()).collect(),
            Err(failure) => vec![failure],
        };
        failures.iter().for_each(|failure| self.count(failure));
        self.note_full(failures.iter().any(|failure| failure.cause == Cause::Full));
        if let Some(failure) = failures.first() {
            *self.paused_until.lock() = Some(Instant::now() + WRITE_PAUSE);
            let is_away = matches!(failure.cause, Cause::Timeout | Cause::Connection);
            if is_away && self.circuit.fail() {
                report_down(failure);
            }
        }
        outcome.ok()
    }

    fn note_full(&self, is_full: bool) {
        match (self.is_full.swap(is_full, Ordering::Relaxed), is_full) {
            (false, true) => {
                log::warn!(target: "turnpike", "the cache's shared store is full: responses are not written to it");
            }
            (true, false) => {
                log::info!(target: "turnpike", "the cache's shared store has room again");
            }
            _ => {}
        }
    }

    /// Removes the entries of a purge here and at the other gateways. Returns how many there were, without those in `counted`.
    pub(super) async fn purge(&self, purge: &Purge, counted: &HashSet<CacheKey>) -> Result<u64, String> {
        let outcome = self.redis.purge(purge, counted).await;
        self.follow_now.notify_one();
        outcome.map_err(|failure| {
            self.count(&failure);
            failure.reason
        })
    }

    fn count(&self, failure: &Failure) {
        let errors = &self.errors;
        let count = match failure.cause {
            Cause::Timeout => &errors.timeout,
            Cause::Connection => &errors.connection,
            Cause::Full => &errors.full,
            Cause::Refused => &errors.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn errors(&self) -> Vec<(&'static str, u64)> {
        let Errors { timeout, connection, full, refused, version, damaged } = &self.errors;
        let counts = [
            ("timeout", timeout),
            ("connection", connection),
            ("full", full),
            ("refused", refused),
            ("version", version),
            ("damaged", damaged),
        ];
        counts.map(|(name, count)| (name, count.load(Ordering::Relaxed))).into()
    }

    /// Removes from the memory what other gateways remove, and checks with each read that the store responds in time.
    pub(super) async fn follow(self: Arc<Self>, memory: Arc<Memory>) {
        let mut position: Option<Position> = None;
        loop {
            let (changes, ping) = tokio::join!(self.redis.changes(position.as_ref()), self.redis.ping());
            let (outcome, is_page) = match changes {
                Ok(changes) => {
                    let is_page = changes.is_page;
                    position = Some(self.apply(changes, &memory).await);
                    (ping, is_page)
                }
                Err(failure) => (Err(failure), false),
            };
            match outcome {
                Ok(()) if self.circuit.close() => {
                    log::info!(target: "turnpike", "the cache's shared store is there again");
                }
                Ok(()) => {}
                Err(failure) => {
                    self.count(&failure);
                    if self.circuit.open() {
                        report_down(&failure);
                    }
                }
            }
            if !is_page {
                tokio::select! {
                    () = sleep(FOLLOW_INTERVAL) => {}
                    () = self.follow_now.notified() => {}
                }
            }
        }
    }

    async fn apply(&self, changes: Changes, memory: &Arc<Memory>) -> Position {
        let Changes { purges, removed, position, .. } = changes;
        memory.remove_all(&removed.into_iter().collect());
        if !purges.is_empty() {
            let memory = Arc::clone(memory);
            // On another thread: it looks at every entry, and this thread serves the connections.
            let _only_fails_at_the_end = tokio::task::spawn_blocking(move || memory.purge(&purges)).await;
        }
        let mut last = self.position.lock();
        if last.as_ref().is_none_or(|last| **last != position.purges) {
            *last = Some(Arc::new(position.purges.clone()));
        }
        position
    }
}

fn report_down(failure: &Failure) {
    log::error!(
        target: "turnpike",
        "the cache's shared store is not used until it responds in time: {}",
        failure.reason
    );
}
