//! The metric families of routing: attempts, breakers, hedges, rescues, waits.
//!
//! Breaker gauges are computed at each scrape from the target registry. A gauge that is set at each event would
//! show a breaker as open long after its cooldown, and would keep targets that were evicted.

use super::super::targets::{CircuitState, TargetView};
use super::families::{add, begun, counters};
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of breakers in one scrape.
const MAX_BREAKERS: usize = 1_000;
/// Waits before a retry, seconds.
const WAIT_BUCKETS: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Why a cache of prompts has read nothing (`engine::prompt_misses`).
pub const MISS_CAUSES: [&str; 6] = ["first", "below_minimum", "changed", "other_target", "time", "unknown"];

/// `turnpike_*`: outcomes of attempts, and retries, hedges and rescues.
pub(super) struct Routing {
    pub attempts: IntCounterVec,
    pub transitions: IntCounterVec,
    pub hedges: IntCounterVec,
    pub rescues: IntCounterVec,
    pub limit_refusals: IntCounterVec,
    pub bounded_reports: IntCounterVec,
    pub prefix_choices: IntCounterVec,
    pub prompt_misses: IntCounterVec,
    pub missed_tokens: IntCounterVec,
    pub waits: Histogram,
    pub changed_tools: IntGaugeVec,
}

impl Routing {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let attempts = "Tries at providers, by what came of them.";
        let transitions = "Circuit breakers that changed, by what they turned to.";
        let hedges = "Extra attempts beside a slow one, by what came of them.";
        let rescues = "Streams that broke after the first token, by what came of them.";
        let limit_refusals = "Requests and attempts that a limit refused, by whose limit it is and why.";
        let bounded_reports =
            "Reports of usage that were more than their request could use, and were charged at that.";
        let prefix_choices = "Targets chosen by the beginning of the request, by what was known of it.";
        let waits = "Waits before another attempt.";
        let waits = HistogramOpts::new("turnpike_retry_wait_seconds", waits).buckets(WAIT_BUCKETS.to_vec());
        let changed_tools = "Tools of an MCP server whose definition is not the approved one any more, and that clients do not get.";
        let changed_tools = Opts::new("turnpike_mcp_changed_tools", changed_tools);
        Ok(Self {
            changed_tools: add(r, IntGaugeVec::new(changed_tools, &["server"])?)?,
            attempts: counters(r, "turnpike_attempts_total", attempts, &["provider", "target", "outcome"])?,
            transitions: counters(r, "turnpike_breaker_transitions_total", transitions, &["provider", "to"])?,
            hedges: begun(r, "turnpike_hedges_total", hedges, "outcome", &["won", "lost", "refused"])?,
            rescues: begun(
                r,
                "turnpike_rescues_total",
                rescues,
                "outcome",
                &["resumed", "replayed", "failed"],
            )?,
            limit_refusals: counters(
                r,
                "turnpike_limit_refusals_total",
                limit_refusals,
                &["scope", "cause"],
            )?,
            bounded_reports: counters(
                r,
                "turnpike_bounded_usage_reports_total",
                bounded_reports,
                &["provider"],
            )?,
            prefix_choices: begun(
                r,
                "turnpike_prefix_choices_total",
                prefix_choices,
                "result",
                &["hit", "miss", "passed_on"],
            )?,
            prompt_misses: begun(
                r,
                "turnpike_prompt_cache_misses_total",
                "Responses of which the provider's cache of prompts has read nothing, by why (prompt_cache: auto).",
                "cause",
                &MISS_CAUSES,
            )?,
            missed_tokens: begun(
                r,
                "turnpike_prompt_cache_missed_tokens_total",
                "Input tokens of these.",
                "cause",
                &MISS_CAUSES,
            )?,
            waits: add(r, Histogram::with_opts(waits)?)?,
        })
    }
}

impl Routing {
    /// Drops the series of `turnpike_mcp_changed_tools` of other servers than these.
    pub fn retain_changed_tools(&self, servers: &BTreeSet<&str>) {
        for family in self.changed_tools.collect() {
            let labels = family.get_metric().iter().flat_map(|series| series.get_label());
            for server in labels.map(|label| label.value()).filter(|server| !servers.contains(server)) {
                // It is there, unless another scrape was quicker.
                let _ = self.changed_tools.remove_label_values(&[server]);
            }
        }
    }
}

/// `turnpike_target_open` of the targets that have a breaker: saved configs before inline ones, and in each of the two
/// open breakers before closed ones. Of targets with the same labels (a changed config, several tenants) the worst
/// state is shown.
pub(super) fn breakers(targets: &[TargetView]) -> prometheus::Result<Vec<MetricFamily>> {
    let mut worst: BTreeMap<(bool, &str, &str, &str), f64> = BTreeMap::new();
    for view in targets {
        let Some(circuit) = view.circuit else { continue };
        let id = &view.id;
        let labels = (id.is_inline(), id.config.as_str(), id.index.as_str(), id.provider);
        let worst_value = worst.entry(labels).or_default();
        *worst_value = worst_value.max(value(circuit));
    }
    let mut ranked: Vec<_> = worst.into_iter().collect();
    ranked.sort_by_key(|((inline, ..), value)| (*inline, *value == 0.0));
    let help = "1 when the target's breaker is open, 0.5 when half-open, 0 when closed.";
    let gauge = GaugeVec::new(Opts::new("turnpike_target_open", help), &["config", "target", "provider"])?;
    for ((_, config, index, provider), value) in ranked.into_iter().take(MAX_BREAKERS) {
        gauge.with_label_values(&[config, index, provider]).set(value);
    }
    // The encoder rejects a family without samples.
    let full = |family: &MetricFamily| !family.get_metric().is_empty();
    Ok(gauge.collect().into_iter().filter(full).collect())
}

fn value(circuit: CircuitState) -> f64 {
    match circuit {
        CircuitState::Closed => 0.0,
        CircuitState::HalfOpen => 0.5,
        CircuitState::Open => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::targets::{BreakerSignal, TargetId, TargetRegistry};
    use super::super::Metrics;
    use std::time::{Duration, Instant};
    use words::config::policies::BreakerPolicy;

    fn identity(config: &str, hash: u64) -> TargetId {
        let config = config.to_owned();
        let index = "config".to_owned();
        TargetId { config, index, provider: "openai", slug: None, model: None, hash }
    }

    #[test]
    fn breakers_are_rendered_in_their_state_at_the_scrape() {
        let metrics = Metrics::new().unwrap();
        let targets = TargetRegistry::with_counter(metrics.breaker_transitions());
        let now = Instant::now();
        let page = |at| String::from_utf8(metrics.render(&targets.list(at))).unwrap();
        assert!(!page(now).contains("turnpike_target_open"));
        let policy = BreakerPolicy { threshold: 1, cooldown: Duration::from_secs(30), statuses: None };
        // Of two targets with the same labels, only the second is open.
        let held = [0, 1].map(|hash| targets.find_or_insert(&identity("saved", hash), Some(&policy)));
        let plain = targets.find_or_insert(&identity("plain", 0), None);
        held[1].enter(now).finish(BreakerSignal::Failure, now);
        let open = |value| {
            format!(r#"turnpike_target_open{{config="saved",provider="openai",target="config"}} {value}"#)
        };
        assert!(page(now).contains(&open("1\n")), "{}", page(now));
        assert!(page(now + Duration::from_secs(30)).contains(&open("0.5\n")));
        targets.reset(None, None);
        assert!(page(now).contains(&open("0\n")));
        assert!(!page(now).contains(r#"config="plain""#));
        for (to, count) in [("open", 1), ("half_open", 0), ("closed", 1)] {
            let line =
                format!(r#"turnpike_breaker_transitions_total{{provider="openai",to="{to}"}} {count}"#);
            assert!(page(now).contains(&line), "{line}");
        }
        drop((held, plain));
    }

    #[test]
    fn inline_configs_do_not_push_saved_configs_off_the_page() {
        let metrics = Metrics::new().unwrap();
        let targets = TargetRegistry::default();
        let now = Instant::now();
        let policy = BreakerPolicy { threshold: 1, cooldown: Duration::from_secs(30), statuses: None };
        let find = |config: &str| {
            let target = targets.find_or_insert(&identity(config, 0), Some(&policy));
            target.enter(now).finish(BreakerSignal::Failure, now);
            target
        };
        let held: Vec<_> = (0..2_000).map(|number| find(&format!("inline-{number:08x}"))).collect();
        let saved = targets.find_or_insert(&identity("saved", 0), Some(&policy));
        let page = String::from_utf8(metrics.render(&targets.list(now))).unwrap();
        assert_eq!(page.matches("\nturnpike_target_open{").count(), super::MAX_BREAKERS);
        assert!(page.contains(r#"turnpike_target_open{config="saved""#));
        drop((held, saved));
    }

    #[test]
    fn attempts_are_labelled_by_target_up_to_a_bound() {
        let metrics = Metrics::new().unwrap();
        for number in 0..1_000 {
            metrics.record_failed_attempt("openai", &format!("config.targets[{number}]"), "answered");
        }
        let page = String::from_utf8(metrics.render(&[])).unwrap();
        assert_eq!(page.matches("\nturnpike_attempts_total{").count(), 201);
        let line = r#"turnpike_attempts_total{outcome="answered",provider="openai",target="other"} 800"#;
        assert!(page.contains(line), "{page}");
    }
}
