//! The cache between gateways, and with limits: what two processes share through Redis, purges, what a hit counts.
//!
//! Not a Redis that fails (`cache_outages`), and not many clients of one response (`shared_streams`).

use crate::caching::{Call, answering, at, cached, json_answer};
use crate::limited_requests::USAGE;
use crate::stages::WHOLE_CHAT;
use crate::support::Gateway;
use crate::support::client::client;
use crate::support::redis_server::RedisServer;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

fn chat(text: &str) -> String {
    json!({"model": "gpt-4o", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}).to_string()
}

async fn purge(gateway: &Gateway, what: &Value) -> (u16, Value) {
    let response = gateway.control(Method::POST, "/v1/cache/purge").json(what).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn two_gateways_share_responses_and_purges() {
    let Some(redis) = RedisServer::start() else { return };
    // Time enough for a look-up on a busy machine.
    let yaml = format!("{STANDARD}cache: {{url: 'redis://127.0.0.1:{}', timeout_ms: 1000}}\n", redis.port);
    let one = Gateway::start(&yaml);
    let other = Gateway::start(&yaml);
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let config = cached(at(&upstream, "openai"));
    let body = chat("shared");
    let here = Call::new(&one, &config);
    let there = Call::new(&other, &config);
    assert_eq!(here.send(&body).await.cache, "MISS");
    // It is written beside the request.
    until("the entry in Redis", async || (redis.command("DBSIZE") == ":1").then_some(())).await;
    // Each has a store of its own, in which the default workspace has another id.
    assert_eq!(there.send(&body).await.cache, "HIT");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let (status, reply) = purge(&one, &json!({"all": true})).await;
    assert!(status == 200 && reply["purged"].as_u64() >= Some(1), "{reply}");
    assert_eq!(here.send(&body).await.cache, "MISS", "here at once");
    let refused = purge(&one, &json!({})).await;
    assert!(refused.0 == 400 && refused.1.to_string().contains("name one of them"), "{refused:?}");
    drop(redis);
    for text in ["alone", "alone again"] {
        assert_eq!(here.send(&chat(text)).await.cache, "MISS");
        assert_eq!(here.send(&chat(text)).await.cache, "HIT", "its own memory serves on");
    }
    let (status, reply) = purge(&one, &json!({"all": true})).await;
    assert!(status == 503 && reply.to_string().contains("shared store"), "{status}: {reply}");
}

#[tokio::test]
async fn entries_are_purged_by_key_namespace_and_workspace() {
    let gateway = Gateway::start(STANDARD);
    let (upstream, _) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let config = cached(at(&upstream, "openai"));
    let plain = Call::new(&gateway, &config);
    let named = Call::new(&gateway, &config).header("x-gateway-cache-namespace", "n");
    let one = chat("one");
    let other = chat("other");
    for body in [&one, &other] {
        assert_eq!(
            (plain.send(body).await.cache, named.send(body).await.cache),
            ("MISS".into(), "MISS".into())
        );
    }
    let hit = plain.send(&one).await;
    let key = gateway.access_line(&hit.trace).await["cache"]["key"].clone();
    assert_eq!(purge(&gateway, &json!({"key": key})).await.1["purged"], 1);
    assert_eq!(
        (plain.send(&one).await.cache.as_str(), plain.send(&other).await.cache.as_str()),
        ("MISS", "HIT")
    );
    assert_eq!(purge(&gateway, &json!({"namespace": "n"})).await.1["purged"], 2);
    assert_eq!(
        (named.send(&one).await.cache.as_str(), plain.send(&one).await.cache.as_str()),
        ("MISS", "HIT")
    );
    let held = gateway.read("/v1/cache").await;
    assert_eq!(
        (&held["entries"], &held["calls_in_flight"], &held["object"]),
        (&json!(3), &json!(0), &json!("cache")),
        "{held}"
    );
    assert_eq!(purge(&gateway, &json!({"key": "nonsense"})).await.0, 400);
    assert_eq!(purge(&gateway, &json!({"all": true, "namespace": "n"})).await.0, 400);
    assert_eq!(purge(&gateway, &json!({"all": true})).await.0, 200);
    assert_eq!(plain.send(&other).await.cache, "MISS");
}

#[tokio::test]
async fn a_key_of_one_workspace_neither_purges_nor_sees_what_another_one_has() {
    let gateway = Gateway::start(STANDARD);
    let made = gateway.create("/v1/admin/workspaces", &json!({"name": "two", "slug": "two"})).await;
    let scopes = ["completions.write", "configs.read", "configs.update"];
    let body = json!({"name": "two", "workspace_id": made["id"], "scopes": scopes});
    let bound = gateway.create("/v1/api-keys/workspace/service", &body).await["key"].clone();
    let bound = bound.as_str().unwrap();
    let (upstream, _) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let config = cached(at(&upstream, "openai"));
    let other = Call::new(&gateway, &config);
    let own = Call::new(&gateway, &config).header("x-gateway-api-key", bound);
    let body = chat("whose entry");
    let control = |method, path: &str| {
        let url = format!("{}{path}", gateway.control_url());
        client().request(method, url).header("x-gateway-api-key", bound)
    };
    for (call, purged, after) in [(&other, 0, "HIT"), (&own, 1, "MISS")] {
        let first = call.send(&body).await;
        assert_eq!(first.cache, "MISS");
        let key = gateway.access_line(&first.trace).await["cache"]["key"].clone();
        let purge = control(Method::POST, "/v1/cache/purge").json(&json!({"key": key}));
        let reply: Value = purge.send().await.unwrap().json().await.unwrap();
        assert_eq!(reply["purged"], purged, "{reply}");
        assert_eq!(call.send(&body).await.cache, after);
    }
    assert_eq!(control(Method::GET, "/v1/cache").send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_hit_counts_as_a_request_and_as_nothing_else() {
    let (upstream, _) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    // The operator's provider: what is sent to a client's own with its own key costs nothing.
    let provider =
        format!("providers:\n  up: {{provider: openai, api_key: k, custom_host: '{}'}}\n", upstream.url());
    let gateway = Gateway::start(&STANDARD.replace("providers:\n", &provider));
    let budget = |kind: &str| json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": kind, "credit_limit": 100});
    let mut made = Vec::new();
    for kind in ["cost", "tokens", "requests"] {
        let policy = gateway.create(USAGE, &budget(kind)).await;
        made.push(format!("{USAGE}/{}/entities", policy["id"].as_str().unwrap()));
    }
    let call = Call::new(&gateway, &cached(json!({"provider": "@up"})));
    assert_eq!(call.send(&chat("money")).await.cache, "MISS");
    // A request is settled beside its response, so what it counted may be seen a moment later.
    let used = async |requests: f64| {
        until("the request to be settled", async || {
            let mut used = Vec::new();
            for path in &made {
                let reply = gateway.read(path).await;
                let entity = &reply["data"][0];
                if entity["reserved_usage"] != 0 {
                    return None;
                }
                used.push(entity["current_usage"].as_f64()?);
            }
            (used[2] >= requests).then_some(used)
        })
        .await
    };
    let first = used(1.0).await;
    assert!(first[0] > 0.0 && first[1..] == [3.0, 1.0], "{first:?}");
    let hit = call.send(&chat("money")).await;
    assert_eq!(hit.cache, "HIT");
    assert_eq!(used(2.0).await, [first[0], 3.0, 2.0]);
    let line = gateway.access_line(&hit.trace).await;
    assert!((line["cache"]["saved_usd"].as_f64().unwrap() - first[0]).abs() < 1e-9, "{line}");
}
