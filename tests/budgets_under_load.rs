//! Budgets while very many clients spend them at once: a hard one is never exceeded and nearly used up, a soft one is exceeded by one
//! request at most; also through a kill of the gateway and through two gateways on one store.
//!
//! The provider is an emulator of its own, which outlives the gateway: what it was sent is the bill. Every call costs the same, in
//! money and in tokens, so the bill is the number of calls times that.

use crate::support::client::client;
use crate::support::emulator::Emulator;
use crate::support::redis_server::RedisServer;
use crate::support::settings::KEY;
use crate::support::{Gateway, postgres_server, report, wait};
use parking_lot::Mutex;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How many clients there are: a thousand in `make test-all`. Each budget is of several calls for each of them.
static CLIENTS: LazyLock<i64> =
    LazyLock::new(|| if std::env::var_os("TEST_ALL").is_some() { 1000 } else { 200 });

/// One such test at a time: two of them would leave the others no time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
const USAGE: &str = "/v1/policies/usage-limits";

/// What a call asks for: tokens of output, and milliseconds at the provider, so that very many are in flight.
#[derive(Debug, Clone, Copy)]
struct Shape {
    tokens: u32,
    latency: u32,
}

const SHORT: Shape = Shape { tokens: 5, latency: 100 };
/// What is held of a call is little more than what it costs, as with real models: of calls that a kill cut off, all of it counts.
const LONG: Shape = Shape { tokens: 1000, latency: 500 };

/// How long a client goes on when nothing passes any more: what the rest is reserved for is lost.
const PATIENCE: Duration = Duration::from_secs(5);

fn settings(emulator: &Emulator) -> String {
    format!(
        "
auth:
  keys:
    - {{name: tests, key: {KEY}}}
providers:
  emu: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:{}/v1'}}
",
        emulator.port
    )
}

async fn operate(gateway: &Gateway, method: Method, path: &str, body: &Value) -> Value {
    let call =
        client().request(method, format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", KEY);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// One call: its status and body; `None` where the gateway is away.
async fn call(client: &Client, base: &str, shape: Shape) -> Option<(u16, Value)> {
    let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": shape.tokens});
    let call = client.post(format!("{base}/chat/completions")).header("x-gateway-api-key", KEY);
    let call = call
        .header("x-gateway-provider", "@emu")
        .header("x-emulator-script", format!("tokens={}&latency={}", shape.tokens, shape.latency));
    let response = call.json(&body).send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.json().await.ok()?))
}

/// What a budget is of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Of {
    /// In nanodollars: `gpt-4o` at 2.5 and 10 dollars per million tokens.
    Cost,
    Tokens,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
        }
    }

    /// What every call costs, by the usage that the provider reports.
    async fn price(self, gateway: &Gateway, shape: Shape) -> i64 {
        let (status, body) = call(&client(), &gateway.base_url(), shape).await.unwrap();
        assert_eq!(status, 200, "{body}");
        let tokens = |name: &str| body["usage"][name].as_i64().unwrap();
        let input = tokens("prompt_tokens");
        let output = tokens("completion_tokens");
        match self {
            Self::Cost => input * 2_500 + output * 10_000,
            Self::Tokens => input + output,
        }
    }

    /// An amount as the API has it.
    fn shown(self, amount: i64) -> Value {
        match self {
            Self::Cost => json!(amount as f64 / 1e9),
            Self::Tokens => json!(amount),
        }
    }

    fn read(self, shown: &Value) -> i64 {
        match self {
            Self::Cost => (shown.as_f64().unwrap() * 1e9).round() as i64,
            Self::Tokens => shown.as_i64().unwrap(),
        }
    }
}

/// How many calls the provider was sent.
async fn calls(emulator: &Emulator) -> i64 {
    let url = format!("http://127.0.0.1:{}/_emulator/stats", emulator.port);
    let stats: Value = client().get(url).send().await.unwrap().json().await.unwrap();
    stats["requests"].as_i64().unwrap()
}

/// A budget for all calls with the key together.
async fn budget(gateway: &Gateway, of: Of, amount: i64, is_hard: bool) -> String {
    let policy = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": of.name(),
        "credit_limit": of.shown(amount), "hard": is_hard,
    });
    operate(gateway, Method::POST, USAGE, &policy).await["id"].as_str().unwrap().to_owned()
}

/// What became of all calls.
#[derive(Debug, Default)]
struct Tally {
    passed: AtomicU64,
    /// 429: the rest is reserved.
    reserved: AtomicU64,
    /// No response: the gateway was away.
    lost: AtomicU64,
    unexpected: Mutex<Vec<String>>,
    last_pass: Mutex<Option<Instant>>,
}

/// Has all clients call until the budget is spent: each goes on after a response, and tries again after a 429 and while the gateway
/// is away. The gateways take turns as the clients do.
async fn spend(gateways: &[String], shape: Shape) -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    let mut clients = tokio::task::JoinSet::new();
    let client = client();
    for gateway in gateways.iter().cycle().take(*CLIENTS as usize) {
        let client = client.clone();
        let base = gateway.clone();
        let tally = Arc::clone(&tally);
        clients.spawn(async move {
            loop {
                match call(&client, &base, shape).await {
                    Some((200, _)) => {
                        tally.passed.fetch_add(1, Ordering::Relaxed);
                        *tally.last_pass.lock() = Some(Instant::now());
                    }
                    Some((412, _)) => return,
                    Some((429, body)) if body["error"]["type"] == "budget_reserved_error" => {
                        tally.reserved.fetch_add(1, Ordering::Relaxed);
                        if tally.last_pass.lock().is_some_and(|last| last.elapsed() > PATIENCE) {
                            return;
                        }
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    Some((status, body)) => return tally.unexpected.lock().push(format!("{status} {body}")),
                    None => {
                        tally.lost.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(250)).await;
                    }
                }
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    assert_eq!(*tally.unexpected.lock(), [""; 0]);
    tally
}

/// What the policy has counted when nothing is in flight any more.
async fn spent(gateway: &Gateway, of: Of, id: &str) -> i64 {
    wait::until("the holds to end", async || {
        let entities = operate(gateway, Method::GET, &format!("{USAGE}/{id}/entities"), &Value::Null).await;
        let entity = &entities["data"][0];
        (entity["reserved_usage"] == 0).then(|| of.read(&entity["current_usage"]))
    })
    .await
}

/// The provider's bill must be within the limit, which is nearly used up.
fn assert_used_up(bill: i64, limit: i64) {
    assert!(bill <= limit, "{bill} of {limit}");
    assert!(bill * 100 >= limit * 95, "{bill} of {limit}");
}

async fn use_up_hard(of: Of) {
    let _alone = ALONE.lock().await;
    let emulator = Emulator::start(None);
    let gateway = Gateway::start(&settings(&emulator));
    let price = of.price(&gateway, SHORT).await;
    let before = calls(&emulator).await;
    let limit = 2 * *CLIENTS * price + price / 2;
    let id = budget(&gateway, of, limit, true).await;
    let tally = spend(&[gateway.base_url()], SHORT).await;
    let bill = (calls(&emulator).await - before) * price;
    report(&format!("hard budget of {limit} ({}): bill {bill}, {tally:?}", of.name()));
    assert_used_up(bill, limit);
    assert_eq!(spent(&gateway, of, &id).await, bill, "what was counted is the provider's bill");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_of_money_is_used_up_and_never_exceeded() {
    use_up_hard(Of::Cost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_of_tokens_is_used_up_and_never_exceeded() {
    use_up_hard(Of::Tokens).await;
}

async fn use_up_soft(of: Of) {
    let _alone = ALONE.lock().await;
    let emulator = Emulator::start(None);
    let gateway = Gateway::start(&settings(&emulator));
    let price = of.price(&gateway, SHORT).await;
    let before = calls(&emulator).await;
    let limit = *CLIENTS * 3 / 2 * price + price / 2;
    let id = budget(&gateway, of, limit, false).await;
    let tally = spend(&[gateway.base_url()], SHORT).await;
    let bill = (calls(&emulator).await - before) * price;
    report(&format!("soft budget of {limit} ({}): bill {bill}, {tally:?}", of.name()));
    assert!(bill >= limit && bill <= limit + price, "{bill} of {limit}");
    assert_eq!(spent(&gateway, of, &id).await, bill);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_budget_of_money_is_exceeded_by_one_request_at_most() {
    use_up_soft(Of::Cost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_budget_of_tokens_is_exceeded_by_one_request_at_most() {
    use_up_soft(Of::Tokens).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_survives_a_kill() {
    let of = Of::Cost;
    let _alone = ALONE.lock().await;
    let emulator = Emulator::start(None);
    let mut gateway = Gateway::start(&settings(&emulator));
    let price = of.price(&gateway, LONG).await;
    let before = calls(&emulator).await;
    let limit = 12 * *CLIENTS * price + price / 2;
    let id = budget(&gateway, of, limit, true).await;
    let base = gateway.base_url();
    let spending = tokio::spawn(async move { spend(&[base], LONG).await });
    wait::until("a part of the budget to be spent", async || {
        (calls(&emulator).await - before > *CLIENTS * 3 / 2).then_some(())
    })
    .await;
    gateway = tokio::task::spawn_blocking(|| gateway.killed_and_started_again()).await.unwrap();
    let tally = spending.await.unwrap();
    let bill = (calls(&emulator).await - before) * price;
    let entities = operate(&gateway, Method::GET, &format!("{USAGE}/{id}/entities"), &Value::Null).await;
    let entity = &entities["data"][0];
    let counted = of.read(&entity["current_usage"]);
    let held = of.read(&entity["reserved_usage"]);
    report(&format!(
        "hard budget of {limit} through a kill: bill {bill}, counted {counted}, held {held}, {tally:?}"
    ));
    assert!(tally.lost.load(Ordering::Relaxed) > 0, "the kill was in the middle");
    // What the process that was killed had held stays held until it is certain that nobody settles it; how much of that the
    // provider was sent depends on the moment.
    assert!(bill <= counted + held, "{bill} {counted} {held} {limit}");
    assert_used_up(counted + held, limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_of_two_gateways_that_count_together_in_redis() {
    let (Some(server), Some(redis)) = (postgres_server::shared(), RedisServer::start()) else { return };
    let shared = format!("redis://127.0.0.1:{}", redis.port);
    use_up_with_two_gateways(&server.new_database(), &shared, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_budget_of_two_gateways_that_count_together_in_the_store() {
    let Some(server) = postgres_server::shared() else { return };
    use_up_with_two_gateways(&server.new_database(), "store", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_budget_of_two_gateways_with_leases_is_exceeded_by_one_request_at_most() {
    let Some(server) = postgres_server::shared() else { return };
    use_up_with_two_gateways(&server.new_database(), "store", false).await;
}

async fn use_up_with_two_gateways(store: &str, shared: &str, is_hard: bool) {
    let of = Of::Cost;
    let _alone = ALONE.lock().await;
    let emulator = Emulator::start(None);
    let key = "5a".repeat(32);
    let settings = format!(
        "{}limits: {{shared: '{shared}'}}\nstore:\n  url: {store}\n  encryption_key: \"{key}\"\n",
        settings(&emulator),
    );
    let one = Gateway::start(&settings);
    let two = Gateway::start(&settings);
    let price = of.price(&one, SHORT).await;
    let before = calls(&emulator).await;
    // What is leased is leased after some hundred calls.
    let calls_allowed = if is_hard { 2 * *CLIENTS } else { 2_000 };
    let limit = calls_allowed * price + price / 2;
    let id = budget(&one, of, limit, is_hard).await;
    wait::until("the policy at the other gateway", async || {
        let found = client().get(format!("{}{USAGE}/{id}", two.control_url()));
        (found.header("x-gateway-api-key", KEY).send().await.unwrap().status() == 200).then_some(())
    })
    .await;
    let tally = spend(&[one.base_url(), two.base_url()], SHORT).await;
    let bill = (calls(&emulator).await - before) * price;
    let mut leased = Vec::new();
    for gateway in [&one, &two] {
        leased.push(gateway.metric("turnpike_limit_leased_requests_total").await.unwrap());
    }
    let kind = if is_hard { "hard" } else { "soft" };
    report(&format!(
        "{kind} budget of {limit} of two gateways, {shared}: bill {bill}, leased {leased:?}, {tally:?}"
    ));
    if is_hard {
        assert_used_up(bill, limit);
        assert_eq!(leased, [0.0, 0.0], "each hold of a hard budget is the store's own");
    } else {
        assert!(bill >= limit && bill <= limit + price, "{bill} of {limit}");
        assert!(leased.iter().all(|requests| *requests > 0.0), "{leased:?}");
    }
    assert_eq!(spent(&two, of, &id).await, bill);
}
