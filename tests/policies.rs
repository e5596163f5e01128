//! Policies as objects of the control plane: acceptance examples 8, 9 and 16, workspaces, updates, pages.
//!
//! On the running binary, on SQLite and PostgreSQL. What policies do to requests is in `limited_requests`.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::settings::{KEY, STANDARD};
use crate::support::stores;
use reqwest::Method;
use serde_json::{Value, json};

/// The same settings on each store.
fn gateways() -> Vec<Gateway> {
    stores::gateways(STANDARD)
}

async fn send(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    let call = call.header("x-gateway-api-key", key);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

async fn operate(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    send(gateway, KEY, method, path, body).await
}

async fn get(gateway: &Gateway, path: &str) -> (u16, Value) {
    operate(gateway, Method::GET, path, &Value::Null).await
}

async fn make(gateway: &Gateway, path: &str, body: &Value) -> String {
    let (status, made) = operate(gateway, Method::POST, path, body).await;
    assert_eq!(status, 200, "{path}: {made}");
    made["id"].as_str().unwrap().to_owned()
}

const USAGE: &str = "/v1/policies/usage-limits";
const RATES: &str = "/v1/policies/rate-limits";

fn usage_policy() -> Value {
    json!({
        "conditions": [{"key": "metadata._user", "value": "*"}], "group_by": [{"key": "metadata._user"}],
        "type": "tokens", "credit_limit": 20,
    })
}

fn rate_policy() -> Value {
    json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}],
        "type": "requests", "unit": "rpm", "value": 2,
    })
}

fn paths(body: &Value) -> Vec<&str> {
    let details = body["error"]["details"].as_array().unwrap();
    details.iter().map(|detail| detail["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_organisation_of_a_policy_is_a_uuid() {
    let gateway = &gateways()[0];
    for path in [USAGE, RATES] {
        let mut policy = if path == USAGE { usage_policy() } else { rate_policy() };
        for (organisation, status) in [
            (json!("not-a-uuid"), 400),
            (json!(7), 400),
            (json!("0a0a0a0a-0000-4000-8000-000000000000"), 200),
        ] {
            policy["organisation_id"] = organisation.clone();
            let (found, reply) = operate(gateway, Method::POST, path, &policy).await;
            assert_eq!(found, status, "{path} {organisation}: {reply}");
            assert!(status == 200 || paths(&reply) == ["organisation_id"], "{path} {organisation}: {reply}");
        }
    }
}

/// Example 8, and what is read back.
#[tokio::test]
async fn a_usage_policy_is_made_changed_and_archived() {
    for gateway in gateways() {
        let (status, made) = operate(&gateway, Method::POST, USAGE, &usage_policy()).await;
        assert_eq!((status, &made["object"]), (200, &json!("policy_usage_limits")), "{made}");
        let id = made["id"].as_str().unwrap();
        assert!(uuid::Uuid::try_parse(id).is_ok());
        let path = format!("{USAGE}/{id}");
        let (_, read) = get(&gateway, &path).await;
        for (name, wanted) in [
            ("id", json!(id)),
            ("status", json!("active")),
            ("type", json!("tokens")),
            ("credit_limit", json!(20)),
            ("alert_threshold", Value::Null),
            ("periodic_reset", Value::Null),
            ("next_usage_reset_at", Value::Null),
            ("last_reset_at", Value::Null),
            ("name", Value::Null),
            ("on_missing", json!("skip")),
            ("hard", json!(false)),
            ("conditions", usage_policy()["conditions"].clone()),
            ("group_by", usage_policy()["group_by"].clone()),
            ("object", json!("policy_usage_limits")),
        ] {
            assert_eq!(read[name], wanted, "{name}: {read}");
        }
        for name in ["workspace_id", "organisation_id"] {
            assert!(uuid::Uuid::try_parse(read[name].as_str().unwrap()).is_ok(), "{read}");
        }
        assert!(read["value_key_usage_map"].is_null(), "{read}");
        let (_, with_usage) = get(&gateway, &format!("{path}?include_usage=true")).await;
        assert_eq!(with_usage["value_key_usage_map"], json!({}), "{with_usage}");

        let change = json!({
            "name": "per user", "credit_limit": 30, "alert_threshold": 25.5, "periodic_reset": "weekly", "hard": true,
            "fit": true, "on_missing": "deny", "conditions": [{"key": "metadata._user", "excludes": ["bob", "eve"]}],
        });
        assert_eq!(operate(&gateway, Method::PUT, &path, &change).await, (200, json!({})));
        let (_, read) = get(&gateway, &path).await;
        for (name, value) in change.as_object().unwrap() {
            assert_eq!(read[name], *value, "{name}: {read}");
        }
        let monday: jiff::Timestamp = read["next_usage_reset_at"].as_str().unwrap().parse().unwrap();
        let monday = monday.to_zoned(jiff::tz::TimeZone::UTC);
        assert_eq!((monday.weekday(), monday.hour()), (jiff::civil::Weekday::Monday, 0), "{read}");
        // A null clears, and what is not named stays.
        let cleared = json!({"periodic_reset": null, "alert_threshold": null, "name": null});
        assert_eq!(operate(&gateway, Method::PUT, &path, &cleared).await, (200, json!({})));
        let (_, read) = get(&gateway, &path).await;
        let shown =
            (&read["periodic_reset"], &read["next_usage_reset_at"], &read["credit_limit"], &read["name"]);
        assert_eq!(shown, (&Value::Null, &Value::Null, &json!(30), &Value::Null), "{read}");

        assert_eq!(operate(&gateway, Method::DELETE, &path, &Value::Null).await, (200, json!({})));
        assert_eq!(get(&gateway, &path).await.0, 404);
        assert_eq!(operate(&gateway, Method::PUT, &path, &json!({"credit_limit": 1})).await.0, 404);
        let (status, archived) = get(&gateway, &format!("{path}?status=archived")).await;
        assert_eq!((status, &archived["status"]), (200, &json!("archived")));
    }
}

/// Example 9, and every other problem that can be found before a policy is kept.
#[tokio::test]
async fn every_problem_is_reported_with_its_path() {
    for gateway in gateways() {
        let bad = json!({"conditions": [], "type": "usd", "credit_limit": -1, "periodic_reset": "daily"});
        let (status, body) = operate(&gateway, Method::POST, USAGE, &bad).await;
        assert_eq!((status, &body["data"]["errorCode"]), (400, &json!("AB01")), "{body}");
        assert_eq!(
            paths(&body),
            ["conditions", "credit_limit", "periodic_reset", "type", "group_by"],
            "{body}"
        );
    }
}

#[tokio::test]
async fn what_does_not_go_together_is_refused() {
    let gateway = Gateway::start(STANDARD);
    let merged = |policy: Value, change: Value| {
        let mut policy = policy;
        policy.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        policy
    };
    let long = "n".repeat(256);
    for (path, body, wanted) in [
        (USAGE, merged(usage_policy(), json!({"alert_threshold": 20})), vec!["alert_threshold"]),
        (
            USAGE,
            merged(
                usage_policy(),
                json!({"periodic_reset": "weekly", "periodic_reset_days": 2, "fit": true}),
            ),
            vec!["periodic_reset_days", "fit"],
        ),
        (
            USAGE,
            merged(usage_policy(), json!({"periodic_reset_days": 366, "name": long})),
            vec!["periodic_reset_days", "name"],
        ),
        (USAGE, merged(usage_policy(), json!({"type": "cost", "credit_limit": 1e12})), vec!["credit_limit"]),
        (
            USAGE,
            merged(
                usage_policy(),
                json!({"conditions": [{"key": "user", "value": "*"}, {"key": "api_key"}], "on_missing": "x"}),
            ),
            vec!["on_missing", "conditions[0].key", "conditions[1].value"],
        ),
        (
            RATES,
            merged(
                rate_policy(),
                json!({"unit": "tpd", "target": "mcp_tools", "group_by": [{"key": "api_key"}, {"key": "api_key"}]}),
            ),
            vec!["unit", "target", "group_by[1].key"],
        ),
        (
            RATES,
            json!({"type": "rate_limits", "policy": {}}),
            vec!["type", "policy", "conditions", "group_by", "unit", "value"],
        ),
    ] {
        let (status, body) = operate(&gateway, Method::POST, path, &body).await;
        assert_eq!(status, 400, "{body}");
        let mut found = paths(&body);
        let mut wanted = wanted;
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{body}");
    }
}

#[tokio::test]
async fn a_change_is_checked_with_what_the_policy_has() {
    let gateway = Gateway::start(STANDARD);
    let id = make(&gateway, USAGE, &usage_policy()).await;
    let (status, body) =
        operate(&gateway, Method::PUT, &format!("{USAGE}/{id}"), &json!({"alert_threshold": 20})).await;
    assert_eq!((status, paths(&body)), (400, vec!["alert_threshold"]));
    let unknown = json!({"reset_usage_for_value": "metadata._user:nobody"});
    let (status, body) = operate(&gateway, Method::PUT, &format!("{USAGE}/{id}"), &unknown).await;
    assert_eq!((status, &body["error"]["param"]), (400, &json!("reset_usage_for_value")), "{body}");
    let fixed = json!({"type": "cost", "group_by": [{"key": "api_key"}]});
    let (status, body) = operate(&gateway, Method::PUT, &format!("{USAGE}/{id}"), &fixed).await;
    assert_eq!((status, paths(&body)), (400, vec!["group_by", "type"]), "cannot be changed: {body}");
}

/// Example 16.
/// The day from which days count is kept with the policy, and is no reason against a change that takes the days away.
#[tokio::test]
async fn days_are_taken_away_and_set_again() {
    let gateway = Gateway::start(STANDARD);
    let mut policy = usage_policy();
    policy["periodic_reset_days"] = 3.into();
    let path = format!("{USAGE}/{}", make(&gateway, USAGE, &policy).await);
    for (change, wanted) in [
        (json!({"periodic_reset_days": null}), (Value::Null, Value::Null)),
        (
            json!({"periodic_reset_days": 5, "next_usage_reset_at": "2026-01-05T00:00:00Z"}),
            (json!(5), Value::Null),
        ),
        (json!({"periodic_reset_days": null, "periodic_reset": "weekly"}), (Value::Null, json!("weekly"))),
        (json!({"periodic_reset": null}), (Value::Null, Value::Null)),
    ] {
        assert_eq!(operate(&gateway, Method::PUT, &path, &change).await, (200, json!({})), "{change}");
        let (_, read) = get(&gateway, &path).await;
        assert_eq!((&read["periodic_reset_days"], &read["periodic_reset"]), (&wanted.0, &wanted.1), "{read}");
        let resets = wanted != (Value::Null, Value::Null);
        assert_eq!(read["next_usage_reset_at"].is_string(), resets, "{change}: {read}");
    }
    let day_alone = json!({"next_usage_reset_at": "2026-01-05T00:00:00Z"});
    let (status, body) = operate(&gateway, Method::PUT, &path, &day_alone).await;
    assert_eq!((status, paths(&body)), (400, vec!["next_usage_reset_at"]));
}

#[tokio::test]
async fn a_rate_policy_is_archived_and_then_found_only_by_its_status() {
    for gateway in gateways() {
        let id = make(&gateway, RATES, &rate_policy()).await;
        let path = format!("{RATES}/{id}");
        let (status, read) = get(&gateway, &path).await;
        let shown = (status, &read["object"], &read["status"], &read["unit"], &read["value"]);
        assert_eq!(shown, (200, &json!("policy_rate_limits"), &json!("active"), &json!("rpm"), &json!(2)));
        let change = json!({"name": "calls", "unit": "rph", "value": 2.5, "smooth": true});
        assert_eq!(operate(&gateway, Method::PUT, &path, &change).await, (200, json!({})));
        let (_, read) = get(&gateway, &path).await;
        for (name, value) in change.as_object().unwrap() {
            assert_eq!(read[name], *value, "{name}: {read}");
        }
        assert_eq!(operate(&gateway, Method::DELETE, &path, &Value::Null).await, (200, json!({})));
        assert_eq!(get(&gateway, &path).await.0, 404);
        let (status, archived) = get(&gateway, &format!("{path}?status=archived")).await;
        assert_eq!((status, &archived["status"]), (200, &json!("archived")));
        assert_eq!(operate(&gateway, Method::DELETE, &path, &Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let gateway = Gateway::start(STANDARD);
    for (unit, name) in [("rpm", "a"), ("rph", "b"), ("rpm", "c")] {
        let mut policy = rate_policy();
        policy["unit"] = unit.into();
        policy["name"] = name.into();
        make(&gateway, RATES, &policy).await;
    }
    let mut tokens = rate_policy();
    tokens["type"] = "tokens".into();
    let gone = make(&gateway, RATES, &tokens).await;
    operate(&gateway, Method::DELETE, &format!("{RATES}/{gone}"), &Value::Null).await;
    let names = |body: &Value| -> Vec<String> {
        let data = body["data"].as_array().unwrap();
        data.iter().map(|item| item["name"].as_str().unwrap_or("-").to_owned()).collect()
    };
    for (query, total, wanted) in [
        ("", 3, vec!["c", "b", "a"]),
        ("?unit=rpm", 2, vec!["c", "a"]),
        ("?unit=rpm&page_size=1&current_page=1", 2, vec!["a"]),
        ("?type=tokens", 0, vec![]),
        ("?type=tokens&status=archived", 1, vec!["-"]),
    ] {
        let (status, body) = get(&gateway, &format!("{RATES}{query}")).await;
        assert_eq!(
            (status, &body["total"], names(&body)),
            (200, &json!(total), wanted.iter().map(|name| (*name).to_owned()).collect()),
            "{query}"
        );
    }
    let (status, body) = get(&gateway, &format!("{RATES}?unit=tpd&status=gone")).await;
    assert_eq!((status, paths(&body)), (400, vec!["unit", "status"]));
}

#[tokio::test]
async fn workspaces_are_kept_apart() {
    let gateway = Gateway::start(STANDARD);
    let (_, other) =
        operate(&gateway, Method::POST, "/v1/admin/workspaces", &json!({"name": "other", "slug": "other"}))
            .await;
    let scopes = ["policies.create", "policies.list", "policies.read", "policies.update", "policies.delete"];
    let key = json!({"name": "k", "workspace_id": "other", "scopes": scopes});
    let (_, key) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &key).await;
    let key = key["key"].as_str().unwrap();
    let of_default = make(&gateway, USAGE, &usage_policy()).await;
    let mut policy = usage_policy();
    policy["workspace_id"] = Value::Null;
    let of_all = make(&gateway, USAGE, &policy).await;
    // The key's own workspace, whatever it names; a foreign one is refused.
    let (_, own) = send(&gateway, key, Method::POST, USAGE, &usage_policy()).await;
    let own = own["id"].as_str().unwrap();
    let (_, read) = send(&gateway, key, Method::GET, &format!("{USAGE}/{own}"), &Value::Null).await;
    assert_eq!(read["workspace_id"], other["id"], "{read}");
    policy["workspace_id"] = "default".into();
    assert_eq!(send(&gateway, key, Method::POST, USAGE, &policy).await.0, 403);
    let foreign = format!("{USAGE}/{of_default}");
    for (method, body) in
        [(Method::GET, Value::Null), (Method::PUT, json!({"credit_limit": 1})), (Method::DELETE, Value::Null)]
    {
        assert_eq!(send(&gateway, key, method.clone(), &foreign, &body).await.0, 404, "{method}");
    }
    assert_eq!(send(&gateway, key, Method::GET, &format!("{foreign}/entities"), &Value::Null).await.0, 404);
    // What limits every workspace may be seen, and changed by the organisation alone.
    let common = format!("{USAGE}/{of_all}");
    let (status, read) = send(&gateway, key, Method::GET, &common, &Value::Null).await;
    assert_eq!((status, &read["workspace_id"]), (200, &Value::Null));
    assert_eq!(send(&gateway, key, Method::PUT, &common, &json!({"credit_limit": 1})).await.0, 403);
    assert_eq!(send(&gateway, key, Method::DELETE, &common, &Value::Null).await.0, 403);
    // Its buckets have the users of other workspaces.
    for path in [format!("{common}/entities"), format!("{common}?include_usage=true")] {
        assert_eq!(send(&gateway, key, Method::GET, &path, &Value::Null).await.0, 403, "{path}");
        assert_eq!(get(&gateway, &path).await.0, 200, "{path}");
    }
    let (_, listed) = send(&gateway, key, Method::GET, USAGE, &Value::Null).await;
    assert_eq!(listed["total"], 2, "its own and the organisation's: {listed}");
    // No request of the policy's workspace would meet the condition.
    let mut policy = usage_policy();
    policy["conditions"] = json!([{"key": "workspace_id", "value": "other"}]);
    let (status, body) = operate(&gateway, Method::POST, USAGE, &policy).await;
    assert_eq!((status, &body["error"]["param"]), (400, &json!("conditions[0].value")), "{body}");
    policy["workspace_id"] = "other".into();
    make(&gateway, USAGE, &policy).await;
}

#[tokio::test]
async fn a_policy_has_a_slug_as_good_as_its_id_and_changes_are_audited() {
    let gateway = Gateway::start(STANDARD);
    let mut policy = rate_policy();
    policy["slug"] = "calls".into();
    let id = make(&gateway, RATES, &policy).await;
    assert_eq!(get(&gateway, &format!("{RATES}/calls")).await.1["id"], id.as_str());
    assert_eq!(operate(&gateway, Method::POST, RATES, &policy).await.0, 409);
    operate(&gateway, Method::PUT, &format!("{RATES}/calls"), &json!({"value": 3})).await;
    let (_, log) = get(&gateway, "/v1/audit-logs").await;
    let records = log["records"].as_array().unwrap();
    let of_policies = records.iter().filter(|record| record["resource_type"] == "rate-limits-policies");
    let actions: Vec<&Value> = of_policies.map(|record| &record["action"]).collect();
    assert!(actions.contains(&&json!("create")) && actions.contains(&&json!("update")), "{log}");
}
