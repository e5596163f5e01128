//! What pages of the console need of the API beyond what others call: the limits over a key, a provider that is tried, the settings in
//! force, guardrails that failed as a filter, and single entries of the audit log.

use crate::support::client::{client, new_trace, status};
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use crate::support::upstream::Upstream;
use crate::support::{Gateway, wait};
use reqwest::Method;
use serde_json::{Value, json};

const TEAM: &str = "tp-team-0123456789";

fn settings() -> String {
    format!(
        "{LISTEN}
auth:
  keys:
    - {{name: operator, key: {OPERATOR_KEY}}}
    - {{name: team, key: {TEAM}, workspace: team}}
custom_hosts: {{allow: [127.0.0.1]}}
limits:
  max_body_bytes: 5000000
providers:
  emulator: {{provider: openai, api_key: k-secret-of-the-file, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}
  away: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:9/v1'}}
"
    )
}

async fn started() -> Gateway {
    let gateway = Gateway::start(&settings());
    gateway.create("/v1/admin/workspaces", &json!({"name": "team", "slug": "team"})).await;
    gateway
}

async fn call(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    let response = call.header("x-gateway-api-key", key).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn read(gateway: &Gateway, key: &str, path: &str) -> Value {
    let (status, body) = call(gateway, key, Method::GET, path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// A chat of the team, with this text.
async fn chat(gateway: &Gateway, text: &str, config: &Value) -> (String, u16) {
    let trace = new_trace();
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]});
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
    let call = call.header("x-gateway-api-key", TEAM).header("x-gateway-config", config.to_string());
    let status = status(call.header("x-gateway-trace-id", &trace)).await;
    (trace, status)
}

#[tokio::test]
async fn a_key_sees_every_limit_over_it_and_what_is_left() {
    let gateway = started().await;
    let team = json!({"workspace_id": "team", "scopes": ["completions.write"], "name": "limited",
        "usage_limits": {"type": "requests", "credit_limit": 10}});
    let made = gateway.create("/v1/api-keys/workspace/service", &team).await;
    let key = made["key"].as_str().unwrap();
    let policy = |name: &str, conditions: Value, group: &[&str], more: Value| {
        let groups: Vec<Value> = group.iter().map(|key| json!({"key": key})).collect();
        let mut body = json!({"name": name, "type": "requests", "credit_limit": 5, "conditions": conditions, "group_by": groups});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let any = json!([{"key": "api_key", "value": "*"}]);
    let other = json!([{"key": "api_key", "value": uuid::Uuid::nil()}]);
    let of_team = json!({"workspace_id": "team"});
    for body in [
        policy("each key", any.clone(), &["api_key"], of_team.clone()),
        policy("another key", other, &["api_key"], of_team.clone()),
        policy("each user", any.clone(), &["metadata._user"], of_team.clone()),
        policy("another team", any, &["api_key"], json!({"workspace_id": "default"})),
    ] {
        gateway.create("/v1/policies/usage-limits", &body).await;
    }
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]});
    let call = call.header("x-gateway-api-key", key).header("x-gateway-provider", "@emulator").json(&body);
    assert_eq!(status(call).await, 200);
    let limits = wait::until("what was used", async || {
        let limits = read(&gateway, key, "/v1/api-keys/self/limits").await["data"].take();
        (limits[0]["used"]["current_usage"] == 1).then_some(limits)
    })
    .await;
    let mut shown: Vec<(&str, &str, &Value, &Value)> = Vec::new();
    for one in limits.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        shown.push((one["scope"].as_str().unwrap(), name, &one["used"]["remaining"], &one["depends_on"]));
    }
    shown.sort_by_key(|one| (one.0, one.1));
    let none = json!([]);
    assert_eq!(
        shown,
        [
            ("key", "limited", &json!(9), &none),
            ("policy", "each key", &json!(4), &none),
            ("policy", "each user", &Value::Null, &json!(["metadata._user"])),
        ],
        "{limits}"
    );
}

#[tokio::test]
async fn a_provider_is_tried_with_the_rights_of_the_calling_key() {
    let gateway = started().await;
    let path = "/v1/providers/emulator/test";
    let (status, refused) = call(&gateway, OPERATOR_KEY, Method::POST, path, &json!({})).await;
    assert_eq!((status, &refused["error"]["param"]), (400, &json!("model")), "{refused}");
    let (status, tested) = call(&gateway, TEAM, Method::POST, path, &json!({"model": "gpt-4o-mini"})).await;
    assert_eq!(
        (status, &tested["is_success"], &tested["status"]),
        (200, &json!(true), &json!(200)),
        "{tested}"
    );
    let trace = tested["trace_id"].as_str().unwrap();
    let log = wait::until("its log", async || {
        let logs = read(&gateway, TEAM, &format!("/v1/logs?trace_id={trace}")).await;
        logs["data"].get(0).cloned()
    })
    .await;
    assert_eq!((&log["api_key_name"], &log["virtual_key"]), (&json!("team"), &json!("emulator")), "{log}");
    let models = read(&gateway, TEAM, "/v1/providers/emulator/models").await;
    assert!(models["data"].as_array().is_some_and(|models| !models.is_empty()), "{models}");
    assert_eq!((&models["is_success"], &models["status"]), (&json!(true), &json!(200)), "{models}");
    let away = json!({"model": "gpt-4o-mini"});
    let (status, tested) = call(&gateway, TEAM, Method::POST, "/v1/providers/away/test", &away).await;
    assert_eq!(
        (status, &tested["is_success"], &tested["status"]),
        (200, &json!(false), &json!(502)),
        "{tested}"
    );
    assert!(tested["message"].as_str().is_some_and(|message| !message.is_empty()), "{tested}");
    assert_eq!(call(&gateway, TEAM, Method::POST, "/v1/providers/none/test", &away).await.0, 404);
    // A stored one, by its id, in a workspace that is not the calling key's own.
    let stored = json!({"name": "theirs", "slug": "theirs", "provider": "openai", "key": "k", "workspace_id": "team",
        "configurations": {"custom_host": format!("{}/v1", gateway.emulator_url())}});
    let id = gateway.create("/v1/providers", &stored).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/providers/{id}/test");
    let (status, tested) = call(&gateway, OPERATOR_KEY, Method::POST, &path, &away).await;
    assert_eq!((status, &tested["is_success"]), (200, &json!(true)), "{tested}");
}

/// A vendor that refuses its key, or sends no list: neither is what the client of the control port gets as its own status.
#[tokio::test]
async fn what_a_vendor_refuses_is_not_the_status_of_the_call() {
    let gateway = started().await;
    let refusing = Upstream::start(|mut connection| async move {
        let request = connection.request().await.unwrap_or_default();
        let (status, body) = match request.contains("/html/") {
            true => ("200 OK", "<html>"),
            false => ("401 Unauthorized", r#"{"error":{"message":"Incorrect API key provided"}}"#),
        };
        let length = body.len();
        connection.write(&format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")).await;
    })
    .await;
    for (slug, path, wanted, reason) in
        [("refused", "/v1", 401, "Incorrect API key"), ("no-list", "/html", 200, "list of models")]
    {
        let host = format!("http://127.0.0.1:{}{path}", refusing.port);
        let body = json!({"name": slug, "slug": slug, "provider": "openai", "key": "wrong", "workspace_id": "team",
            "configurations": {"custom_host": host}});
        gateway.create("/v1/providers", &body).await;
        let models = read(&gateway, TEAM, &format!("/v1/providers/{slug}/models")).await;
        assert_eq!((&models["is_success"], &models["status"]), (&json!(false), &json!(wanted)), "{models}");
        assert!(models["message"].as_str().is_some_and(|why| why.contains(reason)), "{models}");
        assert_eq!(models["data"], json!([]));
    }
}

#[tokio::test]
async fn the_provider_that_is_named_is_the_one_that_is_tried() {
    let gateway = started().await;
    gateway.create("/v1/admin/workspaces", &json!({"name": "other", "slug": "other"})).await;
    let good = format!("{}/v1", gateway.emulator_url());
    for (workspace, host) in [("team", "http://127.0.0.1:9/v1"), ("other", good.as_str())] {
        let body = json!({"name": "shared", "slug": "shared", "provider": "openai", "key": "k", "workspace_id": workspace,
            "configurations": {"custom_host": host}});
        gateway.create("/v1/providers", &body).await;
    }
    let model = json!({"model": "gpt-4o-mini"});
    for (workspace, is_success) in [("team", false), ("other", true)] {
        let path = format!("/v1/providers/shared/test?workspace_id={workspace}");
        let (status, tested) = call(&gateway, OPERATOR_KEY, Method::POST, &path, &model).await;
        assert_eq!((status, &tested["is_success"]), (200, &json!(is_success)), "{workspace}: {tested}");
        let (status, models) =
            call(&gateway, OPERATOR_KEY, Method::GET, &path.replace("/test", "/models"), &model).await;
        assert_eq!((status, &models["is_success"]), (200, &json!(is_success)), "{workspace}: {models}");
    }
    // The settings' provider of this slug is the one that requests mean.
    let id = gateway
        .create(
            "/v1/providers",
            &json!({"name": "later", "slug": "later", "provider": "openai", "key": "k",
        "workspace_id": "team", "configurations": {"custom_host": good}}),
        )
        .await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/providers/{id}/test");
    assert_eq!(call(&gateway, OPERATOR_KEY, Method::POST, &path, &model).await.0, 200);
    gateway.reload(&settings().replace("  away:", "  later:"));
    wait::until("the settings' provider", async || {
        (call(&gateway, OPERATOR_KEY, Method::POST, &path, &model).await.0 == 400).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_value_that_waits_for_a_restart_is_shown_with_the_one_in_force() {
    let gateway = started().await;
    let of = async |path: &str| {
        let shown = read(&gateway, OPERATOR_KEY, "/v1/settings").await;
        shown["data"].as_array().unwrap().iter().find(|one| one["path"] == path).cloned().unwrap()
    };
    let before = of("logs.queue_max_bytes").await;
    gateway.reload(&format!("{}logs: {{queue_max_bytes: 20000000}}\n", settings()));
    wait::until("what waits", async || {
        (!of("logs.queue_max_bytes").await["waiting"].is_null()).then_some(())
    })
    .await;
    let after = of("logs.queue_max_bytes").await;
    assert_eq!((&after["value"], &after["line"]), (&before["value"], &before["line"]), "{after}");
    assert_eq!(after["waiting"], 20_000_000);
}

#[tokio::test]
async fn settings_are_shown_with_their_lines_and_without_secrets() {
    let gateway = started().await;
    let shown = read(&gateway, OPERATOR_KEY, "/v1/settings").await;
    let one = |path: &str| {
        let found = shown["data"].as_array().unwrap().iter().find(|one| one["path"] == path);
        found.unwrap_or_else(|| panic!("{path}: {shown}")).clone()
    };
    let body = one("limits.max_body_bytes");
    assert_eq!(body["value"], 5_000_000);
    let file = std::fs::read_to_string(shown["file"].as_str().unwrap()).unwrap();
    let line = file.lines().position(|line| line.contains("max_body_bytes")).unwrap() + 1;
    assert_eq!(body["line"], line);
    assert_eq!(one("logs.enabled")["line"], Value::Null);
    for secret in [OPERATOR_KEY, TEAM, "k-secret-of-the-file"] {
        assert!(!shown.to_string().contains(secret), "{shown}");
    }
    assert_eq!(call(&gateway, TEAM, Method::GET, "/v1/settings", &Value::Null).await.0, 403);
}

#[tokio::test]
async fn requests_are_found_by_the_guardrail_that_failed() {
    let gateway = started().await;
    let checks =
        json!([{"id": "default.contains", "parameters": {"operator": "none", "words": ["password"]}}]);
    for slug in ["no-secrets", "no-secrets-at-all"] {
        let body = json!({"name": slug, "slug": slug, "checks": checks, "actions": {"deny": true}, "workspace_id": "team"});
        gateway.create("/v1/guardrails", &body).await;
    }
    let config = json!({"provider": "@emulator", "input_guardrails": ["no-secrets"]});
    let (good, status) = chat(&gateway, "Hello", &config).await;
    assert_eq!(status, 200);
    let (denied, status) = chat(&gateway, "My password is x.", &config).await;
    assert_eq!(status, 446);
    wait::until("both logs", async || (read(&gateway, TEAM, "/v1/logs").await["total"] == 2).then_some(()))
        .await;
    let found = read(&gateway, TEAM, "/v1/logs?guardrails=other,no-secrets").await;
    assert_eq!(
        (&found["total"], &found["data"][0]["trace_id"]),
        (&json!(1), &json!(denied)),
        "not {good}: {found}"
    );
    assert_eq!(found["data"][0]["guardrails"], json!(["no-secrets"]));
    assert_eq!(read(&gateway, TEAM, "/v1/logs?guardrails=secrets").await["total"], 0);
    assert_eq!(read(&gateway, TEAM, "/v1/logs?guardrails=no-secrets-at-all").await["total"], 0);
}

#[tokio::test]
async fn an_entry_of_the_audit_log_is_read_by_the_id_of_its_call() {
    let gateway = started().await;
    let all = read(&gateway, OPERATOR_KEY, "/v1/audit-logs").await;
    let entry = &all["records"][0];
    let id = entry["request_id"].as_str().unwrap();
    assert_eq!(&read(&gateway, OPERATOR_KEY, &format!("/v1/audit-logs/{id}")).await, entry);
    for (key, id, wanted) in [(OPERATOR_KEY, "none", 404), (TEAM, id, 403)] {
        let (status, _) =
            call(&gateway, key, Method::GET, &format!("/v1/audit-logs/{id}"), &Value::Null).await;
        assert_eq!(status, wanted, "{id}");
    }
}
