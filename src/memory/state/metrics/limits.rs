//! `turnpike_limit_*`: how the counters of limits are doing.
//!
//! Only definitions and setting them: what is counted is the room `limits`'s.

use super::families::add;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// What the counters of limits report about themselves; sums are since the start.
#[derive(Debug, Clone, Copy)]
pub struct CountersState {
    /// Buckets in memory.
    pub buckets: usize,
    /// What they take, about.
    pub bucket_bytes: usize,
    /// Whether usage can be written where it is kept.
    pub is_available: bool,
    /// Whether the server of shared counters may evict them.
    pub are_evicted: bool,
    /// How many gateways count together.
    pub gateways: usize,
    /// Buckets of shared counters of which something is borrowed.
    pub leases: usize,
    /// Requests that had all they needed from such leases.
    pub served_by_leases: u64,
    /// Failed calls and writes.
    pub failures: u64,
    /// Requests that were counted in a bucket for all, because their limit has too many.
    pub overflowed: u64,
    /// Settlements and buckets that were given up.
    pub given_up: u64,
    /// Alerts that were given up.
    pub dropped_alerts: u64,
}

pub(super) struct Limits {
    buckets: IntGauge,
    bucket_bytes: IntGauge,
    available: IntGauge,
    evicted: IntGauge,
    gateways: IntGauge,
    leases: IntGauge,
    served_by_leases: IntCounter,
    failures: IntCounter,
    overflowed: IntCounter,
    given_up: IntCounterVec,
}

impl Limits {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| add(r, IntGauge::new(name, help)?);
        let counter = |name: &str, help: &str| add(r, IntCounter::new(name, help)?);
        let available = "1 while the usage of limits can be written where it is kept (journal, or shared counters), else 0.";
        let overflowed =
            "Requests that were counted in one bucket for all the rest, because their limit has too many.";
        let given_up = Opts::new("turnpike_limit_given_up_total", "What was never written, by what it was.");
        Ok(Self {
            buckets: gauge("turnpike_limit_buckets", "Buckets of limits in memory.")?,
            bucket_bytes: gauge(
                "turnpike_limit_bucket_bytes",
                "What they take, of limits.max_bucket_bytes.",
            )?,
            available: gauge("turnpike_limit_counters_available", available)?,
            evicted: gauge(
                "turnpike_limit_counters_evicted",
                "1 while the server of limits.shared evicts keys when its memory is full, so that budgets can be spent again, else 0.",
            )?,
            gateways: gauge(
                "turnpike_limit_gateways",
                "Gateways that count limits together, as last heard.",
            )?,
            leases: gauge(
                "turnpike_limit_leases",
                "Buckets of shared counters of which this gateway has borrowed an amount.",
            )?,
            served_by_leases: counter(
                "turnpike_limit_leased_requests_total",
                "Requests and attempts whose limits had all they needed in leases: no call to the shared counters.",
            )?,
            failures: counter(
                "turnpike_limit_counters_failures_total",
                "Failed calls of the shared counters, and failed writes of the journal.",
            )?,
            overflowed: counter("turnpike_limit_overflowed_total", overflowed)?,
            given_up: add(r, IntCounterVec::new(given_up, &["what"])?)?,
        })
    }

    pub fn set(&self, state: &CountersState) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.buckets.set(whole(state.buckets));
        self.bucket_bytes.set(whole(state.bucket_bytes));
        self.available.set(i64::from(state.is_available));
        self.evicted.set(i64::from(state.are_evicted));
        self.gateways.set(whole(state.gateways));
        self.leases.set(whole(state.leases));
        let usage = self.given_up.with_label_values(&["usage"]);
        let alerts = self.given_up.with_label_values(&["alert"]);
        for (counter, sum) in [
            (&self.served_by_leases, state.served_by_leases),
            (&self.failures, state.failures),
            (&self.overflowed, state.overflowed),
            (&usage, state.given_up),
            (&alerts, state.dropped_alerts),
        ] {
            counter.inc_by(sum.saturating_sub(counter.get()));
        }
    }
}
