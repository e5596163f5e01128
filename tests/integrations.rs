//! Integrations on the running binary: which models and workspaces may use them, and what they cost there.
//!
//! The record behind integrations, providers and virtual keys has its tests in `stored_objects`.

use crate::support::client::{client, new_trace};
use crate::support::stores::on_each_store;
use crate::support::{Gateway, wait};
use reqwest::Method;
use serde_json::{Value, json};

const SETTINGS: &str = "
custom_hosts: {allow: [127.0.0.1]}
auth:
  keys:
    - {name: operator, key: tp-operator-0123456789}
    - {name: default, key: tp-default-0123456789, workspace: default}
    - {name: team, key: tp-team-0123456789, workspace: team}
providers:
  of-file: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
";
const DEFAULT: &str = "tp-default-0123456789";
const TEAM: &str = "tp-team-0123456789";

async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = gateway.control(method, path).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn done(gateway: &Gateway, method: Method, path: &str, body: Value) -> Value {
    let (status, reply) = call(gateway, method.clone(), path, &body).await;
    assert_eq!(status, 200, "{method} {path} {body}: {reply}");
    reply
}

/// A gateway with the workspace `team` and the integration `int` of the organisation, at the emulator.
async fn started() -> Gateway {
    let gateway = Gateway::start(SETTINGS);
    done(&gateway, Method::POST, "/v1/admin/workspaces", json!({"name": "team", "slug": "team"})).await;
    let host = format!("{}/v1", gateway.emulator_url());
    let integration = json!({"name": "int", "slug": "int", "ai_provider_id": "openai", "key": "sk-0123456789",
        "configurations": {"custom_host": host}});
    done(&gateway, Method::POST, "/v1/integrations", integration).await;
    gateway
}

/// Status, body and the number of requests at the provider of a chat with this config.
async fn chat(gateway: &Gateway, key: &str, config: &Value, model: &str) -> (u16, Value, usize) {
    let tag = new_trace();
    let url = format!("{}/chat/completions", gateway.base_url());
    let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]});
    let call = client().post(url).header("x-gateway-api-key", key).header("x-emulator-tag", &tag);
    let response = call.header("x-gateway-config", config.to_string()).json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.json().await.unwrap();
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    let sent: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
    (status, body, sent.len())
}

#[tokio::test]
async fn only_enabled_models_are_sent_to_the_provider() {
    on_each_store(async || {
        let gateway = started().await;
        let path = "/v1/integrations/int/models";
        let at_it = json!({"provider": "@int"});
        assert_eq!(chat(&gateway, DEFAULT, &at_it, "first").await.0, 200, "all are allowed at first");
        let price = json!({"type": "static", "pay_as_you_go": {"request_token": {"price": 0.00025}, "response_token": {"price": 0.001}}});
        let models = json!([
            {"slug": "first", "enabled": true, "pricing_config": price},
            {"slug": "second", "enabled": false},
            {"slug": "ft:own", "enabled": true, "is_finetune": true, "base_model_slug": "first"},
        ]);
        done(&gateway, Method::PUT, path, json!({"models": models})).await;
        let statuses = async |gateway: &Gateway, config: &Value| {
            let mut found = Vec::new();
            for model in ["first", "second", "ft:own", "other"] {
                found.push(chat(gateway, DEFAULT, config, model).await.0);
            }
            found
        };
        assert_eq!(statuses(&gateway, &at_it).await, [200, 412, 200, 200]);
        done(&gateway, Method::PUT, path, json!({"allow_all_models": false})).await;
        assert_eq!(statuses(&gateway, &at_it).await, [200, 412, 200, 412]);
        let (_, refusal, sent) = chat(&gateway, DEFAULT, &at_it, "other").await;
        assert_eq!(refusal["error"]["type"], "model_not_allowed_error", "{refusal}");
        assert!(refusal["error"]["message"].as_str().unwrap().contains("Model other is not allowed for this integration"));
        assert_eq!(sent, 0, "the provider does not learn of it");
        // The model that is sent counts, not the one that was requested.
        let overridden = json!({"provider": "@int", "override_params": {"model": "first"}});
        assert_eq!(chat(&gateway, DEFAULT, &overridden, "other").await.0, 200);
        let fallback = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@int"}, {"provider": "@of-file"}]});
        assert_eq!(chat(&gateway, DEFAULT, &fallback, "other").await.0, 200, "the next target may take it");
        // A provider of the workspace that uses the integration is held to the same.
        let derived = json!({"name": "p", "slug": "p", "integration_id": "int", "workspace_id": "team"});
        done(&gateway, Method::POST, "/v1/providers", derived).await;
        assert_eq!(chat(&gateway, TEAM, &json!({"provider": "@p"}), "other").await.0, 412);
        let listed = done(&gateway, Method::GET, path, Value::Null).await;
        assert_eq!((&listed["total"], &listed["allow_all_models"]), (&json!(3), &json!(false)), "{listed}");
        assert_eq!(listed["models"][0]["pricing_config"], price, "{listed}");
        let one = done(&gateway, Method::GET, "/v1/integrations/int", Value::Null).await;
        assert_eq!(one["allow_all_models"], false);
        // Only custom models go; the others are switched off.
        let (status, refusal) = call(&gateway, Method::DELETE, &format!("{path}?slugs=first"), &Value::Null).await;
        assert!(status == 400 && refusal.to_string().contains("not a custom model"), "{refusal}");
        done(&gateway, Method::DELETE, &format!("{path}?slugs=ft:own"), Value::Null).await;
        assert_eq!(statuses(&gateway, &at_it).await, [200, 412, 412, 412]);
    })
    .await;
}

#[tokio::test]
async fn only_workspaces_with_access_use_an_integration() {
    on_each_store(async || {
        let gateway = started().await;
        let path = "/v1/integrations/int/workspaces";
        let at_it = json!({"provider": "@int"});
        let both = async |gateway: &Gateway| {
            let own = chat(gateway, DEFAULT, &at_it, "m").await;
            let other = chat(gateway, TEAM, &at_it, "m").await;
            (own.0, other.0)
        };
        assert_eq!(both(&gateway).await, (200, 200));
        let limits = json!({"type": "cost", "credit_limit": 10.0, "periodic_reset": "monthly"});
        let entry = json!({"id": "team", "enabled": false, "usage_limits": limits, "rate_limits": [{"unit": "rpm", "value": 5}]});
        done(&gateway, Method::PUT, path, json!({"workspaces": [entry]})).await;
        assert_eq!(both(&gateway).await, (200, 400));
        let only_team = json!({"workspaces": [{"id": "team", "enabled": true, "create_default_provider": true, "default_provider_slug": "teams"}],
            "global_workspace_access": {"enabled": false}});
        done(&gateway, Method::PUT, path, only_team).await;
        assert_eq!(both(&gateway).await, (400, 200));
        assert_eq!(chat(&gateway, TEAM, &json!({"provider": "@teams"}), "m").await.0, 200, "a provider of its own");
        let shown = done(&gateway, Method::GET, path, Value::Null).await;
        assert_eq!(shown["workspaces"][0]["slug"], "team", "{shown}");
        assert_eq!(shown["global_workspace_access"]["enabled"], false, "{shown}");
        let one = done(&gateway, Method::GET, "/v1/integrations/int", Value::Null).await;
        assert_eq!((&one["workspace_count"], &one["global_workspace_access_settings"]["enabled"]), (&json!(1), &json!(false)));
        let reset = json!({"workspaces": [], "override_existing_workspace_access": true, "global_workspace_access": null});
        done(&gateway, Method::PUT, path, reset).await;
        assert_eq!(both(&gateway).await, (200, 200));
    })
    .await;
}

const WORKSPACES: &str = "/v1/integrations/int/workspaces";

/// The workspace `team` with this in its entry.
fn team(more: &Value) -> Value {
    let mut entry = json!({"id": "team", "enabled": true});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"workspaces": [entry]})
}

/// Status and error of the first chat that is refused.
async fn used_up(gateway: &Gateway, key: &str) -> (u16, Value) {
    wait::until("the limit to be used up", async || {
        let (status, body, _) = chat(gateway, key, &json!({"provider": "@int"}), "m").await;
        (status != 200).then_some((status, body["error"].clone()))
    })
    .await
}

#[tokio::test]
async fn an_integration_limits_what_a_workspace_uses_of_it() {
    on_each_store(async || {
        let gateway = started().await;
        let at_it = json!({"provider": "@int"});
        let one = json!([{"type": "requests", "credit_limit": 1, "periodic_reset": "monthly"}]);
        done(&gateway, Method::PUT, WORKSPACES, team(&json!({"usage_limits": one}))).await;
        assert_eq!(chat(&gateway, TEAM, &at_it, "m").await.0, 200);
        let (status, error) = used_up(&gateway, TEAM).await;
        assert_eq!((status, &error["type"]), (412, &json!("integration_exhaust_error")), "{error}");
        let integration =
            done(&gateway, Method::GET, "/v1/integrations/int", Value::Null).await["id"].clone();
        assert_eq!(
            (&error["limit"]["scope"], &error["limit"]["id"]),
            (&json!("integration"), &integration),
            "{error}"
        );
        assert_eq!(chat(&gateway, DEFAULT, &at_it, "m").await.0, 200, "another workspace");
        let of_file = json!({"provider": "@of-file"});
        assert_eq!(chat(&gateway, TEAM, &of_file, "m").await.0, 200, "another provider");
        let shown = done(&gateway, Method::GET, WORKSPACES, Value::Null).await["workspaces"][0].clone();
        assert_eq!(
            (&shown["status"], &shown["last_reset_at"]),
            (&json!("exhausted"), &Value::Null),
            "{shown}"
        );
        let usage = &shown["usage"][0];
        assert_eq!((&usage["current_usage"], &usage["remaining"]), (&json!(1), &json!(0)), "{shown}");
        assert!(shown["usage_limits"][0]["next_usage_reset_at"].is_string(), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn a_changed_limit_of_a_workspace_keeps_its_usage_and_a_reset_does_not() {
    on_each_store(async || {
        let gateway = started().await;
        let at_it = json!({"provider": "@int"});
        let limit = |of: u32| json!([{"type": "requests", "credit_limit": of}]);
        done(&gateway, Method::PUT, WORKSPACES, team(&json!({"usage_limits": limit(1)}))).await;
        assert_eq!(used_up(&gateway, TEAM).await.0, 412);
        done(&gateway, Method::PUT, WORKSPACES, team(&json!({"usage_limits": limit(2)}))).await;
        assert_eq!(chat(&gateway, TEAM, &at_it, "m").await.0, 200);
        assert_eq!(used_up(&gateway, TEAM).await.0, 412);
        let reset = json!({"usage_limits": limit(2), "reset_usage": true});
        done(&gateway, Method::PUT, WORKSPACES, team(&reset)).await;
        let shown = done(&gateway, Method::GET, WORKSPACES, Value::Null).await["workspaces"][0].clone();
        assert_eq!(
            (&shown["status"], &shown["usage"][0]["current_usage"]),
            (&json!("active"), &json!(0)),
            "{shown}"
        );
        assert!(shown["last_reset_at"].is_string(), "{shown}");
        assert_eq!(chat(&gateway, TEAM, &at_it, "m").await.0, 200);

        let rate = json!({"rate_limits": [{"unit": "rpw", "value": 0}]});
        done(&gateway, Method::PUT, WORKSPACES, team(&rate)).await;
        let (status, error) = used_up(&gateway, TEAM).await;
        assert_eq!((status, &error["code"]), (429, &json!("05")), "{error}");

        // Each of the others by itself.
        let mut global = team(&json!({}));
        global["global_workspace_access"] = json!({"enabled": true, "usage_limits": limit(1)});
        done(&gateway, Method::PUT, WORKSPACES, global).await;
        assert_eq!(chat(&gateway, DEFAULT, &at_it, "m").await.0, 200);
        assert_eq!(used_up(&gateway, DEFAULT).await.0, 412);
        for _ in 0..3 {
            assert_eq!(chat(&gateway, TEAM, &at_it, "m").await.0, 200, "it has an entry, without limits");
        }
    })
    .await;
}

#[tokio::test]
async fn what_an_integration_cannot_have_is_refused_with_every_problem() {
    let gateway = started().await;
    let refused = async |path: &str, body: Value, wanted: &[&str]| {
        let (status, error) = call(&gateway, Method::PUT, path, &body).await;
        let details = error["error"]["details"].as_array().cloned().unwrap_or_default();
        let paths: Vec<&str> = details.iter().map(|problem| problem["path"].as_str().unwrap()).collect();
        assert_eq!((status, &paths[..]), (400, wanted), "{error}");
    };
    let models = "/v1/integrations/int/models";
    let two = json!([{"slug": "a", "enabled": true, "is_finetune": true}, {"slug": "a", "enabled": true}]);
    refused(models, json!({"models": two}), &["models[0].base_model_slug", "models[1].slug"]).await;
    let negative = json!([{"slug": "a", "enabled": true, "pricing_config": {"type": "static", "pay_as_you_go": {"request_token": {"price": -1}}}}]);
    refused(
        models,
        json!({"models": negative}),
        &["models[0].pricing_config.pay_as_you_go.request_token.price"],
    )
    .await;
    refused(models, json!({"models": [{"enabled": true}], "more": 1}), &["models[0].slug", "more"]).await;
    let workspaces = "/v1/integrations/int/workspaces";
    let wrong = json!([{"id": "nowhere", "enabled": true}, {"id": "team", "enabled": true, "usage_limits": {"credit_limit": 5, "alert_threshold": 9}}]);
    refused(
        workspaces,
        json!({"workspaces": wrong}),
        &["workspaces[0].id", "workspaces[1].usage_limits[0].alert_threshold"],
    )
    .await;
    let adjustments = json!({"pricing_adjustments": {"multiplier": {"default": -0.5}}});
    refused("/v1/integrations/int", adjustments, &["pricing_adjustments.multiplier.default"]).await;
    let adjusted = json!({"pricing_adjustments": {"multiplier": {"default": 0.8, "request_token": 0.5}}});
    done(&gateway, Method::PUT, "/v1/integrations/int", adjusted.clone()).await;
    let one = done(&gateway, Method::GET, "/v1/integrations/int", Value::Null).await;
    assert_eq!(one["pricing_adjustments"], adjusted["pricing_adjustments"]);
    // One workspace's integration is that workspace's alone.
    let own =
        json!({"name": "own", "slug": "own", "ai_provider_id": "openai", "key": "k", "workspace_id": "team"});
    done(&gateway, Method::POST, "/v1/integrations", own).await;
    let (status, _) =
        call(&gateway, Method::PUT, "/v1/integrations/own/workspaces", &json!({"workspaces": []})).await;
    assert_eq!(status, 409);
}
