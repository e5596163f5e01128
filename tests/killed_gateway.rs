//! The gateway is killed at random moments while the control plane writes: every acknowledged write is there, nothing is half there, the
//! database verifies.
//!
//! A few kills in every test run. `KILLS=50 cargo test --test turnpike killed_gateway -- --nocapture` reports what docs/store.md says.

use crate::support::client::fresh_client;
use crate::support::command::turnpike;
use crate::support::stores::{is_postgres, on_each_store};
use crate::support::{Gateway, report, wait};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Clients that write at the same time.
const CLIENTS: usize = 24;
const ANY: &str = "tp-operator-0123456789";
const SETTINGS: &str = "
auth: {keys: [{name: operator, key: tp-operator-0123456789}]}
providers: {p: {provider: openai, api_key: k}}
";

/// Configs by their slugs, with the newest version that was acknowledged.
type Acknowledged = BTreeMap<String, u64>;

/// Makes configs and changes each third one, until the gateway is gone. `count`: of acknowledged writes.
async fn write(url: String, name: String, count: Arc<AtomicU32>) -> Acknowledged {
    let client = fresh_client();
    let mut done = Acknowledged::new();
    for number in 0u32.. {
        let slug = format!("{name}-{number}");
        let config = json!({"provider": "@p", "override_params": {"user": slug}});
        let body = json!({"name": "c", "slug": slug, "config": config});
        let create = client.post(&url).header("x-gateway-api-key", ANY).json(&body).send().await;
        if !create.is_ok_and(|response| response.status() == 200) {
            return done;
        }
        done.insert(slug.clone(), 1);
        count.fetch_add(1, Ordering::Relaxed);
        if number % 3 == 0 {
            let body = json!({"config": {"provider": "@p", "override_params": {"user": "changed"}}});
            let change =
                client.put(format!("{url}/{slug}")).header("x-gateway-api-key", ANY).json(&body).send().await;
            if !change.is_ok_and(|response| response.status() == 200) {
                return done;
            }
            done.insert(slug, 2);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    done
}

async fn read(url: &str) -> Value {
    let call = fresh_client().get(url).header("x-gateway-api-key", ANY);
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200, "{url}");
    response.json().await.unwrap()
}

/// The slugs of all configs, each with its number of versions, which is 1 or 2.
async fn found(url: &str, wanted: &Acknowledged) -> Acknowledged {
    let mut found = Acknowledged::new();
    for page in 0.. {
        let list = read(&format!("{url}?page_size=1000&current_page={page}")).await;
        let items = list["data"].as_array().unwrap();
        for item in items.iter().filter(|item| item["origin"] == "store") {
            found.insert(item["slug"].as_str().unwrap().to_owned(), 0);
        }
        if items.len() < 1000 {
            break;
        }
    }
    // A config without its version, or a version that is not there, would be half an object. The newest are those at risk.
    for slug in wanted.keys().rev().take(60) {
        let versions = read(&format!("{url}/{slug}/versions")).await;
        let total = versions["total"].as_u64().unwrap();
        let config = read(&format!("{url}/{slug}")).await;
        assert_eq!(config["version_id"], versions["data"][0]["version_id"], "{slug}");
        found.insert(slug.clone(), total);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_loses_nothing_that_it_acknowledged() {
    let kills: u32 = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    on_each_store(async || {
        let mut gateway = Gateway::start(SETTINGS);
        let mut acknowledged = Acknowledged::new();
        let mut writes = 0;
        let mut time = Duration::ZERO;
        for round in 0..kills {
            let url = format!("{}/v1/configs", gateway.control_url());
            let count = Arc::new(AtomicU32::new(0));
            let begin = Instant::now();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| tokio::spawn(write(url.clone(), format!("r{round:03}-{client:02}"), Arc::clone(&count))))
                .collect();
            // A number of writes is a moment that no machine's speed decides.
            let target = fastrand::u32(20..400);
            wait::until("writes", async || (count.load(Ordering::Relaxed) >= target).then_some(())).await;
            gateway.signal("KILL");
            time += begin.elapsed();
            let mut newest = Acknowledged::new();
            for client in clients {
                newest.extend(client.await.unwrap());
            }
            writes += count.load(Ordering::Relaxed);
            gateway = gateway.killed_and_started_again();
            let url = format!("{}/v1/configs", gateway.control_url());
            let found = found(&url, &newest).await;
            acknowledged.extend(newest.clone());
            for (slug, version) in &acknowledged {
                let at_least = if newest.contains_key(slug) { *version } else { 0 };
                let there = found.get(slug).unwrap_or_else(|| panic!("round {round}: {slug} is lost"));
                assert!(*there == 0 || *there >= at_least, "round {round}: {slug} has lost version {version}");
            }
            let settings = gateway.folder().join("turnpike.yaml");
            let verified = turnpike(&["-c", settings.to_str().unwrap(), "store", "verify"]);
            assert_eq!(verified.code, Some(0), "round {round}: {}{}", verified.stdout, verified.stderr);
        }
        let store = if is_postgres() { "PostgreSQL" } else { "SQLite" };
        let rate = f64::from(writes) / time.as_secs_f64();
        report(&format!(
            "{kills} kills on {store}: {writes} acknowledged writes at {rate:.0} a second, none lost, all verified"
        ));
    })
    .await;
}
