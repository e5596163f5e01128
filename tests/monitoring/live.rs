//! A gateway under a load of every kind, and a Prometheus that scrapes it: every panel's query returns data, the families are
//! those of docs/metrics.md, and exemplars have traces.
//!
//! What providers' failures look like is in `faults`.

use super::board_list::{BOARDS, Board};
use super::catalogue::{Values, families, family_of, page};
use super::rules::RULES;
use crate::support::client::{client, new_trace};
use crate::support::prometheus::Prometheus;
use crate::support::redis_server::RedisServer;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, ports, report};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// A key that may call once a day.
const LIMITED: &str = "tp-limited-0123456789";
/// Families that this load does not make, and why.
const NOT_MADE: [(&str, &str); 7] = [
    ("turnpike_bounded_usage_reports_total", "the emulator reports no more than a request can use"),
    ("turnpike_batches_finished_total", "the load has no batch"),
    ("turnpike_engine_requests", "the load has no model server; tests/engines.rs has"),
    ("turnpike_engine_cache_use", "the same"),
    ("turnpike_engine_reads_total", "the same"),
    ("turnpike_provider_hosts", "no hosts are found in the load; tests/found_hosts.rs has some"),
    ("turnpike_mcp_changed_tools", "the load has no MCP server; tests/mcp_rules.rs has"),
];

/// The rules for a scrape every second: their header says how.
pub(super) fn rules_for_a_second() -> String {
    page(RULES).replace("[1m]", "[4s]").replace("offset 1m", "offset 4s").replace("for: 15s", "for: 1s")
}

/// A gateway with a certificate, a shared store of the cache if there is a Redis, and a semantic cache.
fn gateway(folder: &Path, redis: Option<&RedisServer>) -> Gateway {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = folder.join("cert.pem");
    let key = folder.join("key.pem");
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let port = ports::free();
    let cache = redis.map(|redis| format!("cache: {{url: 'redis://127.0.0.1:{}'}}\n", redis.port));
    let own = format!(
        "listen:
  data: [127.0.0.1:DATA_PORT, {{address: '127.0.0.1:{port}', tls: {{cert: {}, key: {}}}}}]
  control: 127.0.0.1:CONTROL_PORT
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}
semantic_cache: {{provider: '@emulator', model: text-embedding-3-small}}
metrics: {{labels: [key, workspace, user]}}
{}",
        cert.display(),
        key.display(),
        cache.unwrap_or_default()
    );
    let limited =
        format!("  keys:\n    - {{name: limited, key: {LIMITED}, rate_limits: [{{unit: rpd, value: 1}}]}}\n");
    Gateway::start(&format!("{own}{}", STANDARD.replacen("  keys:\n", &limited, 1)))
}

/// A request to chat.
struct Chat<'a> {
    key: &'static str,
    config: &'a Value,
    model: &'static str,
    text: &'a str,
    is_stream: bool,
    /// The status of its response, where it is always the same.
    status: Option<u16>,
}

impl Chat<'_> {
    async fn send(&self, gateway: &Gateway) {
        let body = json!({
            "model": self.model,
            "stream": self.is_stream,
            "messages": [{"role": "user", "content": self.text}],
        });
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", self.key).header("x-gateway-trace-id", new_trace());
        let call = call.header("x-gateway-config", self.config.to_string());
        let response = call.json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        // A stream may end with an error.
        let _ = response.bytes().await;
        assert!(self.status.is_none_or(|expected| expected == status), "{}: {status}", self.model);
    }
}

/// One request of every kind.
async fn load(gateway: &Gateway) {
    let at = |name: &str, value: Value| json!({"provider": "@emulator", name: value});
    let plain = json!({"provider": "@emulator"});
    let simple = at("cache", json!({"mode": "simple"}));
    let mut disliked = simple.clone();
    disliked["output_guardrails"] =
        json!([{"contains": {"operator": "none", "words": ["fox"]}, "deny": false}]);
    let semantic = at("cache", json!({"mode": "semantic"}));
    let denials = json!([{"contains": {"operator": "none", "words": ["forbidden"]}, "deny": true}]);
    let guarded = at("input_guardrails", denials);
    let retried = at("retry", json!({"attempts": 1, "backoff_ms": 5}));
    let broken = at("cb_config", json!({"failure_threshold": 1, "cooldown_interval": 30_000}));
    let by_prefix = json!({"strategy": {"mode": "loadbalance", "by": "prefix"}, "targets": [plain, plain]});
    let marked = at("prompt_cache", json!("auto"));
    let text = format!("say hello to {}", new_trace());
    let other_text = format!("please {text}");
    let chat =
        |config, model| Chat { key: KEY, config, model, text: &text, is_stream: false, status: Some(200) };
    for chat in [
        chat(&plain, "gpt-4o-mini"),
        Chat { is_stream: true, ..chat(&plain, "gpt-4o-mini") },
        chat(&plain, "a-model-without-a-price"),
        chat(&by_prefix, "gpt-4o-mini"),
        chat(&marked, "gpt-4o-mini"),
        chat(&simple, "gpt-4o-mini"),
        chat(&simple, "gpt-4o-mini"),
        Chat { text: &other_text, status: Some(246), ..chat(&disliked, "gpt-4o-mini") },
        Chat { text: &other_text, ..chat(&semantic, "gpt-4o-mini") },
        chat(&guarded, "gpt-4o-mini"),
        Chat { text: "this is forbidden", status: Some(446), ..chat(&guarded, "gpt-4o-mini") },
        Chat { status: Some(503), ..chat(&retried, "gpt-4o-mini?status=503") },
        Chat { status: None, ..chat(&broken, "gpt-4o-mini?status=503") },
        Chat { key: LIMITED, status: None, ..chat(&plain, "gpt-4o-mini") },
    ] {
        chat.send(gateway).await;
    }
    // One has the only place, one waits for it, one finds the queue full.
    let bounded = at("concurrency", json!({"max": 1, "queue": {"max": 1}}));
    let waiting = || Chat { status: None, ..chat(&bounded, "gpt-4o-mini?ttft=200") };
    let [one, other, third] = [waiting(), waiting(), waiting()];
    tokio::join!(one.send(gateway), other.send(gateway), third.send(gateway));
}

/// A query with values in place of a board's variables.
fn filled(expression: &str, gateway: &Gateway) -> String {
    let instance = format!("127.0.0.1:{}", gateway.ports.control);
    expression.replace("$job", "turnpike").replace("$instance", &instance).replace("$__rate_interval", "5s")
}

/// Every query of every board, with the panel that it is of.
fn queries() -> Vec<(&'static str, String)> {
    let of = |board: &'static Board| {
        board
            .panels
            .iter()
            .flat_map(|panel| panel.expressions(board).into_iter().map(|one| (panel.title, one)))
    };
    BOARDS.iter().flat_map(of).collect()
}

fn is_number(series: &Value) -> bool {
    series["value"][1].as_str().is_some_and(|value| value != "NaN")
}

#[tokio::test]
async fn every_panel_has_data_under_load() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), redis.as_ref());
    let Some(prometheus) = Prometheus::start(gateway.ports.control, &rules_for_a_second()).await else {
        return;
    };
    let mut left = queries();
    let count = left.len();
    if redis.is_none() {
        // There is no shared store then.
        left.retain(|(_, query)| !query.contains("turnpike_cache_store_"));
    }
    let mut rounds = 0;
    let all_have_data = until("data of all panels", async || {
        load(&gateway).await;
        rounds += 1;
        let mut empty = Vec::new();
        for (panel, query) in std::mem::take(&mut left) {
            if !prometheus.query(&filled(&query, &gateway)).await.iter().any(is_number) {
                empty.push((panel, query));
            }
        }
        left = empty;
        left.is_empty().then_some(())
    });
    if tokio::time::timeout(std::time::Duration::from_secs(50), all_have_data).await.is_err() {
        panic!("no data: {left:#?}");
    }
    report(&format!("boards: {count} queries return data after {rounds} rounds of load"));
    let now = jiff::Timestamp::now().as_second();
    let exemplars = until("exemplars", async || {
        load(&gateway).await;
        let times = [(now - 600).to_string(), (now + 600).to_string()];
        let query = [
            ("query", "gen_ai_client_operation_duration_seconds_bucket"),
            ("start", times[0].as_str()),
            ("end", times[1].as_str()),
        ];
        let found = prometheus.api("query_exemplars", &query).await;
        found.as_array().filter(|series| !series.is_empty()).cloned()
    })
    .await;
    let trace = exemplars[0]["exemplars"][0]["labels"]["trace_id"].as_str().unwrap().to_owned();
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["operation"], "chat", "{line}");
}

/// Name and labels of a sample's line.
fn sample(line: &str) -> (String, Vec<(String, String)>) {
    let (series, _) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
    let labels = labels.map(|label| {
        let (name, value) = label.split_once("=\"").unwrap();
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), labels.collect())
}

#[tokio::test]
async fn the_documented_families_are_those_of_the_binary() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path(), redis.as_ref());
    let families = families();
    load(&gateway).await;
    load(&gateway).await;
    let text = until("refusals of limits", async || {
        let text = gateway.metrics().await;
        text.contains("turnpike_limit_refusals_total").then_some(text)
    })
    .await;
    let mut problems = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        match families.get(name) {
            None => problems.insert(format!("docs/metrics.md lacks {name}")),
            Some(family) if family.kind != kind => problems.insert(format!("{name} is a {kind}")),
            Some(_) => false,
        };
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, labels) = sample(line);
        let Some((name, family)) = family_of(&families, &series) else { continue };
        let names: BTreeSet<&str> =
            labels.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "le").collect();
        let documented: BTreeSet<&str> = family.labels.keys().map(String::as_str).collect();
        if names != documented {
            problems.insert(format!("{name} has the labels {names:?}, documented are {documented:?}"));
        }
        for (label, value) in &labels {
            if let Some(Values::Listed(listed)) = family.labels.get(label)
                && !listed.contains(value)
            {
                problems.insert(format!("{name} has {label}={value:?}, which is not documented"));
            }
        }
    }
    let is_made = |name: &str| text.contains(&format!("# TYPE {name} "));
    let is_excused = |name: &str| {
        NOT_MADE.iter().any(|(excused, _)| *excused == name)
            || redis.is_none() && name.starts_with("turnpike_cache_store_")
    };
    let missing = families.keys().filter(|name| !is_made(name) && !is_excused(name));
    problems.extend(missing.map(|name| format!("no series of {name}")));
    problems
        .extend(NOT_MADE.iter().filter(|(name, _)| is_made(name)).map(|(name, _)| format!("{name} is made")));
    assert!(problems.is_empty(), "{}", problems.into_iter().collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn open_metrics_are_the_series_of_plain_text() {
    let gateway = Gateway::start(STANDARD);
    load_plainly(&gateway).await;
    let page = async |accept: &str| {
        let call = client().get(format!("{}/metrics", gateway.control_url())).header("accept", accept);
        let response = call.send().await.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        (kind, response.text().await.unwrap())
    };
    let (kind, text) =
        page("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5").await;
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(
        text.ends_with("\n# EOF\n") && !text.contains(" # {trace_id="),
        "nobody has read exemplars before"
    );
    load_plainly(&gateway).await;
    let (_, text) = page("application/openmetrics-text").await;
    assert!(text.contains(" # {trace_id=\"test-"), "{text}");
    let (kind, plain) = page("text/plain").await;
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let series = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| line.split(" # {").next().unwrap().rsplit_once(' ').unwrap().0.to_owned())
            .collect()
    };
    assert_eq!(series(&text), series(&plain));
    let mut names = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(names.insert(name.to_owned()) && !(kind == "counter" && name.ends_with("_total")), "{line}");
    }
}

async fn load_plainly(gateway: &Gateway) {
    let config = json!({"provider": "@emulator"});
    let chat = Chat {
        key: KEY,
        config: &config,
        model: "gpt-4o-mini",
        text: "hello",
        is_stream: false,
        status: Some(200),
    };
    chat.send(gateway).await;
    // The client has its response before it is in the metrics.
    gateway.idle().await;
}
