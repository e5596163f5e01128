//! The metric families of places at targets (`concurrency`): how many are taken, how many requests wait, and how long.
//!
//! The gauges are set at each scrape from the registry. Providers are named by their slug, or by their id where they have none.

use super::super::slots::SlotsView;
use super::families::{add, counters};
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of providers in one scrape, those of targets' places counted again.
const MAX_PROVIDERS: usize = 1_000;
/// Waits for a place, seconds.
const WAIT_BUCKETS: &[f64] = &[0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// `turnpike_concurrency_*` and `turnpike_queue_*`.
pub(super) struct Places {
    max: IntGaugeVec,
    in_use: IntGaugeVec,
    waiting: IntGaugeVec,
    paused: IntGaugeVec,
    expected: GaugeVec,
    waits: HistogramVec,
    refusals: IntCounterVec,
}

/// Those of one provider, or of its targets.
#[derive(Default)]
struct Sums {
    /// In the order of the gauges.
    counts: [i64; 4],
    /// The longest.
    expected: Duration,
}

impl Places {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let gauge =
            |name: &str, help: &str| add(r, IntGaugeVec::new(Opts::new(name, help), &["provider", "of"])?);
        let waits = HistogramOpts::new("turnpike_queue_wait_seconds", "Waits for a place at a target.");
        let refusals = "Attempts that got no place at a target: as many waited as may, it took too long, or it would have.";
        let expected = Opts::new(
            "turnpike_queue_expected_wait_seconds",
            "The longest wait for such a place that is expected of a request that comes now.",
        );
        Ok(Self {
            max: gauge("turnpike_concurrency_max", "The places at targets that take only so many attempts.")?,
            in_use: gauge("turnpike_concurrency_in_use", "Of those places, the ones that are taken.")?,
            waiting: gauge("turnpike_concurrency_waiting", "Attempts that wait for such a place.")?,
            paused: gauge(
                "turnpike_concurrency_paused",
                "Groups of such places that their provider has paused.",
            )?,
            expected: add(r, GaugeVec::new(expected, &["provider", "of"])?)?,
            waits: add(r, HistogramVec::new(waits.buckets(WAIT_BUCKETS.to_vec()), &["provider"])?)?,
            refusals: counters(r, "turnpike_queue_refusals_total", refusals, &["provider", "reason"])?,
        })
    }

    /// Sets the gauges to what is now: of each provider the sum, providers before targets.
    pub fn set(&self, views: &[SlotsView]) {
        let mut sums: BTreeMap<(bool, &str), Sums> = BTreeMap::new();
        for view in views {
            let Sums { counts: sum, expected } = sums.entry((!view.of_provider, &view.provider)).or_default();
            *expected = view.expected_wait.max(*expected);
            let waiting = i64::try_from(view.waiting).unwrap_or(i64::MAX);
            for (sum, more) in
                sum.iter_mut().zip([view.max.into(), view.in_use.into(), waiting, view.is_paused.into()])
            {
                *sum = sum.saturating_add(more);
            }
        }
        let gauges = [&self.max, &self.in_use, &self.waiting, &self.paused];
        gauges.iter().for_each(|gauge| gauge.reset());
        self.expected.reset();
        for ((is_of_target, provider), Sums { counts, expected }) in sums.into_iter().take(MAX_PROVIDERS) {
            let of = if is_of_target { "target" } else { "provider" };
            for (gauge, value) in gauges.iter().zip(counts) {
                gauge.with_label_values(&[provider, of]).set(value);
            }
            self.expected.with_label_values(&[provider, of]).set(expected.as_secs_f64());
        }
    }

    pub fn waited(&self, provider: &str, wait: Duration) {
        self.waits.with_label_values(&[provider]).observe(wait.as_secs_f64());
    }

    pub fn refused(&self, provider: &str, reason: &str) {
        self.refusals.with_label_values(&[provider, reason]).inc();
    }
}
