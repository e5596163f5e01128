//! `turnpike_cache_*` of the store: what is kept, what left it, and how the shared store is doing.
//!
//! Each event is counted where it happens. Here the counts are copied into metric families when they are read.

use super::memory::Memory;
use super::remote::Remote;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The only kind of shared store, as a label.
const REDIS: &str = "redis";

/// Counts since the start, by reason.
type Counts = Vec<(&'static str, u64)>;

/// How the store is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStats {
    /// Responses in memory.
    pub entries: u64,
    /// Their memory, bytes.
    pub bytes: u64,
    /// Responses that left the memory.
    pub evictions: Counts,
    /// Responses that were not kept, or not written to the shared store.
    pub dropped_writes: Counts,
    /// Failed calls of the shared store, and values in it that are no responses.
    pub store_errors: Counts,
    /// Whether the shared store is used now. `None`: there is none.
    pub is_store_up: Option<bool>,
}

/// Responses that are not kept, or not written to the shared store.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Larger than `max_entry_bytes`.
    pub too_large: AtomicU64,
    pub queue_full: AtomicU64,
    /// The shared store does not respond, or a write failed a moment ago.
    pub store_down: AtomicU64,
    pub failed: AtomicU64,
    /// Something was purged since.
    pub purged: AtomicU64,
}

/// Where it is counted.
#[derive(Clone)]
pub(super) struct Sources {
    pub memory: Arc<Memory>,
    pub remote: Option<Arc<Remote>>,
    pub dropped: Arc<Dropped>,
}

impl Sources {
    pub(super) fn stats(&self) -> CacheStats {
        let (entries, bytes) = self.memory.usage();
        let Dropped { too_large, queue_full, store_down, failed, purged } = &*self.dropped;
        let dropped = [
            ("too_large", too_large),
            ("queue_full", queue_full),
            ("store_down", store_down),
            ("failed", failed),
            ("purged", purged),
        ];
        CacheStats {
            entries,
            bytes,
            evictions: self.memory.evictions(),
            dropped_writes: dropped.map(|(reason, count)| (reason, count.load(Ordering::Relaxed))).into(),
            store_errors: self.remote.as_ref().map(|remote| remote.errors()).unwrap_or_default(),
            is_store_up: self.remote.as_ref().map(|remote| remote.is_up()),
        }
    }
}

/// The families.
pub(super) struct StoreMetrics {
    sources: Sources,
    entries: IntGauge,
    bytes: IntGauge,
    evictions: IntCounterVec,
    dropped_writes: IntCounterVec,
    store_errors: IntCounterVec,
    store_up: IntGaugeVec,
}

impl StoreMetrics {
    pub(super) fn new(sources: Sources) -> prometheus::Result<Self> {
        let counters =
            |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let evictions = "Responses that left the memory, by reason: size, expired, removed.";
        let dropped = "Responses that were not kept or not written to the shared store, by reason: too_large, queue_full, store_down, \
                       failed, purged.";
        let errors = "Failed calls of the shared store, and values in it that are no responses, by reason: timeout, connection, full, \
                      refused, version, damaged.";
        let up = Opts::new(
            "turnpike_cache_store_up",
            "1 while the shared store responds in time and is used, else 0.",
        );
        Ok(Self {
            sources,
            entries: IntGauge::new("turnpike_cache_entries", "Responses in memory.")?,
            bytes: IntGauge::new("turnpike_cache_bytes", "Bytes of memory that cached responses use.")?,
            evictions: counters("turnpike_cache_evictions_total", evictions, &["reason"])?,
            dropped_writes: counters("turnpike_cache_dropped_writes_total", dropped, &["reason"])?,
            store_errors: counters("turnpike_cache_store_errors_total", errors, &["store", "reason"])?,
            store_up: IntGaugeVec::new(up, &["store"])?,
        })
    }

    fn families(&self) -> [&dyn Collector; 6] {
        [
            &self.entries,
            &self.bytes,
            &self.evictions,
            &self.dropped_writes,
            &self.store_errors,
            &self.store_up,
        ]
    }

    fn set(&self, stats: &CacheStats) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.entries.set(whole(stats.entries));
        self.bytes.set(whole(stats.bytes));
        let raise = |family: &IntCounterVec, labels: &[&str], count: u64| {
            let counter = family.with_label_values(labels);
            counter.inc_by(count.saturating_sub(counter.get()));
        };
        for (reason, count) in &stats.evictions {
            raise(&self.evictions, &[reason], *count);
        }
        for (reason, count) in &stats.dropped_writes {
            raise(&self.dropped_writes, &[reason], *count);
        }
        for (reason, count) in &stats.store_errors {
            raise(&self.store_errors, &[REDIS, reason], *count);
        }
        if let Some(is_up) = stats.is_store_up {
            self.store_up.with_label_values(&[REDIS]).set(i64::from(is_up));
        }
    }
}

impl Collector for StoreMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.set(&self.sources.stats());
        // The encoder rejects a family without a value.
        self.families()
            .into_iter()
            .flat_map(Collector::collect)
            .filter(|family| !family.get_metric().is_empty())
            .collect()
    }
}
