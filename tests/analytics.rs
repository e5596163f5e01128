//! Groups and graphs over requests that were really made, on both databases: what they show, what they refuse, and who may see what.
//!
//! That the sums are those of the rows is tested beside the code (`src/memory/ledger/analytics/tests.rs`).

use crate::support::client::client;
use crate::support::{Gateway, stores, wait};
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

const SETTINGS: &str = "
auth:
  keys:
    - {name: tests, key: tp-tests-0123456789}
    - {name: operator, key: tp-operator-0123456789, scopes: [administration]}
    - {name: viewer, key: tp-viewer-0123456789, scopes: [analytics.view]}
custom_hosts: {allow: [127.0.0.1]}
providers:
  emulator: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
  other: {provider: groq, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
";
const KEY: &str = "tp-tests-0123456789";
const GRAPHS: [&str; 17] = [
    "requests",
    "cost",
    "latency",
    "tokens",
    "users",
    "users/requests",
    "errors",
    "errors/rate",
    "errors/stacks",
    "errors/status-codes",
    "requests/rescued",
    "cache/hit-rate",
    "cache/latency",
    "feedbacks",
    "feedbacks/scores",
    "feedbacks/weighted",
    "feedbacks/ai-models",
];

/// The same settings on each store.
fn gateways() -> Vec<Gateway> {
    stores::gateways(SETTINGS)
}

/// The last hour and the next.
fn around_now() -> String {
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    format!("time_of_generation_min={}&time_of_generation_max={}", now - hour, now + hour)
}

/// Status and body of a call with the times of `around_now`.
async fn get(gateway: &Gateway, path: &str, parameters: &str) -> (u16, Value) {
    let url = format!("/v1/{path}?{}&{parameters}", around_now());
    let response = gateway.control(Method::GET, &url).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The body of a call that must succeed.
async fn shown(gateway: &Gateway, path: &str, parameters: &str) -> Value {
    let (status, body) = get(gateway, path, parameters).await;
    assert_eq!(status, 200, "{path}?{parameters}: {body}");
    body
}

async fn chat(gateway: &Gateway, key: &str, config: Value, model: &str, user: &str) -> u16 {
    let url = format!("{}/chat/completions", gateway.base_url());
    let call =
        client().post(url).header("x-gateway-api-key", key).header("x-gateway-config", config.to_string());
    let call = call.header("x-gateway-metadata", json!({"_user": user, "team": "red"}).to_string());
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    call.json(&body).send().await.unwrap().status().as_u16()
}

/// Three good calls of ann, a refused one of bob, one that a retry and one that a fallback saves.
async fn made_requests(gateway: &Gateway) {
    let at = |provider: &str| json!({"provider": provider});
    for _ in 0..3 {
        assert_eq!(chat(gateway, KEY, at("@emulator"), "gpt-4o", "ann").await, 200);
    }
    assert_eq!(chat(gateway, KEY, at("@other"), "small?status=429", "bob").await, 429);
    let retry = json!({"provider": "@emulator", "retry": {"attempts": 2}});
    assert_eq!(chat(gateway, KEY, retry, "gpt-4o?status=503&times=1&key=retried", "ann").await, 200);
    let target =
        |provider: &str, model: &str| json!({"provider": provider, "override_params": {"model": model}});
    let fallback = json!({
        "strategy": {"mode": "fallback"},
        "targets": [target("@other", "small?status=500"), target("@emulator", "gpt-4o")]
    });
    assert_eq!(chat(gateway, KEY, fallback, "gpt-4o", "ann").await, 200);
    wait::until("six requests", async || {
        let graph = shown(gateway, "analytics/graphs/requests", "").await;
        (graph["summary"]["total"] == 6).then_some(())
    })
    .await;
}

#[tokio::test]
async fn groups_without_times_are_of_the_last_thirty_days() {
    for gateway in gateways() {
        made_requests(&gateway).await;
        let groups = async |path: &str| {
            let response = gateway.control(Method::GET, path).send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            let body: Value = response.json().await.unwrap();
            let requests = body["data"].as_array().unwrap().iter();
            requests
                .map(|group| {
                    group["requests"]
                        .as_str()
                        .map_or(group["requests"].as_u64(), |text| text.parse().ok())
                        .unwrap()
                })
                .sum::<u64>()
        };
        for path in [
            "analytics/groups/model",
            "logs/groups/model",
            "analytics/groups/status_code",
            "logs/groups/provider",
        ] {
            assert_eq!(groups(&format!("/v1/{path}")).await, 6, "{path}");
        }
        for path in ["analytics/groups/users", "analytics/groups/ai-models", "analytics/groups/metadata/team"]
        {
            assert_eq!(groups(&format!("/v1/{path}")).await, 6, "{path}");
        }
        // One of the two is enough, and the other is 30 days away from it, or now.
        let at = |days: i64| Timestamp::now() - SignedDuration::from_hours(24 * days);
        for (times, wanted) in [
            (format!("time_of_generation_min={}", at(1)), 6),
            (format!("time_of_generation_max={}", at(-29)), 6),
            (format!("time_of_generation_max={}", at(-31)), 0),
            (format!("time_of_generation_max={}", at(1)), 0),
        ] {
            assert_eq!(groups(&format!("/v1/analytics/groups/model?{times}")).await, wanted, "{times}");
        }
    }
}

#[tokio::test]
async fn groups_and_graphs_show_what_was_requested() {
    for gateway in gateways() {
        made_requests(&gateway).await;
        groups(&gateway).await;
        graphs(&gateway).await;
        filters(&gateway).await;
    }
}

async fn groups(gateway: &Gateway) {
    let body = shown(gateway, "logs/groups/status_code", "").await;
    let expected = json!({"object": "list", "total": 2, "data": [
        {"status_code": 200, "requests": 5, "object": "analytics-group"},
        {"status_code": 429, "requests": 1, "object": "analytics-group"},
    ]});
    assert_eq!(body, expected);
    let body =
        shown(gateway, "analytics/groups/provider", "columns=cost,p95_latency,success_rate,error_count")
            .await;
    assert_eq!(body["total"], 2);
    let first = &body["data"][0];
    assert_eq!((&first["provider"], &first["requests"]), (&json!("emulator"), &json!(5)));
    assert_eq!((&first["success_rate"], &first["error_count"]), (&json!(100.0), &json!(0)));
    assert!(first["p95_latency"].as_f64().unwrap() > 0.0, "{first}");
    assert!(first.get("cost").is_some(), "{first}");
    let ordered =
        shown(gateway, "analytics/groups/ai_service", "order_by=error_count&columns=total_tokens").await;
    assert_eq!(ordered["data"][0]["ai_service"], "groq");
    assert!(ordered["data"][1]["total_tokens"].as_u64().unwrap() > 100, "{ordered}");
    let page = shown(gateway, "analytics/groups/ai_service", "page_size=1&current_page=1&order=asc").await;
    assert_eq!((&page["total"], &page["data"][0]["ai_service"]), (&json!(2), &json!("openai")));
    let keys = shown(gateway, "analytics/groups/api_key", "columns=first_seen,last_seen").await;
    assert_eq!((&keys["data"][0]["name"], &keys["data"][0]["requests"]), (&json!("tests"), &json!(6)));
    assert!(keys["data"][0]["first_seen"].as_str() <= keys["data"][0]["last_seen"].as_str(), "{keys}");
    let none = shown(gateway, "analytics/groups/prompt", "").await;
    assert_eq!((&none["data"][0]["prompt"], &none["data"][0]["name"]), (&Value::Null, &Value::Null));
    let workspaces = shown(gateway, "analytics/groups/workspace", "").await;
    assert_eq!((&workspaces["total"], &workspaces["data"][0]["requests"]), (&json!(1), &json!(6)));
    assert!(workspaces["data"][0]["name"].is_string(), "{workspaces}");
    let users = shown(gateway, "analytics/groups/users", "").await;
    assert_eq!(users["total"], 2);
    assert_eq!((&users["data"][0]["user"], &users["data"][0]["requests"]), (&json!("ann"), &json!("5")));
    let models = shown(gateway, "analytics/groups/ai-models", "").await;
    assert_eq!(
        (&models["data"][0]["ai_model"], &models["data"][0]["requests"]),
        (&json!("gpt-4o"), &json!("4"))
    );
    let teams = shown(gateway, "analytics/groups/metadata/team", "").await;
    let team = &teams["data"][0];
    assert_eq!((&team["metadata_value"], &team["requests"]), (&json!("red"), &json!(6)));
    assert_eq!((&team["requests_with_feedback"], &team["avg_weighted_feedback"]), (&json!(0), &Value::Null));
    assert_eq!(shown(gateway, "analytics/groups/metadata/nothing", "").await["total"], 0);
}

async fn graphs(gateway: &Gateway) {
    for graph in GRAPHS {
        let body = shown(gateway, &format!("analytics/graphs/{graph}"), "granularity=minute").await;
        assert_eq!(body["object"], "analytics-graph", "{graph}");
        assert!(body["summary"].is_object(), "{graph}: {body}");
        let points = body["data_points"].as_array().unwrap();
        let has_times = !matches!(graph, "errors/status-codes" | "feedbacks/scores" | "feedbacks/ai-models");
        assert_eq!(points.len() >= 120, has_times, "{graph}: {body}");
        assert!(points.iter().all(|point| point["timestamp"].is_string() == has_times), "{graph}: {body}");
    }
    let graph =
        async |path: &str| shown(gateway, &format!("analytics/graphs/{path}"), "granularity=hour").await;
    let sum = |body: &Value, name: &str| -> u64 {
        body["data_points"].as_array().unwrap().iter().filter_map(|point| point[name].as_u64()).sum()
    };
    assert_eq!(sum(&graph("requests").await, "total"), 6);
    assert_eq!(graph("users").await["summary"], json!({"total": 2}));
    assert_eq!(graph("users/requests").await["summary"], json!({"total": 6, "unique": 2, "avg": 3.0}));
    assert_eq!(graph("errors").await["summary"], json!({"total": 1}));
    assert_eq!(graph("errors/rate").await["summary"], json!({"rate": 16.67}));
    let codes = graph("errors/status-codes").await;
    assert_eq!(codes["summary"], json!({"total_errors": 1, "unique_error_codes": 1}));
    assert_eq!(codes["data_points"], json!([{"status_code": 429, "count": 1}]));
    let stacks = graph("errors/stacks").await;
    let stats =
        stacks["data_points"].as_array().unwrap().iter().find(|point| point["stats"] != json!([])).unwrap();
    assert_eq!(stats["stats"], json!([{"response_status_code": 429, "count": 1}]));
    let rescued = graph("requests/rescued").await;
    assert_eq!(rescued["summary"], json!({"retry": 1, "fallback": 1}));
    assert!(rescued.to_string().contains(r#""retry_success_count":1"#), "{rescued}");
    assert_eq!(graph("cache/hit-rate").await["summary"], json!({"total": 0, "rate": 0.0}));
    let latency = graph("latency").await;
    let [p50, p99] = ["p50", "p99"].map(|name| latency["summary"][name].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99, "{latency}");
    assert!(graph("tokens").await["summary"]["total"].as_u64().unwrap() > 0);
    let cache = shown(gateway, "analytics/summary/cache", "").await;
    let summary =
        json!({"hits": 0, "avg_latency": 0.0, "total_requests": 6, "cache_speedup": 0.0, "saved_cost": 0.0});
    assert_eq!(cache, json!({"object": "analytics-summary", "summary": summary}));
}

async fn filters(gateway: &Gateway) {
    let cases = [
        ("status_code=429", 1),
        ("status_code=429,200", 6),
        ("virtual_keys=emulator", 5),
        ("virtual_keys=nothing", 0),
        ("ai_model=gpt-4o", 4),
        ("ai_org_model=openai__gpt-4o", 4),
        ("ai_org_model=groq__gpt-4o", 0),
        ("api_key_ids=tests", 6),
        ("total_units_min=1", 5),
        ("total_units_max=1000000&prompt_token_min=1000000", 0),
        ("metadata=%7B%22_user%22%3A%22bob%22%2C%22team%22%3A%22red%22%7D", 1),
        ("trace_id=no-such-trace", 0),
        ("weighted_feedback_min=0", 0),
        ("cost_max=0&configs=none", 0),
        ("strange=1&utm_source=x", 6),
    ];
    for (parameters, expected) in cases {
        let body = shown(gateway, "analytics/graphs/requests", parameters).await;
        assert_eq!(body["summary"]["total"], expected, "{parameters}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_its_path() {
    let gateway = Gateway::start(SETTINGS);
    let cases = [
        ("status_code=4xx", "status_code"),
        ("cost_min=cheap", "cost_min"),
        ("cost_min=-1", "cost_min"),
        ("total_units_min=1.5", "total_units_min"),
        ("metadata=%7B", "metadata"),
        ("metadata=%7B%22a%22%3A%5B%5D%7D", "metadata.a"),
        ("ai_org_model=gpt-4o", "ai_org_model"),
        ("cache_status=warm", "cache_status"),
        ("weighted_feedback_max=11", "weighted_feedback_max"),
        ("page_size=0", "page_size"),
        ("columns=cost,colour", "columns"),
        ("order_by=colour", "order_by"),
    ];
    for (parameters, path) in cases {
        let (status, body) = get(&gateway, "analytics/groups/model", parameters).await;
        assert_eq!(status, 400, "{parameters}: {body}");
        assert_eq!(body["error"]["details"][0]["path"], path, "{parameters}: {body}");
    }
    let (status, body) = get(&gateway, "analytics/groups/colour", "").await;
    assert_eq!(status, 400);
    let message = body["error"]["message"].as_str().unwrap();
    for name in ["ai_service", "model", "status_code", "api_key", "config", "workspace", "provider", "prompt"]
    {
        assert!(message.contains(name), "{message}");
    }
    for (parameters, param) in [("timezone=Mars/Base", "timezone"), ("granularity=second", "granularity")] {
        let (status, body) = get(&gateway, "analytics/graphs/cost", parameters).await;
        assert_eq!(status, 400, "{body}");
        assert!(body.to_string().contains(param), "{body}");
    }
    for (times, path) in [
        ("", "time_of_generation_min"),
        (
            "time_of_generation_min=2026-05-01&time_of_generation_max=2026-06-01T00:00:00Z",
            "time_of_generation_min",
        ),
        (
            "time_of_generation_min=2026-06-01T00:00:00Z&time_of_generation_max=2026-05-01T00:00:00Z",
            "time_of_generation_max",
        ),
    ] {
        let call = gateway.control(Method::GET, &format!("/v1/analytics/graphs/cost?{times}"));
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), 400, "{times}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["details"][0]["path"], path, "{body}");
    }
}

#[tokio::test]
async fn buckets_are_those_of_the_zone_and_empty_ones_are_there() {
    let gateway = Gateway::start(SETTINGS);
    let graph = async |times: &str| {
        let call = gateway.control(Method::GET, &format!("/v1/analytics/graphs/requests?{times}"));
        let body: Value = call.send().await.unwrap().json().await.unwrap();
        body["data_points"].as_array().unwrap_or_else(|| panic!("{body}")).clone()
    };
    // An offset whose plus is not encoded, and an end that is not included.
    let days =
        "time_of_generation_min=2026-03-28T00:00:00+01:00&time_of_generation_max=2026-03-31T00:00:00+02:00";
    let points = graph(&format!("{days}&granularity=day&timezone=Europe/Berlin")).await;
    let expected = ["2026-03-27T23:00:00.000Z", "2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"];
    assert_eq!(points, expected.map(|timestamp| json!({"total": 0, "timestamp": timestamp})));
    let chosen = async |max: &str| {
        let times = format!("time_of_generation_min=2026-01-01T00:00:00Z&time_of_generation_max={max}");
        graph(&times).await.len()
    };
    assert_eq!(chosen("2026-01-01T03:00:00Z").await, 180);
    assert_eq!(chosen("2026-01-04T00:00:00Z").await, 72);
    assert_eq!(chosen("2026-04-03T00:00:00Z").await, 92);
    assert_eq!(chosen("2026-12-31T00:00:00Z").await, 53);
    let many = "time_of_generation_min=2026-01-01T00:00:00Z&time_of_generation_max=2026-12-01T00:00:00Z&granularity=minute";
    let response =
        gateway.control(Method::GET, &format!("/v1/analytics/graphs/cost?{many}")).send().await.unwrap();
    assert_eq!(response.status(), 400);
}

/// A workspace with a key of its own that may call and look at analytics.
pub(crate) async fn workspace(gateway: &Gateway, name: &str) -> (String, String) {
    let made = gateway.create("/v1/admin/workspaces", &json!({"name": name, "slug": name})).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let scopes = ["completions.write", "analytics.view", "logs.list"];
    let body = json!({"name": name, "workspace_id": id, "scopes": scopes});
    let key = gateway.create("/v1/api-keys/workspace/service", &body).await;
    (id, key["key"].as_str().unwrap().to_owned())
}

/// The requests of a graph, or of the first group; the status where that is not 200.
async fn total_with(gateway: &Gateway, key: &str, path: &str, parameters: &str) -> u64 {
    let url = format!("{}/v1/{path}?{}&{parameters}", gateway.data_url(), around_now());
    let response = client().get(url).header("x-gateway-api-key", key).send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    let first = &body["data"][0]["requests"];
    match status {
        200 => body["summary"]["total"]
            .as_u64()
            .or_else(|| first.as_u64())
            .or_else(|| first.as_str()?.parse().ok())
            .unwrap_or(0),
        status => u64::from(status),
    }
}

#[tokio::test]
async fn workspaces_are_kept_apart() {
    for gateway in gateways() {
        let (_, red) = workspace(&gateway, "red").await;
        let (blue_id, blue) = workspace(&gateway, "blue").await;
        for (key, calls) in [(&red, 2), (&blue, 3), (&KEY.to_owned(), 1)] {
            for _ in 0..calls {
                assert_eq!(chat(&gateway, key, json!({"provider": "@emulator"}), "gpt-4o", "ann").await, 200);
            }
        }
        let total =
            async |key: &str, path: &str, parameters: &str| total_with(&gateway, key, path, parameters).await;
        let graph = "analytics/graphs/requests";
        wait::until("all rows", async || {
            let workspaces = shown(&gateway, "analytics/groups/workspace", "").await;
            let rows = workspaces["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|group| group["requests"].as_u64().unwrap());
            (rows.sum::<u64>() == 6).then_some(())
        })
        .await;
        let viewer = "tp-viewer-0123456789";
        let foreign = format!("workspace_id={blue_id}");
        for (key, path, parameters, wanted) in [
            (red.as_str(), graph, "", 2),
            (&blue, graph, "workspace_slug=blue", 3),
            (&blue, "logs/groups/model", "", 3),
            (&blue, "analytics/groups/workspace", "", 3),
            (&red, graph, "workspace_slug=blue", 403),
            (&red, graph, &foreign, 403),
            // A key of the organisation that names none has all of them.
            (viewer, graph, "", 6),
            (viewer, "analytics/groups/model", "", 6),
            (viewer, "analytics/groups/ai-models", "", 6),
            (viewer, "analytics/groups/metadata/team", "", 6),
            (KEY, graph, "", 6),
            (viewer, graph, "workspace_slug=default", 1),
            (viewer, "analytics/groups/workspace", "workspace_slug=red", 2),
            (viewer, graph, "workspace_slug=blue", 3),
            (viewer, graph, "workspace_slug=green", 400),
            (viewer, "logs/groups/model", "", 403),
        ] {
            assert_eq!(total(key, path, parameters).await, wanted, "{path}?{parameters}");
        }
        // An archived workspace is there for the organisation's analytics, not for its logs.
        let delete =
            gateway.control(Method::DELETE, "/v1/admin/workspaces/blue").json(&json!({"force_delete": true}));
        let deleted = delete.send().await.unwrap();
        assert_eq!(deleted.status(), 200, "{}", deleted.text().await.unwrap());
        assert_eq!(total(viewer, graph, "workspace_slug=blue").await, 3);
        let operator = "tp-operator-0123456789";
        assert_eq!(total(operator, "analytics/groups/model", "workspace_slug=blue").await, 3);
        assert_eq!(total(operator, "logs/groups/model", "workspace_slug=blue").await, 400);
        assert_eq!(total(operator, "analytics/groups/model", "").await, 6);
        assert_eq!(total(operator, "logs/groups/model", "").await, 3);
    }
}
