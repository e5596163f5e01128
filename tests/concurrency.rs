//! Targets that take only so many attempts at a time: who waits, who is next, what a full queue and a late place come to.
//!
//! The order among those who wait is unit-tested (`memory::state::slots`).

use crate::analytics::workspace;
use crate::support::client::{client, hello, new_trace, status};
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::wait::until;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

/// One place at `@engine`, and one more request that waits; `@other` takes as many as come.
const SETTINGS: &str = "
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}
    - {name: people, key: tp-people-0123456789, priority: high}
    - {name: nightly, key: tp-nightly-0123456789, priority: low}
providers:
  engine:
    provider: openai
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT/v1
    concurrency: {max: 1, queue: {max: 1, timeout_ms: 60000}}
  other:
    provider: openai
    api_key: sk-emulator-0123456789
    custom_host: http://127.0.0.1:EMULATOR_PORT/v1
configs:
  urgent: {provider: '@engine', priority: high}
  narrow: {provider: '@other', concurrency: {max: 1, queue: {max: 0}}}
";

/// A chat under this config.
fn call(gateway: &Gateway, config: &Value, body: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string()).json(body)
}

/// A stream that does not end by itself: it has a place until the client drops it.
async fn endless(gateway: &Gateway, config: &Value) -> Response {
    let mut body = hello(true);
    body["model"] = json!("demo?tokens=1000&gap=1000");
    let response = call(gateway, config, &body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

async fn counted(gateway: &Gateway, series: &str, provider: &str) -> f64 {
    let views = ["provider", "target"].map(|of| format!("{series}{{of=\"{of}\",provider=\"{provider}\"}}"));
    let mut sum = 0.0;
    for series in views {
        sum += gateway.metric(&series).await.unwrap_or_default();
    }
    sum
}

async fn waiting(gateway: &Gateway, provider: &str, wanted: f64) {
    until("requests to wait", async || {
        (counted(gateway, "turnpike_concurrency_waiting", provider).await == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_provider_takes_so_many_at_a_time_and_the_next_one_goes_when_a_client_leaves() {
    let gateway = Gateway::start(SETTINGS);
    let config = json!({"provider": "@engine"});
    let first = endless(&gateway, &config).await;
    assert_eq!(counted(&gateway, "turnpike_concurrency_in_use", "engine").await, 1.0);
    let trace = new_trace();
    let second = call(&gateway, &config, &hello(false)).header("x-gateway-trace-id", &trace);
    let second = tokio::spawn(second.send());
    waiting(&gateway, "engine", 1.0).await;
    // The queue is full.
    let refused = call(&gateway, &config, &hello(false)).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
    let error: Value = refused.json().await.unwrap();
    assert_eq!(error["error"]["code"], "target_busy");
    assert!(error["error"]["message"].as_str().unwrap().starts_with("@engine takes only so many"), "{error}");
    drop(first);
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    let line = gateway.access_line(&trace).await;
    assert!(line["queued_ms"].as_f64().unwrap() > 0.0, "{line}");
    assert!(line["overhead_ms"].as_f64() < line["total_ms"].as_f64(), "{line}");
    gateway.idle().await;
    assert_eq!(counted(&gateway, "turnpike_concurrency_in_use", "engine").await, 0.0);
    let refusals = r#"turnpike_queue_refusals_total{provider="engine",reason="full"}"#;
    assert_eq!(gateway.metric(refusals).await, Some(1.0));
    let waits = r#"turnpike_queue_wait_seconds_count{provider="engine"}"#;
    assert_eq!(gateway.metric(waits).await, Some(1.0));
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_makes_room_in_it_at_once() {
    let gateway = Gateway::start(SETTINGS);
    let config = json!({"provider": "@engine"});
    let first = endless(&gateway, &config).await;
    let second = tokio::spawn(call(&gateway, &config, &hello(false)).send());
    waiting(&gateway, "engine", 1.0).await;
    second.abort();
    waiting(&gateway, "engine", 0.0).await;
    let third = tokio::spawn(call(&gateway, &config, &hello(false)).send());
    waiting(&gateway, "engine", 1.0).await;
    drop(first);
    assert_eq!(third.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_full_or_late_target_is_passed_over_whatever_the_status_codes_are() {
    let gateway = Gateway::start(SETTINGS);
    let bounded = |queue: Value| json!({"provider": "@other", "concurrency": {"max": 1, "queue": queue}});
    for (queue, strategy) in [
        (json!({"max": 0}), json!({"mode": "fallback", "on_status_codes": [429]})),
        (json!({"max": 9, "timeout_ms": 1}), json!({"mode": "fallback"})),
    ] {
        let targets = json!([bounded(queue), {"provider": "@other"}]);
        let config = json!({"strategy": strategy, "targets": targets});
        let first = endless(&gateway, &config).await;
        let second = call(&gateway, &config, &hello(false)).send().await.unwrap();
        assert_eq!(second.status(), 200);
        assert_eq!(second.headers()["x-gateway-last-used-option-index"], "config.targets[1]");
        drop(first);
    }
    // A group that balances goes on, too. All of its weight is at the first member.
    let targets = json!([bounded(json!({"max": 0})), {"provider": "@other", "weight": 0.000_001}]);
    let config = json!({"strategy": {"mode": "loadbalance"}, "targets": targets});
    let first = endless(&gateway, &config).await;
    let second = call(&gateway, &config, &hello(false)).send().await.unwrap();
    assert_eq!(
        (second.status().as_u16(), second.headers()["x-gateway-last-used-option-index"].to_str().unwrap()),
        (200, "config.targets[1]")
    );
    drop(first);
}

/// What a provider wants is obeyed by the requests that come next: they wait, or go elsewhere, and are not sent to be refused.
#[tokio::test]
async fn a_provider_that_wants_no_more_for_a_while_gets_none() {
    let gateway = Gateway::start(SETTINGS);
    let asking = |query: &str| {
        let mut body = hello(false);
        body["model"] = json!(format!("demo?{query}"));
        body
    };
    let narrow = json!({"provider": "@other", "concurrency": {"max": 5, "queue": {"max": 0}}});
    let first = call(&gateway, &narrow, &asking("status=429&retry_after=30")).send().await.unwrap();
    assert_eq!(first.status(), 429);
    let second = call(&gateway, &narrow, &hello(false)).send().await.unwrap();
    let (status, error) = (second.status(), second.json::<Value>().await.unwrap());
    assert_eq!((status.as_u16(), &error["error"]["code"]), (503, &json!("target_busy")), "{error}");
    assert_eq!(counted(&gateway, "turnpike_concurrency_paused", "other").await, 1.0);
    // Another target is tried at once.
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [narrow, {"provider": "@other"}]});
    let refused = call(&gateway, &config, &asking("status=429&retry_after=30")).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    let third = call(&gateway, &config, &hello(false)).send().await.unwrap();
    let index = third.headers()["x-gateway-last-used-option-index"].to_str().unwrap().to_owned();
    assert_eq!((third.status().as_u16(), index.as_str()), (200, "config.targets[1]"));
    // Who may wait waits: a second is over soon.
    let waits = json!({"provider": "@other", "concurrency": {"max": 6, "queue": {"max": 9}}});
    let fourth = call(&gateway, &waits, &asking("status=503&retry_after=1")).send().await.unwrap();
    assert_eq!(fourth.status(), 503);
    let trace = new_trace();
    let fifth = call(&gateway, &waits, &hello(false)).header("x-gateway-trace-id", &trace);
    assert_eq!(fifth.send().await.unwrap().status(), 200);
    let line = gateway.access_line(&trace).await;
    assert!(line["queued_ms"].as_f64().unwrap() > 100.0, "{line}");
    // A refusal that says nothing of a while pauses nobody.
    let plain = json!({"provider": "@other", "concurrency": {"max": 7, "queue": {"max": 0}}});
    assert_eq!(call(&gateway, &plain, &asking("status=429")).send().await.unwrap().status(), 429);
    assert_eq!(call(&gateway, &plain, &hello(false)).send().await.unwrap().status(), 200);
}

/// Sends these calls one after the other while the place is taken, and returns their names in the order of their answers.
async fn order_of(gateway: &Gateway, calls: [(&str, RequestBuilder); 2]) -> Vec<String> {
    let config = json!({"provider": "@engine"});
    let first = endless(gateway, &config).await;
    let mut running = Vec::new();
    let (sender, mut answered) = tokio::sync::mpsc::unbounded_channel();
    for (number, (name, call)) in calls.into_iter().enumerate() {
        let (name, sender) = (name.to_owned(), sender.clone());
        running.push(tokio::spawn(async move {
            assert_eq!(call.send().await.unwrap().status(), 200, "{name}");
            sender.send(name).unwrap();
        }));
        waiting(gateway, "engine", (number + 1) as f64).await;
    }
    drop(first);
    let order = [answered.recv().await.unwrap(), answered.recv().await.unwrap()];
    for call in running {
        call.await.unwrap();
    }
    order.to_vec()
}

#[tokio::test]
async fn a_saved_config_goes_ahead_and_a_header_or_an_inline_config_does_not() {
    let gateway = Gateway::start(&SETTINGS.replace("queue: {max: 1,", "queue: {max: 9,"));
    let plain = json!({"provider": "@engine"});
    // Long enough that the order of the answers is that of the places.
    let mut slow = hello(false);
    slow["model"] = json!("demo?ttft=300");
    let plainly = || call(&gateway, &plain, &slow);
    let saved = || {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        call.header("x-gateway-api-key", KEY).header("x-gateway-config", "urgent").json(&slow)
    };
    let inline = || call(&gateway, &json!({"provider": "@engine", "priority": "high"}), &slow);
    assert_eq!(order_of(&gateway, [("plain", plainly()), ("saved", saved())]).await, ["saved", "plain"]);
    let low = plainly().header("x-gateway-priority", "low");
    assert_eq!(order_of(&gateway, [("low", low), ("plain", plainly())]).await, ["plain", "low"]);
    assert_eq!(order_of(&gateway, [("plain", plainly()), ("inline", inline())]).await, ["plain", "inline"]);
    let high = plainly().header("x-gateway-priority", "high");
    assert_eq!(order_of(&gateway, [("plain", plainly()), ("header", high)]).await, ["plain", "header"]);
    let put_back = saved().header("x-gateway-priority", "normal");
    assert_eq!(order_of(&gateway, [("plain", plainly()), ("back", put_back)]).await, ["plain", "back"]);
    let wrong = plainly().header("x-gateway-priority", "urgent").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    let error: Value = wrong.json().await.unwrap();
    assert_eq!(error["error"]["param"], "x-gateway-priority", "{error}");
}

#[tokio::test]
async fn the_priority_of_a_key_counts_and_is_the_most_that_its_requests_have() {
    let gateway = Gateway::start(&SETTINGS.replace("queue: {max: 1,", "queue: {max: 9,"));
    let mut slow = hello(false);
    slow["model"] = json!("demo?ttft=300");
    let with = |key: &str, config: &str| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        call.header("x-gateway-api-key", key).header("x-gateway-config", config).json(&slow)
    };
    let plain = r#"{"provider":"@engine"}"#;
    let [people, nightly] = ["tp-people-0123456789", "tp-nightly-0123456789"];
    assert_eq!(
        order_of(&gateway, [("plain", with(KEY, plain)), ("people", with(people, plain))]).await,
        ["people", "plain"]
    );
    // A saved config lifts no key above its own.
    assert_eq!(
        order_of(&gateway, [("nightly", with(nightly, "urgent")), ("plain", with(KEY, plain))]).await,
        ["plain", "nightly"]
    );
    let stored = json!({"name": "stored", "scopes": ["completions.write"], "defaults": {"priority": "low"}});
    let stored =
        gateway.create("/v1/api-keys/workspace/service", &stored).await["key"].as_str().unwrap().to_owned();
    assert_eq!(
        order_of(&gateway, [("stored", with(&stored, plain)), ("plain", with(KEY, plain))]).await,
        ["plain", "stored"]
    );
    let back = with(people, plain).header("x-gateway-priority", "low");
    assert_eq!(order_of(&gateway, [("back", back), ("plain", with(KEY, plain))]).await, ["plain", "back"]);
}

#[tokio::test]
async fn an_inline_config_lifts_no_bound_of_a_provider() {
    let gateway = Gateway::start(SETTINGS);
    let wide = json!({"provider": "@engine", "concurrency": {"max": 9, "queue": {"max": 9}}});
    let first = endless(&gateway, &wide).await;
    let patient = tokio::spawn(call(&gateway, &json!({"provider": "@engine"}), &hello(false)).send());
    waiting(&gateway, "engine", 1.0).await;
    assert_eq!(status(call(&gateway, &wide, &hello(false))).await, 503);
    drop(first);
    assert_eq!(patient.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn a_saved_config_has_the_same_places_for_all_of_a_workspace_and_others_for_another() {
    let gateway = Gateway::start(SETTINGS);
    let (_, other_key) = workspace(&gateway, "other").await;
    let named = |key: &str, body: &Value| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        call.header("x-gateway-api-key", key).header("x-gateway-config", "narrow").json(body)
    };
    let mut body = hello(true);
    body["model"] = json!("demo?tokens=1000&gap=1000");
    let first = named(KEY, &body).send().await.unwrap();
    assert_eq!(first.status(), 200);
    // Headers that change nothing make no places either.
    let again = named(KEY, &hello(false)).header("x-gateway-provider", "@engine");
    assert_eq!(status(again.bearer_auth("sk-of-the-client-0123")).await, 503);
    assert_eq!(status(named(&other_key, &hello(false))).await, 200);
    drop(first);
}

/// A request that got no place counts in no rate.
#[tokio::test]
async fn a_request_without_a_place_counts_nowhere() {
    let gateway = Gateway::start(SETTINGS);
    let rates = json!([{"type": "requests", "unit": "rpd", "value": 2}]);
    let key = json!({"name": "limited", "scopes": ["completions.write"], "rate_limits": rates});
    let key = gateway.create("/v1/api-keys/workspace/service", &key).await;
    let named = |config: &'static str| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url()));
        let call = call.header("x-gateway-api-key", key["key"].as_str().unwrap());
        call.header("x-gateway-config", config).json(&hello(false))
    };
    let narrow = client().post(format!("{}/chat/completions", gateway.base_url()));
    let mut body = hello(true);
    body["model"] = json!("demo?tokens=1000&gap=1000");
    let held = narrow.header("x-gateway-api-key", KEY).header("x-gateway-config", "narrow").json(&body);
    let held = held.send().await.unwrap();
    for _ in 0..3 {
        assert_eq!(status(named("narrow")).await, 503);
    }
    drop(held);
    gateway.idle().await;
    assert_eq!(status(named("narrow")).await, 200);
    assert_eq!(status(named("narrow")).await, 200);
    assert_eq!(status(named("narrow")).await, 429);
}

/// An upload whose body is still to be read while it waits arrives whole.
#[tokio::test]
async fn an_upload_that_waits_loses_none_of_its_body() {
    let gateway = Gateway::start(SETTINGS);
    let config = json!({"provider": "@engine"});
    let first = endless(&gateway, &config).await;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Result<Vec<u8>, std::io::Error>>();
    let head = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--b\r\ncontent-disposition: form-data; \
                name=\"file\"; filename=\"a.wav\"\r\n\r\n";
    let call = client().post(format!("{}/audio/transcriptions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let body = reqwest::Body::wrap_stream(futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|part| (part, receiver))
    }));
    let call = call.header("content-type", "multipart/form-data; boundary=b").body(body);
    let call = tokio::spawn(call.send());
    sender.send(Ok(head.as_bytes().to_vec())).unwrap();
    waiting(&gateway, "engine", 1.0).await;
    sender.send(Ok(vec![b'a'; 100_000])).unwrap();
    sender.send(Ok(b"\r\n--b--\r\n".to_vec())).unwrap();
    drop((sender, first));
    assert_eq!(call.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn what_the_cache_has_and_what_calls_no_model_needs_no_place() {
    let gateway = Gateway::start(SETTINGS);
    let cached = json!({"provider": "@engine", "cache": {"mode": "simple"}});
    assert_eq!(status(call(&gateway, &cached, &hello(false))).await, 200);
    let first = endless(&gateway, &json!({"provider": "@engine"})).await;
    let hit = call(&gateway, &cached, &hello(false)).send().await.unwrap();
    assert_eq!(
        (hit.status().as_u16(), &hit.headers()["x-gateway-cache-status"]),
        (200, &"HIT".parse().unwrap())
    );
    let models = client().get(format!("{}/models", gateway.base_url()));
    let models = models.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@engine");
    assert_eq!(status(models).await, 200);
    drop(first);
}
