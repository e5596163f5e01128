//! Prompts and partials with a slug of their own, and prompts that refuse a request without a variable.
//!
//! What prompts do otherwise is in `prompts`.

use crate::support::client::client;
use crate::support::settings::KEY;
use crate::support::{Gateway, stores};
use reqwest::Method;
use serde_json::{Value, json};

const SETTINGS: &str = "
auth: {keys: [{name: tests, key: tp-tests-0123456789}]}
custom_hosts: {allow: [127.0.0.1]}
providers:
  emulator: {provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}
";

/// The same settings on each store.
fn gateways() -> Vec<Gateway> {
    stores::gateways(SETTINGS)
}

async fn sent(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let call = client().request(method, format!("{}{path}", gateway.base_url()));
    let response = call.header("x-gateway-api-key", KEY).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn done(gateway: &Gateway, method: Method, path: &str, body: &Value) -> Value {
    let (status, reply) = sent(gateway, method.clone(), path, body).await;
    assert_eq!(status, 200, "{method} {path}: {reply}");
    reply
}

/// The status and the message of a refused `POST`.
async fn refusal(gateway: &Gateway, path: &str, body: &Value) -> (u16, String) {
    let (status, reply) = sent(gateway, Method::POST, path, body).await;
    (status, reply["error"]["message"].as_str().unwrap_or_default().to_owned())
}

fn chat(text: &str) -> String {
    json!([{"role": "user", "content": text}]).to_string()
}

fn prompt(slug: &str) -> Value {
    json!({
        "name": "Greeting", "slug": slug, "string": chat("{{>tone}} Hello {{name}}"), "parameters": {},
        "virtual_key": "emulator", "model": "gpt-4o-mini", "strict_variables": true
    })
}

#[tokio::test]
async fn a_prompt_has_the_slug_that_it_was_given() {
    for gateway in gateways() {
        let partial = |slug: &str| json!({"name": "Tone", "slug": slug, "string": "Be {{tone}}."});
        let made = done(&gateway, Method::POST, "/prompts/partials", &partial("tone")).await;
        assert_eq!(made["slug"], "tone");
        let (status, message) = refusal(&gateway, "/prompts/partials", &partial("a.b")).await;
        assert!(status == 400 && message.contains("has no dots"), "{message}");
        let made = done(&gateway, Method::POST, "/prompts", &prompt("greeting.v1")).await;
        assert_eq!(made["slug"], "greeting.v1", "{made}");
        assert_eq!(refusal(&gateway, "/prompts", &prompt("greeting.v1")).await.0, 409);
        let (status, message) = refusal(&gateway, "/prompts", &prompt("partials")).await;
        assert!(status == 400 && message.contains("name of a route"), "{message}");
        let (status, message) = refusal(&gateway, "/prompts", &prompt(made["id"].as_str().unwrap())).await;
        assert!(status == 400 && message.contains("may not be a UUID"), "{message}");
        let variables = json!({"variables": {"name": "Ann", "tone": "kind"}});
        for named in ["greeting.v1", made["id"].as_str().unwrap()] {
            let shown = done(&gateway, Method::GET, &format!("/prompts/{named}"), &json!({})).await;
            assert_eq!((&shown["slug"], &shown["strict_variables"]), (&json!("greeting.v1"), &json!(true)));
            let path = format!("/prompts/{named}@1/render");
            let rendered = done(&gateway, Method::POST, &path, &variables).await;
            assert_eq!(rendered["data"]["messages"][0]["content"], "Be kind. Hello Ann");
            assert_eq!(rendered["data"].get("strict_variables"), None, "{rendered}");
            let path = format!("/prompts/{named}/completions");
            let answer = done(&gateway, Method::POST, &path, &variables).await;
            assert_eq!(answer["object"], "chat.completion", "{answer}");
        }
    }
}

#[tokio::test]
async fn a_strict_prompt_refuses_a_request_without_a_variable() {
    for gateway in gateways() {
        let partial = json!({"name": "Tone", "slug": "tone", "string": "Be {{tone}}."});
        done(&gateway, Method::POST, "/prompts/partials", &partial).await;
        done(&gateway, Method::POST, "/prompts", &prompt("greeting")).await;
        for call in ["render", "completions"] {
            let path = format!("/prompts/greeting/{call}");
            let (status, message) = refusal(&gateway, &path, &json!({"variables": {"name": "Ann"}})).await;
            assert!(status == 400 && message.starts_with("Missing variables: tone."), "{path}: {message}");
            let loose = json!({"variables": {"name": "Ann"}, "strict_variables": false});
            assert_eq!(refusal(&gateway, &path, &loose).await.0, 200, "{path}");
        }
        // A change that says nothing of it keeps it.
        let change = json!({"patch": true, "string": chat("{{other}}")});
        done(&gateway, Method::PUT, "/prompts/greeting", &change).await;
        let path = "/prompts/greeting@latest/render";
        let (status, message) = refusal(&gateway, path, &json!({"variables": {}})).await;
        assert!(status == 400 && message.starts_with("Missing variables: other."), "{message}");
        let loose = json!({"patch": true, "strict_variables": false});
        done(&gateway, Method::PUT, "/prompts/greeting", &loose).await;
        assert_eq!(refusal(&gateway, path, &json!({"variables": {}})).await.0, 200);
        let (status, message) =
            refusal(&gateway, path, &json!({"variables": {}, "strict_variables": true})).await;
        assert!(status == 400 && message.starts_with("Missing variables: other."), "{message}");
    }
}
