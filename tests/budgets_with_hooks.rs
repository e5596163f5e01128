//! One hard budget while hooks change every request, a model judges each, and lines of a batch spend it too: it is never exceeded, and
//! nearly used up.
//!
//! The provider is the test's own: what it reports is the bill, to the nanodollar. Budgets without hooks: `budgets_under_load`.

use crate::batches::{CHAT, Client, line};
use crate::caching::json_answer;
use crate::limited_requests::{USAGE, entities, make};
use crate::support::client::client;
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::{Gateway, report, wait};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanodollars of a token of `gpt-4o`.
const INPUT: i64 = 2_500;
const OUTPUT: i64 = 10_000;
/// What every answer reports.
const READ: i64 = 60;
/// The budget, in nanodollars.
const LIMIT: i64 = 150_000_000;
const CLIENTS: usize = 40;

/// A provider of `gpt-4o` that uses all of the output it may, and finds everything right. It adds to the bill.
async fn model(bill: &Arc<AtomicI64>) -> Provider {
    let bill = Arc::clone(bill);
    Provider::start(move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let output = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_i64()).unwrap();
        let output = output.min(20);
        bill.fetch_add(READ * INPUT + output * OUTPUT, Ordering::SeqCst);
        let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
            "usage": {"prompt_tokens": READ, "completion_tokens": output, "total_tokens": READ + output},
            "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": r#"{"verdict": true, "score": 1, "reason": "fine"}"#}}]});
        json_answer(&answer.to_string()).into_bytes()
    })
    .await
}

/// A hook that has every request say four times as much as it wanted.
async fn raising() -> Provider {
    Provider::start(|request| {
        let call: Value = serde_json::from_slice(&request.body).unwrap();
        let mut chat = call["request"]["json"].clone();
        chat["max_completion_tokens"] = 20.into();
        let changed = json!({"verdict": true, "transformedData": {"request": {"json": chat}}});
        json_answer(&changed.to_string()).into_bytes()
    })
    .await
}

fn chat() -> Value {
    json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 5})
}

/// Calls until the budget is spent. What others hold is waited for, as long as anything passes.
async fn spend(gateway: &Gateway, config: &str, passed: &AtomicU64) {
    let mut last_pass = Instant::now();
    loop {
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let response = call.header("x-gateway-config", config).json(&chat()).send().await.unwrap();
        match response.status().as_u16() {
            200 => {
                passed.fetch_add(1, Ordering::Relaxed);
                last_pass = Instant::now();
            }
            412 => return,
            429 if last_pass.elapsed() > Duration::from_secs(5) => return,
            429 => tokio::time::sleep(Duration::from_millis(50)).await,
            status => panic!("{status} {}", response.text().await.unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_holds_what_hooks_judges_and_batches_make_of_requests() {
    let bill = Arc::new(AtomicI64::new(0));
    let model = model(&bill).await;
    let hook = raising().await;
    let settings = format!(
        "
custom_hosts: {{allow: [127.0.0.1]}}
auth:
  keys:
    - {{name: tests, key: {KEY}}}
providers:
  model: {{provider: openai, api_key: k, custom_host: '{}'}}
batches: {{concurrency: 4}}
",
        model.base_url()
    );
    let gateway = Gateway::start(&settings);
    let policy = json!({"conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "cost",
        "credit_limit": LIMIT as f64 / 1e9, "hard": true});
    let id = make(&gateway, USAGE, &policy).await;
    let webhook = json!({"default.webhook": {"webhookURL": format!("http://127.0.0.1:{}/", hook.port)}});
    let judge = json!({"default.modelJudge": {"provider": "@model", "model": "gpt-4o", "instructions": "It is kind.", "max_tokens": 20}});
    let config = json!({"provider": "@model", "input_guardrails": [webhook, judge]});
    let passed = AtomicU64::new(0);
    let batches = Client::new(&gateway);
    let lines: String = (1..=40).map(|n| line(&format!("line-{n}"), CHAT, &chat()) + "\n").collect();
    let file = batches.upload(lines).await;
    let made = batches.create(&file, CHAT, &config).await;
    let text = config.to_string();
    let calls = (0..CLIENTS).map(|_| spend(&gateway, &text, &passed));
    let (batch, _) = tokio::join!(batches.finished(&made["id"]), futures_util::future::join_all(calls));
    let spent = wait::until("the end of all holds", async || {
        let found = entities(&gateway, &id, "").await;
        let bucket = found.first().filter(|bucket| bucket["reserved_usage"] == 0)?;
        Some((bucket["current_usage"].as_f64()? * 1e9).round() as i64)
    })
    .await;
    let bill = bill.load(Ordering::SeqCst);
    report(&format!(
        "hard budget of {LIMIT} with hooks: bill {bill}, {passed:?} passed, {}",
        batch["request_counts"]
    ));
    assert!(bill <= LIMIT && bill * 100 >= LIMIT * 95, "{bill} of {LIMIT}, {batch}");
    assert_eq!(spent, bill, "what was counted is the provider's bill");
    assert!(hook.received().len() >= 100, "every request was changed");
}
