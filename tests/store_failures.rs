//! What clients see while the store cannot do something: its disk is full, its server is gone.
//!
//! Requests to providers go on, writes are refused with words, nothing that was acknowledged is lost. The store's own failures are tested
//! beside it (`src/memory/store/tests`).

use crate::support::client::client;
use crate::support::small_disk::SmallDisk;
use crate::support::{Gateway, postgres_server, stores, wait};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const SETTINGS: &str = "
custom_hosts: {allow: [127.0.0.1]}
providers:
  emulator: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
";

async fn create(gateway: &Gateway, slug: &str, bytes: usize) -> (u16, Value, bool) {
    let description = "x".repeat(bytes);
    let config = json!({"name": "c", "slug": slug, "config": {"provider": "@emulator", "override_params": {"stop": [description]}}});
    let response = gateway.control(Method::POST, "/v1/configs").json(&config).send().await.unwrap();
    let has_retry_after = response.headers().contains_key("retry-after");
    (response.status().as_u16(), response.json().await.unwrap(), has_retry_after)
}

async fn chat(url: &str) -> u16 {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    let call = client().post(url).header("x-gateway-provider", "@emulator").json(&body);
    call.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let Some(disk) = SmallDisk::mount(4 << 20) else { return };
    let url = format!("sqlite://{}/turnpike.db", disk.path().display());
    let gateway = Gateway::start(&format!("{SETTINGS}{}", stores::settings(&url, "")));
    let mut kept = Vec::new();
    let refusal = loop {
        let slug = format!("c-{}", kept.len());
        match create(&gateway, &slug, 100_000).await {
            (200, ..) => kept.push(slug),
            refused => break refused,
        }
        assert!(kept.len() < 200, "the disk is never full");
    };
    let (status, body, _) = refusal;
    assert_eq!(status, 507, "{body}");
    assert_eq!((&body["error"]["code"], &body["success"]), (&json!("store_full"), &json!(false)));
    assert!(body["error"]["message"].as_str().unwrap().contains("no space left"), "{body}");
    assert!(!kept.is_empty());
    // Requests go on, reads too; what was acknowledged is there and what was refused is not.
    let url = format!("{}/chat/completions", gateway.base_url());
    for _ in 0..20 {
        assert_eq!(chat(&url).await, 200);
    }
    let config = |slug: &str| gateway.control(Method::GET, &format!("/v1/configs/{slug}"));
    for slug in &kept {
        assert_eq!(config(slug).send().await.unwrap().status(), 200, "{slug}");
    }
    assert_eq!(config(&format!("c-{}", kept.len())).send().await.unwrap().status(), 404);
    // With room it writes again, and has lost nothing.
    disk.grow(32 << 20);
    wait::until("a write", async || (create(&gateway, "after", 100).await.0 == 200).then_some(())).await;
    let gateway = gateway.killed_and_started_again();
    for slug in kept.iter().map(String::as_str).chain(["after"]) {
        let found = gateway.control(Method::GET, &format!("/v1/configs/{slug}")).send().await.unwrap();
        assert_eq!(found.status(), 200, "{slug}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_postgresql_stops_and_starts() {
    let Some(server) = postgres_server::Server::start() else { return };
    let gateway = Gateway::start(&format!("{SETTINGS}{}", stores::settings(&server.new_database(), "")));
    let key = json!({"name": "load", "scopes": ["completions.write"]});
    let made =
        gateway.control(Method::POST, "/v1/api-keys/workspace/service").json(&key).send().await.unwrap();
    let key = made.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned();
    assert_eq!(create(&gateway, "saved", 10).await.0, 200);
    // All that a request uses is from the store: its key and its config.
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            let sent = Arc::clone(&sent);
            let key = key.clone();
            let url = format!("{}/chat/completions", gateway.base_url());
            tokio::spawn(async move {
                let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let call = client().post(&url).header("x-gateway-api-key", &key);
                    let response = call.header("x-gateway-config", "saved").json(&body).send().await;
                    match response.map(|response| response.status().as_u16()) {
                        Ok(200) => drop(sent.fetch_add(1, Ordering::Relaxed)),
                        other => failed.push(format!("{other:?}")),
                    }
                }
                failed
            })
        })
        .collect();
    let at_least = async |more: u32| {
        let target = sent.load(Ordering::Relaxed) + more;
        wait::until("requests", async || (sent.load(Ordering::Relaxed) >= target).then_some(())).await;
    };
    for round in 0..3 {
        at_least(50).await;
        server.kill();
        let (status, body, has_retry_after) = create(&gateway, &format!("lost-{round}"), 10).await;
        assert!(status == 503 && has_retry_after, "{status} {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains("requests to providers go on"), "{body}");
        at_least(50).await;
        server.run();
        let slug = format!("back-{round}");
        wait::until("a write", async || (create(&gateway, &slug, 10).await.0 == 200).then_some(())).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.await.unwrap(), Vec::<String>::new());
    }
}
