//! What Prometheus is told. Names are a promise: `docs/metrics.md` lists them.
//!
//! Base units, `_total` on counters, label values bounded: what a caller can invent goes through `labels`.
//! `gen_ai_*` names and buckets follow the OpenTelemetry GenAI conventions.

use super::labels::Labels;
use super::process::Process;
use crate::error::Kind;
use prometheus::core::Collector;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use std::time::Duration;

/// Distinct models kept apart in labels.
const MOST_MODELS: usize = 500;
/// OpenTelemetry GenAI `gen_ai.client.operation.duration`, seconds.
const SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// OpenTelemetry GenAI `gen_ai.client.token.usage`, tokens.
const TOKENS: &[f64] = &[
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
/// Statuses that keep their number as a label; the common one first.
const KNOWN_STATUSES: &[(u16, &str)] = &[
    (200, "200"),
    (101, "101"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (301, "301"),
    (302, "302"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (499, "499"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (529, "529"),
];
/// The gateway's own share, seconds: tens of microseconds to a second.
const OVERHEAD: &[f64] =
    &[0.000_025, 0.000_05, 0.000_1, 0.000_2, 0.000_4, 0.000_8, 0.001_6, 0.003_2, 0.01, 0.032, 0.1, 0.32, 1.0];

/// All families of the process.
pub struct Metrics {
    registry: Registry,
    traffic: Traffic,
    calls: Calls,
    reloads: Reloads,
    models: Labels,
}

/// `turnpike_*`: requests as the gateway sees them.
struct Traffic {
    requests: IntCounterVec,
    failures: IntCounterVec,
    attempts: IntCounterVec,
    in_flight: IntGauge,
    overhead: HistogramVec,
    bytes: IntCounterVec,
    log_dropped: IntCounter,
    grants: IntCounterVec,
}

/// `gen_ai_*`: calls to providers.
struct Calls {
    duration: HistogramVec,
    first_chunk: HistogramVec,
    tokens: HistogramVec,
}

/// `turnpike_settings_*`: the settings file.
struct Reloads {
    succeeded: IntGauge,
    at: IntGauge,
    count: IntCounterVec,
    info: IntGaugeVec,
}

/// One finished request, in the words of the metrics.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    pub operation: &'a str,
    pub provider: &'a str,
    pub model: &'a str,
    pub status: u16,
    pub total: Duration,
    /// Time to the first chunk of the answer's body.
    pub first_chunk: Option<Duration>,
    pub overhead: Duration,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Traffic {
    fn new(r: &Registry) -> prometheus::Result<Self> {
        let overhead = "Time a request spent in the gateway itself: total less upstream and less waiting for \
                        the caller's body.";
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
            attempts: counters(
                r,
                "turnpike_attempts_total",
                "Tries at providers, by what came of them.",
                &["provider", "outcome"],
            )?,
            in_flight: add(r, IntGauge::new("turnpike_requests_in_flight", "Requests under way.")?)?,
            overhead: histograms(r, "turnpike_overhead_seconds", overhead, OVERHEAD, &["operation"])?,
            bytes: counters(r, "turnpike_body_bytes_total", "Body bytes, in and out.", &["direction"])?,
            log_dropped: add(r, IntCounter::new("turnpike_access_lines_dropped_total", dropped)?)?,
            grants: counters(
                r,
                "turnpike_grants_total",
                "Tokens and temporary credentials asked for, by what came of it.",
                &["outcome"],
            )?,
        })
    }
}

impl Calls {
    fn new(r: &Registry) -> prometheus::Result<Self> {
        const CALL: [&str; 3] = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
        let [operation, provider, model] = CALL;
        Ok(Self {
            duration: histograms(
                r,
                "gen_ai_client_operation_duration_seconds",
                "Duration of calls to providers.",
                SECONDS,
                &CALL,
            )?,
            first_chunk: histograms(
                r,
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time to the first chunk of a streamed answer.",
                SECONDS,
                &CALL,
            )?,
            tokens: histograms(
                r,
                "gen_ai_client_token_usage",
                "Tokens per call, as the provider tells them.",
                TOKENS,
                &[operation, provider, model, "gen_ai_token_type"],
            )?,
        })
    }
}

impl Reloads {
    fn new(r: &Registry) -> prometheus::Result<Self> {
        let succeeded = "1 when the last reading of the settings succeeded.";
        let at = "When settings were last put in force, Unix seconds.";
        let info = Opts::new("turnpike_settings_info", "The settings in force, by hash.");
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
        })
    }
}

impl Metrics {
    /// Registers every family.
    ///
    /// # Errors
    /// Only when two families were given one name: a fault of this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let build = Opts::new("turnpike_build_info", "The version that runs.");
        let build = add(&registry, IntGaugeVec::new(build, &["version"])?)?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registry.register(Box::new(Process::starting()))?;
        Ok(Self {
            traffic: Traffic::new(&registry)?,
            calls: Calls::new(&registry)?,
            reloads: Reloads::new(&registry)?,
            models: Labels::new(MOST_MODELS),
            registry,
        })
    }

    /// Counts a finished request.
    pub fn finished(&self, request: &Finished<'_>) {
        let status = status_text(request.status);
        self.traffic.requests.with_label_values(&[request.operation, request.provider, status]).inc();
        self.traffic.overhead.with_label_values(&[request.operation]).observe(request.overhead.as_secs_f64());
        self.traffic.bytes.with_label_values(&["in"]).inc_by(request.bytes_in);
        self.traffic.bytes.with_label_values(&["out"]).inc_by(request.bytes_out);
        if request.provider.is_empty() {
            return;
        }
        let model = self.models.fold(request.model);
        let labels = [request.operation, request.provider, model];
        self.calls.duration.with_label_values(&labels).observe(request.total.as_secs_f64());
        if let Some(first) = request.first_chunk {
            self.calls.first_chunk.with_label_values(&labels).observe(first.as_secs_f64());
        }
        for (tokens, sort) in [(request.input_tokens, "input"), (request.output_tokens, "output")] {
            if let Some(tokens) = tokens {
                let labels = [labels[0], labels[1], labels[2], sort];
                self.calls.tokens.with_label_values(&labels).observe(tokens as f64);
            }
        }
    }

    /// Counts a failure the gateway reported.
    pub fn failed(&self, kind: Kind) {
        self.traffic.failures.with_label_values(&[kind.row().code]).inc();
    }

    /// Counts a try at a provider.
    pub fn attempted(&self, provider: &str, outcome: &str) {
        self.traffic.attempts.with_label_values(&[provider, outcome]).inc();
    }

    /// Counts a token exchange: `fetched` while a request waited, `renewed` ahead of expiry, `failed`.
    pub fn grant_asked(&self, outcome: &str) {
        self.traffic.grants.with_label_values(&[outcome]).inc();
    }

    pub fn in_flight(&self, requests: u64) {
        self.traffic.in_flight.set(i64::try_from(requests).unwrap_or(i64::MAX));
    }

    pub fn log_lines_dropped(&self, lines: u64) {
        self.traffic.log_dropped.inc_by(lines);
    }

    /// Settings were put in force.
    pub fn settings_loaded(&self, hash: &str) {
        self.reloads.succeeded.set(1);
        self.reloads.at.set(jiff::Timestamp::now().as_second());
        self.reloads.count.with_label_values(&["success"]).inc();
        self.reloads.info.reset();
        self.reloads.info.with_label_values(&[hash]).set(1);
    }

    /// A settings file was refused; the ones in force stay.
    pub fn settings_refused(&self) {
        self.reloads.succeeded.set(0);
        self.reloads.count.with_label_values(&["failure"]).inc();
    }

    /// The text format (version 0.0.4).
    pub fn render(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 << 10);
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            log::error!("metrics could not be written: {error}");
        }
        out
    }
}

fn add<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> prometheus::Result<C> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

fn counters(r: &Registry, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    add(r, IntCounterVec::new(Opts::new(name, help), labels)?)
}

fn histograms(
    r: &Registry,
    name: &str,
    help: &str,
    buckets: &[f64],
    labels: &[&str],
) -> prometheus::Result<HistogramVec> {
    add(r, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?)
}

/// Statuses as text without allocating; a provider's odd ones fold into their class.
fn status_text(status: u16) -> &'static str {
    let known = KNOWN_STATUSES.iter().find(|(known, _)| *known == status);
    known.map_or(
        match status {
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        },
        |(_, text)| text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_what_is_shown() {
        let metrics = Metrics::new().unwrap();
        metrics.finished(&Finished {
            operation: "chat",
            provider: "openai",
            model: "m",
            status: 200,
            total: Duration::from_millis(30),
            first_chunk: None,
            overhead: Duration::from_micros(60),
            input_tokens: Some(7),
            output_tokens: None,
            bytes_in: 10,
            bytes_out: 20,
        });
        metrics.settings_loaded("abc");
        metrics.settings_loaded("def");
        let text = String::from_utf8(metrics.render()).unwrap();
        for line in [
            r#"turnpike_requests_total{operation="chat",provider="openai",status="200"} 1"#,
            r#"turnpike_overhead_seconds_bucket{operation="chat",le="0.0001"} 1"#,
            r#"turnpike_settings_info{hash="def"} 1"#,
            "turnpike_settings_last_reload_successful 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains(r#"hash="abc""#), "{text}");
    }
}
