//! What limits make of calls that are under way: acceptance examples 17 and 18 of the control plane.
//!
//! On SQLite and PostgreSQL. What holds under load, and through crashes, is in `budgets_under_load`.

use crate::limited_requests::{CLIENT, USAGE, entities, gateways, get, make, per_user, tokens};
use crate::support::client::{client, new_trace};
use crate::support::{Gateway, wait};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn chat(gateway: &Gateway, body: &Value, script: &str) -> reqwest::RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", CLIENT).header("x-gateway-provider", "@emu");
    let call = call.header("x-gateway-metadata", r#"{"_user":"ann"}"#).header("x-emulator-script", script);
    call.json(body)
}

fn body(bound: u32) -> Value {
    json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": bound})
}

/// Example 17: 100 clients share what is worth ten calls. Each call may cost far more than all of it, and does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_worth_ten_calls_passes_ten_whoever_calls() {
    for gateway in gateways() {
        let (input, output) = tokens(&gateway).await;
        let price = input * 2_500 + output * 10_000;
        let budget = per_user("cost", json!((10 * price) as f64 / 1e9));
        let id = make(&gateway, USAGE, &budget).await;
        let gateway = Arc::new(gateway);
        let outcomes = Arc::new(Mutex::new(BTreeMap::<(u16, String), usize>::new()));
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let gateway = Arc::clone(&gateway);
            let outcomes = Arc::clone(&outcomes);
            clients.spawn(async move {
                loop {
                    let response = chat(&gateway, &body(4096), "tokens=5&latency=200").send().await.unwrap();
                    let status = response.status().as_u16();
                    let retry = response.headers().get("retry-after").cloned();
                    let body: Value = response.json().await.unwrap();
                    let what = body["error"]["type"].as_str().unwrap_or_default().to_owned();
                    *outcomes.lock().entry((status, what)).or_default() += 1;
                    if status != 429 {
                        return;
                    }
                    assert_eq!(retry.unwrap(), "1", "{body}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        let outcomes = outcomes.lock().clone();
        let count = |status: u16, what: &str| outcomes.get(&(status, what.to_owned())).copied().unwrap_or(0);
        let passed = count(200, "");
        assert!((10..=11).contains(&passed), "{outcomes:?}");
        assert!(count(429, "budget_reserved_error") > 0, "{outcomes:?}");
        assert_eq!(count(412, "usage_limits_policy_exhaust_error"), 100 - passed, "{outcomes:?}");
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
        let entity = wait::until("the last calls to be settled", async || {
            let found = entities(&gateway, &id, "").await;
            found.into_iter().find(|entity| entity["reserved_usage"] == 0)
        })
        .await;
        let spent = (entity["current_usage"].as_f64().unwrap() * 1e9).round() as u64;
        assert_eq!((spent, &entity["status"]), (passed as u64 * price, &json!("exhausted")), "{entity}");
    }
}

/// Example 18: what was delivered is charged, and the provider is not paid for more.
#[tokio::test]
async fn a_client_that_leaves_is_charged_for_what_it_got() {
    for gateway in gateways() {
        let (input, _) = tokens(&gateway).await;
        let id = make(&gateway, USAGE, &per_user("tokens", json!(1_000_000))).await;
        let tag = new_trace();
        let trace = new_trace();
        let mut body = body(100);
        body["stream"] = true.into();
        let call = chat(&gateway, &body, &format!("tokens=100&gap=20&tag={tag}"));
        let mut response = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
        let mut text = String::new();
        while text.matches("\"content\":").count() < 30 {
            text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().unwrap()));
        }
        let left = Instant::now();
        drop(response);
        let requests = gateway.emulator_requests(&tag).await;
        assert!(left.elapsed() < Duration::from_secs(1), "{:?}", left.elapsed());
        assert_eq!((requests.len(), &requests[0]["closed"]), (1, &json!("caller_left")), "{requests:?}");
        let entity = wait::until("the usage to be counted", async || {
            let found = entities(&gateway, &id, "").await;
            found.into_iter().find(|entity| entity["reserved_usage"] == 0 && entity["current_usage"] != 0)
        })
        .await;
        let charged = entity["current_usage"].as_u64().unwrap();
        assert!((input + 30..=input + 100).contains(&charged), "{charged} of {input} and 30 to 100");
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], "caller_left", "{line}");
        wait::until("the log", async || {
            let found = get(&gateway, &format!("/v1/logs?trace_id={trace}")).await;
            (found["total"] == 1).then_some(())
        })
        .await;
        let log = get(&gateway, &format!("/v1/logs/{trace}")).await;
        assert_eq!(log["metrics"]["usage_source"], "estimated", "{log}");
        let shown = get(&gateway, &format!("{USAGE}/{id}?include_usage=true")).await;
        assert_eq!(shown["value_key_usage_map"]["metadata._user:ann"]["current_usage"], charged, "{shown}");
    }
}

/// What a request may generate is judged as the provider would read it, so none gets more from a hard limit than it has.
#[tokio::test]
async fn no_spelling_of_a_request_passes_a_hard_limit() {
    for gateway in gateways() {
        let mut limit = per_user("tokens", json!(500));
        limit["hard"] = true.into();
        make(&gateway, USAGE, &limit).await;
        let send = async |path: &str, members: Value| {
            let mut body = match path {
                "completions" => json!({"model": "gpt-3.5-turbo-instruct", "prompt": "Hello"}),
                "responses" => json!({"model": "gpt-4o", "input": "Hello"}),
                _ => json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}),
            };
            body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let call = client().post(format!("{}/{path}", gateway.base_url())).json(&body);
            let call = call.header("x-gateway-api-key", CLIENT).header("x-gateway-provider", "@emu");
            let call = call.header("x-gateway-metadata", r#"{"_user":"ann"}"#);
            call.send().await.unwrap().status().as_u16()
        };
        for (path, members) in [
            ("completions", json!({"max_tokens": 100, "best_of": 20})),
            ("completions", json!({"max_tokens": 100, "prompt": vec!["Hello"; 20]})),
            ("completions", json!({"max_completion_tokens": 10})),
            ("chat/completions", json!({"max_tokens": 100, "n": 20})),
            ("chat/completions", json!({"max_tokens": 100, "n": 20.0})),
            ("chat/completions", json!({"max_output_tokens": 10})),
            ("chat/completions", json!({"max_tokens": 10, "max_completion_tokens": 5000.0})),
            ("responses", json!({"max_tokens": 10})),
        ] {
            assert_eq!(send(path, members.clone()).await, 412, "{path} {members}");
        }
        assert_eq!(send("completions", json!({"max_tokens": 10, "best_of": 2})).await, 200);
        assert_eq!(send("chat/completions", json!({"max_tokens": 10, "n": 2})).await, 200);
    }
}
