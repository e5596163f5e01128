//! The gateway's own list of models: of all stored providers and of configs that name their models, in both shapes, and that
//! the names in it work.
//!
//! Not a provider's own list (`operations`), and not for how long lists are kept (`state::model_lists`).

use crate::support::client::{client, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, gateway};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CONFIGS: &str = "
configs:
  support:
    strategy: {mode: fallback}
    targets:
      - {provider: '@emulator', override_params: {model: gpt-4o}}
      - {provider: '@anthropic-emulator', override_params: {model: claude-sonnet-4-5}}
  nameless:
    provider: '@emulator'
  half:
    strategy: {mode: fallback}
    targets:
      - {provider: '@emulator', override_params: {model: gpt-4o}}
      - {provider: '@anthropic-emulator'}
";

fn get(gateway: &Gateway, path: &str) -> RequestBuilder {
    client().get(format!("{}{path}", gateway.base_url())).header("x-gateway-api-key", KEY)
}

async fn listed(call: RequestBuilder) -> (String, Value) {
    let response = call.send().await.unwrap();
    let warnings =
        response.headers().get("x-gateway-warnings").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(response.status(), 200);
    (warnings.unwrap_or_default(), response.json().await.unwrap())
}

fn with_configs() -> String {
    let (before, after) = STANDARD.split_once("\nconfigs:\n").unwrap();
    let rest = &after[after.find("custom_hosts:").unwrap()..];
    format!("{before}\n{CONFIGS}{rest}")
}

#[tokio::test]
async fn every_stored_provider_is_listed_and_every_name_works() {
    let gateway = Gateway::start(&with_configs());
    let (warnings, list) = listed(get(&gateway, "/models")).await;
    assert_eq!(list["object"], "list");
    let names: BTreeSet<&str> =
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    for slug in ["emulator", "anthropic-emulator", "together-emulator"] {
        let of_slug = |name: &&&str| name.starts_with(&format!("@{slug}/"));
        assert!(names.iter().any(|name| of_slug(&name)), "{slug}: {names:?} {warnings}");
    }
    // Bedrock has no list; the others are there all the same.
    assert!(warnings.contains("@bedrock-emulator: not listed, "), "{warnings}");
    for model in list["data"].as_array().unwrap() {
        assert!(model["created"].is_u64() && model["object"] == "model", "{model}");
        match model["provider"].as_str() {
            Some(slug) => assert!(model["id"].as_str().unwrap().starts_with(&format!("@{slug}/")), "{model}"),
            None => assert_eq!(model["owned_by"], "config", "{model}"),
        }
    }
    let configs: Vec<&&str> = names.iter().filter(|name| !name.contains('/')).collect();
    assert_eq!(configs, [&"@support"]);
    // One name of each provider, and each config.
    let mut tried = BTreeSet::new();
    for name in &names {
        if !tried.insert(name.split('/').next().unwrap()) {
            continue;
        }
        let body = json!({"model": name, "messages": [{"role": "user", "content": "Hi"}]});
        let tag = new_trace();
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
        let call = call.header("x-gateway-api-key", KEY).header("x-emulator-tag", &tag);
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), 200, "{name}: {}", response.text().await.unwrap());
        let requests = gateway.emulator_requests(&tag).await;
        assert!(!requests[0].to_string().contains(&format!("{name}\"")), "{name} {requests:?}");
        let one = listed(get(&gateway, &format!("/models/{name}"))).await.1;
        assert_eq!(one["id"], **name);
    }
}

#[tokio::test]
async fn a_config_before_a_model_routes_it() {
    let gateway = Gateway::start(&with_configs());
    let send = async |model: &str, header: Option<(&str, &str)>| {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Hi"}]});
        let tag = new_trace();
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&body);
        let call = call.header("x-gateway-api-key", KEY).header("x-emulator-tag", &tag);
        let call = header.into_iter().fold(call, |call, (name, value)| call.header(name, value));
        let response = call.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        if status != 200 {
            return (status, text, None);
        }
        let requests = gateway.emulator_requests(&tag).await;
        let sent = requests
            .first()
            .and_then(|request| serde_json::from_str::<Value>(request["body"].as_str()?).ok());
        (status, text, sent.map(|body| body["model"].clone()))
    };
    assert_eq!(send("@nameless/some/model", None).await.2, Some(json!("some/model")));
    // What the config sets takes precedence, as with the header.
    assert_eq!(send("@support/x", None).await.2, Some(json!("gpt-4o")));
    let (status, text, _) = send("@nameless", None).await;
    assert!(status == 400 && text.contains("@nameless/MODEL"), "{status} {text}");
    let (status, text, _) = send("@half", None).await;
    assert!(status == 400 && text.contains("config.targets[1]"), "{status} {text}");
    // A provider that is named otherwise gets the model as it is written.
    let named = Some(("x-gateway-provider", "@emulator"));
    assert_eq!(send("@support", named).await.2, Some(json!("@support")));
    assert_eq!(send("@nobody", None).await.0, 404);
}

#[tokio::test]
async fn anthropics_clients_get_their_shape() {
    let gateway = gateway();
    let (_, list) = listed(get(&gateway, "/models").header("anthropic-version", "2023-06-01")).await;
    let data = list["data"].as_array().unwrap();
    assert_eq!((&list["has_more"], &list["first_id"]), (&json!(false), &data[0]["id"]));
    assert!(data.iter().all(|model| model["type"] == "model" && model["created_at"].is_string()), "{list}");
    let name = data[0]["id"].as_str().unwrap();
    // As SDKs write it into a path.
    let encoded = name.replace('/', "%2F");
    let (_, one) =
        listed(get(&gateway, &format!("/models/{encoded}")).header("anthropic-version", "2023-06-01")).await;
    assert_eq!((&one["id"], &one["type"]), (&json!(name), &json!("model")));
}

#[tokio::test]
async fn a_named_provider_answers_itself() {
    let gateway = gateway();
    let (_, list) = listed(get(&gateway, "/models").header("x-gateway-provider", "@emulator")).await;
    assert!(!list["data"][0]["id"].as_str().unwrap().starts_with('@'), "{list}");
    for (path, status) in
        [("/models/@emulator/no-such-model", 404), ("/models/@nobody/m", 404), ("/models/m", 404)]
    {
        let response = get(&gateway, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers()["x-should-retry"], "false");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["param"], "model", "{body}");
    }
    let response = client().get(format!("{}/models", gateway.base_url())).send().await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn a_failing_provider_is_reported_and_lists_are_kept() {
    let answer = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let good = answer("200 OK", r#"{"object":"list","data":[{"id":"m","created":5}]}"#);
    let good = Provider::start(move |_| good.clone()).await;
    let bad = answer("401 Unauthorized", r#"{"error":{"message":"no","code":"invalid_api_key"}}"#);
    let bad = Provider::start(move |_| bad.clone()).await;
    let page = answer("200 OK", "<html></html>");
    let page = Provider::start(move |_| page.clone()).await;
    let stored = |slug: &str, port: u16| {
        format!("  {slug}: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:{port}/v1'}}\n")
    };
    let gateway = Gateway::start(&format!(
        "providers:\n{}{}{}{}",
        stored("good", good.port),
        stored("bad", bad.port),
        stored("page", page.port),
        stored("none", 1)
    ));
    for _ in 0..3 {
        let (warnings, list) = listed(get(&gateway, "/models")).await;
        let wanted = json!([{"id": "@good/m", "object": "model", "created": 5, "owned_by": "openai", "provider": "good"}]);
        assert_eq!(list["data"], wanted);
        for part in ["@bad: not listed, 401 invalid_api_key", "@page: not listed, ", "@none: not listed, 502"]
        {
            assert!(warnings.contains(part), "{warnings}");
        }
    }
    assert_eq!((good.received().len(), bad.received().len()), (1, 1));
}
