//! No route of logs, analytics or feedback shows a key of one workspace what belongs to another: generated from the routes themselves.
//!
//! Exports are tested in `log_exports.rs`, the routes of other objects in `control_access.rs`.

use crate::support::client::{client, hello};
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use crate::support::stores::on_each_store;
use crate::support::{Gateway, wait};
use control::openapi_document;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

const ONE: &str = "tp-one-0123456789";
const TWO: &str = "tp-two-0123456789";
/// In all that belongs to the second workspace.
const CANARY: &str = "canary-two";

fn settings() -> String {
    format!(
        "{LISTEN}
auth:
  keys:
    - {{name: operator, key: {OPERATOR_KEY}}}
    - {{name: one, key: {ONE}, workspace: one}}
    - {{name: {CANARY}-key, key: {TWO}, workspace: {CANARY}-ws}}
custom_hosts: {{allow: [127.0.0.1]}}
providers:
  emulator: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}
"
    )
}

async fn get(gateway: &Gateway, key: &str, path: &str) -> (u16, String) {
    let call = client().get(format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", key);
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn post(gateway: &Gateway, key: &str, path: &str, body: &Value) -> Value {
    let call = client().post(format!("{}{path}", gateway.control_url())).header("x-gateway-api-key", key);
    let response = call.json(body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.unwrap()
}

async fn chat(gateway: &Gateway, key: &str, name: &str) {
    let mut body = hello(false);
    body["model"] = json!(format!("{name}-model"));
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
    let call = call.header("x-gateway-api-key", key).header("x-gateway-provider", "@emulator");
    let metadata = json!({"_user": format!("{name}-user"), "team": format!("{name}-team")}).to_string();
    let call =
        call.header("x-gateway-trace-id", format!("{name}-trace")).header("x-gateway-metadata", metadata);
    let call = call.header("x-gateway-span-id", format!("{name}-span"));
    assert_eq!(call.send().await.unwrap().status(), 200);
}

/// Two workspaces, three requests of the first and four of the second, and feedback of both on all of them. Returns the ids of
/// the second's log and feedback.
async fn filled() -> (Gateway, String, String) {
    let gateway = Gateway::start(&settings());
    for slug in ["one".to_owned(), format!("{CANARY}-ws")] {
        post(&gateway, OPERATOR_KEY, "/v1/admin/workspaces", &json!({"name": slug, "slug": slug})).await;
    }
    for _ in 0..3 {
        chat(&gateway, ONE, "one").await;
    }
    for _ in 0..4 {
        chat(&gateway, TWO, CANARY).await;
    }
    post(&gateway, ONE, "/v1/feedback", &json!({"trace_id": "one-trace", "value": 1})).await;
    let of_two =
        json!([{"trace_id": format!("{CANARY}-trace"), "value": 9}, {"trace_id": "one-trace", "value": 9}]);
    let feedback = post(&gateway, TWO, "/v1/feedback", &of_two).await;
    let log = wait::until("all logs", async || {
        let (_, all) = get(&gateway, OPERATOR_KEY, "/v1/logs").await;
        let all: Value = serde_json::from_str(&all).unwrap();
        let is_of_two = |log: &&Value| log["trace_id"] == format!("{CANARY}-trace");
        let log = all["data"].as_array().unwrap().iter().find(is_of_two)?;
        (all["total"] == 7).then(|| log["id"].as_str().unwrap().to_owned())
    })
    .await;
    (gateway, log, feedback["feedback_ids"][0].as_str().unwrap().to_owned())
}

/// The routes that read what the ledger has, with values for their parameters, but for the log of an id and exports.
fn routes() -> Vec<String> {
    let groups =
        ["ai_service", "model", "status_code", "api_key", "config", "workspace", "provider", "prompt"];
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let of_ledger = |path: &&String| {
        let is_one = path.starts_with("/v1/analytics/") || path.starts_with("/v1/logs");
        is_one && !path.contains("export") && !path.starts_with("/v1/logs/{id}")
            // It does not end; `log_tail.rs` reads it.
            && **path != "/v1/logs/tail"
    };
    let readable = paths.iter().filter(|(_, item)| item.get("get").is_some()).map(|(path, _)| path);
    let filled = |path: &String| -> Vec<String> {
        let path = path.replace("{metadataKey}", "team");
        if path.contains("{groupBy}") {
            groups.iter().map(|group| path.replace("{groupBy}", group)).collect()
        } else {
            vec![path]
        }
    };
    readable.filter(of_ledger).flat_map(filled).collect()
}

/// All numbers in the response that count something.
fn is_empty(body: &Value) -> bool {
    match body["object"].as_str() {
        Some("list") => body["total"] == 0 && body["data"] == json!([]),
        Some("analytics-summary") => body["summary"]["total_requests"] == 0,
        _ => {
            let counts = |value: &Value| value.as_f64().is_none_or(|number| number == 0.0);
            body["summary"].as_object().unwrap().values().all(counts)
        }
    }
}

#[tokio::test]
async fn no_route_shows_what_belongs_to_another_workspace() {
    on_each_store(async || {
        let (gateway, log, feedback) = filled().await;
        let now = Timestamp::now();
        let hour = SignedDuration::from_hours(1);
        let times = format!("time_of_generation_min={}&time_of_generation_max={}", now - hour, now + hour);
        let filters = [
            format!("trace_id={CANARY}-trace"),
            format!("span_id={CANARY}-span"),
            format!("ai_model={CANARY}-model"),
            format!("ai_org_model=openai__{CANARY}-model"),
            format!("api_key_ids={CANARY}-key"),
            format!("metadata=%7B%22team%22:%22{CANARY}-team%22%7D"),
        ];
        let routes = routes();
        assert!(routes.len() > 30, "{routes:?}");
        for route in &routes {
            let columns = if route.contains("/groups/") { "&columns=cost" } else { "" };
            let (status, text) = get(&gateway, ONE, &format!("{route}?{times}{columns}")).await;
            assert_eq!(status, 200, "{route}: {text}");
            assert!(!text.contains(CANARY), "{route}: {text}");
            // The other one sees its own, and the operator both.
            if route.ends_with("/requests") || route.ends_with("/v1/logs") {
                let total = |text: &str| {
                    let body: Value = serde_json::from_str(text).unwrap();
                    body["summary"]["total"].as_u64().or(body["total"].as_u64()).unwrap_or_default()
                };
                let is_by_user = route.contains("users");
                assert!(is_by_user || total(&text) == 3, "{route}: {text}");
                let (_, text) = get(&gateway, TWO, &format!("{route}?{times}")).await;
                assert!(is_by_user || total(&text) == 4, "{route}: {text}");
            }
            for filter in &filters {
                let (status, text) = get(&gateway, ONE, &format!("{route}?{times}&{filter}")).await;
                let body: Value = serde_json::from_str(&text).unwrap();
                assert!(status == 200 && is_empty(&body), "{route}?{filter}: {text}");
            }
            for name in ["workspace_slug", "workspace_id"] {
                let (status, text) = get(&gateway, ONE, &format!("{route}?{times}&{name}={CANARY}-ws")).await;
                assert_eq!(status, 403, "{route}: {text}");
            }
        }
        // Feedback of another workspace on the same trace does not count.
        let (_, weighted) =
            get(&gateway, ONE, &format!("/v1/analytics/graphs/feedbacks/weighted?{times}")).await;
        let weighted: Value = serde_json::from_str(&weighted).unwrap();
        assert_eq!(weighted["summary"]["avg"], 1.0, "{weighted}");
        for id in [&log, &format!("{CANARY}-trace")] {
            assert_eq!(get(&gateway, ONE, &format!("/v1/logs/{id}")).await.0, 404);
            assert_eq!(get(&gateway, TWO, &format!("/v1/logs/{id}")).await.0, 200);
            // Compared with itself, by whom may see it.
            let compare = format!("/v1/logs/{id}/prompt-cache?after={id}");
            assert_eq!(get(&gateway, ONE, &compare).await.0, 404);
            assert_eq!(get(&gateway, TWO, &compare).await.0, 400);
        }
        let change = gateway.control_url() + "/v1/feedback/" + &feedback;
        for (key, wanted) in [(ONE, 404), (TWO, 200)] {
            let call = client().request(Method::PUT, &change).header("x-gateway-api-key", key);
            assert_eq!(call.json(&json!({"value": 0})).send().await.unwrap().status().as_u16(), wanted);
        }
    })
    .await;
}
