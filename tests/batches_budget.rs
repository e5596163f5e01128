//! Batches of the gateway and budgets: what a batch may use is held before its first line is sent, and settled line by line.
//!
//! Which requests a limit is for, and how it is counted, is not here (`limited_requests`).

use crate::batches::{CHAT, Client, chat, chats, line};
use crate::caching::{answering, at, json_answer};
use crate::limited_requests::{USAGE, calls};
use crate::provider_batches;
use crate::stages::WHOLE_CHAT;
use crate::support::Gateway;
use crate::support::redis_server::RedisServer;
use crate::support::settings::{JOBS, STANDARD};
use crate::support::wait::until;
use reqwest::{Method, StatusCode};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// A budget of each key. Returns its path.
async fn budget(gateway: &Gateway, kind: &str, credit: impl Into<Value>, is_hard: bool) -> String {
    let policy = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": kind,
        "credit_limit": credit.into(), "hard": is_hard,
    });
    format!("{USAGE}/{}", gateway.create(USAGE, &policy).await["id"].as_str().unwrap())
}

/// What is counted and held of it.
async fn usage(gateway: &Gateway, path: &str) -> (Value, Value) {
    let found = gateway.read(&format!("{path}/entities")).await;
    let entity = &found["data"][0];
    (entity["current_usage"].clone(), entity["reserved_usage"].clone())
}

/// One request of the same key, beside the batch.
async fn request(client: &Client<'_>) -> (StatusCode, Value) {
    let call = client.call(Method::POST, "/chat/completions").header("x-gateway-provider", "@emulator");
    client.read(call.json(&chat("beside"))).await
}

#[tokio::test]
async fn a_batch_that_a_hard_budget_has_no_room_for_is_not_begun() {
    let gateway = Gateway::start(STANDARD);
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 20, true).await;
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let batch = client.create(&client.upload(chats(21)).await, CHAT, &at(&upstream, "openai")).await;
    let batch = client.finished(&batch["id"]).await;
    let error = &batch["errors"]["data"][0];
    assert_eq!(
        (&batch["status"], &error["code"]),
        (&json!("failed"), &json!("insufficient_quota")),
        "{batch}"
    );
    assert!(error["message"].as_str().unwrap().contains("There is not enough budget"), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let batch = client.create(&client.upload(chats(20)).await, CHAT, &at(&upstream, "openai")).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}), "{batch}");
    assert_eq!(usage(&gateway, &path).await, (json!(20), json!(0)));
}

#[tokio::test]
async fn what_a_batch_holds_is_for_its_lines_alone_and_free_when_it_ends() {
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 2}}\n"));
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 10, true).await;
    let slow = json!({"model": "gpt-4o-mini?ttft=600000", "messages": [{"role": "user", "content": "x"}]});
    let lines: String = (1..=8).map(|n| line(&format!("line-{n}"), CHAT, &slow) + "\n").collect();
    let config = json!({"provider": "@emulator", "request_timeout": 900_000});
    let batch = client.create(&client.upload(lines).await, CHAT, &config).await;
    until("the batch to hold its budget", async || (usage(&gateway, &path).await.1 == 8).then_some(())).await;
    for _ in 0..2 {
        let (status, body) = request(&client).await;
        assert_eq!(status, 200, "{body}");
    }
    until("two requests to be counted", async || (usage(&gateway, &path).await.0 == 2).then_some(())).await;
    let (status, body) = request(&client).await;
    assert_eq!((status.as_u16(), &body["error"]["type"]), (429, &json!("budget_reserved_error")), "{body}");
    // A second batch waits until there is room.
    let second = client.create(&client.upload(chats(3)).await, CHAT, &json!({"provider": "@emulator"})).await;
    let cancel = format!("/batches/{}/cancel", batch["id"].as_str().unwrap());
    assert_eq!(client.read(client.call(Method::POST, &cancel)).await.0, 200);
    assert_eq!(client.finished(&batch["id"]).await["status"], "cancelled");
    let second = client.finished(&second["id"]).await;
    assert_eq!(second["request_counts"], json!({"total": 3, "completed": 3, "failed": 0}), "{second}");
    until("nothing to be held", async || (usage(&gateway, &path).await.1 == 0).then_some(())).await;
}

/// What was held for such a line is given up, and the line is held anew: that is still one of the eight.
#[tokio::test]
async fn lines_that_a_hook_changes_take_what_their_batch_holds_once() {
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 3}}\n"));
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 10, true).await;
    let slow = json!({"model": "gpt-4o-mini?ttft=600000", "messages": [{"role": "user", "content": "x"}]});
    let lines: String = (1..=8).map(|n| line(&format!("line-{n}"), CHAT, &slow) + "\n").collect();
    let prefix = json!({"default.addPrefix": {"prefix": "Be brief. "}});
    let config = json!({"provider": "@emulator", "request_timeout": 900_000, "input_guardrails": [prefix]});
    let before = calls(&gateway).await;
    let batch = client.create(&client.upload(lines).await, CHAT, &config).await;
    until("two lines to be sent", async || (calls(&gateway).await == before + 2).then_some(())).await;
    assert_eq!(usage(&gateway, &path).await, (json!(0), json!(8)));
    let cancel = format!("/batches/{}/cancel", batch["id"].as_str().unwrap());
    assert_eq!(client.read(client.call(Method::POST, &cancel)).await.0, 200);
    until("nothing to be held", async || (usage(&gateway, &path).await.1 == 0).then_some(())).await;
}

#[tokio::test]
async fn lines_beyond_a_soft_budget_are_errors() {
    let gateway = Gateway::start(STANDARD);
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 20, false).await;
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let batch = client.create(&client.upload(chats(60)).await, CHAT, &at(&upstream, "openai")).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 60, "completed": 20, "failed": 40}), "{batch}");
    assert_eq!(calls.load(Ordering::SeqCst), 20);
    let refused = client.lines(&batch["error_file_id"]).await;
    assert!(refused.values().all(|line| line["response"]["status_code"] == 412), "{refused:?}");
    assert_eq!(usage(&gateway, &path).await.0, 20);
}

#[tokio::test]
async fn money_is_held_by_the_bound_of_each_line_and_counted_as_it_was_used() {
    let gateway = Gateway::start(STANDARD);
    let client = Client::new(&gateway);
    // A line may have 100 tokens of output at 10 dollars a million, and uses 5. Without a tier it could be served at a dearer one.
    let body = json!({
        "model": "gpt-4o", "max_completion_tokens": 100, "service_tier": "default",
        "messages": [{"role": "user", "content": "x"}],
    });
    let lines = |count: usize| -> String {
        (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &body) + "\n").collect()
    };
    let path = budget(&gateway, "cost", 0.05, true).await;
    let create = async |count: usize| {
        let file = client.upload(lines(count)).await;
        let call = client.call(Method::POST, "/batches").header("x-gateway-provider", "@emulator");
        let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
        client.read(call.header("x-emulator-script", "tokens=5").json(&body)).await.1
    };
    let refused = create(60).await;
    let refused = client.finished(&refused["id"]).await;
    assert_eq!(refused["errors"]["data"][0]["code"], "insufficient_quota", "{refused}");
    let batch = create(30).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 30, "completed": 30, "failed": 0}), "{batch}");
    until("all of it to be settled", async || (usage(&gateway, &path).await.1 == 0).then_some(())).await;
    let used = usage(&gateway, &path).await.0.as_f64().unwrap();
    assert!(used > 30.0 * 5.0 * 10e-6 && used < 30.0 * 50.0 * 10e-6, "{used}");
}

#[tokio::test]
async fn results_of_a_provider_count_beyond_a_soft_budget() {
    results_count_beyond_a_soft_budget(JOBS).await;
}

#[tokio::test]
async fn results_of_a_provider_count_beyond_a_soft_budget_that_gateways_share() {
    let Some(redis) = RedisServer::start() else { return };
    let shared = format!("{JOBS}limits: {{shared: 'redis://127.0.0.1:{}'}}\n", redis.port);
    results_count_beyond_a_soft_budget(&shared).await;
}

async fn results_count_beyond_a_soft_budget(settings: &str) {
    let gateway = Gateway::start(settings);
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 3, false).await;
    let body =
        json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    let lines: Vec<String> = (1..=10).map(|n| line(&format!("line-{n}"), CHAT, &body)).collect();
    let batch = provider_batches::made(&client, "@anthropic", &lines).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 10, "completed": 10, "failed": 0}), "{batch}");
    until("nothing to be held", async || (usage(&gateway, &path).await.1 == 0).then_some(())).await;
    assert_eq!(usage(&gateway, &path).await.0, 10);
    let call = client.call(Method::POST, "/chat/completions").header("x-gateway-provider", "@anthropic");
    let (status, body) = client.read(call.json(&body)).await;
    assert_eq!(status, 412, "{body}");
}

#[tokio::test]
async fn a_providers_batch_is_held_and_counts_what_its_results_cost() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let lines = |count: usize| -> Vec<String> {
        let body = json!({
            "model": "claude-haiku-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "x"}],
        });
        (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &body)).collect()
    };
    // 100 tokens of output for 5 dollars a million: 60 lines may cost 0.03 at the least.
    let path = budget(&gateway, "cost", 0.02, true).await;
    let refused = provider_batches::made(&client, "@anthropic", &lines(60)).await;
    let refused = client.finished(&refused["id"]).await;
    assert_eq!(refused["errors"]["data"][0]["code"], "insufficient_quota", "{refused}");
    let batch = provider_batches::made(&client, "@anthropic", &lines(10)).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 10, "completed": 10, "failed": 0}), "{batch}");
    until("all of it to be settled", async || (usage(&gateway, &path).await.1 == 0).then_some(())).await;
    let results = client.lines(&batch["output_file_id"]).await;
    let tokens = |name: &str| -> f64 {
        results.values().map(|line| line["response"]["body"]["usage"][name].as_f64().unwrap()).sum()
    };
    // The prices of batches: half of 1 and 5 dollars a million.
    let cost = tokens("prompt_tokens") * 0.5e-6 + tokens("completion_tokens") * 2.5e-6;
    let used = usage(&gateway, &path).await.0.as_f64().unwrap();
    assert!((used - cost).abs() < 1e-8, "{used} {cost}");
}

/// What a validation has held whose end was not written is not in the way of the next one.
#[tokio::test]
async fn a_batch_does_not_wait_for_what_it_holds_itself() {
    let gateway = Gateway::start(STANDARD);
    let client = Client::new(&gateway);
    let path = budget(&gateway, "requests", 10, true).await;
    let database = Connection::open(gateway.folder().join("data/turnpike.db")).unwrap();
    let refusal = "CREATE TRIGGER refuse BEFORE UPDATE ON records WHEN NEW.kind = 'batch' AND NEW.body LIKE '%\"in_progress\",%' \
                   BEGIN SELECT json('no JSON'); END";
    database.execute_batch(refusal).unwrap();
    let batch = client.create(&client.upload(chats(6)).await, CHAT, &json!({"provider": "@emulator"})).await;
    until("the batch to wait", async || gateway.log().contains(" waits: ").then_some(())).await;
    database.execute_batch("DROP TRIGGER refuse").unwrap();
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 6, "completed": 6, "failed": 0}), "{batch}");
    until("all of it to be settled", async || {
        (usage(&gateway, &path).await == (json!(6), json!(0))).then_some(())
    })
    .await;
}
