//! Limits that the organisation has set are the organisation's to change: on the running binary, at every route that changes limits.
//!
//! The routes are found in the OpenAPI document, so that a new one needs its line here. What limits do is in `limited_requests`.

use crate::limited_requests::{CLIENT, SETTINGS, get, make, operate};
use crate::support::Gateway;
use crate::support::client::client;
use crate::support::wait::until;
use control::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use words::settings::scopes::{KeyType, Scope};

async fn send(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    let call = call.header("x-gateway-api-key", key);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

/// A key of the default workspace with every right that such keys may have. Its id, and the key.
async fn workspace_key(gateway: &Gateway, limits: Value) -> (String, String) {
    let scopes: Vec<&str> = KeyType::WorkspaceService.scopes().iter().map(Scope::as_str).collect();
    let body =
        json!({"name": "all rights", "workspace_id": "default", "scopes": scopes, "usage_limits": limits});
    let (status, made) = operate(gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    assert_eq!(status, 200, "{made}");
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// Where limits are: the route that makes an object with them, its body, and the route that changes it.
fn places() -> Vec<(&'static str, Value, &'static str)> {
    let usage = json!({"type": "cost", "credit_limit": 10});
    let rates = json!([{"type": "requests", "unit": "rpm", "value": 10}]);
    let conditions = json!([{"key": "metadata._user", "value": "*"}]);
    let group_by = json!([{"key": "metadata._user"}]);
    let limited = |body: Value| {
        let mut body = body;
        body["usage_limits"] = usage.clone();
        body["rate_limits"] = rates.clone();
        body
    };
    let account = json!({"name": "p", "provider": "openai", "key": "sk-1", "workspace_id": "default"});
    let service = json!({"name": "k", "workspace_id": "default", "scopes": ["completions.write"]});
    let integration =
        json!({"name": "i", "ai_provider_id": "openai", "key": "sk-1", "workspace_id": "default"});
    let usage_policy = json!({
        "conditions": conditions, "group_by": group_by, "type": "cost", "credit_limit": 10, "workspace_id": "default",
    });
    let rate_policy = json!({
        "conditions": conditions, "group_by": group_by, "type": "requests", "unit": "rpm", "value": 10, "workspace_id": "default",
    });
    vec![
        ("/v1/api-keys/workspace/service", limited(service), "/v1/api-keys/{id}"),
        ("/v1/providers", limited(account.clone()), "/v1/providers/{slug}"),
        ("/v1/virtual-keys", limited(account), "/v1/virtual-keys/{slug}"),
        ("/v1/integrations", limited(integration), "/v1/integrations/{slug}"),
        ("/v1/policies/usage-limits", usage_policy, "/v1/policies/usage-limits/{id}"),
        ("/v1/policies/rate-limits", rate_policy, "/v1/policies/rate-limits/{id}"),
    ]
}

/// What would raise, lower, reset or end each kind of limit.
fn changes(path: &str) -> Vec<Value> {
    if path.contains("usage-limits") {
        let until = "2030-01-01T00:00:00Z";
        return vec![
            json!({"credit_limit": 1_000}),
            json!({"raise": {"amount": 5, "until": until}}),
            json!({"conditions": [{"key": "metadata._user", "value": "nobody"}]}),
            json!({"periodic_reset": "weekly"}),
        ];
    }
    if path.contains("rate-limits") {
        return vec![json!({"value": 1_000}), json!({"unit": "rps"})];
    }
    vec![
        json!({"usage_limits": {"credit_limit": 1_000}}),
        json!({"usage_limits": {"raise": {"amount": 5, "until": "2030-01-01T00:00:00Z"}}}),
        json!({"usage_limits": null}),
        json!({"rate_limits": []}),
        json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": 1_000}]}),
        json!({"reset_usage": true}),
    ]
}

/// The object that was made, by its path.
fn path_of(path: &str, made: &Value) -> String {
    let name = if path.ends_with("{slug}") { "slug" } else { "id" };
    let named = made[name].as_str().unwrap();
    path.replace("{slug}", named).replace("{id}", named)
}

#[tokio::test]
async fn limits_of_the_organisation_are_not_its_workspaces_to_change() {
    let gateway = Gateway::start(SETTINGS);
    let (_, key) = workspace_key(&gateway, Value::Null).await;
    let key = key.as_str();
    for (route, body, pattern) in places() {
        let (status, made) = operate(&gateway, Method::POST, route, &body).await;
        assert_eq!(status, 200, "{route}: {made}");
        let path = path_of(pattern, &made);
        let before = get(&gateway, &path).await;
        for change in changes(&path) {
            let (status, reply) = send(&gateway, key, Method::PUT, &path, &change).await;
            assert_eq!(status, 403, "{path} {change}: {reply}");
            assert!(reply["error"]["message"].as_str().unwrap().contains("organisation"), "{reply}");
        }
        assert_eq!(get(&gateway, &path).await, before, "{path}");
        let is_policy = path.contains("/policies/");
        // Deleted and made anew it would have none. A key that has leaked is revoked nevertheless.
        if !path.contains("/api-keys/") {
            let (status, reply) = send(&gateway, key, Method::DELETE, &path, &Value::Null).await;
            assert_eq!(status, 403, "{path}: {reply}");
            assert!(is_policy || reply["error"]["param"] == "usage_limits", "{reply}");
        }
        if !is_policy {
            // What is no limit is the workspace's, also beside limits that stay as they are.
            let mut same = json!({"name": "other"});
            same["rate_limits"] = body["rate_limits"].clone();
            let (status, reply) = send(&gateway, key, Method::PUT, &path, &same).await;
            assert_eq!(status, 200, "{path}: {reply}");
        }
        // The workspace's own are its own, until the organisation has changed them.
        let (status, made) = send(&gateway, key, Method::POST, route, &body).await;
        assert_eq!(status, 200, "{route}: {made}");
        let own = path_of(pattern, &made);
        let (status, another) = send(&gateway, key, Method::POST, route, &body).await;
        assert_eq!(status, 200, "{route}: {another}");
        let another = path_of(pattern, &another);
        let (status, reply) = send(&gateway, key, Method::DELETE, &another, &Value::Null).await;
        assert_eq!(status, 200, "{another}: {reply}");
        let change = changes(&own).remove(0);
        let (status, reply) = send(&gateway, key, Method::PUT, &own, &change).await;
        assert_eq!(status, 200, "{own}: {reply}");
        let (status, reply) = operate(&gateway, Method::PUT, &own, &changes(&own)[1]).await;
        assert_eq!(status, 200, "{own}: {reply}");
        let last = changes(&own).pop().unwrap();
        let (status, reply) = send(&gateway, key, Method::PUT, &own, &last).await;
        assert_eq!(status, 403, "{own}: {reply}");
    }
}

/// Budgets count by the prices of an account, and its secrets are not its workspace's to read.
#[tokio::test]
async fn what_an_account_of_the_organisation_costs_and_where_its_key_goes_is_not_its_workspaces_to_change() {
    let gateway = Gateway::start(SETTINGS);
    let (_, key) = workspace_key(&gateway, Value::Null).await;
    let key = key.as_str();
    let account = json!({"name": "i", "slug": "of-all", "ai_provider_id": "openai", "key": "sk-1", "workspace_id": "default"});
    assert_eq!(operate(&gateway, Method::POST, "/v1/integrations", &account).await.0, 200);
    let path = "/v1/integrations/of-all";
    let price = json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0.1}}});
    let listed = |pricing: Value| json!({"models": [{"slug": "m", "enabled": true, "is_custom": true, "pricing_config": pricing}]});
    let models = format!("{path}/models");
    assert_eq!(operate(&gateway, Method::PUT, &models, &listed(price)).await.0, 200);
    let cheap = json!({"pricing_adjustments": {"multiplier": {"default": 0.000_001}}});
    let free = listed(json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0}}}));
    let before = (get(&gateway, path).await, get(&gateway, &models).await);
    for (method, path, change, param) in [
        (Method::PUT, path, &cheap, "pricing_adjustments"),
        (Method::PUT, models.as_str(), &free, "models"),
        (Method::DELETE, "/v1/integrations/of-all/models?slugs=m", &Value::Null, "models"),
    ] {
        let (status, reply) = send(&gateway, key, method, path, change).await;
        assert_eq!((status, &reply["error"]["param"]), (403, &json!(param)), "{path} {change}: {reply}");
    }
    // Whoever changes where the account is gives its secrets anew.
    let elsewhere = json!({"configurations": {"custom_host": "http://127.0.0.1:9/v1"}});
    let (status, reply) = send(&gateway, key, Method::PUT, path, &elsewhere).await;
    assert_eq!((status, &reply["error"]["param"]), (400, &json!("key")), "{reply}");
    assert_eq!((get(&gateway, path).await, get(&gateway, &models).await), before);
    let with_key = json!({"key": "sk-own", "configurations": {"custom_host": "http://127.0.0.1:9/v1"}});
    assert_eq!(send(&gateway, key, Method::PUT, path, &with_key).await.0, 200);
    // What is no price stays the workspace's, and its own accounts cost what it says.
    let off = json!({"models": [{"slug": "m", "enabled": false}]});
    assert_eq!(send(&gateway, key, Method::PUT, &models, &off).await.0, 200);
    let mut own = account;
    own["slug"] = "own".into();
    assert_eq!(send(&gateway, key, Method::POST, "/v1/integrations", &own).await.0, 200);
    assert_eq!(send(&gateway, key, Method::PUT, "/v1/integrations/own", &cheap).await.0, 200);
    assert_eq!(operate(&gateway, Method::PUT, path, &cheap).await.0, 200);
}

#[tokio::test]
async fn a_workspace_and_a_key_do_not_raise_their_own_budgets() {
    let gateway = Gateway::start(SETTINGS);
    let (id, key) = workspace_key(&gateway, json!({"credit_limit": 10})).await;
    let workspace = "/v1/admin/workspaces/default";
    let budget = json!({"usage_limits": [{"type": "cost", "credit_limit": 10}]});
    assert_eq!(operate(&gateway, Method::PUT, workspace, &budget).await.0, 200);
    let raised = json!({"usage_limits": [{"type": "cost", "credit_limit": 1_000}]});
    for change in [raised.clone(), json!({"usage_limits": []}), json!({"reset_usage": true})] {
        let (status, reply) = send(&gateway, &key, Method::PUT, workspace, &change).await;
        assert_eq!(status, 403, "{change}: {reply}");
    }
    // It has no rates from the organisation, so that these are its own.
    let rates = json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": 100}]});
    assert_eq!(send(&gateway, &key, Method::PUT, workspace, &rates).await.0, 200);
    let less = json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": 200}]});
    assert_eq!(send(&gateway, &key, Method::PUT, workspace, &less).await.0, 200);
    let own = format!("/v1/api-keys/{id}");
    let (status, reply) =
        send(&gateway, &key, Method::PUT, &own, &json!({"usage_limits": {"credit_limit": 99}})).await;
    assert_eq!(status, 403, "{reply}");
    assert_eq!(send(&gateway, &key, Method::PUT, &own, &json!({"description": "mine"})).await.0, 200);
    assert_eq!(
        operate(&gateway, Method::PUT, &own, &json!({"usage_limits": {"credit_limit": 99}})).await.0,
        200
    );
}

/// The limits of a provider do not end with the integration that it belongs to.
#[tokio::test]
async fn an_integration_is_not_deleted_with_limits_of_the_organisation_on_its_providers() {
    let gateway = Gateway::start(SETTINGS);
    let (_, key) = workspace_key(&gateway, Value::Null).await;
    let body = json!({"name": "i", "slug": "own-i", "ai_provider_id": "openai", "key": "sk-1", "workspace_id": "default",
        "default_provider_slug": "own-p"});
    let (status, made) = send(&gateway, &key, Method::POST, "/v1/integrations", &body).await;
    assert_eq!(status, 200, "{made}");
    let limits = json!({"usage_limits": {"type": "cost", "credit_limit": 10}});
    let (status, reply) = operate(&gateway, Method::PUT, "/v1/providers/own-p", &limits).await;
    assert_eq!(status, 200, "{reply}");
    let delete =
        async |key: &str| send(&gateway, key, Method::DELETE, "/v1/integrations/own-i", &Value::Null).await;
    let (status, reply) = delete(&key).await;
    assert_eq!(status, 403, "{reply}");
    assert_eq!(delete(crate::support::settings::KEY).await.0, 200);
}

/// A key without limits that a limited key makes is bound by its workspace's, which no key of the workspace changes.
#[tokio::test]
async fn a_key_that_is_made_without_limits_has_those_of_its_workspace() {
    let gateway = Gateway::start(SETTINGS);
    let (_, key) = workspace_key(&gateway, json!({"credit_limit": 10})).await;
    let budget = json!({"usage_limits": [{"type": "requests", "credit_limit": 1}]});
    assert_eq!(operate(&gateway, Method::PUT, "/v1/admin/workspaces/default", &budget).await.0, 200);
    let body = json!({"name": "free", "workspace_id": "default", "scopes": ["completions.write"]});
    let (status, made) = send(&gateway, &key, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    assert_eq!(status, 200, "{made}");
    let call = async || {
        let call = client().post(format!("{}/v1/chat/completions", gateway.data_url()));
        let body = json!({"model": "@emu/gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5});
        let call = call.header("x-gateway-api-key", made["key"].as_str().unwrap());
        call.json(&body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(call().await, 200);
    let refused =
        until("the budget to be spent", async || Some(call().await).filter(|status| *status != 429));
    assert_eq!(refused.await, 412);
}

/// Every route that changes limits is tested above, or is the organisation's alone.
#[test]
fn no_route_that_changes_limits_is_forgotten() {
    let document = openapi_document();
    let mut found = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let text = methods["put"]["requestBody"].to_string();
        if ["usage_limits", "rate_limits", "credit_limit", "\"rpm\""].iter().any(|name| text.contains(name)) {
            found.insert(path.clone());
        }
    }
    let mut tested: BTreeSet<String> = places().into_iter().map(|(_, _, path)| path.to_owned()).collect();
    tested.insert("/v1/admin/workspaces/{id}".to_owned());
    // Of integrations of the organisation: 403 for all others.
    tested.insert("/v1/integrations/{slug}/workspaces".to_owned());
    assert_eq!(found, tested);
}

/// A raise is a part of the limit until its time, and shown to the key that has it.
#[tokio::test]
async fn a_budget_is_raised_until_some_time() {
    let gateway = Gateway::start(SETTINGS);
    let body = json!({
        "name": "k", "workspace_id": "default", "scopes": ["completions.write"],
        "usage_limits": {"type": "requests", "credit_limit": 1},
    });
    let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    let id = made["id"].as_str().unwrap();
    let key = made["key"].as_str().unwrap();
    let call = async || {
        let call = client().post(format!("{}/v1/chat/completions", gateway.data_url()));
        let body = json!({"model": "@emu/gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5});
        call.header("x-gateway-api-key", key).json(&body).send().await.unwrap().status().as_u16()
    };
    let shown = async || send(&gateway, key, Method::GET, "/v1/api-keys/self", &Value::Null).await.1;
    assert_eq!((call().await, call().await), (200, 412));
    assert_eq!(shown().await["status"], "exhausted");
    let raise = |until: &str| json!({"usage_limits": {"raise": {"amount": 1, "until": until}}});
    let path = format!("/v1/api-keys/{id}");
    assert_eq!(operate(&gateway, Method::PUT, &path, &raise("2030-01-01T00:00:00Z")).await.0, 200);
    let self_view = shown().await;
    assert_eq!(
        (&self_view["status"], &self_view["usage"][0]["limit"], &self_view["usage"][0]["raised_until"]),
        (&json!("active"), &json!(2), &json!("2030-01-01T00:00:00.000Z")),
        "{self_view}"
    );
    assert_eq!((call().await, call().await), (200, 412));
    // A time that is over raises nothing, and what was used stays.
    assert_eq!(operate(&gateway, Method::PUT, &path, &raise("2020-01-01T00:00:00Z")).await.0, 200);
    let self_view = shown().await;
    assert_eq!(
        (&self_view["status"], &self_view["usage"][0]["limit"], &self_view["usage"][0]["current_usage"]),
        (&json!("exhausted"), &json!(1), &json!(2)),
        "{self_view}"
    );
    for (wrong, path_of_problem) in [
        (json!({"raise": {"amount": 0, "until": "2030-01-01T00:00:00Z"}}), "usage_limits.raise.amount"),
        (json!({"raise": {"amount": 1}}), "usage_limits.raise.until"),
        (
            json!({"credit_limit": null, "alert_threshold": 1, "raise": {"amount": 1, "until": "2030-01-01T00:00:00Z"}}),
            "usage_limits.raise",
        ),
    ] {
        let (status, reply) = operate(&gateway, Method::PUT, &path, &json!({"usage_limits": wrong})).await;
        assert_eq!(status, 400, "{reply}");
        assert!(reply.to_string().contains(path_of_problem), "{path_of_problem}: {reply}");
    }
}

/// The status of a call, once those before it are settled: until then it is told to wait (429).
async fn settled(call: &reqwest::RequestBuilder) -> u16 {
    let status = async || call.try_clone().unwrap().send().await.unwrap().status().as_u16();
    until("the calls before to be settled", async || Some(status().await).filter(|status| *status != 429))
        .await
}

/// What was used of a budget elsewhere counts as if it was used here, until a reset.
#[tokio::test]
async fn a_budget_that_was_used_elsewhere_goes_on_here() {
    let gateway = Gateway::start(SETTINGS);
    let body = |amount: f64| {
        json!({
            "name": "k", "workspace_id": "default", "scopes": ["completions.write"],
            "usage_limits": {"type": "requests", "credit_limit": 3, "used_before": {"amount": amount, "until": "2099-01-01T00:00:00Z"}},
        })
    };
    let make = async |amount: f64| {
        let (status, made) =
            operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body(amount)).await;
        assert_eq!(status, 200, "{made}");
        (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
    };
    let call = async |key: &str| {
        let call = client().post(format!("{}/v1/chat/completions", gateway.data_url()));
        let body = json!({"model": "@emu/gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5});
        let call = call.header("x-gateway-api-key", key).json(&body);
        settled(&call).await
    };
    let shown = async |key: &str| {
        let shown = send(&gateway, key, Method::GET, "/v1/api-keys/self", &Value::Null).await.1;
        let usage = &shown["usage"][0];
        (
            shown["status"].clone(),
            usage["limit"].clone(),
            usage["current_usage"].clone(),
            usage["remaining"].clone(),
        )
    };
    let (id, key) = make(2.0).await;
    assert_eq!(shown(&key).await, (json!("active"), json!(3), json!(2), json!(1)));
    assert_eq!((call(&key).await, call(&key).await), (200, 412));
    assert_eq!(shown(&key).await, (json!("exhausted"), json!(3), json!(3), json!(0)));
    let path = format!("/v1/api-keys/{id}");
    assert_eq!(operate(&gateway, Method::PUT, &path, &json!({"reset_usage": true})).await.0, 200);
    assert_eq!(shown(&key).await, (json!("active"), json!(3), json!(0), json!(3)));
    assert_eq!(call(&key).await, 200);

    // One that is spent is spent before the first request, and no more when its time is over.
    let (id, key) = make(4.5).await;
    assert_eq!(shown(&key).await.0, "exhausted");
    assert_eq!(call(&key).await, 412);
    let over = json!({"usage_limits": {"used_before": {"amount": 4, "until": "2020-01-01T00:00:00Z"}}});
    assert_eq!(operate(&gateway, Method::PUT, &format!("/v1/api-keys/{id}"), &over).await.0, 200);
    assert_eq!(call(&key).await, 200);
}

/// The same of a policy, until its bucket is emptied.
#[tokio::test]
async fn a_policy_goes_on_with_what_was_used_elsewhere() {
    let gateway = Gateway::start(SETTINGS);
    let body = json!({"name": "k", "workspace_id": "default", "scopes": ["completions.write"]});
    let (_, made) = operate(&gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    let key = made["key"].as_str().unwrap();
    let policy = json!({
        "conditions": [{"key": "metadata._user", "value": "moved"}], "group_by": [{"key": "metadata._user"}],
        "type": "requests", "credit_limit": 2, "used_before": {"amount": 1}, "workspace_id": null,
    });
    let (status, made) = operate(&gateway, Method::POST, "/v1/policies/usage-limits", &policy).await;
    assert_eq!(status, 200, "{made}");
    let call = async || {
        let call = client()
            .post(format!("{}/v1/chat/completions", gateway.data_url()))
            .header("x-gateway-api-key", key);
        let body = json!({"model": "@emu/gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "user": "moved"});
        settled(&call.json(&body)).await
    };
    assert_eq!((call().await, call().await), (200, 412));
    let path = format!("/v1/policies/usage-limits/{}", made["id"].as_str().unwrap());
    let emptied = json!({"reset_usage_for_value": "metadata._user:moved"});
    assert_eq!(operate(&gateway, Method::PUT, &path, &emptied).await.0, 200);
    assert_eq!((call().await, call().await, call().await), (200, 200, 412));
}

/// Each session of an agent has a budget of its own, by the headers that agents send.
#[tokio::test]
async fn a_session_of_an_agent_has_its_own_budget() {
    let gateway = Gateway::start(SETTINGS);
    let policy = json!({
        "conditions": [{"key": "metadata._session", "value": "*"}], "group_by": [{"key": "metadata._session"}],
        "type": "requests", "credit_limit": 2, "reset_after_idle_minutes": 60,
    });
    let id = make(&gateway, "/v1/policies/usage-limits", &policy).await;
    let call = async |name: &str, value: &str| {
        let call = client().post(format!("{}/v1/chat/completions", gateway.data_url())).header(name, value);
        let body = json!({"model": "@emu/gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5});
        call.header("x-gateway-api-key", CLIENT).json(&body).send().await.unwrap().status().as_u16()
    };
    for (name, value) in [
        ("x-claude-code-session-id", "s-1"),
        ("session_id", "s-2"),
        ("session-id", "s-3"),
        ("x-gateway-metadata", r#"{"_session": "s-4"}"#),
    ] {
        assert_eq!((call(name, value).await, call(name, value).await), (200, 200), "{name}");
        // While the one before is not settled yet, a request is told to wait (429).
        let refused = until("the budget to be spent", async || {
            Some(call(name, value).await).filter(|status| *status != 429)
        });
        assert_eq!(refused.await, 412, "{name}");
    }
    assert_eq!(call("x-unrelated", "s-1").await, 200);
    let read = get(&gateway, &format!("/v1/policies/usage-limits/{id}")).await;
    assert_eq!((&read["reset_after_idle_minutes"], &read["next_usage_reset_at"]), (&json!(60), &Value::Null));
    let entities = get(&gateway, &format!("/v1/policies/usage-limits/{id}/entities")).await;
    let keys: BTreeSet<&str> =
        entities["data"].as_array().unwrap().iter().map(|item| item["value_key"].as_str().unwrap()).collect();
    let wanted = ["s-1", "s-2", "s-3", "s-4"].map(|session| format!("metadata._session:{session}"));
    assert_eq!(keys, wanted.iter().map(String::as_str).collect());
    let both = json!({"periodic_reset": "weekly"});
    let (status, reply) =
        operate(&gateway, Method::PUT, &format!("/v1/policies/usage-limits/{id}"), &both).await;
    assert_eq!(status, 400, "{reply}");
}
