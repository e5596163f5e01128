//! The Prometheus metrics. Their names are stable; `docs/metrics.md` lists them.
//!
//! Base units, `_total` on counters, bounded label values: a value that a client can invent goes through
//! [`LabelLimit`]. `gen_ai_*` names and buckets follow the OpenTelemetry GenAI conventions.

mod families;
mod routing;
mod status;

use super::label_limit::LabelLimit;
use super::process::Process;
use super::targets::TargetView;
use crate::error::Kind;
use families::{Calls, Reloads, Traffic, add};
use prometheus::{Encoder, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};
use routing::Routing;
pub use status::status_text;
use std::time::Duration;

/// Maximum number of model names as label values.
const MAX_MODELS: usize = 500;
/// Maximum number of index paths as label values.
const MAX_INDEXES: usize = 200;

/// All metric families of the process.
pub struct Metrics {
    registry: Registry,
    traffic: Traffic,
    routing: Routing,
    calls: Calls,
    reloads: Reloads,
    models: LabelLimit,
    indexes: LabelLimit,
}

/// What the metrics record of a finished request.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRequest<'a> {
    pub operation: &'a str,
    pub provider: &'a str,
    pub model: &'a str,
    pub status: u16,
    pub total: Duration,
    /// Time to the first chunk of the response body.
    pub first_chunk: Option<Duration>,
    pub overhead: Duration,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Metrics {
    /// Registers every family.
    ///
    /// # Errors
    /// Two families have the same name, which is a bug in this file.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let build = Opts::new("turnpike_build_info", "The version that runs.");
        let build = add(&registry, IntGaugeVec::new(build, &["version"])?)?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registry.register(Box::new(Process::new()))?;
        Ok(Self {
            traffic: Traffic::new(&registry)?,
            routing: Routing::new(&registry)?,
            calls: Calls::new(&registry)?,
            reloads: Reloads::new(&registry)?,
            models: LabelLimit::new(MAX_MODELS),
            indexes: LabelLimit::new(MAX_INDEXES),
            registry,
        })
    }

    /// Counts a finished request.
    pub fn record_request(&self, request: &FinishedRequest<'_>) {
        let status = status_text(request.status);
        self.traffic.requests.with_label_values(&[request.operation, request.provider, status]).inc();
        self.traffic.overhead.with_label_values(&[request.operation]).observe(request.overhead.as_secs_f64());
        self.traffic.bytes_in.inc_by(request.bytes_in);
        self.traffic.bytes_out.inc_by(request.bytes_out);
        if request.provider.is_empty() {
            return;
        }
        let model = self.models.bounded(request.model);
        let labels = [request.operation, request.provider, model];
        self.calls.duration.with_label_values(&labels).observe(request.total.as_secs_f64());
        if let Some(first) = request.first_chunk {
            self.calls.first_chunk.with_label_values(&labels).observe(first.as_secs_f64());
        }
        for (tokens, token_type) in [(request.input_tokens, "input"), (request.output_tokens, "output")] {
            if let Some(tokens) = tokens {
                let labels = [labels[0], labels[1], labels[2], token_type];
                self.calls.tokens.with_label_values(&labels).observe(tokens as f64);
            }
        }
    }

    /// Counts an error response of the gateway itself.
    pub fn record_error(&self, kind: Kind) {
        self.traffic.failures.with_label_values(&[kind.row().code]).inc();
    }

    /// Counts an attempt. `target` is the index path of the target in its config.
    pub fn record_attempt(&self, provider: &str, target: &str, outcome: &str) {
        let target = self.indexes.bounded(target);
        self.routing.attempts.with_label_values(&[provider, target, outcome]).inc();
    }

    /// The counter of breaker transitions, with the labels `provider` and `to`.
    pub fn breaker_transitions(&self) -> IntCounterVec {
        self.routing.transitions.clone()
    }

    /// Counts a hedge: the extra attempt `won` or `lost`, or was `refused` by the hedge budget.
    pub fn record_hedge(&self, outcome: &str) {
        self.routing.hedges.with_label_values(&[outcome]).inc();
    }

    /// Counts the rescue of a broken stream: `resumed` after the text already sent, `replayed` from the beginning,
    /// or `failed`.
    pub fn record_rescue(&self, outcome: &str) {
        self.routing.rescues.with_label_values(&[outcome]).inc();
    }

    /// Counts a wait before another attempt.
    pub fn record_retry_wait(&self, wait: Duration) {
        self.routing.waits.observe(wait.as_secs_f64());
    }

    /// Counts a token exchange: `fetched` while a request waited, `renewed` before expiry, or `failed`.
    pub fn record_token_exchange(&self, outcome: &str) {
        self.traffic.token_exchanges.with_label_values(&[outcome]).inc();
    }

    pub fn set_in_flight(&self, requests: u64) {
        self.traffic.in_flight.set(i64::try_from(requests).unwrap_or(i64::MAX));
    }

    /// The bytes of bodies and responses that are held now, and the most that may be.
    pub fn set_held_bytes(&self, held: usize, limit: usize) {
        self.traffic.held_bytes.set(i64::try_from(held).unwrap_or(i64::MAX));
        self.traffic.held_bytes_limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    pub fn record_dropped_process_log_lines(&self, lines: u64) {
        self.traffic.process_log_dropped.inc_by(lines);
    }

    pub fn record_dropped_log_lines(&self, lines: u64) {
        self.traffic.log_dropped.inc_by(lines);
    }

    /// New settings are in force.
    pub fn settings_loaded(&self, hash: &str) {
        self.reloads.succeeded.set(1);
        self.reloads.at.set(jiff::Timestamp::now().as_second());
        self.reloads.count.with_label_values(&["success"]).inc();
        self.reloads.info.reset();
        self.reloads.info.with_label_values(&[hash]).set(1);
    }

    /// A settings file was rejected; the current settings stay in force.
    pub fn settings_refused(&self) {
        self.reloads.succeeded.set(0);
        self.reloads.count.with_label_values(&["failure"]).inc();
    }

    /// The metrics in text format (version 0.0.4). `targets` are the targets of the registry now: their breakers are
    /// rendered with their present state, not with the state at their last event.
    pub fn render(&self, targets: &[TargetView]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 << 10);
        let mut families = self.registry.gather();
        let written = routing::breakers(targets).and_then(|breakers| {
            families.extend(breakers);
            TextEncoder::new().encode(&families, &mut out)
        });
        if let Err(error) = written {
            log::error!(target: "turnpike", "the metrics could not be rendered: {error}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_values_are_rendered() {
        let metrics = Metrics::new().unwrap();
        metrics.record_request(&FinishedRequest {
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
        let text = String::from_utf8(metrics.render(&[])).unwrap();
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
