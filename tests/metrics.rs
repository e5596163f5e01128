//! The metrics for Prometheus: the families, their text format, their bounds.
//!
//! Not the access line of a request (`observability`).

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The documented families and their types (docs/metrics.md).
const FAMILIES: [(&str, &str); 32] = [
    ("turnpike_requests_total", "counter"),
    ("turnpike_errors_total", "counter"),
    ("turnpike_attempts_total", "counter"),
    ("turnpike_hedges_total", "counter"),
    ("turnpike_rescues_total", "counter"),
    ("turnpike_retry_wait_seconds", "histogram"),
    ("turnpike_requests_in_flight", "gauge"),
    ("turnpike_overhead_seconds", "histogram"),
    ("turnpike_body_bytes_total", "counter"),
    ("turnpike_access_lines_dropped_total", "counter"),
    ("turnpike_settings_last_reload_successful", "gauge"),
    ("turnpike_settings_last_reload_success_timestamp_seconds", "gauge"),
    ("turnpike_settings_reloads_total", "counter"),
    ("turnpike_settings_info", "gauge"),
    ("turnpike_build_info", "gauge"),
    ("turnpike_limit_bucket_bytes", "gauge"),
    ("turnpike_limit_buckets", "gauge"),
    ("turnpike_limit_counters_evicted", "gauge"),
    ("turnpike_limit_counters_available", "gauge"),
    ("turnpike_limit_counters_failures_total", "counter"),
    ("turnpike_limit_gateways", "gauge"),
    ("turnpike_limit_leased_requests_total", "counter"),
    ("turnpike_limit_leases", "gauge"),
    ("turnpike_limit_overflowed_total", "counter"),
    ("gen_ai_client_operation_duration_seconds", "histogram"),
    ("gen_ai_client_operation_time_to_first_chunk_seconds", "histogram"),
    ("gen_ai_client_token_usage", "histogram"),
    ("process_cpu_seconds_total", "counter"),
    ("process_resident_memory_bytes", "gauge"),
    ("process_open_fds", "gauge"),
    ("process_max_fds", "gauge"),
    ("process_start_time_seconds", "gauge"),
];

/// One scrape, parsed strictly: every sample belongs to a declared family, and no series occurs twice.
struct Scrape {
    /// Type by family.
    families: BTreeMap<String, String>,
    /// Value by series, as printed.
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let mut scrape = Self { families: BTreeMap::new(), samples: BTreeMap::new() };
        let mut helped = BTreeSet::new();
        assert!(text.ends_with('\n'), "the last line is incomplete");
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect(line);
                assert!(!help.trim().is_empty() && helped.insert(name.to_owned()), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect(line);
                assert!(helped.contains(name), "no HELP before {line}");
                assert!(scrape.families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
                assert_eq!(
                    kind == "counter",
                    name.ends_with("_total"),
                    "only counters end in _total: {line}"
                );
            } else {
                let (series, value) = line.rsplit_once(' ').expect(line);
                let name = series.split('{').next().unwrap();
                let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let histogram = stem
                    .is_some_and(|stem| scrape.families.get(stem).is_some_and(|kind| kind == "histogram"));
                assert!(histogram || scrape.families.contains_key(name), "no TYPE before {line}");
                let value = value.parse().expect(line);
                assert!(scrape.samples.insert(series.to_owned(), value).is_none(), "twice: {series}");
            }
        }
        scrape
    }

    /// The sum of the series of this name that have all of these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let value_of = |series: &str| {
            series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
        };
        self.samples.iter().filter(|(series, _)| value_of(series)).map(|(_, value)| value).sum()
    }

    /// The distinct values of a label.
    fn values(&self, label: &str) -> BTreeSet<String> {
        let start = format!("{label}=\"");
        let values = self.samples.keys().filter_map(|series| series.split_once(&start));
        values.map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).collect()
    }
}

async fn scrape(gateway: &Gateway) -> Scrape {
    Scrape::read(&gateway.metrics().await)
}

#[tokio::test]
async fn every_documented_family_is_exposed_and_counts() {
    let gateway = Gateway::start(STANDARD);
    for stream in [false, true] {
        let mut body = hello(stream);
        body["stream_options"] = if stream { json!({"include_usage": true}) } else { json!(null) };
        let response = chat(&gateway, &new_trace(), &body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
    }
    let mut body = hello(false);
    body["model"] = json!("gpt-4o-mini?status=599");
    chat(&gateway, &new_trace(), &body).send().await.unwrap();
    client().get(format!("{}/models", gateway.base_url())).send().await.unwrap();
    let got = until("four requests to finish", async || {
        let got = scrape(&gateway).await;
        (got.sum("turnpike_requests_total", &[]) >= 4.0).then_some(got)
    })
    .await;
    for (family, kind) in FAMILIES {
        assert_eq!(got.families.get(family).map(String::as_str), Some(kind), "{family}");
    }
    let chat = r#"operation="chat""#;
    assert_eq!(got.sum("turnpike_requests_total", &[chat, r#"status="200""#]), 2.0);
    assert_eq!(
        got.sum("turnpike_requests_total", &[chat, r#"status="5xx""#]),
        1.0,
        "an unusual status is counted by its class"
    );
    assert_eq!(got.sum("turnpike_requests_total", &[r#"status="401""#]), 1.0);
    assert_eq!(got.sum("turnpike_errors_total", &[r#""invalid_api_key""#]), 1.0);
    for (outcome, count) in [("answered", 2.0), ("5xx", 1.0)] {
        let labels = [r#"provider="openai""#, r#"target="config""#, &format!("outcome={outcome:?}")];
        assert_eq!(got.sum("turnpike_attempts_total", &labels), count, "{outcome}");
    }
    assert_eq!(got.sum("turnpike_overhead_seconds_count", &[chat]), 3.0);
    assert_eq!(got.sum("turnpike_settings_reloads_total", &[r#"result="success""#]), 1.0);
    let call = [
        r#"gen_ai_operation_name="chat""#,
        r#"gen_ai_provider_name="openai""#,
        r#"gen_ai_request_model="gpt-4o-mini""#,
    ];
    assert_eq!(got.sum("gen_ai_client_operation_duration_seconds_count", &call), 2.0);
    assert_eq!(
        got.sum("gen_ai_client_operation_time_to_first_chunk_seconds_count", &call),
        1.0,
        "streams only"
    );
    for sort in [r#"gen_ai_token_type="input""#, r#"gen_ai_token_type="output""#] {
        assert_eq!(got.sum("gen_ai_client_token_usage_count", &[sort]), 2.0, "{sort}");
        assert_eq!(got.sum("gen_ai_client_token_usage_bucket", &[sort, r#"le="+Inf""#]), 2.0, "{sort}");
        assert_eq!(got.sum("gen_ai_client_token_usage_bucket", &[sort, r#"le="0""#]), 0.0, "{sort}");
    }
    assert!(got.sum("process_resident_memory_bytes", &[]) > 1e6);
    let now = jiff::Timestamp::now().as_second() as f64;
    assert!(
        (-1.0..60.0).contains(&(now - got.sum("process_start_time_seconds", &[]))),
        "it started just now"
    );
    assert!(got.sum("turnpike_body_bytes_total", &[r#"direction="out""#]) > 1000.0);
}

#[tokio::test]
async fn requests_in_flight_are_counted() {
    let gateway = Gateway::start(STANDARD);
    let in_flight = async || gateway.metric("turnpike_requests_in_flight").await.unwrap();
    assert_eq!(in_flight().await, 0.0);
    let mut body = hello(true);
    body["model"] = json!("gpt-4o-mini?tokens=10000&gap=50");
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = chat(&gateway, &new_trace(), &body).send().await.unwrap();
        stream.chunk().await.unwrap();
        streams.push(stream);
    }
    assert_eq!(in_flight().await, 3.0);
    drop(streams);
    until("the requests to end", async || (in_flight().await == 0.0).then_some(())).await;
}

/// 10,000 requests, each with a name that the client made up: models that the provider takes, models that it refuses,
/// paths, slugs, service keys, methods.
#[tokio::test]
async fn names_that_clients_make_up_leave_the_page_small() {
    const EACH: usize = 200;
    const CLIENTS: usize = 10;
    let gateway = Gateway::start(STANDARD);
    let before = gateway.metrics().await.len();
    let clients = (0..CLIENTS).map(|client_number| {
        let (gateway, client) = (&gateway, client());
        async move {
            let base = gateway.base_url();
            let call = |path: &str, key: &str, provider: &str, model: &str| {
                let mut body = hello(false);
                body["model"] = json!(model);
                let call = client.post(format!("{base}/{path}")).json(&body);
                call.header("x-gateway-api-key", key).header("x-gateway-provider", provider)
            };
            for number in 0..EACH {
                let name = format!("invented-{client_number}-{number}");
                let metadata = format!(r#"{{"{name}":"v"}}"#);
                let (provider, chat) = ("@emulator", "chat/completions");
                for (sent, status) in [
                    (
                        call(chat, KEY, provider, &format!("{name}?tokens=1"))
                            .header("x-gateway-metadata", metadata),
                        200,
                    ),
                    (call(chat, KEY, provider, &format!("{name}?status=404")), 404),
                    (call(&format!("{name}/path"), KEY, provider, "m"), 200),
                    (call(chat, KEY, &format!("@{name}"), "m"), 400),
                    (call(chat, &format!("tp-{name}-0123456789"), provider, "m"), 401),
                ] {
                    let response = sent.send().await.unwrap();
                    assert_eq!(response.status(), status, "{}", response.text().await.unwrap());
                    response.bytes().await.unwrap();
                }
            }
            let method = reqwest::Method::from_bytes(format!("INVENTED{client_number}").as_bytes()).unwrap();
            let sent = client.request(method, format!("{base}/models")).header("x-gateway-api-key", KEY);
            sent.send().await.unwrap();
        }
    });
    futures_util::future::join_all(clients).await;
    let made = (EACH * CLIENTS * 5 + CLIENTS) as f64;
    let got = until("all requests to be counted", async || {
        let got = scrape(&gateway).await;
        (got.sum("turnpike_requests_total", &[]) >= made).then_some(got)
    })
    .await;
    let models = got.values("gen_ai_request_model");
    assert!(models.contains("other") && models.len() <= 202, "{} models", models.len());
    let refused = models.iter().filter(|model| model.contains("status=404")).count();
    assert_eq!(refused, 0, "a model that no provider took is no label");
    assert_eq!(
        got.sum("gen_ai_client_operation_duration_seconds_count", &[r#"operation_name="chat""#]),
        (EACH * CLIENTS * 2) as f64
    );
    assert!(got.values("operation").len() <= 3, "{:?}", got.values("operation"));
    assert!(got.values("provider").len() <= 2, "{:?}", got.values("provider"));
    let page = gateway.metrics().await;
    let outside_models = page.lines().filter(|line| line.contains("invented") && !line.contains("gen_ai_"));
    assert_eq!(outside_models.count(), 0);
    assert!(page.len() < 3 << 20, "{} bytes, {before} before", page.len());
}

#[tokio::test]
async fn metrics_are_on_the_control_port_only() {
    let gateway = gateway();
    let response = client().get(format!("{}/metrics", gateway.control_url())).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    Scrape::read(&response.text().await.unwrap());
    for path in ["/metrics", "/v1/metrics"] {
        let call = client().get(format!("{}{path}", gateway.data_url())).header("x-gateway-api-key", KEY);
        let response = call.send().await.unwrap();
        assert!(response.status().is_client_error(), "{path}: {}", response.status());
        assert!(!response.text().await.unwrap().contains("turnpike_requests_total"), "{path}");
    }
}
