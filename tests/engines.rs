//! Model servers of one's own: their load is read and chosen by (`engine`, `strategy.by: least_busy`), places are learned
//! (`concurrency.max: auto`), and requests go elsewhere before they would wait too long (`queue.overflow_ms`).
//!
//! What their metrics mean (`knowledge::provider::engine_metrics`), the choice (`judgment::route::tests::least_busy`) and what is learned
//! (`memory::state::slots`) are unit-tested.

use crate::support::client::{client, hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::message::Message;
use crate::support::provider::{Provider, chat_completion};
use crate::support::settings::KEY;
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// A page of metrics, and the key that it wants.
type Page = Arc<Mutex<String>>;

fn page(running: u32, waiting: u32, adapters: &str) -> String {
    format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{model_name=\"m\"}} {running}\n\
         vllm:num_requests_waiting{{model_name=\"m\"}} {waiting}\nvllm:kv_cache_usage_perc{{model_name=\"m\"}} 0.5\n\
         vllm:lora_requests_info{{max_lora=\"4\",running_lora_adapters=\"{adapters}\",waiting_lora_adapters=\"\"}} 1.7e9\n"
    )
}

/// A model server with these metrics, which it shows to who has the key.
async fn engine(metrics: &Page) -> Provider {
    let metrics = Arc::clone(metrics);
    Provider::start(move |request: &Message| {
        let has_key = request.header("authorization") == Some("Bearer sk-engine-0123456789");
        let (status, kind, body) = match request.start.starts_with("GET /metrics ") {
            true if has_key => ("200 OK", "text/plain", metrics.lock().clone()),
            true => ("401 Unauthorized", "text/plain", String::new()),
            false => ("200 OK", "application/json", chat_completion()),
        };
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes()
    })
    .await
}

fn settings(providers: &str) -> String {
    format!(
        "auth:\n  keys:\n    - {{name: tests, key: {KEY}}}\n    - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}\n\
         providers:\n  cloud: {{provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}\n{providers}"
    )
}

fn two_engines(engines: [&Provider; 2]) -> String {
    let [one, two] = engines.map(Provider::base_url);
    let account = "provider: vllm, api_key: sk-engine-0123456789, engine: {interval_ms: 200}";
    settings(&format!(
        "  one: {{{account}, custom_host: '{one}'}}\n  two: {{{account}, custom_host: '{two}'}}\n"
    ))
}

fn call(gateway: &Gateway, config: &Value, body: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string()).json(body)
}

fn index(response: &Response) -> String {
    assert_eq!(response.status(), 200);
    response.headers()["x-gateway-last-used-option-index"].to_str().unwrap().to_owned()
}

async fn reads(gateway: &Gateway, series: &str, wanted: f64) {
    until("the metrics of an engine to be read", async || {
        (gateway.metric(series).await == Some(wanted)).then_some(())
    })
    .await;
}

fn least_busy() -> Value {
    json!({"strategy": {"mode": "loadbalance", "by": "least_busy"}, "targets": [{"provider": "@one"}, {"provider": "@two"}]})
}

#[tokio::test]
async fn requests_go_to_the_engine_that_reports_the_least_load() {
    let pages = [page(9, 0, ""), page(2, 0, "")].map(|page| Arc::new(Mutex::new(page)));
    let engines = [engine(&pages[0]).await, engine(&pages[1]).await];
    let gateway = Gateway::start(&two_engines([&engines[0], &engines[1]]));
    reads(&gateway, r#"turnpike_engine_requests{provider="one",state="running"}"#, 9.0).await;
    reads(&gateway, r#"turnpike_engine_requests{provider="two",state="running"}"#, 2.0).await;
    assert_eq!(gateway.metric(r#"turnpike_engine_cache_use{provider="one"}"#).await, Some(0.5));
    let trace = new_trace();
    for _ in 0..5 {
        let response = call(&gateway, &least_busy(), &hello(false)).header("x-gateway-trace-id", &trace);
        assert_eq!(index(&response.send().await.unwrap()), "config.targets[1]");
    }
    assert_eq!(gateway.access_line(&trace).await["attempts"][0]["why"], "least_busy");
    let question = json!({"headers": {"x-gateway-api-key": KEY, "x-gateway-config": least_busy()},
        "body": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}});
    let explained =
        gateway.control(reqwest::Method::POST, "/v1/explain").json(&question).send().await.unwrap();
    let explained: Value = explained.json().await.unwrap();
    let because = explained["first"]["because"][0].as_str().unwrap();
    assert!(because.ends_with("the least to do for its weight: 2 requests"), "{because}");
    assert_eq!(explained["tree"]["targets"][0]["chance"], 0.0, "{explained}");
    // Requests wait in the one that works on fewer.
    *pages[1].lock() = page(2, 3, "");
    reads(&gateway, r#"turnpike_engine_requests{provider="two",state="waiting"}"#, 3.0).await;
    let first = call(&gateway, &least_busy(), &hello(false)).send().await.unwrap();
    assert_eq!(index(&first), "config.targets[0]");
    // The adapter that is named as the model.
    *pages[1].lock() = page(20, 0, "sql,law");
    reads(&gateway, r#"turnpike_engine_requests{provider="two",state="running"}"#, 20.0).await;
    let mut body = hello(false);
    body["model"] = json!("law");
    assert_eq!(index(&call(&gateway, &least_busy(), &body).send().await.unwrap()), "config.targets[1]");
    body["model"] = json!("other");
    assert_eq!(index(&call(&gateway, &least_busy(), &body).send().await.unwrap()), "config.targets[0]");
}

/// An engine that shows no metrics is not down: nothing but its load is unknown.
#[tokio::test]
async fn an_engine_without_metrics_serves_and_only_its_load_is_unknown() {
    let pages = ["up 1\n".to_owned(), page(7, 0, "")].map(|page| Arc::new(Mutex::new(page)));
    let engines = [engine(&pages[0]).await, engine(&pages[1]).await];
    let gateway = Gateway::start(&two_engines([&engines[0], &engines[1]]));
    reads(&gateway, r#"turnpike_engine_requests{provider="two",state="running"}"#, 7.0).await;
    until("a failure to be counted", async || {
        let failed = gateway.metric(r#"turnpike_engine_reads_total{provider="one",result="failed"}"#).await;
        failed.filter(|failed| *failed >= 2.0)
    })
    .await;
    assert_eq!(gateway.metric(r#"turnpike_engine_requests{provider="one",state="running"}"#).await, None);
    let first = call(&gateway, &least_busy(), &hello(false)).send().await.unwrap();
    assert_eq!(index(&first), "config.targets[0]");
    let log = gateway.log();
    let lines = log.lines().filter(|line| line.contains("engine one: its metrics cannot be read"));
    assert_eq!(lines.count(), 1, "{log}");
    assert!(!log.contains("sk-engine"), "{log}");
}

#[tokio::test]
async fn engines_of_the_control_plane_are_read_and_others_need_a_host() {
    let pages = [page(5, 0, ""), page(1, 0, "")].map(|page| Arc::new(Mutex::new(page)));
    let engines = [engine(&pages[0]).await, engine(&pages[1]).await];
    let gateway = Gateway::start(&format!("{}custom_hosts: {{allow_private: true}}\n", settings("")));
    for (slug, engine) in [("one", &engines[0]), ("two", &engines[1])] {
        let provider = json!({"name": slug, "slug": slug, "provider": "vllm", "key": "sk-engine-0123456789",
            "configurations": {"custom_host": engine.base_url(), "engine": {"interval_ms": 200}}});
        gateway.create("/v1/providers", &provider).await;
    }
    reads(&gateway, r#"turnpike_engine_requests{provider="one",state="running"}"#, 5.0).await;
    reads(&gateway, r#"turnpike_engine_requests{provider="two",state="running"}"#, 1.0).await;
    let first = call(&gateway, &least_busy(), &hello(false)).send().await.unwrap();
    assert_eq!(index(&first), "config.targets[1]");
}

/// One place, which a stream holds for a while, and then others: the expected wait is known.
#[tokio::test]
async fn requests_go_to_the_next_target_before_they_would_wait_too_long() {
    let engine = "  engine: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1', concurrency: {max: 1, queue: {overflow_ms: 150, timeout_ms: 60000}}}\n";
    let gateway = Gateway::start(&settings(engine));
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@engine"}, {"provider": "@cloud"}]});
    let taking = |ms: u32| {
        let mut body = hello(false);
        body["model"] = json!(format!("demo?ttft={ms}"));
        body
    };
    // A place is held for some 200 ms.
    let first = call(&gateway, &config, &taking(200)).send().await.unwrap();
    assert_eq!(index(&first), "config.targets[0]");
    let mut endless = hello(true);
    endless["model"] = json!("demo?tokens=1000&gap=1000");
    let held = call(&gateway, &config, &endless).send().await.unwrap();
    assert_eq!(index(&held), "config.targets[0]");
    let expected = r#"turnpike_queue_expected_wait_seconds{of="provider",provider="engine"}"#;
    assert!(gateway.metric(expected).await.unwrap() >= 0.2);
    let trace = new_trace();
    let second = call(&gateway, &config, &taking(1)).header("x-gateway-trace-id", &trace);
    assert_eq!(index(&second.send().await.unwrap()), "config.targets[1]");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["attempts"][0]["error"], "target_busy", "{line}");
    let refusals = r#"turnpike_queue_refusals_total{provider="engine",reason="too_long"}"#;
    assert_eq!(gateway.metric(refusals).await, Some(1.0));
    // Who has no other target waits.
    let alone = tokio::spawn(call(&gateway, &json!({"provider": "@engine"}), &taking(1)).send());
    let waiting = r#"turnpike_concurrency_waiting{of="provider",provider="engine"}"#;
    until("a request to wait", async || (gateway.metric(waiting).await == Some(1.0)).then_some(())).await;
    drop(held);
    assert_eq!(alone.await.unwrap().unwrap().status(), 200);
    let third = call(&gateway, &config, &taking(1)).send().await.unwrap();
    assert_eq!(index(&third), "config.targets[0]");
    // The last target may be the first once more: where the cloud has no place or no budget, the request waits after all.
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@engine"},
        {"provider": "@cloud", "concurrency": {"max": 1, "queue": {"max": 0}}}, {"provider": "@engine"}]});
    let held = call(&gateway, &config, &endless).send().await.unwrap();
    let held_too = call(&gateway, &config, &endless).send().await.unwrap();
    assert_eq!(
        (index(&held), index(&held_too)),
        ("config.targets[0]".to_owned(), "config.targets[1]".to_owned())
    );
    let last = tokio::spawn(call(&gateway, &config, &taking(1)).send());
    until("a request to wait", async || (gateway.metric(waiting).await == Some(1.0)).then_some(())).await;
    drop(held);
    assert_eq!(index(&last.await.unwrap().unwrap()), "config.targets[2]");
}

#[tokio::test]
async fn places_are_learned_from_responses_and_become_fewer_with_overload() {
    let engine = "  engine: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1', concurrency: {max: auto, queue: {max: 1000}}}\n";
    let gateway = Gateway::start(&settings(engine));
    let config = json!({"provider": "@engine"});
    let max = r#"turnpike_concurrency_max{of="provider",provider="engine"}"#;
    let burst = async |query: &str, count: usize| {
        let mut body = hello(true);
        body["model"] = json!(format!("demo?{query}"));
        let calls = (0..count).map(|_| async {
            let response = call(&gateway, &config, &body).send().await.unwrap();
            let status = response.status();
            response.bytes().await.unwrap();
            status.as_u16()
        });
        futures_util::future::join_all(calls).await
    };
    assert_eq!(burst("ttft=100&tokens=2&gap=1", 1).await, [200]);
    assert_eq!(gateway.metric(max).await, Some(2.0));
    assert!(burst("ttft=100&tokens=2&gap=1", 120).await.iter().all(|status| *status == 200));
    let grown = gateway.metric(max).await.unwrap();
    assert!(grown > 4.0, "{grown}");
    assert_eq!(burst("status=529", 1).await, [529]);
    let fewer = gateway.metric(max).await.unwrap();
    assert!(fewer < grown, "{fewer} after {grown}");
    let body =
        json!({"headers": {"x-gateway-api-key": KEY, "x-gateway-config": config}, "body": hello(false)});
    let explained = gateway.control(reqwest::Method::POST, "/v1/explain").json(&body).send().await.unwrap();
    let explained = explained.text().await.unwrap();
    assert!(explained.contains(r#""provider":{"max":"auto""#), "{explained}");
}

#[tokio::test]
async fn a_drained_provider_gets_no_new_attempts_while_there_is_another() {
    let engine = "  engine: {provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}\n";
    let gateway = Gateway::start(&settings(engine));
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@engine"}, {"provider": "@cloud"}]});
    let first = async || index(&call(&gateway, &config, &hello(false)).send().await.unwrap());
    let drain = async |body: Value| {
        let call = gateway.control(reqwest::Method::POST, "/v1/providers/engine/drain").json(&body);
        call.send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(first().await, "config.targets[0]");
    let drained = drain(json!({"for_seconds": 600})).await;
    assert_eq!((&drained["drained"], &drained["was_drained"]), (&json!(true), &json!(false)), "{drained}");
    assert_eq!(first().await, "config.targets[1]");
    let listed = gateway.read("/v1/targets").await;
    assert_eq!(
        (&listed["drained"][0]["slug"], &listed["drained"][0]["provider_id"]),
        (&json!("engine"), &Value::Null)
    );
    assert!(listed["drained"][0]["until"].as_str() > listed["drained"][0]["since"].as_str(), "{listed}");
    // Where there is no other it is used.
    let alone = call(&gateway, &json!({"provider": "@engine"}), &hello(false)).send().await.unwrap();
    assert_eq!(alone.status(), 200);
    let ended = drain(json!({"drained": false})).await;
    assert_eq!((&ended["drained"], &ended["was_drained"]), (&json!(false), &json!(true)), "{ended}");
    assert_eq!(first().await, "config.targets[0]");
    assert_eq!(gateway.read("/v1/targets").await["drained"], json!([]));
    // Put back little by little: with an hour before it, a twentieth of 100 requests, and not none.
    let warming = drain(json!({"drained": false, "warm_seconds": 3600})).await;
    assert_eq!((&warming["drained"], &warming["was_drained"]), (&json!(false), &json!(false)), "{warming}");
    let listed = gateway.read("/v1/targets").await;
    assert_eq!(listed["drained"][0]["share"], 0.05, "{listed}");
    assert!(listed["drained"][0]["warm_until"].as_str() > listed["drained"][0]["until"].as_str(), "{listed}");
    let mut taken = 0;
    for _ in 0..200 {
        taken += usize::from(first().await == "config.targets[0]");
    }
    assert!((1..=40).contains(&taken), "{taken} of 200");
    drain(json!({"drained": false})).await;
    let missing = gateway
        .control(reqwest::Method::POST, "/v1/providers/none/drain")
        .json(&json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(missing.status(), 404);
}
