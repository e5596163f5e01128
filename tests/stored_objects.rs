//! What the control plane stores is used by requests as that of the settings file is, outlives the process, and shows no secret.
//!
//! On the running binary with its own database. Who may call is in `control_access`.

use crate::support::client::{client, new_trace};
use crate::support::{Gateway, postgres_server, stores, wait};
use reqwest::Method;
use serde_json::{Value, json};

const SECRET: &str = "sk-canary-stored-0123456789";

/// The emulator is on loopback, where providers of the store may not go by default.
const SETTINGS: &str = "
custom_hosts: {allow: [127.0.0.1]}
configs:
  of-file: {provider: '@of-file'}
providers:
  of-file: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
";

/// The same settings on each store.
fn gateways() -> Vec<Gateway> {
    stores::gateways(SETTINGS)
}

async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = gateway.control(method, path).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert!(!text.contains("canary"), "{path}: {text}");
    (status, serde_json::from_str(&text).unwrap_or_default())
}

async fn made(gateway: &Gateway, path: &str, body: &Value) -> Value {
    let (status, made) = call(gateway, Method::POST, path, body).await;
    assert_eq!(status, 200, "{path}: {made}");
    made
}

/// A virtual key for the emulator, and a config that uses it.
async fn provider_and_config(gateway: &Gateway) {
    let host = format!("{}/v1", gateway.emulator_url());
    let key = json!({"name": "k", "provider": "openai", "key": SECRET, "slug": "stored", "customHost": host});
    made(gateway, "/v1/virtual-keys", &key).await;
    let config = json!({"name": "c", "slug": "saved", "config": {"provider": "@stored", "override_params": {"model": "first"}}});
    made(gateway, "/v1/configs", &config).await;
}

/// The status of a chat through a saved config.
async fn chat_status(gateway: &Gateway, config: &str, tag: &str) -> u16 {
    let url = format!("{}/chat/completions", gateway.base_url());
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    let call = client().post(url).header("x-gateway-config", config).header("x-emulator-tag", tag);
    let response = call.json(&body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert!(!text.contains("canary"), "{text}");
    status
}

/// A chat through a saved config; the status, and the model and key that the gateway's own emulator got.
async fn chat(gateway: &Gateway, config: &str) -> (u16, Option<(String, String)>) {
    let tag = new_trace();
    let status = chat_status(gateway, config, &tag).await;
    let requests = if status == 200 { gateway.emulator_requests(&tag).await } else { Vec::new() };
    let received = requests.first().map(|request| {
        let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        let headers = request["headers"].as_array().unwrap();
        let is_key = |header: &&Value| header[0].as_str().unwrap().eq_ignore_ascii_case("authorization");
        let key = headers.iter().find(is_key).unwrap();
        (body["model"].as_str().unwrap().to_owned(), key[1].as_str().unwrap().to_owned())
    });
    (status, received)
}

#[tokio::test]
async fn requests_use_stored_providers_and_configs_at_once() {
    for gateway in gateways() {
        assert_eq!(chat(&gateway, "saved").await.0, 400, "there is no such config yet");
        provider_and_config(&gateway).await;
        let first = chat(&gateway, "saved").await;
        assert_eq!(first, (200, Some(("first".to_owned(), format!("Bearer {SECRET}")))));
        let update = json!({"config": {"provider": "@stored", "override_params": {"model": "second"}}});
        assert_eq!(call(&gateway, Method::PUT, "/v1/configs/saved", &update).await.0, 200);
        assert_eq!(chat(&gateway, "saved").await.1.unwrap().0, "second");
        let rotated = json!({"key": "sk-canary-rotated-0123456789"});
        assert_eq!(call(&gateway, Method::PUT, "/v1/virtual-keys/stored", &rotated).await.0, 200);
        assert_eq!(chat(&gateway, "saved").await.1.unwrap().1, "Bearer sk-canary-rotated-0123456789");
        let (_, versions) = call(&gateway, Method::GET, "/v1/configs/saved/versions", &Value::Null).await;
        let models: Vec<&Value> = versions["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|version| &version["data"]["config"]["override_params"]["model"])
            .collect();
        assert_eq!(models, ["second", "first"], "{versions}");
        assert_eq!(call(&gateway, Method::DELETE, "/v1/virtual-keys/stored", &json!({})).await.0, 200);
        assert_eq!(chat(&gateway, "saved").await.0, 400, "its provider is gone");
        assert_eq!(call(&gateway, Method::DELETE, "/v1/configs/saved", &json!({})).await.0, 200);
        assert_eq!(call(&gateway, Method::GET, "/v1/configs/saved", &Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn secrets_are_nowhere_to_be_read() {
    let gateway = Gateway::start(SETTINGS);
    provider_and_config(&gateway).await;
    let inline =
        json!({"name": "with key", "slug": "inline", "config": {"provider": "openai", "api_key": SECRET}});
    made(&gateway, "/v1/configs", &inline).await;
    let refused = json!({"name": "k", "provider": "nobody", "key": SECRET, "configurations": {"aws_secret_access_key": SECRET}});
    assert_eq!(call(&gateway, Method::POST, "/v1/virtual-keys", &refused).await.0, 400);
    for path in [
        "/v1/providers",
        "/v1/providers/stored",
        "/v1/virtual-keys",
        "/v1/virtual-keys/stored",
        "/v1/integrations",
        "/v1/integrations/stored",
        "/v1/configs",
        "/v1/configs/inline",
        "/v1/configs/inline/versions",
        "/v1/audit-logs",
    ] {
        let (status, body) = call(&gateway, Method::GET, path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
    }
    let (_, log) =
        call(&gateway, Method::GET, "/v1/audit-logs?resource_type=virtual-keys", &Value::Null).await;
    let statuses: Vec<u64> = log["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["response_status_code"].as_u64())
        .collect();
    assert_eq!(statuses, [400, 200], "the refused one, too: {log}");
    assert!(!gateway.log().contains("canary"));
    let data = gateway.folder().join("data");
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        // Temporary files come and go.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let found = bytes.windows(6).any(|window| window == b"canary");
        assert!(!found, "{}", path.display());
    }
}

#[tokio::test]
async fn names_of_the_settings_file_are_listed_and_cannot_be_taken() {
    for gateway in gateways() {
        let provider = json!({"name": "p", "provider": "openai", "key": SECRET, "slug": "of-file"});
        let config = json!({"name": "c", "slug": "of-file", "config": {"provider": "@of-file"}});
        for (list, body) in [("/v1/providers", provider), ("/v1/configs", config)] {
            let (status, refusal) = call(&gateway, Method::POST, list, &body).await;
            assert_eq!((status, &refusal["data"]["errorCode"]), (409, &"AB07".into()), "{refusal}");
            let (_, listed) = call(&gateway, Method::GET, list, &Value::Null).await;
            assert_eq!(
                (&listed["data"][0]["slug"], &listed["data"][0]["origin"]),
                (&"of-file".into(), &"settings".into())
            );
            let path = format!("{list}/of-file");
            assert_eq!(call(&gateway, Method::GET, &path, &Value::Null).await.0, 200);
            for method in [Method::PUT, Method::DELETE] {
                let (status, refusal) = call(&gateway, method, &path, &json!({"name": "x"})).await;
                assert_eq!(status, 409, "{path} {refusal}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    for gateway in gateways() {
        provider_and_config(&gateway).await;
        let gateway = gateway.killed_and_started_again();
        assert_eq!(chat(&gateway, "saved").await.1.unwrap().1, format!("Bearer {SECRET}"));
        let (_, log) = call(&gateway, Method::GET, "/v1/audit-logs", &Value::Null).await;
        assert_eq!(log["total"], 2, "{log}");
    }
}

#[tokio::test]
async fn every_problem_of_a_body_is_reported_with_its_path() {
    for gateway in gateways() {
        let body = json!({"name": " ", "slug": "a b", "config": {"provider": "@nobody", "retry": {"attemptz": 1}, "targets": 7}, "isDefault": "yes", "x": 1});
        let (status, refusal) = call(&gateway, Method::POST, "/v1/configs", &body).await;
        let paths = |refusal: &Value| -> Vec<String> {
            let details = refusal["error"]["details"].as_array().unwrap().iter();
            details.map(|detail| detail["path"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (status, paths(&refusal)),
            (400, ["isDefault", "name", "slug", "x"].map(str::to_owned).into()),
            "{refusal}"
        );
        let body = json!({"name": "n", "config": {"provider": "@nobody", "retry": {"attemptz": 1}, "input_guardrails": ["pg-none"]}});
        let (_, refusal) = call(&gateway, Method::POST, "/v1/configs", &body).await;
        let wanted = [
            "config.retry.attempts",
            "config.retry.attemptz",
            "config.provider",
            "config.input_guardrails[0]",
        ];
        assert_eq!(paths(&refusal), wanted.map(str::to_owned), "{refusal}");
        let limits = json!({"name": "n", "provider": "openai", "key": SECRET, "usage_limits": {"credit_limit": 5, "alert_threshold": 9}});
        let (_, refusal) = call(&gateway, Method::POST, "/v1/providers", &limits).await;
        assert_eq!(paths(&refusal), ["usage_limits.alert_threshold"], "{refusal}");
    }
}

/// Changes are in force when they are acknowledged; only the clock takes a moment.
#[tokio::test]
async fn a_provider_goes_out_of_use_when_it_expires() {
    let gateway = Gateway::start(SETTINGS);
    provider_and_config(&gateway).await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1500);
    let update = json!({"expires_at": format!("{soon:.3}")});
    assert_eq!(call(&gateway, Method::PUT, "/v1/providers/stored", &update).await.0, 200);
    assert_eq!(chat(&gateway, "saved").await.0, 200);
    wait::until("the provider to expire", async || (chat(&gateway, "saved").await.0 == 400).then_some(()))
        .await;
    let (_, shown) = call(&gateway, Method::GET, "/v1/providers/stored", &Value::Null).await;
    assert_eq!(shown["status"], "expired", "{shown}");
}

#[tokio::test]
async fn gateways_on_one_database_share_what_is_stored() {
    let Some(server) = postgres_server::shared() else { return };
    let settings = format!("{SETTINGS}{}", stores::settings(&server.new_database(), ""));
    let one = Gateway::start(&settings);
    let two = Gateway::start(&settings);
    provider_and_config(&one).await;
    wait::until("the config at the other gateway", async || {
        (chat_status(&two, "saved", "other").await == 200).then_some(())
    })
    .await;
    assert_eq!(call(&two, Method::DELETE, "/v1/configs/saved", &json!({})).await.0, 200);
    wait::until("the deletion at the first one", async || {
        (chat_status(&one, "saved", "other").await == 400).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_go_on_without_the_database() {
    // Its own: it is stopped.
    let Some(server) = postgres_server::Server::start() else { return };
    let gateway = Gateway::start(&format!("{SETTINGS}{}", stores::settings(&server.new_database(), "")));
    provider_and_config(&gateway).await;
    let snapshot = gateway.folder().join("data/snapshot.sealed");
    wait::until("the snapshot on disk", async || snapshot.exists().then_some(())).await;
    server.kill();
    assert_eq!(chat(&gateway, "saved").await.0, 200);
    let config = json!({"name": "d", "slug": "later", "config": {"provider": "@stored"}});
    let response = gateway.control(Method::POST, "/v1/configs").json(&config).send().await.unwrap();
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((response.status().as_u16(), retry.as_deref()), (503, Some("1")));
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], "store_unavailable");
    let ready: Value =
        client().get(format!("{}/readyz", gateway.control_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!((&ready["status"], &ready["store"]["available"]), (&"ready".into(), &false.into()), "{ready}");
    assert_eq!(gateway.metric("turnpike_store_available").await, Some(0.0));
    // A process that starts now has the last snapshot on disk.
    let gateway = gateway.killed_and_started_again();
    assert_eq!(chat(&gateway, "saved").await.1.unwrap().1, format!("Bearer {SECRET}"));
    let ready: Value =
        client().get(format!("{}/readyz", gateway.control_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(ready["store"]["from_disk"], true, "{ready}");
    server.run();
    wait::until("the database to be back", async || {
        (call(&gateway, Method::POST, "/v1/configs", &config).await.0 == 200).then_some(())
    })
    .await;
    assert_eq!(chat(&gateway, "later").await.0, 200);
    assert_eq!(gateway.metric("turnpike_store_available").await, Some(1.0));
}

#[tokio::test]
async fn the_data_port_stays_closed_when_the_last_key_is_deleted() {
    let gateway = Gateway::start(SETTINGS);
    let body = json!({"name": "k", "scopes": ["completions.write"], "workspace_id": "default"});
    assert_eq!(chat_status(&gateway, "of-file", "open").await, 200, "no key is demanded before there is one");
    let key = made(&gateway, "/v1/api-keys/workspace/service", &body).await;
    assert_eq!(chat_status(&gateway, "of-file", "closed").await, 401);
    let path = format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    assert_eq!(call(&gateway, Method::DELETE, &path, &json!({})).await.0, 200);
    assert_eq!(call(&gateway, Method::GET, &path, &Value::Null).await.0, 404);
    assert_eq!(chat_status(&gateway, "of-file", "closed").await, 401);
    let gateway = gateway.killed_and_started_again();
    assert_eq!(chat_status(&gateway, "of-file", "closed").await, 401);
}
