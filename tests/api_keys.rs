//! Service keys of the store, made and used: the acceptance examples 1 to 7 of the control plane, and the command line.
//!
//! What needs the clock to advance (the end of a transition) is tested beside the code.

use crate::support::client::{client, new_trace};
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::stores::on_each_store;
use crate::support::wait::until;
use reqwest::Method;
use serde_json::{Value, json};

/// A request to the control API, with the settings' key where `key` is empty.
async fn send(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let key = if key.is_empty() { KEY } else { key };
    let call = client().request(method, format!("{}{path}", gateway.control_url()));
    let call = call.header("x-gateway-api-key", key);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status} {text}")))
}

async fn make(gateway: &Gateway, body: &Value) -> (String, String) {
    let (status, made) = send(gateway, "", Method::POST, "/v1/api-keys/workspace/service", body).await;
    assert_eq!((status, &made["object"]), (200, &json!("api-key")), "{made}");
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// A call with this key: its status, its body without ids, and how many requests reached the provider.
async fn call(gateway: &Gateway, key: Option<&str>, headers: &[(&str, &str)]) -> (u16, Value, usize) {
    let tag = new_trace();
    let call =
        client().post(format!("{}/chat/completions", gateway.base_url())).header("x-emulator-tag", &tag);
    let call = key.into_iter().fold(call, |call, key| call.header("x-gateway-api-key", key));
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}]});
    let response = call.json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.json().await.unwrap();
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    let sent: Vec<Value> = client().get(url).send().await.unwrap().json().await.unwrap();
    (status, body, sent.len())
}

const OURS: (&str, &str) = ("x-gateway-provider", "@emulator");
const SERVICE: &str = "/v1/api-keys/workspace/service";

#[tokio::test]
async fn a_key_is_shown_once_and_then_masked() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let (id, key) = make(&gateway, &json!({"name": "k", "scopes": ["completions.write"]})).await;
        assert!(uuid::Uuid::try_parse(&id).is_ok() && key.starts_with("gk_") && key.len() == 59, "{key}");
        let (status, read) =
            send(&gateway, "", Method::GET, &format!("/v1/api-keys/{id}"), &Value::Null).await;
        let shown = (&read["status"], &read["usage_limits"], &read["rate_limits"], &read["type"]);
        assert_eq!(status, 200);
        assert_eq!(shown, (&json!("active"), &Value::Null, &json!([]), &json!("workspace-service")));
        assert_eq!(read["key"], format!("gk*****{}", &key[56..]));
        assert_eq!(call(&gateway, Some(&key), &[OURS]).await.0, 200);
        let (_, own) = send(&gateway, &key, Method::GET, "/v1/api-keys/self", &Value::Null).await;
        assert_eq!(own["id"], id.as_str());
        assert!(own["last_used_at"].is_string(), "{own}");
        let (_, list) = send(&gateway, "", Method::GET, "/v1/api-keys", &Value::Null).await;
        let origins: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|key| key["origin"].as_str().unwrap()).collect();
        assert!(origins[0] == "store" && origins[1..].iter().all(|origin| *origin == "settings"), "{list}");
        assert!(origins.len() > 1, "{list}");
        for text in [read.to_string(), own.to_string(), list.to_string(), gateway.log()] {
            assert!(!text.contains(&key) && !text.contains(&key[16..56]), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn all_mistakes_are_reported_at_once() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let body = json!({"scopes": ["nope"], "usage_limits": {"credit_limit": 5, "alert_threshold": 9}});
        let (status, error) = send(&gateway, "", Method::POST, SERVICE, &body).await;
        let details = error["error"]["details"].as_array().unwrap_or_else(|| panic!("{error}"));
        let mut paths: Vec<_> = details.iter().map(|detail| detail["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!((status, &error["data"]["errorCode"]), (400, &json!("AB01")), "{error}");
        assert_eq!(paths, ["name", "scopes[0]", "usage_limits.alert_threshold"]);
        for (body, path) in [
            (json!({"name": "k", "scopes": []}), "scopes"),
            (json!({"name": "k", "scopes": ["audit_logs.list"]}), "scopes[0]"),
            (
                json!({"name": "k", "scopes": ["configs.list"], "expires_at": "2020-01-01T00:00:00Z"}),
                "expires_at",
            ),
            (
                json!({"name": "k", "scopes": ["configs.list"], "defaults": {"config_id": "gone"}}),
                "defaults.config_id",
            ),
        ] {
            let (status, error) = send(&gateway, "", Method::POST, SERVICE, &body).await;
            assert_eq!((status, &error["error"]["param"]), (400, &json!(path)), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn unknown_malformed_and_deleted_keys_are_one() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let (id, key) = make(&gateway, &json!({"name": "k", "scopes": ["completions.write"]})).await;
        assert_eq!(call(&gateway, Some(&key), &[OURS]).await.0, 200);
        let path = format!("/v1/api-keys/{id}");
        assert_eq!(send(&gateway, "", Method::DELETE, &path, &Value::Null).await, (200, json!({})));
        assert_eq!(send(&gateway, "", Method::GET, &path, &Value::Null).await.0, 404);
        let unknown = key.replacen(&key[3..15], "AAAAAAAAAAAA", 1);
        let mut bodies = Vec::new();
        for wrong in ["gk_x", &unknown, &key] {
            let (status, body, sent) = call(&gateway, Some(wrong), &[OURS]).await;
            assert_eq!((status, sent), (401, 0), "{body}");
            bodies.push(body);
        }
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{bodies:?}");
        assert!(bodies[0].to_string().contains("Error Code: 03"), "{bodies:?}");
        let (status, body, sent) = call(&gateway, None, &[OURS]).await;
        assert_eq!((status, sent, &body["error"]["code"]), (401, 0, &bodies[0]["error"]["code"]));
    })
    .await;
}

#[tokio::test]
async fn no_key_gives_or_uses_a_right_it_has_not() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let (_, render) = make(&gateway, &json!({"name": "r", "scopes": ["prompts.render"]})).await;
        let (status, _, sent) = call(&gateway, Some(&render), &[OURS]).await;
        assert_eq!((status, sent), (403, 0));
        assert_eq!(send(&gateway, &render, Method::GET, "/v1/api-keys", &Value::Null).await.0, 403);
        let manager =
            json!(["workspace_service_api_keys.create", "workspace_service_api_keys.rotate", "configs.list"]);
        let (_, manager) = make(&gateway, &json!({"name": "m", "scopes": manager})).await;
        let (strong, _) = make(&gateway, &json!({"name": "s", "scopes": ["completions.write"]})).await;
        for (path, body) in [
            (SERVICE.to_owned(), json!({"name": "x", "scopes": ["configs.list", "completions.write"]})),
            // Whoever rotates a key has it.
            (format!("/v1/api-keys/{strong}/rotate"), json!({})),
        ] {
            let (status, error) = send(&gateway, &manager, Method::POST, &path, &body).await;
            assert_eq!((status, &error["data"]["errorCode"]), (403, &json!("AB03")), "{error}");
        }
        let body = json!({"name": "x", "scopes": ["configs.list"]});
        assert_eq!(send(&gateway, &manager, Method::POST, SERVICE, &body).await.0, 200);
        // A key of the organisation makes keys that call, and does not call itself.
        let scopes = json!(["workspace_service_api_keys.create"]);
        let body = json!({"name": "o", "scopes": scopes});
        let (_, made) = send(&gateway, "", Method::POST, "/v1/api-keys/organisation/service", &body).await;
        let organisation = made["key"].as_str().unwrap();
        let body = json!({"name": "c", "scopes": ["completions.write"]});
        assert_eq!(send(&gateway, organisation, Method::POST, SERVICE, &body).await.0, 200);
        assert_eq!(call(&gateway, Some(organisation), &[OURS]).await.0, 403);
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_has_two_secrets_at_most() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let (id, old) = make(&gateway, &json!({"name": "k", "scopes": ["completions.write"]})).await;
        let path = format!("/v1/api-keys/{id}/rotate");
        let (status, rotated) = send(&gateway, "", Method::POST, &path, &json!({})).await;
        let new = rotated["key"].as_str().unwrap().to_owned();
        assert_eq!((status, &rotated["id"]), (200, &json!(id)));
        assert!(rotated["key_transition_expires_at"].is_string() && new != old);
        for key in [&old, &new] {
            assert_eq!(call(&gateway, Some(key), &[OURS]).await.0, 200);
        }
        let (status, again) = send(&gateway, "", Method::POST, &path, &json!({})).await;
        assert_eq!((status, &again["data"]["errorCode"]), (409, &json!("AB07")), "{again}");
        let short = json!({"key_transition_period_ms": 1000});
        assert_eq!(send(&gateway, "", Method::POST, &path, &short).await.0, 400);
        let (_, cut) = send(&gateway, "", Method::POST, &path, &json!({"key_transition_period_ms": 0})).await;
        assert!(cut["key_transition_expires_at"].is_null(), "{cut}");
        for key in [&old, &new] {
            assert_eq!(call(&gateway, Some(key), &[OURS]).await.0, 401);
        }
        assert_eq!(call(&gateway, cut["key"].as_str(), &[OURS]).await.0, 200);
    })
    .await;
}

#[tokio::test]
async fn a_key_expires_and_changes_without_a_restart() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
        let body = json!({"name": "k", "scopes": ["completions.write"], "expires_at": end});
        let (id, key) = make(&gateway, &body).await;
        assert_eq!(call(&gateway, Some(&key), &[OURS]).await.0, 200);
        let refused = until("the end of the key", async || {
            let (status, body, sent) = call(&gateway, Some(&key), &[OURS]).await;
            (status != 200).then_some((status, body, sent))
        })
        .await;
        assert_eq!((refused.0, &refused.1["error"]["code"], refused.2), (401, &json!("expired_api_key"), 0));
        assert!(refused.1.to_string().contains("Error Code: 01"), "{}", refused.1);
        let path = format!("/v1/api-keys/{id}");
        assert_eq!(send(&gateway, "", Method::GET, &path, &Value::Null).await.1["status"], "expired");
        let (status, _) =
            send(&gateway, "", Method::PUT, &path, &json!({"expires_at": null, "name": "l"})).await;
        assert_eq!((status, call(&gateway, Some(&key), &[OURS]).await.0), (200, 200));
        let narrow = json!({"scopes": ["configs.list"]});
        assert_eq!(send(&gateway, "", Method::PUT, &path, &narrow).await.0, 200);
        assert_eq!(call(&gateway, Some(&key), &[OURS]).await.0, 403);
    })
    .await;
}

#[tokio::test]
async fn a_default_config_cannot_be_overridden_where_the_key_forbids_it() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let config = json!({"name": "c", "config": {"provider": "@emulator"}});
        let (_, saved) = send(&gateway, "", Method::POST, "/v1/configs", &config).await;
        let slug = saved["data"]["slug"].as_str().unwrap_or_else(|| panic!("{saved}"));
        let defaults = json!({"config_id": slug, "allow_config_override": false, "metadata": {"team": "a"}});
        let (_, key) =
            make(&gateway, &json!({"name": "k", "scopes": ["completions.write"], "defaults": defaults}))
                .await;
        let (status, body, sent) = call(&gateway, Some(&key), &[("x-gateway-config", "cf-emulator")]).await;
        assert!(status == 400 && sent == 0 && body.to_string().contains("override"), "{body}");
        let trace = new_trace();
        let own = [("x-gateway-trace-id", trace.as_str()), ("x-gateway-metadata", r#"{"team":"b","x":"y"}"#)];
        assert_eq!(call(&gateway, Some(&key), &own).await.0, 200);
        let line = gateway.access_line(&trace).await;
        assert_eq!((&line["metadata"], &line["key"]), (&json!({"team": "a", "x": "y"}), &json!("k")));
    })
    .await;
}

/// The kinds of objects with limits: a change of one member of a limit changes nothing else of it.
#[tokio::test]
async fn a_changed_limit_keeps_what_the_change_does_not_name() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let usage = json!({"credit_limit": 50, "alert_threshold": 40, "periodic_reset": "monthly"});
        let rates = json!([{"unit": "rpm", "value": 5, "smooth": true}, {"type": "tokens", "unit": "rpm", "value": 500}]);
        for (all, one, own) in [
            (SERVICE, "/v1/api-keys", json!({"scopes": ["completions.write"]})),
            ("/v1/admin/workspaces", "/v1/admin/workspaces", json!({})),
            ("/v1/providers", "/v1/providers", json!({"provider": "openai", "key": "sk-0123456789abcdef"})),
            ("/v1/virtual-keys", "/v1/virtual-keys", json!({"provider": "openai", "key": "sk-0123456789abcdef"})),
        ] {
            let mut body = json!({"name": "limited", "usage_limits": usage, "rate_limits": rates});
            body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let (status, made) = send(&gateway, "", Method::POST, all, &body).await;
            assert_eq!(status, 200, "{all}: {made}");
            let id = made["id"].as_str().or(made["slug"].as_str()).unwrap();
            let path = format!("{one}/{id}");
            let update = json!({"usage_limits": {"credit_limit": 75}, "rate_limits": [{"unit": "rpm", "value": 6}]});
            let (status, refusal) = send(&gateway, "", Method::PUT, &path, &update).await;
            assert_eq!(status, 200, "{all}: {refusal}");
            let (_, shown) = send(&gateway, "", Method::GET, &path, &Value::Null).await;
            let limit = shown["usage_limits"].get(0).unwrap_or(&shown["usage_limits"]);
            assert_eq!(
                (&limit["credit_limit"], &limit["alert_threshold"], &limit["periodic_reset"]),
                (&json!(75), &json!(40), &json!("monthly")),
                "{all}: {shown}"
            );
            let rate = json!({"type": "requests", "unit": "rpm", "value": 6, "smooth": true});
            assert!(shown["rate_limits"] == json!([rate]) || shown["rate_limits"] == rate, "{all}: {shown}");
            // What does not go together with what was there is refused.
            let wrong = json!({"usage_limits": {"credit_limit": 30}});
            let (status, refusal) = send(&gateway, "", Method::PUT, &path, &wrong).await;
            assert_eq!(status, 400, "{all}: {refusal}");
            assert!(refusal.to_string().contains("alert_threshold"), "{all}: {refusal}");
            let cleared = json!({"usage_limits": {"periodic_reset": null, "alert_threshold": null}});
            assert_eq!(send(&gateway, "", Method::PUT, &path, &cleared).await.0, 200, "{all}");
            let (_, shown) = send(&gateway, "", Method::GET, &path, &Value::Null).await;
            let limit = shown["usage_limits"].get(0).unwrap_or(&shown["usage_limits"]);
            assert_eq!((&limit["credit_limit"], limit.get("periodic_reset")), (&json!(75), None), "{all}: {shown}");
        }
    })
    .await;
}

/// What binds a key is as little its own to change as its limits, and what it makes is bound as well.
#[tokio::test]
async fn no_key_frees_itself_or_makes_a_freer_one() {
    let gateway = Gateway::start(STANDARD);
    let end = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)).to_string();
    let scopes = json!([
        "workspace_service_api_keys.create",
        "workspace_service_api_keys.update",
        "workspace_service_api_keys.rotate",
        "completions.write"
    ]);
    let defaults = json!({"metadata": {"_user": "ann"}});
    let bound = json!({"name": "b", "scopes": scopes, "expires_at": end, "defaults": defaults});
    let (id, key) = make(&gateway, &bound).await;
    let (free, _) = make(&gateway, &json!({"name": "f", "scopes": ["completions.write"]})).await;
    let own = format!("/v1/api-keys/{id}");
    for change in [
        json!({"expires_at": null}),
        json!({"defaults": null}),
        json!({"defaults": {"allow_config_override": true}}),
        json!({"allowed_models": ["m"]}),
        json!({"scopes": ["completions.write"]}),
        json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": 5}]}),
    ] {
        let (status, reply) = send(&gateway, &key, Method::PUT, &own, &change).await;
        assert_eq!(status, 403, "{change}: {reply}");
    }
    assert_eq!(send(&gateway, &key, Method::PUT, &own, &json!({"description": "mine"})).await.0, 200);
    let child =
        json!({"name": "c", "scopes": ["completions.write"], "expires_at": end, "defaults": defaults});
    for (member, status) in [("", 200), ("expires_at", 403), ("defaults", 403)] {
        let mut child = child.clone();
        child.as_object_mut().unwrap().remove(member);
        let (found, reply) = send(&gateway, &key, Method::POST, SERVICE, &child).await;
        assert_eq!(found, status, "{child}: {reply}");
    }
    let rotate = format!("/v1/api-keys/{free}/rotate");
    assert_eq!(send(&gateway, &key, Method::POST, &rotate, &json!({})).await.0, 403);
    let rename = json!({"name": "n"});
    assert_eq!(send(&gateway, &key, Method::PUT, &format!("/v1/api-keys/{free}"), &rename).await.0, 403);
    assert_eq!(send(&gateway, &key, Method::POST, &format!("{own}/rotate"), &json!({})).await.0, 200);
}
