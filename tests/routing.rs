//! Strategies as clients see them: shares, stickiness, conditions, nesting, fallback statuses, what is
//! returned when all targets fail, retries and hedges.
//!
//! Not the faults of providers (`faults`) nor breakers; the selection rules are unit-tested.

use crate::faults::case::{PrimaryDialect, body, emulator_requests, send};
use crate::faults::observed::ObservedResponse;
use crate::support::client::{client, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use crate::support::{Gateway, gateway};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const INDEX: &str = "x-gateway-last-used-option-index";

fn target(script: &str) -> Value {
    PrimaryDialect::OpenAi.target("t", script)
}

/// A target with additional keys.
fn with(script: &str, more: &Value) -> Value {
    let mut target = target(script);
    more.as_object().unwrap().iter().for_each(|(key, value)| target[key] = value.clone());
    target
}

async fn send_chat(gateway: &Gateway, config: &Value) -> ObservedResponse {
    send(gateway, &client(), &new_trace(), config, &body(false, false), false).await
}

/// Sends one request with additional headers and a body; returns the index of the target that served it.
async fn index(gateway: &Gateway, config: &Value, headers: &[(&str, &str)], body: &Value) -> String {
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-config", config.to_string());
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let response = call.json(body).send().await.unwrap();
    let index = response.headers().get(INDEX).map(|index| index.to_str().unwrap().to_owned());
    index.unwrap_or_else(|| panic!("no option index, status {}", response.status()))
}

#[tokio::test]
async fn shares_follow_the_weights_and_zero_is_never_chosen() {
    let gateway = gateway();
    let client = client();
    let config = json!({"strategy": {"mode": "loadbalance"}, "targets": [
        with("tokens=1", &json!({"weight": 3})),
        with("tokens=1", &json!({"weight": 0})),
        // The default weight is 1.
        with("tokens=1", &json!({})),
    ]});
    let requests = stream::iter(0..200).map(|_| {
        let gateway = &gateway;
        let client = &client;
        let config = &config;
        async move { send(gateway, client, &new_trace(), config, &body(false, false), false).await }
    });
    let mut shares = BTreeMap::<String, usize>::new();
    let responses: Vec<ObservedResponse> = requests.buffer_unordered(8).collect().await;
    for response in responses {
        assert_eq!(response.status, 200, "{}", response.body);
        *shares.entry(response.header(INDEX).to_owned()).or_default() += 1;
    }
    // Of 200 requests, 150 are expected with a standard deviation of 6; five standard deviations never
    // happen.
    let share = |index: usize| shares.get(&format!("config.targets[{index}]")).copied().unwrap_or_default();
    assert!((119..=181).contains(&share(0)), "{shares:?}");
    assert_eq!((share(1), share(0) + share(2)), (0, 200), "{shares:?}");
}

#[tokio::test]
async fn a_balanced_target_is_final_unless_inside_a_fallback() {
    let gateway = gateway();
    let group = json!({"strategy": {"mode": "loadbalance"}, "targets": [target("status=503")]});
    let response = send_chat(&gateway, &group).await;
    assert_eq!((response.status, response.header(INDEX)), (503, "config.targets[0]"), "{}", response.body);
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [
        group,
        {"strategy": {"mode": "loadbalance"}, "targets": [with("", &json!({"weight": 0})), target("")]},
    ]});
    let response = send_chat(&gateway, &config).await;
    assert_eq!(
        (response.status, response.header(INDEX)),
        (200, "config.targets[1].targets[1]"),
        "{}",
        response.body
    );
    assert_eq!(response.attempts()[0], ("config.targets[0].targets[0]".to_owned(), "503".to_owned()));
}

#[tokio::test]
async fn the_same_client_sticks_to_its_target() {
    let gateway = gateway();
    let marker = new_trace();
    let sticky = json!({"enabled": true, "hash_fields": ["metadata.user"], "ttl": 60});
    let targets: Vec<Value> = (0..4).map(|at| target(&format!("tokens={}&tag={marker}", at + 1))).collect();
    let config = json!({"strategy": {"mode": "loadbalance", "sticky": sticky}, "targets": targets});
    let mut reached = Vec::new();
    for user in 0..12 {
        let metadata = json!({"user": format!("{marker}-{user}")}).to_string();
        let headers = [("x-gateway-metadata", metadata.as_str())];
        let first = index(&gateway, &config, &headers, &body(false, false)).await;
        for _ in 0..4 {
            assert_eq!(index(&gateway, &config, &headers, &body(false, false)).await, first, "user {user}");
        }
        reached.push(first);
    }
    reached.sort();
    reached.dedup();
    assert!(reached.len() > 1, "twelve users all reached {reached:?}");
}

#[tokio::test]
async fn conditions_choose_by_metadata_body_headers_and_path() {
    let gateway = gateway();
    let named = |name: &str| with("tokens=1", &json!({"name": name}));
    let config = json!({
        "strategy": {"mode": "conditional", "default": "d", "conditions": [
            {"query": {"metadata.plan": {"$eq": "paid"}}, "then": "a"},
            {"query": {"params.max_tokens": {"$gt": 100}}, "then": "b"},
            {"query": {"headers.x-team": {"$regex": "^blue"}}, "then": "c"},
            {"query": {"$and": [{"url.pathname": {"$regex": "messages$"}}, {"params.temperature": 1}]}, "then": "b"},
        ]},
        "targets": [named("a"), named("b"), named("c"), named("d")],
    });
    let plain = body(false, false);
    let mut long = plain.clone();
    long["max_tokens"] = 101.into();
    let mut warm = plain.clone();
    warm["temperature"] = 1.into();
    for (headers, body, at) in [
        (&[("x-gateway-metadata", r#"{"plan":"paid"}"#)][..], &long, 0),
        (&[("x-gateway-metadata", r#"{"plan":"free"}"#)], &long, 1),
        (&[("x-team", "blue-two")], &plain, 2),
        (&[("X-Team", "red")], &plain, 3),
        (&[], &warm, 3),
    ] {
        let found = index(&gateway, &config, headers, body).await;
        assert_eq!(found, format!("config.targets[{at}]"), "{headers:?} {body}");
    }
}

#[tokio::test]
async fn an_invalid_condition_is_refused_without_upstream_requests() {
    let gateway = gateway();
    let trace = new_trace();
    let config = json!({
        "strategy": {"mode": "conditional", "default": "d", "conditions": [
            {"query": {"metadata.a": {"$not": 1}}, "then": "d"}, {"query": {"params.b": {"$regex": "("}}, "then": "d"},
        ]},
        "targets": [with(&format!("tag={trace}"), &json!({"name": "d"}))],
    });
    let response = send_chat(&gateway, &config).await;
    assert_eq!(response.status, 400, "{}", response.body);
    for path in ["strategy.conditions[0].query", "strategy.conditions[1].query"] {
        assert!(response.body.contains(path), "{path}: {}", response.body);
    }
    assert!(emulator_requests(&gateway, &trace).await.is_empty());
}

#[tokio::test]
async fn when_all_fail_the_last_response_lists_all_attempts() {
    let gateway = gateway();
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [
        target("status=500"), target("fault=eof"), target("status=418"),
    ]});
    for streamed in [false, true] {
        let trace = new_trace();
        let response = send(&gateway, &client(), &trace, &config, &body(false, streamed), false).await;
        assert_eq!(
            (response.status, response.header(INDEX)),
            (418, "config.targets[2]"),
            "{}",
            response.body
        );
        assert!(
            response.error.as_ref().unwrap()["message"].as_str().unwrap().contains("418"),
            "{}",
            response.body
        );
        let attempts = response.attempts();
        let outcomes: Vec<(&str, &str)> =
            attempts.iter().map(|(target, what)| (target.as_str(), what.as_str())).collect();
        assert_eq!(
            outcomes[..2],
            [("config.targets[0]", "500"), ("config.targets[1]", "upstream_unreachable")]
        );
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["attempts"].as_array().unwrap().len(), 3, "{line}");
    }
    let config =
        json!({"strategy": {"mode": "fallback"}, "targets": [target("status=500"), target("fault=eof")]});
    // The last target returned no response, so the one before it counts.
    let response = send_chat(&gateway, &config).await;
    assert_eq!((response.status, response.header(INDEX)), (500, "config.targets[0]"));
    let config =
        json!({"strategy": {"mode": "fallback"}, "targets": [target("fault=reset"), target("fault=eof")]});
    let response = send_chat(&gateway, &config).await;
    assert_eq!((response.status, &response.error.unwrap()["code"]), (502, &json!("upstream_unreachable")));
}

#[tokio::test]
async fn fallback_statuses_are_the_strategys_then_the_targets() {
    let gateway = gateway();
    for (strategy, own, status, at) in [
        (json!(null), json!(null), 404, 1),
        (json!([429]), json!(null), 404, 0),
        (json!([429]), json!(null), 429, 1),
        (json!([]), json!(null), 500, 0),
        (json!(null), json!([500]), 429, 0),
        (json!(null), json!([500]), 500, 1),
        (json!([429]), json!([500]), 500, 0),
        (json!([429]), json!([500]), 429, 1),
    ] {
        let mut config = json!({"strategy": {"mode": "fallback"}, "targets": [
            target(&format!("status={status}")), target(""),
        ]});
        if !strategy.is_null() {
            config["strategy"]["on_status_codes"] = strategy.clone();
        }
        if !own.is_null() {
            config["targets"][0]["on_status_codes"] = own.clone();
        }
        let response = send_chat(&gateway, &config).await;
        assert_eq!(response.header(INDEX), format!("config.targets[{at}]"), "{config}");
        assert_eq!(response.status, if at == 0 { status } else { 200 }, "{config}");
    }
}

#[tokio::test]
async fn retries_are_counted_and_minus_one_means_exhausted() {
    let gateway = gateway();
    for (script, attempts, status, count, request_count) in [
        ("", 2, 200, "0", 1),
        ("status=500&times=1", 2, 200, "1", 2),
        ("status=500&times=2", 2, 200, "2", 3),
        ("status=500", 2, 500, "-1", 3),
        ("status=500", 0, 500, "0", 1),
        ("status=404", 2, 404, "0", 1),
    ] {
        let trace = new_trace();
        let key = if script.contains("times") { format!("&key={trace}") } else { String::new() };
        let mut config = target(&format!("{script}{key}&tag={trace}"));
        config["retry"] = json!({"attempts": attempts, "backoff_ms": 10});
        let response = send_chat(&gateway, &config).await;
        assert_eq!(
            (response.status, response.header("x-gateway-retry-attempt-count")),
            (status, count),
            "{script}"
        );
        assert_eq!(emulator_requests(&gateway, &trace).await.len(), request_count, "{script}");
    }
}

#[tokio::test]
async fn retry_after_values_are_respected() {
    let gateway = gateway();
    // script, budget, min ms, max ms, status, requests
    for (script, budget, min_ms, max_ms, status, request_count) in [
        ("retry_after_ms=400", 60_000, 400, 3_000, 200, 2),
        ("retry_after=1", 60_000, 1_000, 4_000, 200, 2),
        // Longer than the whole budget: returned at once.
        ("retry_after=50", 5_000, 0, 3_000, 429, 1),
        ("retry_after_ms=50000", 5_000, 0, 3_000, 429, 1),
    ] {
        let trace = new_trace();
        let mut config = target(&format!("status=429&times=1&key={trace}&tag={trace}&{script}"));
        config["retry"] = json!({
            "attempts": 1, "backoff_ms": 1, "budget_ms": budget, "use_retry_after_headers": true,
        });
        let started = Instant::now();
        let response = send_chat(&gateway, &config).await;
        let elapsed = started.elapsed().as_millis() as u64;
        assert_eq!(
            (response.status, emulator_requests(&gateway, &trace).await.len()),
            (status, request_count),
            "{script}: {}",
            response.body
        );
        assert!((min_ms..max_ms).contains(&elapsed), "{script}: {elapsed} ms");
    }
}

#[tokio::test]
async fn every_retry_after_header_is_understood() {
    let gateway = gateway();
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&soon).unwrap();
    // header, its value, the shortest wait in milliseconds; `None` if it exceeds the budget, so there is no
    // retry
    for (name, value, waits) in [
        ("retry-after", "1", Some(1_000)),
        ("retry-after", date.as_str(), None),
        ("retry-after-ms", "300", Some(300)),
        ("x-ms-retry-after-ms", "300", Some(300)),
        ("x-ratelimit-reset", "60", None),
        ("x-ratelimit-reset-requests", "1m0s", None),
        ("x-ratelimit-reset-tokens", "300ms", Some(300)),
        ("retry-after", "soon", Some(0)),
    ] {
        let refusal = format!("HTTP/1.1 429 Too Many\r\n{name}: {value}\r\ncontent-length: 2\r\n\r\n{{}}");
        let provider = Provider::start(move |_| refusal.clone().into_bytes()).await;
        let config = json!({
            "provider": "openai", "api_key": "k", "custom_host": provider.base_url(),
            "retry": {"attempts": 1, "backoff_ms": 1, "budget_ms": 30_000, "use_retry_after_headers": true},
        });
        let response = send_chat(&gateway, &config).await;
        assert_eq!(response.status, 429, "{name}: {value}: {}", response.body);
        assert_eq!(provider.received().len(), 1 + usize::from(waits.is_some()), "{name}: {value}");
        assert!(
            response.elapsed >= Duration::from_millis(waits.unwrap_or_default()),
            "{name}: {value}: {:?}",
            response.elapsed
        );
    }
}

#[tokio::test]
async fn a_wait_beyond_the_budget_falls_back_at_once_where_it_is_honoured() {
    let gateway = gateway();
    for (uses_header, requests) in [(true, 1), (false, 4)] {
        let trace = new_trace();
        let config = json!({
            "strategy": {"mode": "fallback"},
            "retry": {"attempts": 3, "use_retry_after_headers": uses_header, "backoff_ms": 10},
            "targets": [target(&format!("status=429&retry_after=90&tag={trace}")), target("")],
        });
        let response = send_chat(&gateway, &config).await;
        assert_eq!(
            (response.status, response.header(INDEX)),
            (200, "config.targets[1]"),
            "{}",
            response.body
        );
        assert!(response.elapsed < Duration::from_secs(3), "{:?}", response.elapsed);
        assert_eq!(emulator_requests(&gateway, &trace).await.len(), requests, "{uses_header}");
    }
}

#[tokio::test]
async fn a_slow_target_is_hedged_and_dropped_when_it_loses() {
    let gateway = gateway();
    for streamed in [true, false] {
        let trace = new_trace();
        let config = json!({
            "strategy": {"mode": "fallback"},
            "hedge": {"after_ms": 200, "max_extra_ratio": 1.0},
            "targets": [
                target(&format!("ttft=20000&tag={trace}-slow")), target(&format!("tokens=5&tag={trace}-quick")),
            ],
        });
        let response = send(&gateway, &client(), &new_trace(), &config, &body(false, streamed), false).await;
        assert_eq!((response.status, response.done), (200, true), "{}", response.body);
        assert_eq!(response.header(INDEX), "config.targets[1]", "{}", response.body);
        assert!(response.elapsed < Duration::from_secs(4), "{:?}", response.elapsed);
        let slow = emulator_requests(&gateway, &format!("{trace}-slow")).await;
        assert_eq!(
            (slow.len(), &slow[0]["closed"]),
            (1, &json!("caller_left")),
            "the losing attempt was not cancelled"
        );
        assert_eq!(emulator_requests(&gateway, &format!("{trace}-quick")).await.len(), 1);
    }
    let trace = new_trace();
    let config = json!({
        "strategy": {"mode": "fallback"},
        "hedge": {"after_ms": 200, "max_extra_ratio": 0.0},
        "targets": [target("ttft=600"), target(&format!("tag={trace}-quick"))],
    });
    let response = send_chat(&gateway, &config).await;
    assert_eq!(response.header(INDEX), "config.targets[0]", "hedged beyond the ratio");
    assert!(emulator_requests(&gateway, &format!("{trace}-quick")).await.is_empty());
}

/// The patterns of a saved config are checked when it is saved, and made when a request needs them.
#[tokio::test]
async fn a_saved_config_routes_by_its_patterns() {
    let gateway = Gateway::start(STANDARD);
    let save = async |pattern: &str| {
        let condition = json!({"query": {"metadata.team": {"$regex": pattern}}, "then": "a"});
        let strategy = json!({"mode": "conditional", "conditions": [condition], "default": "b"});
        let target = |name: &str| json!({"name": name, "provider": "@emulator"});
        let config = json!({"strategy": strategy, "targets": [target("a"), target("b")]});
        let call = client().post(format!("{}/v1/configs", gateway.control_url()));
        let call = call.header("x-gateway-api-key", OPERATOR_KEY);
        let response =
            call.json(&json!({"name": "c", "slug": "by-team", "config": config})).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let (status, problem) = save("^(x").await;
    assert!(status == 400 && problem.contains("conditions[0].query.metadata.team.$regex"), "{problem}");
    let (status, saved) = save("^[a-m]+[0-9]{1,3}$").await;
    assert_eq!(status, 200, "{saved}");
    for (team, wanted) in
        [("abc12", "config.targets[0]"), ("xyz12", "config.targets[1]"), ("abc12", "config.targets[0]")]
    {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", "by-team");
        let call = call.header("x-gateway-metadata", json!({"team": team}).to_string());
        let response = call.json(&body(false, false)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{team}");
        assert_eq!(response.headers()[INDEX], *wanted, "{team}");
    }
}
