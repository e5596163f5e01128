//! What the ledger says that requests cost, compared with the provider's own bill and with access lines, to the nanodollar: in logs, in
//! their attempts and in analytics.
//!
//! How an attempt is charged is tested in `usage.rs`.

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::settings::STANDARD;
use crate::support::sse::events;
use crate::support::stores::on_each_store;
use crate::support::{Gateway, wait};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

async fn get(gateway: &Gateway, path: &str) -> Value {
    let response = gateway.control(Method::GET, path).send().await.unwrap();
    let status = response.status();
    let body = response.json().await.unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// The log of this trace, with its attempts.
async fn log(gateway: &Gateway, trace: &str) -> Value {
    wait::until("the log", async || {
        let found = get(gateway, &format!("/v1/logs?trace_id={trace}")).await;
        (found["total"] == 1).then_some(())
    })
    .await;
    get(gateway, &format!("/v1/logs/{trace}")).await
}

/// Cents as nanodollars; nothing for null.
fn nanodollars(cents: &Value) -> i64 {
    let exact = cents.as_f64().unwrap_or_default() * 1e7;
    assert!((exact - exact.round()).abs() < 1e-3, "{cents} is no whole number of nanodollars");
    exact.round() as i64
}

/// Dollars of an access line as nanodollars.
fn of_line(dollars: &Value) -> i64 {
    (dollars.as_f64().unwrap_or_default() * 1e9).round() as i64
}

/// What a log says that its request cost, after a look at its attempts and at its access line.
async fn cost(gateway: &Gateway, trace: &str) -> i64 {
    let log = log(gateway, trace).await;
    let line = gateway.access_line(trace).await;
    let whole = nanodollars(&log["metrics"]["cost"]);
    let attempts = log["attempts"].as_array().unwrap();
    assert_eq!(attempts.iter().map(|attempt| nanodollars(&attempt["cost"])).sum::<i64>(), whole, "{log}");
    assert_eq!(of_line(&line["cost_usd"]), whole, "{line} {log}");
    let status = line.get("cost_status").unwrap_or(&Value::Null);
    assert_eq!(&log["metrics"]["cost_status"], status, "{line} {log}");
    whole
}

/// gpt-4o-mini: 150 and 600 nanodollars a token.
async fn bill(gateway: &Gateway) -> i64 {
    let url = format!("{}/_emulator/bill", gateway.emulator_url());
    let bill: Value = client().get(url).send().await.unwrap().json().await.unwrap();
    bill["input_tokens"].as_i64().unwrap() * 150 + bill["output_tokens"].as_i64().unwrap() * 600
}

fn around_now() -> String {
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    format!("time_of_generation_min={}&time_of_generation_max={}", now - hour, now + hour)
}

/// The sum of costs by analytics, as a graph and as a group, once it counts so many requests.
async fn analysed(gateway: &Gateway, requests: u64) -> i64 {
    let times = around_now();
    wait::until("all requests in analytics", async || {
        let graph = get(gateway, &format!("/v1/analytics/graphs/requests?{times}")).await;
        (graph["summary"]["total"] == requests).then_some(())
    })
    .await;
    let graph = get(gateway, &format!("/v1/analytics/graphs/cost?{times}")).await;
    let points = graph["data_points"].as_array().unwrap();
    let total = nanodollars(&graph["summary"]["total"]);
    assert_eq!(points.iter().map(|point| nanodollars(&point["total"])).sum::<i64>(), total, "{graph}");
    // From rows, not from rollups.
    let rows = get(gateway, &format!("/v1/analytics/graphs/cost?{times}&total_units_min=0")).await;
    assert_eq!(nanodollars(&rows["summary"]["total"]), total, "{rows}");
    let groups = get(gateway, &format!("/v1/analytics/groups/model?columns=cost&{times}")).await;
    let groups = groups["data"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| nanodollars(&group["cost"])).sum::<i64>(), total);
    total
}

#[tokio::test]
async fn logs_and_analytics_sum_up_to_the_providers_bill() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let calls = (0..40).map(|number| {
            let script =
                ["tokens=5", "tokens=50", "status=429&times=1", "tokens=7&usage=errors&status=503&times=2"];
            let trace = new_trace();
            let script = format!("{}&key={trace}", script[number % 4]);
            let config = r#"{"provider":"@emulator","retry":{"attempts":3,"on_status_codes":[429,503]}}"#;
            let call = chat(&gateway, &trace, &hello(number % 3 == 0)).header("x-emulator-script", script);
            let call = call.header("x-gateway-config", config);
            async move {
                call.send().await.unwrap().error_for_status().unwrap().text().await.unwrap();
                trace
            }
        });
        let mut sum = 0;
        for trace in join_all(calls).await {
            sum += cost(&gateway, &trace).await;
        }
        let wanted = bill(&gateway).await;
        assert!(wanted > 40 * 150, "{wanted}");
        assert_eq!(sum, wanted);
        assert_eq!(analysed(&gateway, 40).await, wanted);
        // Without a price: null, and counted.
        for _ in 0..3 {
            let trace = new_trace();
            let mut body = hello(false);
            body["model"] = json!("no-price-1");
            chat(&gateway, &trace, &body).send().await.unwrap().text().await.unwrap();
            let log = log(&gateway, &trace).await;
            let metrics = &log["metrics"];
            assert_eq!(
                (&metrics["cost"], &metrics["cost_status"]),
                (&Value::Null, &json!("unknown")),
                "{log}"
            );
            assert!(metrics["total_units"].as_u64() > Some(0), "{log}");
        }
        assert_eq!(analysed(&gateway, 43).await, wanted);
        let groups =
            get(&gateway, &format!("/v1/analytics/groups/model?columns=cost&{}", around_now())).await;
        let unpriced = groups["data"].as_array().unwrap().iter().find(|group| group["model"] == "no-price-1");
        assert_eq!(
            (&unpriced.unwrap()["cost"], &unpriced.unwrap()["unpriced_requests"]),
            (&Value::Null, &json!(3))
        );
    })
    .await;
}

#[tokio::test]
async fn clients_that_leave_and_attempts_that_lose_have_their_cost_in_the_log() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let left = new_trace();
        let call = chat(&gateway, &left, &hello(true)).header("x-emulator-script", "tokens=100&gap=20");
        let mut response = call.send().await.unwrap();
        let mut text = String::new();
        while events(&text).len() < 31 {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        drop(response);
        let of_left = cost(&gateway, &left).await;
        let log_of_left = log(&gateway, &left).await;
        assert_eq!(log_of_left["metrics"]["usage_source"], "estimated", "{log_of_left}");
        assert!(of_left >= 28 * 600, "{log_of_left}");
        // The first attempt is held until it is complete, and has sent some of it when the second one is faster.
        let raced = new_trace();
        let config = json!({
            "strategy": {"mode": "fallback"},
            "hedge": {"after_ms": 300, "max_extra_ratio": 1.0},
            "stream_rescue": "buffer",
            "targets": [{"provider": "@emulator"}, {"provider": "@emulator"}]
        });
        let call = chat(&gateway, &raced, &hello(true)).header("x-gateway-config", config.to_string());
        let call = call.header("x-emulator-script", format!("tokens=60&gap=20&times=1&key={raced}"));
        call.send().await.unwrap().text().await.unwrap();
        let of_race = cost(&gateway, &raced).await;
        let log_of_race = log(&gateway, &raced).await;
        let attempts = log_of_race["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), 2, "{log_of_race}");
        let responded = |attempt: &&Value| attempt["responded"] == true;
        let winner = nanodollars(&attempts.iter().find(responded).unwrap()["cost"]);
        assert!(winner > 0 && of_race > winner, "{log_of_race}");
        assert_eq!(analysed(&gateway, 2).await, of_left + of_race);
    })
    .await;
}

#[tokio::test]
async fn a_response_from_the_cache_costs_nothing_and_is_not_of_unknown_cost() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let config = r#"{"provider":"@emulator","cache":"simple"}"#;
        for (status, is_charged) in [("MISS", true), ("HIT", false)] {
            let trace = new_trace();
            let call = chat(&gateway, &trace, &hello(false)).header("x-gateway-config", config);
            let response = call.send().await.unwrap();
            assert_eq!(response.headers()["x-gateway-cache-status"], status);
            response.text().await.unwrap();
            let log = log(&gateway, &trace).await;
            let costs = [&log["metrics"]["cost"], &log["attempts"][0]["cost"]].map(Value::as_f64);
            assert_eq!(costs.map(|cost| cost.map(|cost| cost > 0.0)), [Some(is_charged); 2], "{log}");
        }
    })
    .await;
}
