//! A gateway whose shared counters of limits go away and come back: what passes, and what an operator sees; and its leases.
//!
//! That gateways count together is in `budgets_under_load`; the rules are tested beside the code.

use crate::limited_requests::USAGE;
use crate::support::client::client;
use crate::support::command::check;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, postgres_server, wait};
use reqwest::Method;
use serde_json::{Value, json};

async fn chat(gateway: &Gateway) -> (u16, Value) {
    let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5});
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let response = call.json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn ready(gateway: &Gateway) -> (u16, Value) {
    let response = client().get(format!("{}/readyz", gateway.control_url())).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn requests_go_on_while_the_counters_are_away_and_the_operator_sees_it() {
    let Some(server) = postgres_server::Server::start() else { return };
    let gateway = Gateway::start(&format!("{STANDARD}limits: {{shared: '{}'}}\n", server.new_database()));
    let budget = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "requests", "credit_limit": 3,
    });
    let policy = gateway.create(USAGE, &budget).await;
    let one = format!("{USAGE}/{}", policy["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(chat(&gateway).await.0, 200);
    }
    assert_eq!(gateway.metric("turnpike_limit_counters_available").await, Some(1.0));
    assert_eq!(
        ready(&gateway).await.1["limits"],
        json!({"counters": "postgres", "available": true, "gateways": 1, "when_memory_is_full": "kept"})
    );
    wait::until("the calls to be counted", async || {
        let entities = gateway.read(&format!("{one}/entities")).await;
        let entity = &entities["data"][0];
        (entity["current_usage"] == 2 && entity["reserved_usage"] == 0).then_some(())
    })
    .await;
    assert!(server.sql("postgres", "CHECKPOINT"));
    server.kill();
    // A soft budget lets all of them pass.
    for _ in 0..5 {
        let (status, body) = chat(&gateway).await;
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(gateway.metric("turnpike_limit_counters_available").await, Some(0.0));
    let (status, shown) = ready(&gateway).await;
    assert_eq!((status, &shown["limits"]["available"]), (200, &json!(false)), "{shown}");
    let hard = json!({"hard": true});
    assert_eq!(gateway.control(Method::PUT, &one).json(&hard).send().await.unwrap().status(), 200);
    let (status, body) = chat(&gateway).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("limits_unavailable")), "{body}");
    server.run();
    wait::until("the counters to be back", async || {
        (gateway.metric("turnpike_limit_counters_available").await == Some(1.0)).then_some(())
    })
    .await;
    // One is left of the three.
    wait::until("a call to pass", async || (chat(&gateway).await.0 == 200).then_some(())).await;
    // Until that one is settled, which is beside its response, what it has reserved is a 429.
    wait::until("the budget to be spent", async || match chat(&gateway).await.0 {
        412 => Some(()),
        status => {
            assert_eq!(status, 429);
            None
        }
    })
    .await;
}

/// A budget of so many requests for each key. Returns its path.
async fn budget(gateway: &Gateway, requests: u32) -> String {
    let budget = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "requests", "credit_limit": requests,
    });
    let policy = gateway.create(USAGE, &budget).await;
    format!("{USAGE}/{}", policy["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_lease_serves_requests_and_goes_back_when_the_gateway_stops() {
    let Some(server) = postgres_server::Server::start() else { return };
    let url = server.new_database();
    let gateway = Gateway::start(&format!("{STANDARD}limits: {{shared: '{url}', leases: on}}\n"));
    budget(&gateway, 10_000).await;
    let mut passed = 0;
    wait::until("requests that need no call", async || {
        assert_eq!(chat(&gateway).await.0, 200);
        passed += 1;
        let leased = gateway.metric("turnpike_limit_leased_requests_total").await;
        (leased.unwrap() > 5.0).then_some(())
    })
    .await;
    gateway.terminate();
    assert!(gateway.ended().await.success());
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    for condition in [
        "SELECT count(*) = 0 FROM limit_holds".to_owned(),
        format!("SELECT sum(spent) = {passed} AND sum(held) = 0 FROM limit_buckets"),
    ] {
        let text = format!("DO $$ BEGIN ASSERT ({condition}); END $$");
        assert!(server.sql(database, &text), "{condition}");
    }
}

#[tokio::test]
async fn leases_can_be_turned_off() {
    let Some(server) = postgres_server::Server::start() else { return };
    let url = server.new_database();
    let gateway = Gateway::start(&format!("{STANDARD}limits: {{shared: '{url}', leases: off}}\n"));
    let one = budget(&gateway, 10_000).await;
    for _ in 0..30 {
        assert_eq!(chat(&gateway).await.0, 200);
    }
    wait::until("the calls to be counted", async || {
        let entities = gateway.read(&format!("{one}/entities")).await;
        let entity = &entities["data"][0];
        (entity["current_usage"] == 30 && entity["reserved_usage"] == 0).then_some(())
    })
    .await;
    assert_eq!(gateway.metric("turnpike_limit_leased_requests_total").await, Some(0.0));
    assert_eq!(gateway.metric("turnpike_limit_leases").await, Some(0.0));
}

#[test]
fn counters_in_a_store_of_one_gateway_are_a_mistake() {
    let wrong = check("limits:\n  shared: store\n");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let text = format!("{}{}", wrong.stdout, wrong.stderr);
    assert!(text.contains(":2:11: limits.shared: store needs a store in PostgreSQL"), "{text}");
    let unreadable = check("limits:\n  shared: mysql://db/limits\n");
    assert_eq!(unreadable.code, Some(1), "{unreadable:?}");
}
