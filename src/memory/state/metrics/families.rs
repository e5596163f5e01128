//! The metric families of requests, provider calls and settings: names, help, labels, buckets.
//!
//! Only definitions; `Metrics` records the values.

use super::certificates::CertificateMetrics;
use prometheus::core::Collector;
use prometheus::{
    CounterVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// How long calls take, and the gateway's part of it: the families with exemplars.
pub(super) const DURATION: &str = "gen_ai_client_operation_duration_seconds";
pub(super) const OVERHEAD: &str = "turnpike_overhead_seconds";
/// OpenTelemetry GenAI `gen_ai.client.operation.duration`, seconds.
pub(super) const DURATION_BUCKETS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Dollars: a millionth, and each four times the one before.
const COST_BUCKETS: &[f64] = &[
    0.000_001, 0.000_004, 0.000_016, 0.000_064, 0.000_256, 0.001_024, 0.004_096, 0.016_384, 0.065_536,
    0.262_144, 1.048_576, 4.194_304, 16.777_216,
];
/// OpenTelemetry GenAI `gen_ai.client.token.usage`, tokens.
const TOKEN_BUCKETS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The gateway's overhead, seconds: from tens of microseconds to a second.
pub(super) const OVERHEAD_BUCKETS: &[f64] =
    &[0.000_025, 0.000_05, 0.000_1, 0.000_2, 0.000_4, 0.000_8, 0.001_6, 0.003_2, 0.01, 0.032, 0.1, 0.32, 1.0];

/// `turnpike_*`: requests to the gateway.
pub(super) struct Traffic {
    pub requests: IntCounterVec,
    pub failures: IntCounterVec,
    pub in_flight: IntGauge,
    pub predecessor_in_flight: IntGauge,
    pub overhead: HistogramVec,
    pub bytes_in: IntCounter,
    pub bytes_out: IntCounter,
    pub log_dropped: IntCounter,
    pub process_log_dropped: IntCounter,
    pub held_bytes: IntGauge,
    pub held_bytes_limit: IntGauge,
    pub token_exchanges: IntCounterVec,
    pub store_available: IntGauge,
    pub store_records: IntGauge,
    pub traces: IntCounterVec,
    pub certificates: CertificateMetrics,
}

/// `gen_ai_*`: calls to providers.
pub(super) struct Calls {
    pub duration: HistogramVec,
    pub first_chunk: HistogramVec,
    pub tokens: HistogramVec,
    pub cost: HistogramVec,
}

/// `turnpike_*`: what calls used and cost.
pub(super) struct Charges {
    pub tokens: IntCounterVec,
    pub cost: CounterVec,
    pub unpriced: IntCounterVec,
}

impl Charges {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let tokens = "Tokens of all attempts that are charged, by kind: cached and cache_write are parts of input, reasoning \
                      of output, and estimated of both.";
        let cost = "Cost of all attempts that have a price, US dollars.";
        let unpriced = "Attempts that are charged and have no price.";
        Ok(Self {
            tokens: counters(r, "turnpike_tokens_total", tokens, &["provider", "kind"])?,
            cost: add(r, CounterVec::new(Opts::new("turnpike_cost_dollars_total", cost), &["provider"])?)?,
            unpriced: counters(r, "turnpike_unpriced_attempts_total", unpriced, &["provider"])?,
        })
    }
}

/// `turnpike_settings_*`: the settings file.
pub(super) struct Reloads {
    pub succeeded: IntGauge,
    pub at: IntGauge,
    pub count: IntCounterVec,
    pub info: IntGaugeVec,
    pub revision: IntGauge,
}

/// `turnpike_prices_*`: the prices in force.
pub(super) struct Prices {
    pub info: IntGaugeVec,
    pub age: IntGauge,
    pub refreshes: IntCounterVec,
}

impl Prices {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let info = Opts::new("turnpike_prices_info", "The prices in force: where they are from, and which.");
        let age = "Seconds since the prices in force were read; for those in the binary, since they were taken over.";
        Ok(Self {
            info: add(r, IntGaugeVec::new(info, &["source", "version"])?)?,
            age: add(r, IntGauge::new("turnpike_prices_age_seconds", age)?)?,
            refreshes: begun(
                r,
                "turnpike_prices_refreshes_total",
                "Catalogues of prices read from prices.file or prices.url, by what became of them.",
                "outcome",
                &["replaced", "same", "refused", "failed"],
            )?,
        })
    }
}

/// `turnpike_alert*`: alerts of limits.
pub(super) struct Alerts {
    pub raised: IntCounterVec,
    pub deliveries: IntCounterVec,
}

impl Alerts {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let raised = "Usage limits that reached their alert threshold, or were exhausted.";
        let deliveries = "Messages of alerts, by what became of them.";
        let deliveries = counters(r, "turnpike_alert_deliveries_total", deliveries, &["channel", "outcome"])?;
        for channel in ["email", "webhook"] {
            for outcome in ["delivered", "failed", "dropped"] {
                deliveries.with_label_values(&[channel, outcome]);
            }
        }
        let raised = begun(r, "turnpike_alerts_total", raised, "event", &["threshold", "exhausted"])?;
        Ok(Self { raised, deliveries })
    }
}

impl Traffic {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let overhead = "Time a request spent in the gateway itself: total less upstream and less waiting for \
                        the caller's body.";
        let bytes = counters(r, "turnpike_body_bytes_total", "Body bytes, in and out.", &["direction"])?;
        let exchanges = "Tokens and temporary credentials asked for, by what came of it.";
        let traces = "Traces for the collector, by what came of them.";
        let fetches = ["fetched", "renewed", "failed"];
        let dropped = "Access lines dropped because the output was too slow or failed.";
        Ok(Self {
            requests: counters(
                r,
                "turnpike_requests_total",
                "Requests answered.",
                &["operation", "provider", "status"],
            )?,
            failures: counters(
                r,
                "turnpike_errors_total",
                "Failures the gateway itself reported, by code.",
                &["code"],
            )?,
            in_flight: add(r, IntGauge::new("turnpike_requests_in_flight", "Requests under way.")?)?,
            predecessor_in_flight: {
                let help = "Requests that the process before still serves after an upgrade.";
                add(r, IntGauge::new("turnpike_predecessor_requests_in_flight", help)?)?
            },
            overhead: histograms(r, OVERHEAD, overhead, OVERHEAD_BUCKETS, &["operation"])?,
            bytes_in: bytes.with_label_values(&["in"]),
            bytes_out: bytes.with_label_values(&["out"]),
            log_dropped: add(r, IntCounter::new("turnpike_access_lines_dropped_total", dropped)?)?,
            process_log_dropped: add(
                r,
                IntCounter::new(
                    "turnpike_log_lines_dropped_total",
                    "Lines of the process's log that were dropped because its output was too slow.",
                )?,
            )?,
            held_bytes: add(
                r,
                IntGauge::new("turnpike_held_bytes", "Bytes of bodies and responses held in memory.")?,
            )?,
            held_bytes_limit: add(
                r,
                IntGauge::new("turnpike_held_bytes_limit", "limits.max_held_bytes, or its default.")?,
            )?,
            store_available: add(
                r,
                IntGauge::new(
                    "turnpike_store_available",
                    "1 while the store's database can be read and written, else 0.",
                )?,
            )?,
            store_records: add(
                r,
                IntGauge::new("turnpike_store_records", "Objects of the store that are kept in memory.")?,
            )?,
            traces: begun(r, "turnpike_traces_total", traces, "outcome", &["sent", "failed", "dropped"])?,
            token_exchanges: begun(r, "turnpike_grants_total", exchanges, "outcome", &fetches)?,
            certificates: CertificateMetrics::new(r)?,
        })
    }
}

impl Calls {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        const CALL: [&str; 3] = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
        let [operation, provider, model] = CALL;
        Ok(Self {
            duration: histograms(r, DURATION, "Duration of calls to providers.", DURATION_BUCKETS, &CALL)?,
            first_chunk: histograms(
                r,
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time to the first chunk of a streamed answer.",
                DURATION_BUCKETS,
                &CALL,
            )?,
            tokens: histograms(
                r,
                "gen_ai_client_token_usage",
                "Tokens per call, as the provider tells them.",
                TOKEN_BUCKETS,
                &[operation, provider, model, "gen_ai_token_type"],
            )?,
            cost: histograms(
                r,
                "gen_ai_client_cost",
                "Cost of calls whose models have a price, with all their attempts, US dollars.",
                COST_BUCKETS,
                &CALL,
            )?,
        })
    }
}

impl Reloads {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let succeeded = "1 when the last reading of the settings succeeded.";
        let at = "When settings were last put in force, Unix seconds.";
        let info = Opts::new("turnpike_settings_info", "The settings in force, by hash.");
        let revision = "The number of the last write to the store that is in force in this gateway.";
        Ok(Self {
            succeeded: add(r, IntGauge::new("turnpike_settings_last_reload_successful", succeeded)?)?,
            at: add(r, IntGauge::new("turnpike_settings_last_reload_success_timestamp_seconds", at)?)?,
            count: counters(
                r,
                "turnpike_settings_reloads_total",
                "Readings of the settings file, by result.",
                &["result"],
            )?,
            info: add(r, IntGaugeVec::new(info, &["hash"])?)?,
            revision: add(r, IntGauge::new("turnpike_config_revision", revision)?)?,
        })
    }
}

pub(super) fn add<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> prometheus::Result<C> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

pub(super) fn counters(
    r: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> prometheus::Result<IntCounterVec> {
    add(r, IntCounterVec::new(Opts::new(name, help), labels)?)
}

/// Counters with one label whose values are rendered as 0 from the start, because `rate()` needs a sample before the first
/// increment.
pub(super) fn begun(
    r: &Registry,
    name: &str,
    help: &str,
    label: &str,
    values: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let family = counters(r, name, help, &[label])?;
    for value in values {
        family.with_label_values(&[value]);
    }
    Ok(family)
}

pub(super) fn histograms(
    r: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
    labels: &[&str],
) -> prometheus::Result<HistogramVec> {
    add(r, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?)
}
