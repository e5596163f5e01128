//! One hard budget while hooks change every request, a model judges each, and lines of a batch spend it too: it is never exceeded, and
//! nearly used up. And soft limits of changed requests in shared counters.
//!
//! The provider is the test's own: what it reports is the bill, to the nanodollar. Budgets without hooks: `budgets_under_load`.

use crate::batches::{CHAT, Client, line};
use crate::caching::json_answer;
use crate::limited_requests::{RATES, USAGE, entities, make};
use crate::support::client::client;
use crate::support::provider::Provider;
use crate::support::redis_server::RedisServer;
use crate::support::settings::KEY;
use crate::support::{Gateway, report, wait};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nanodollars of a token of `gpt-4o`.
const INPUT: i64 = 2_500;
const OUTPUT: i64 = 10_000;
/// What every answer reports.
const READ: i64 = 60;
/// The budget, in nanodollars.
const LIMIT: i64 = 150_000_000;
const CLIENTS: usize = 40;

/// A response that uses all of the output that its request may, and finds everything right; and how much that is.
fn answer(request: &[u8]) -> (Vec<u8>, i64) {
    let body: Value = serde_json::from_slice(request).unwrap();
    let output =
        ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body[*name].as_i64()).unwrap();
    let output = output.min(20);
    let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o",
        "usage": {"prompt_tokens": READ, "completion_tokens": output, "total_tokens": READ + output},
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": r#"{"verdict": true, "score": 1, "reason": "fine"}"#}}]});
    (json_answer(&answer.to_string()).into_bytes(), output)
}

/// A provider of `gpt-4o` that uses all of the output it may, and finds everything right. It adds to the bill.
async fn model(bill: &Arc<AtomicI64>) -> Provider {
    let bill = Arc::clone(bill);
    Provider::start(move |request| {
        let (answer, output) = answer(&request.body);
        bill.fetch_add(READ * INPUT + output * OUTPUT, Ordering::SeqCst);
        answer
    })
    .await
}

/// The same, without a bill. It responds when it does not wait any more, and after half a minute.
async fn slow_model(waits: &Arc<AtomicBool>) -> Provider {
    let waits = Arc::clone(waits);
    Provider::start(move |request| {
        let arrived = Instant::now();
        while waits.load(Ordering::SeqCst) && arrived.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        answer(&request.body).0
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

/// What a hook makes of a request is what soft budgets and rates hold of it, also in counters that gateways share.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shared_counters_hold_what_hooks_make_of_requests() {
    let Some(redis) = RedisServer::start() else { return };
    let waits = Arc::new(AtomicBool::new(false));
    let model = slow_model(&waits).await;
    let hook = raising().await;
    let settings = format!(
        "
custom_hosts: {{allow: [127.0.0.1]}}
limits: {{shared: 'redis://127.0.0.1:{}'}}
auth:
  keys:
    - {{name: tests, key: {KEY}}}
providers:
  model: {{provider: openai, api_key: k, custom_host: '{}'}}
",
        redis.port,
        model.base_url()
    );
    let gateway = Gateway::start(&settings);
    let by_key = json!([{"key": "api_key"}]);
    let any_key = json!([{"key": "api_key", "value": "*"}]);
    let budget = json!({"conditions": any_key, "group_by": by_key, "type": "tokens", "credit_limit": 1_000});
    let id = make(&gateway, USAGE, &budget).await;
    let send = async |config: &str| {
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let response = call.header("x-gateway-config", config).json(&chat()).send().await.unwrap();
        response.status().as_u16()
    };
    let counted = async |what: &str, is_it: &dyn Fn(u64, u64) -> bool| {
        wait::until(what, async || {
            let found = entities(&gateway, &id, "").await;
            let count = |name: &str| found.first()?[name].as_u64();
            let held = count("reserved_usage")?;
            is_it(count("current_usage")?, held).then_some(held)
        })
        .await
    };
    let plain = json!({"provider": "@model"}).to_string();
    let webhook = json!({"default.webhook": {"webhookURL": format!("http://127.0.0.1:{}/", hook.port)}});
    let changed = json!({"provider": "@model", "input_guardrails": [webhook]}).to_string();
    waits.store(true, Ordering::SeqCst);
    let (status, held) = tokio::join!(send(&plain), async {
        let held = counted("a hold", &|_, held| held > 0).await;
        waits.store(false, Ordering::SeqCst);
        held
    });
    assert_eq!(status, 200);
    counted("the first call", &|used, held| (used, held) == (65, 0)).await;
    // It has room beside a request as its client sends it, and none beside what the hook makes of it.
    let rate = json!({"conditions": any_key, "group_by": by_key, "type": "tokens", "unit": "rpw", "value": held + 8});
    make(&gateway, RATES, &rate).await;
    waits.store(true, Ordering::SeqCst);
    let (status, beside) = tokio::join!(send(&changed), async {
        counted("the hold of what is sent", &|_, now| now == held + 15).await;
        let beside = send(&plain).await;
        waits.store(false, Ordering::SeqCst);
        beside
    });
    assert_eq!((status, beside), (200, 429));
    counted("the second call", &|used, held| (used, held) == (65 + 80, 0)).await;
}
