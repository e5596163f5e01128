//! Clients made for Azure OpenAI: its paths, with the deployment as the model, at any provider.
//!
//! Not Azure as a provider (`provider::azure`), and not its SDK (`sdk`).

use crate::support::client::client;
use crate::support::gateway;
use crate::support::settings::KEY;
use crate::support::upstream::Upstream;
use serde_json::{Value, json};
use std::sync::Arc;

const RESPONSE: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;

/// Sends `body` to `path` of the gateway, with `provider` behind it; returns the first line and the body of what the provider
/// gets.
async fn forwarded(provider: &str, path: &str, body: &Value) -> (String, Value) {
    let request = Arc::new(parking_lot::Mutex::new(String::new()));
    let observed = Arc::clone(&request);
    let upstream = Upstream::start(move |mut connection| {
        let observed = Arc::clone(&observed);
        async move {
            while let Some(request) = connection.request().await {
                *observed.lock() = request;
                connection.send_json(RESPONSE).await;
            }
        }
    })
    .await;
    let host = match provider {
        "azure-openai" => format!("http://127.0.0.1:{}", upstream.port),
        _ => upstream.url(),
    };
    let gateway = gateway();
    let call = client().post(format!("{}{path}", gateway.base_url().trim_end_matches("/v1")));
    let call = call.bearer_auth("sk-callers-own-0123").header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-provider", provider).header("x-gateway-custom-host", host);
    let response = call.json(body).send().await.unwrap();
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    response.bytes().await.unwrap();
    let request = request.lock().clone();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    (line, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn a_deployment_is_the_model_of_any_provider() {
    let hello = |model: Option<&str>| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "seed": 1});
        model.into_iter().for_each(|model| body["model"] = model.into());
        body
    };
    let chat = "/openai/deployments/d/chat/completions";
    for (provider, path, model, line, sent) in [
        ("openai", format!("{chat}?api-version=2024-10-21"), None, "POST /v1/chat/completions", "d"),
        // The version is Azure's, everything else may be the provider's.
        (
            "openai",
            format!("{chat}?a=1&api-version=x&b"),
            Some("other"),
            "POST /v1/chat/completions?a=1&b",
            "d",
        ),
        (
            "openai",
            "/openai/deployments/org%2Fm/chat/completions".to_owned(),
            None,
            "POST /v1/chat/completions",
            "org/m",
        ),
        (
            "openai",
            "/openai/v1/chat/completions?api-version=preview".to_owned(),
            Some("m"),
            "POST /v1/chat/completions",
            "m",
        ),
        (
            "azure-openai",
            format!("{chat}?api-version=2024-10-21"),
            Some("d"),
            "POST /openai/deployments/d/chat/completions?api-version=2024-10-21",
            "d",
        ),
        ("azure-openai", chat.to_owned(), None, "POST /openai/v1/chat/completions", "d"),
        (
            "azure-openai",
            "/openai/deployments/d/extensions/x?api-version=1".to_owned(),
            Some("m"),
            "POST /openai/deployments/d/extensions/x?api-version=1",
            "m",
        ),
    ] {
        let (first, body) = forwarded(provider, &path, &hello(model)).await;
        assert_eq!(first, line, "{provider} {path}");
        let mut wanted = hello(model);
        wanted["model"] = sent.into();
        assert_eq!(body, wanted, "{provider} {path}");
    }
}

#[tokio::test]
async fn a_slug_in_the_deployment_chooses_the_provider() {
    let gateway = gateway();
    let base = gateway.base_url().trim_end_matches("/v1").to_owned();
    for (path, provider) in [
        ("/openai/deployments/@anthropic-emulator/claude-sonnet-4-5/chat/completions", "anthropic"),
        ("/openai/deployments/%40google-emulator%2Fgemini-2.5-flash/chat/completions", "google"),
        ("/openai/v1/chat/completions", "openai"),
    ] {
        let body = json!({"model": "@emulator/gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}]});
        let call = client().post(format!("{base}{path}?api-version=2024-10-21")).bearer_auth(KEY);
        let response = call.json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["x-gateway-provider"], provider, "{path}");
        let response: Value = response.json().await.unwrap();
        assert_eq!(response["object"], "chat.completion", "{path}");
    }
    // There is nothing without a path below the prefix.
    let response = client().post(format!("{base}/openai/")).bearer_auth(KEY).send().await.unwrap();
    assert_eq!(response.status(), 404);
}
