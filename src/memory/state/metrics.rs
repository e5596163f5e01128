//! The Prometheus metrics. Their names are stable; `docs/metrics.md` lists them.
//!
//! Base units, `_total` on counters, bounded label values: a value that a client can invent goes through
//! [`LabelLimit`]. `gen_ai_*` names and buckets follow the OpenTelemetry GenAI conventions.

mod cache;
mod certificates;
mod clients;
mod engines;
mod exemplars;
mod families;
mod guardrails;
mod inherited;
mod ledger;
mod limits;
mod open_metrics;
mod places;
mod routing;
mod series;
mod status;

use super::discovered_hosts::HostLists;
use super::engine_loads::EngineView;
use super::label_limit::{LabelLimit, OTHER};
use super::process::Process;
use super::slots::SlotsView;
use super::targets::TargetView;
use crate::ledger::LedgerHealth;
use crate::ledger::questions::QuestionCounts;
use crate::ledger::tail::Tail;
use cache::CacheFamilies;
use certificates::CertificateMetrics;
pub use clients::ClientRequest;
use clients::Clients;
use engines::Engines;
use exemplars::Exemplars;
use families::{Alerts, Calls, Charges, Prices, Reloads, Traffic, add};
use guardrails::Guardrails;
use inherited::Inherited;
use knowledge::price::{Cost, CostStatus, money};
use ledger::LedgerFamilies;
pub use limits::CountersState;
use limits::Limits;
use places::Places;
use prometheus::{Encoder, Histogram, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};
pub use routing::MISS_CAUSES;
use routing::Routing;
use series::RequestSeries;
pub use series::TargetSeries;
pub use status::status_text;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;
use words::api::usage::Usage;
use words::error::Kind;
use words::settings::{ClientLabel, MetricsSettings};

/// Maximum number of combinations of operation, provider and model as label values: each has some fifty lines.
const MAX_CALLS: usize = 100;
/// Maximum bytes of a model name as label value.
const MAX_MODEL_LENGTH: usize = 128;
/// Maximum number of index paths as label values.
const MAX_INDEXES: usize = 200;
/// Maximum number of MCP servers as label values.
const MAX_MCP_SERVERS: usize = 200;
/// Maximum number of combinations of provider, index path and outcome as label values.
const MAX_ATTEMPTS: usize = 1_000;

/// All metric families of the process.
pub struct Metrics {
    registry: Registry,
    traffic: Traffic,
    routing: Routing,
    places: Places,
    engines: Engines,
    calls: Calls,
    charges: Charges,
    reloads: Reloads,
    prices: Prices,
    alerts: Alerts,
    ledger: LedgerFamilies,
    limits: Limits,
    guardrails: Guardrails,
    cache: CacheFamilies,
    exemplars: Exemplars,
    inherited: Inherited,
    clients: Clients,
    named_calls: LabelLimit,
    indexes: LabelLimit,
    mcp_servers: LabelLimit,
    named_attempts: LabelLimit,
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
    /// Of all attempts together, dollars; `None`: nothing was charged, or its price is unknown.
    pub cost: Option<f64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// What the metrics record of a request that the cache was to serve.
#[derive(Debug, Clone, Copy)]
pub struct CachedRequest {
    pub status: &'static str,
    /// It read the upstream call of another request.
    pub is_shared: bool,
    pub saved_input_tokens: u64,
    pub saved_output_tokens: u64,
    pub saved_dollars: f64,
    /// Why its response is not stored.
    pub not_stored: Option<&'static str>,
}

impl FinishedRequest<'_> {
    /// Whether the provider took the request: 2xx, or the switch to a websocket.
    fn is_accepted(&self) -> bool {
        matches!(self.status, 101 | 200..=299)
    }
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
            places: Places::new(&registry)?,
            engines: Engines::new(&registry)?,
            calls: Calls::new(&registry)?,
            charges: Charges::new(&registry)?,
            reloads: Reloads::new(&registry)?,
            prices: Prices::new(&registry)?,
            alerts: Alerts::new(&registry)?,
            ledger: LedgerFamilies::new(&registry)?,
            limits: Limits::new(&registry)?,
            guardrails: Guardrails::new(&registry)?,
            cache: CacheFamilies::new(&registry)?,
            exemplars: Exemplars::default(),
            inherited: Inherited::default(),
            clients: Clients::default(),
            named_calls: LabelLimit::new(MAX_CALLS),
            indexes: LabelLimit::new(MAX_INDEXES),
            mcp_servers: LabelLimit::new(MAX_MCP_SERVERS),
            named_attempts: LabelLimit::new(MAX_ATTEMPTS),
            registry,
        })
    }

    /// Counts a finished request. `target`: the series of the target that responded, if one was called. `trace` returns the
    /// request's trace for an exemplar, `None` if it is recorded nowhere; it is called for few requests.
    pub fn record_request(
        &self,
        request: &FinishedRequest<'_>,
        target: Option<&TargetSeries>,
        trace: &dyn Fn() -> Option<String>,
    ) {
        let count = || {
            let labels = [request.operation, request.provider, status_text(request.status)];
            self.traffic.requests.with_label_values(&labels)
        };
        self.traffic.bytes_in.inc_by(request.bytes_in);
        self.traffic.bytes_out.inc_by(request.bytes_out);
        let overhead = request.overhead.as_secs_f64();
        let Some(target) = target else {
            count().inc();
            return self.traffic.overhead.with_label_values(&[request.operation]).observe(overhead);
        };
        let other;
        let own = target.of(self, request);
        let series = match own {
            Some(series) => series,
            None => {
                other = RequestSeries::new(self, request);
                &other
            }
        };
        match request.status {
            200 => series.succeeded.get_or_init(count).inc(),
            _ => count().inc(),
        }
        series.overhead.observe(overhead);
        series.duration.observe(request.total.as_secs_f64());
        if self.exemplars.are_wanted(own.is_some()) {
            let find = || self.exemplars.of(request, &series.model_label);
            series.exemplars.get_or_init(find).observe(request.total, request.overhead, trace);
        }
        let labels = || [request.operation, request.provider, &*series.model_label];
        if let Some(first) = request.first_chunk {
            let find = || self.calls.first_chunk.with_label_values(&labels());
            series.first_chunk.get_or_init(find).observe(first.as_secs_f64());
        }
        let tokens = |series: &OnceLock<Histogram>, token_type: &str, tokens: Option<u64>| {
            let Some(tokens) = tokens else { return };
            let find = || {
                let [operation, provider, model] = labels();
                self.calls.tokens.with_label_values(&[operation, provider, model, token_type])
            };
            series.get_or_init(find).observe(tokens as f64);
        };
        tokens(&series.input_tokens, "input", request.input_tokens);
        tokens(&series.output_tokens, "output", request.output_tokens);
        if let Some(cost) = request.cost {
            let find = || self.calls.cost.with_label_values(&labels());
            series.cost.get_or_init(find).observe(cost);
        }
    }

    /// Counts what an attempt used and cost. `is_estimated`: the tokens were counted by the gateway.
    pub fn record_usage(
        &self,
        provider: &str,
        series: &TargetSeries,
        usage: &Usage,
        is_estimated: bool,
        cost: &Cost,
    ) {
        let find = |kind: &str| self.charges.tokens.with_label_values(&[provider, kind]);
        series.input.get_or_init(|| find("input")).inc_by(usage.input);
        series.output.get_or_init(|| find("output")).inc_by(usage.output);
        let estimated = if is_estimated { usage.input.saturating_add(usage.output) } else { 0 };
        let rare = [
            ("cached", usage.cached),
            ("cache_write", usage.cache_write),
            ("reasoning", usage.reasoning),
            ("estimated", estimated),
        ];
        for (kind, tokens) in rare.into_iter().filter(|(_, tokens)| *tokens > 0) {
            find(kind).inc_by(tokens);
        }
        match (cost.status, cost.nanodollars) {
            (CostStatus::Unknown, _) | (_, None) => {
                self.charges.unpriced.with_label_values(&[provider]).inc();
            }
            (_, Some(nanodollars)) => {
                let find = || self.charges.cost.with_label_values(&[provider]);
                series.cost.get_or_init(find).inc_by(money::dollars(nanodollars));
            }
        }
    }

    /// Counts a request by its client, where the settings want that: `make` is called then, with the labels they want.
    pub fn record_client<'a>(&self, make: impl FnOnce(&[ClientLabel]) -> ClientRequest<'a>) {
        self.clients.record(make);
    }

    /// Counts an error response of the gateway itself.
    pub fn record_error(&self, kind: Kind) {
        self.traffic.failures.with_label_values(&[kind.row().code]).inc();
    }

    /// Counts an attempt with a successful response. `target` is the index path of the target in its config.
    pub fn record_answered_attempt(&self, provider: &str, target: &str, series: &TargetSeries) {
        series.answered.get_or_init(|| self.attempts(provider, target, "answered")).inc();
    }

    /// Counts an attempt that failed.
    pub fn record_failed_attempt(&self, provider: &str, target: &str, outcome: &str) {
        self.attempts(provider, target, outcome).inc();
    }

    /// The model as a label value. A client can name any model, so a name counts once a provider took it, and then up to
    /// a bound.
    fn model_label<'a>(&self, request: &FinishedRequest<'a>) -> &'a str {
        let FinishedRequest { operation, provider, model, .. } = *request;
        if model.is_empty() {
            return model;
        }
        let call = format!("{operation} {provider} {model}");
        let named = if request.is_accepted() {
            model.len() <= MAX_MODEL_LENGTH && self.named_calls.admit(&call)
        } else {
            self.named_calls.contains(&call)
        };
        if named { model } else { OTHER }
    }

    fn attempts(&self, provider: &str, target: &str, outcome: &str) -> IntCounter {
        let target = self.indexes.bounded(target);
        let named = self.named_attempts.admit(&format!("{provider} {target} {outcome}"));
        let target = if named { target } else { OTHER };
        self.routing.attempts.with_label_values(&[provider, target, outcome])
    }

    /// The counter of breaker transitions, with the labels `provider` and `to`.
    pub(crate) fn breaker_transitions(&self) -> IntCounterVec {
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

    /// Sets how many tools of an MCP server are not as they were approved.
    pub fn set_changed_tools(&self, server: &str, count: usize) {
        let server = self.mcp_servers.bounded(server);
        self.routing.changed_tools.with_label_values(&[server]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Drops what is counted of MCP servers other than these: nothing of theirs must be approved any more.
    pub fn retain_changed_tools<'s>(&self, servers: impl Iterator<Item = &'s str>) {
        let servers: BTreeSet<&str> = servers.map(|server| self.mcp_servers.bounded(server)).collect();
        self.routing.retain_changed_tools(&servers);
    }

    /// Sets what is taken of the places at targets, and how many requests wait for one.
    pub fn set_places(&self, places: &[SlotsView]) {
        self.places.set(places);
    }

    /// Sets what model servers have to do.
    pub fn set_engines(&self, engines: &[EngineView]) {
        self.engines.set(engines);
    }

    /// Sets how many hosts of each provider were found.
    pub fn set_hosts(&self, lists: &HostLists) {
        self.engines.set_hosts(lists);
    }

    /// Counts that the metrics of a model server were read, or could not be.
    pub(crate) fn record_engine_read(&self, provider: &str, is_read: bool) {
        self.engines.was_read(provider, is_read);
    }

    /// Forgets what was counted of a model server that there is no more.
    pub(crate) fn forget_engine(&self, provider: &str) {
        self.engines.forget(provider);
    }

    /// Counts a choice by the beginning of a request: `hit`, `miss` or `passed_on`.
    pub fn record_prefix_choice(&self, result: &str) {
        self.routing.prefix_choices.with_label_values(&[result]).inc();
    }

    /// Counts a request of which a provider's cache of prompts has read nothing, and its input tokens.
    pub fn record_prompt_miss(&self, cause: &str, tokens: u64) {
        self.routing.prompt_misses.with_label_values(&[cause]).inc();
        self.routing.missed_tokens.with_label_values(&[cause]).inc_by(tokens);
    }

    /// Counts a wait for a place at a target.
    pub fn record_queue_wait(&self, provider: &str, wait: Duration) {
        self.places.waited(provider, wait);
    }

    /// Counts an attempt that got no place: the queue was `full`, or it was too `late`.
    pub fn record_queue_refusal(&self, provider: &str, reason: &str) {
        self.places.refused(provider, reason);
    }

    /// Counts a request or attempt that a limit refused: whose limit it is (`policy`, `key` …), and why.
    pub fn record_limit_refusal(&self, scope: &str, cause: &str) {
        self.routing.limit_refusals.with_label_values(&[scope, cause]).inc();
    }

    /// Counts a report of usage that was more than its request could use.
    pub fn record_bounded_report(&self, provider: &str) {
        self.routing.bounded_reports.with_label_values(&[provider]).inc();
    }

    /// Counts a token exchange: `fetched` while a request waited, `renewed` before expiry, or `failed`.
    pub(crate) fn record_token_exchange(&self, outcome: &str) {
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

    /// Whether the store's database is available, and how many objects are kept in memory.
    /// `revision`: the number of the last write that is in force.
    pub fn set_store(&self, is_available: bool, records: usize, revision: u64) {
        self.reloads.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
        self.traffic.store_available.set(i64::from(is_available));
        self.traffic.store_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    /// How the counters of limits are doing.
    pub fn set_counters(&self, state: &CountersState) {
        self.limits.set(state);
    }

    /// Traces were sent to the collector (`sent`), not taken by it (`failed`), or did not fit into the queue (`dropped`).
    pub fn count_traces(&self, outcome: &str, traces: u64) {
        self.traffic.traces.with_label_values(&[outcome]).inc_by(traces);
    }

    /// What became of the ledger's rows.
    pub fn set_ledger(&self, health: &LedgerHealth) {
        self.ledger.set(health);
    }

    /// How many questions to the log store run, wait and were refused.
    pub fn set_ledger_questions(&self, kinds: &[QuestionCounts]) {
        self.ledger.set_questions(kinds);
    }

    /// Who follows the log, and what was left out for them.
    pub fn set_ledger_tail(&self, tail: &Tail) {
        self.ledger.set_tail(tail);
    }

    pub fn record_dropped_process_log_lines(&self, lines: u64) {
        self.traffic.process_log_dropped.inc_by(lines);
    }

    pub fn record_dropped_log_lines(&self, lines: u64) {
        self.traffic.log_dropped.inc_by(lines);
    }

    /// New settings are in force.
    pub(crate) fn settings_loaded(&self, hash: &str, clients: &MetricsSettings) {
        self.clients.choose(clients);
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

    /// Prices from this source (`binary`, `file`, `url`) are in force.
    pub(crate) fn prices_loaded(&self, source: &str, version: &str) {
        self.prices.info.reset();
        self.prices.info.with_label_values(&[source, version]).set(1);
    }

    /// A catalogue was read, or could not be: `replaced`, `same`, `refused`, `failed`.
    pub(crate) fn prices_refreshed(&self, outcome: &str) {
        self.prices.refreshes.with_label_values(&[outcome]).inc();
    }

    /// A limit reached its `threshold`, or is `exhausted`.
    pub fn alert_raised(&self, event: &str) {
        self.alerts.raised.with_label_values(&[event]).inc();
    }

    /// A message through a channel (`email`, `webhook`) was `delivered`, has `failed` or was `dropped`.
    pub fn alert_delivered(&self, channel: &str, outcome: &str) {
        self.alerts.deliveries.with_label_values(&[channel, outcome]).inc();
    }

    /// A hook ran.
    pub fn record_hook(&self, denies: bool, verdict: bool) {
        let outcome = match (denies, verdict) {
            (true, _) => "denied",
            (false, true) => "passed",
            (false, false) => "failed",
        };
        self.guardrails.hooks.with_label_values(&[outcome]).inc();
    }

    /// A check ran: `passed`, `failed` or `error`.
    pub fn record_check(&self, check: &str, verdict: &str, taken: Duration) {
        self.guardrails.checks.with_label_values(&[check, verdict]).inc();
        self.guardrails.seconds.with_label_values(&[check]).observe(taken.as_secs_f64());
    }

    /// Hooks or feedback in the background were left out.
    pub fn record_hooks_left_out(&self) {
        self.guardrails.left_out.inc();
    }

    /// What the cache did for a request that it was to serve.
    pub fn record_cache(&self, request: &CachedRequest) {
        self.cache.requests.with_label_values(&[request.status]).inc();
        if request.is_shared {
            self.cache.shared.inc();
        }
        let saved = [("input", request.saved_input_tokens), ("output", request.saved_output_tokens)];
        for (direction, tokens) in saved.into_iter().filter(|(_, tokens)| *tokens > 0) {
            self.cache.saved_tokens.with_label_values(&[direction]).inc_by(tokens);
        }
        self.cache.saved_dollars.inc_by(request.saved_dollars);
        if let Some(reason) = request.not_stored {
            self.cache.not_stored.with_label_values(&[reason]).inc();
        }
    }

    /// A text was sent to the embedding model.
    pub fn record_embedding(&self, result: &str) {
        self.cache.embeddings.with_label_values(&[result]).inc();
    }

    /// Of listeners' certificates.
    pub fn certificates(&self) -> &CertificateMetrics {
        &self.traffic.certificates
    }

    /// Where other rooms register their own families.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Seconds since the prices in force were read.
    pub fn set_prices_age(&self, seconds: i64) {
        self.prices.age.set(seconds);
    }

    /// The metrics in OpenMetrics' text format (version 1.0.0), with exemplars. `targets`: as for [`Metrics::render`].
    pub fn render_open_metrics(&self, targets: &[TargetView]) -> Vec<u8> {
        let page = self.render(targets);
        let exemplars = self.exemplars.collect();
        open_metrics::open_metrics(&String::from_utf8_lossy(&page), &exemplars).into_bytes()
    }

    /// The metrics in text format (version 0.0.4). `targets` are the targets of the registry now: their breakers are
    /// rendered with their present state, not with the state at their last event.
    pub fn render(&self, targets: &[TargetView]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 << 10);
        let mut families = self.registry.gather();
        families.extend(self.clients.gather());
        let written = routing::breakers(targets).and_then(|breakers| {
            families.extend(breakers);
            TextEncoder::new().encode(&families, &mut out)
        });
        if let Err(error) = written {
            log::error!(target: "turnpike", "the metrics could not be rendered: {error}");
        }
        let whole = std::str::from_utf8(&out).ok().and_then(|page| self.inherited.add_to(page));
        whole.map_or(out, String::into_bytes)
    }
}

#[cfg(test)]
mod tests;
