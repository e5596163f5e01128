//! Each failure of the fault matrix (`crate::faults`) at a provider of its own, and the alert that a real Prometheus raises for it.
//!
//! That alerts fire within two scrapes is proven on series (`rules`), where the clock is promtool's. Here the number is reported.

use super::live::rules_for_a_second;
use crate::faults::rows::{FAULTS, Form};
use crate::support::client::{client, new_trace};
use crate::support::exclusive::exclusive;
use crate::support::prometheus::Prometheus;
use crate::support::settings::KEY;
use crate::support::wait::until;
use crate::support::{Gateway, report};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The alert of each row; `None`: the provider's response is complete, and clients notice nothing.
const ALERTS: [(&str, Option<&str>); 18] = [
    ("429 with Retry-After 2, then fine", Some("TurnpikeProviderRateLimits")),
    ("429 without end", Some("TurnpikeProviderRateLimits")),
    ("one 500, then fine", Some("TurnpikeProviderErrors")),
    ("503 without end", Some("TurnpikeProviderErrors")),
    ("reset before the head", Some("TurnpikeProviderUnreachable")),
    ("silence", Some("TurnpikeProviderTimeouts")),
    ("head at once, first token after 20 s", Some("TurnpikeProviderTimeouts")),
    ("cut after 40 of 60 tokens", Some("TurnpikeProviderUnreachable")),
    ("stalled after 20 tokens", Some("TurnpikeProviderTimeouts")),
    ("tenth event malformed", Some("TurnpikeProviderInvalidResponses")),
    ("no [DONE]", None),
    ("no close after [DONE]", None),
    ("no finish reason", None),
    ("context length exceeded", Some("TurnpikeProviderRefusesRequests")),
    ("content filter", Some("TurnpikeProviderRefusesRequests")),
    ("fallback that takes no prefill", Some("TurnpikeProviderUnreachable")),
    ("primary that flaps", Some("TurnpikeProviderErrors")),
    ("accounting after failover", Some("TurnpikeProviderErrors")),
];

/// Long enough for a response on a busy machine.
const TIMEOUT_MS: u64 = 1_500;
/// The load is about as large as that of failures: a share of attempts is what alerts look at.
const HEALTHY: &str = "tokens=60&latency=1000";
/// Requests of a round to each provider, in each form: more failures than an alert needs.
const EACH: usize = 3;

/// Providers with OpenAI's API, one for each row.
const PROVIDERS: [&str; 18] = [
    "openai",
    "groq",
    "deepseek",
    "together-ai",
    "fireworks-ai",
    "openrouter",
    "x-ai",
    "mistral-ai",
    "nebius",
    "hyperbolic",
    "moonshot",
    "deepinfra",
    "cerebras",
    "sambanova",
    "nscale",
    "novita-ai",
    "siliconflow",
    "upstage",
];

fn settings() -> String {
    let mut yaml = format!(
        "auth:\n  keys: [{{name: tests, key: {KEY}}}]\ncustom_hosts: {{allow_private: true}}\nproviders:\n"
    );
    for provider in PROVIDERS {
        writeln!(
            yaml,
            "  at-{provider}: {{provider: {provider}, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}"
        )
        .unwrap();
    }
    yaml
}

/// One request with this script. A client may get an error; here only the metrics count.
async fn send(gateway: &Gateway, provider: &str, script: &str, stream: bool) {
    let config = json!({
        "provider": format!("@at-{provider}"),
        "retry": {"attempts": 2, "backoff_ms": 5, "max_backoff_ms": 10},
        "request_timeout": TIMEOUT_MS,
        "time_limits": {"first_token_ms": TIMEOUT_MS, "gap_ms": TIMEOUT_MS},
        "override_params": {"model": format!("gpt-4o-mini?{script}")},
    });
    let body =
        json!({"model": "asked-for", "stream": stream, "messages": [{"role": "user", "content": "Hi"}]});
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).header("x-gateway-api-key", KEY);
    if let Ok(response) = call.header("x-gateway-config", config.to_string()).json(&body).send().await {
        let _ = response.bytes().await;
    }
}

/// Requests to each provider in each form that its row has, all at once: with the row's script, or without.
async fn round(gateway: &Gateway, are_failing: bool) {
    let mut all = Vec::new();
    for (fault, provider) in FAULTS.iter().zip(PROVIDERS) {
        for form in std::iter::repeat_n(fault.forms, EACH).flatten() {
            let is_stream = *form == Form::Streamed;
            let script = fault.scripts[usize::from(!is_stream)];
            let key = match (script.contains("times="), script.contains("flap=")) {
                (true, _) => format!("&key={}", new_trace()),
                (_, true) => "&key=flaps".to_owned(),
                _ => String::new(),
            };
            let script = if are_failing { format!("{script}{key}&tokens=60") } else { HEALTHY.to_owned() };
            all.push(async move { send(gateway, provider, &script, is_stream).await });
        }
    }
    futures_util::future::join_all(all).await;
}

/// The alerts about providers that fire now: the provider's and the alert's name.
async fn firing(prometheus: &Prometheus) -> BTreeSet<(String, String)> {
    let series = prometheus.query(r#"ALERTS{alertstate="firing",alertname=~"TurnpikeProvider.*"}"#).await;
    let text = |series: &Value, name: &str| series["metric"][name].as_str().unwrap().to_owned();
    series.iter().map(|series| (text(series, "provider"), text(series, "alertname"))).collect()
}

/// The times of a series' samples with more than `more_than`, seconds.
async fn times(prometheus: &Prometheus, series: &str, more_than: f64) -> Vec<f64> {
    let found = prometheus.query(&format!("{series}[5m]")).await;
    let samples = found.iter().flat_map(|series| series["values"].as_array().unwrap());
    let counted = samples.filter(|sample| sample[1].as_str().unwrap().parse::<f64>().unwrap() > more_than);
    let mut times: Vec<f64> = counted.map(|sample| sample[0].as_f64().unwrap()).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn each_row_of_the_matrix_has_its_alert() {
    let rows: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
    let named: Vec<&str> = ALERTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(rows, named);
}

#[tokio::test]
async fn each_failure_of_the_matrix_raises_its_alert() {
    let _exclusive = exclusive().await;
    let gateway = Gateway::start(&settings());
    let Some(prometheus) = Prometheus::start(gateway.ports.control, &rules_for_a_second()).await else {
        return;
    };
    until("scrapes of a healthy load", async || {
        round(&gateway, false).await;
        (times(&prometheus, "up", 0.5).await.len() >= 6).then_some(())
    })
    .await;
    assert_eq!(firing(&prometheus).await, BTreeSet::new(), "alerts on a healthy load");

    let wanted: BTreeMap<&str, &str> =
        PROVIDERS.iter().zip(ALERTS).filter_map(|(provider, (_, alert))| Some((*provider, alert?))).collect();
    let mut left = wanted.clone();
    let mut fired = BTreeSet::new();
    until("an alert for each failure", async || {
        round(&gateway, true).await;
        fired.extend(firing(&prometheus).await);
        left.retain(|provider, alert| !fired.contains(&((*provider).to_owned(), (*alert).to_owned())));
        if !left.is_empty() {
            return None;
        }
        Some(())
    })
    .await;
    let healthy: BTreeSet<&str> =
        PROVIDERS.into_iter().filter(|provider| !wanted.contains_key(provider)).collect();
    for (provider, alert) in &fired {
        assert!(!healthy.contains(provider.as_str()), "{alert} at {provider}, whose responses are complete");
    }
    let mut most = 0;
    for (provider, alert) in &wanted {
        let failures = format!(r#"turnpike_attempts_total{{provider="{provider}",outcome!="answered"}}"#);
        let alerts = format!(r#"ALERTS{{provider="{provider}",alertname="{alert}",alertstate="firing"}}"#);
        let first = times(&prometheus, &alerts, 0.5).await[0];
        let mut scrapes = times(&prometheus, &failures, 2.0).await;
        scrapes.dedup();
        most = most.max(scrapes.iter().filter(|scrape| **scrape <= first).count());
    }
    report(&format!(
        "alerts: {} failures of providers, each alert after at most {most} scrapes that showed it",
        wanted.len()
    ));
}
