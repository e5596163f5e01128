//! Whose response a client gets from the cache, on the running gateway: never one of another workspace, of other credentials, or of what else decides a response.
//!
//! That every single field of an account counts is tested beside the code (`cache::tests::keys`).

use crate::analytics::workspace;
use crate::caching::{Call, answering, at, cached, chat_provider, json_answer};
use crate::similar_requests::semantic_gateway;
use crate::stages::WHOLE_CHAT;
use crate::support::settings::{KEY, OTHER_KEY, STANDARD};
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

const CONVERSE: &str = r#"{"output":{"message":{"role":"assistant","content":[{"text":"hello world"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}"#;
const GENERATED: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hello world"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r"}"#;

fn chat(text: &str) -> String {
    json!({"model": "gemini-2.5-flash", "max_tokens": 9, "messages": [{"role": "user", "content": text}]})
        .to_string()
}

/// Accounts at each provider that need no token from elsewhere; no two are the same.
fn accounts(provider: &str) -> Vec<Value> {
    let azure = |more: Value| {
        let mut account =
            json!({"azure_resource_name": "r", "deployment_id": "d", "api_version": "2024-10-21"});
        account.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        account
    };
    match provider {
        "bedrock" => vec![
            json!({"aws_access_key_id": "AKIA1", "aws_secret_access_key": "s", "aws_region": "us-east-1"}),
            json!({"aws_access_key_id": "AKIA2", "aws_secret_access_key": "s", "aws_region": "us-east-1"}),
            json!({"aws_access_key_id": "AKIA1", "aws_secret_access_key": "t", "aws_region": "us-east-1"}),
            json!({"aws_access_key_id": "AKIA1", "aws_secret_access_key": "s", "aws_region": "eu-west-1"}),
            json!({"aws_access_key_id": "AKIA1", "aws_secret_access_key": "s", "aws_region": "us-east-1", "aws_session_token": "1"}),
            json!({"aws_access_key_id": "AKIA1", "aws_secret_access_key": "s", "aws_region": "us-east-1", "aws_session_token": "2"}),
            json!({"aws_auth_type": "apiKey", "api_key": "bearer-1", "aws_region": "us-east-1"}),
            json!({"aws_auth_type": "apiKey", "api_key": "bearer-2", "aws_region": "us-east-1"}),
            json!({"aws_region": "us-east-1"}),
        ],
        "azure-openai" => vec![
            azure(json!({"api_key": "k1"})),
            azure(json!({"api_key": "k2"})),
            azure(json!({"azure_ad_token": "k1"})),
            azure(json!({"azure_ad_token": "k2"})),
            azure(json!({"api_key": "k1", "deployment_id": "e"})),
            azure(json!({"api_key": "k1", "api_version": "2025-01-01"})),
            azure(json!({"api_key": "k1", "azure_resource_name": "s"})),
        ],
        "vertex-ai" => vec![
            json!({"api_key": "ya29.1", "vertex_region": "us-central1", "vertex_project_id": "p"}),
            json!({"api_key": "ya29.2", "vertex_region": "us-central1", "vertex_project_id": "p"}),
            json!({"api_key": "ya29.1", "vertex_region": "europe-west1", "vertex_project_id": "p"}),
            json!({"api_key": "ya29.1", "vertex_region": "us-central1", "vertex_project_id": "q"}),
            json!({"vertex_region": "us-central1", "vertex_project_id": "p"}),
        ],
        _ => vec![
            json!({"api_key": "sk-1"}),
            json!({"api_key": "sk-2"}),
            json!({}),
            json!({"api_key": "sk-1", "openai_organization": "o1"}),
            json!({"api_key": "sk-1", "openai_organization": "o2"}),
            json!({"api_key": "sk-1", "openai_project": "o1"}),
            json!({"api_key": "sk-1", "openai_beta": "o1"}),
        ],
    }
}

#[tokio::test]
async fn tenants_credentials_providers_metadata_and_namespaces_keep_apart() {
    let gateway = gateway();
    let (upstream, calls) = chat_provider().await;
    let config = cached(at(&upstream, "openai"));
    let body = chat("apart");
    assert_eq!(Call::new(&gateway, &config).send(&body).await.cache, "MISS");
    assert_eq!(
        Call::new(&gateway, &config).header("x-gateway-api-key", OTHER_KEY).send(&body).await.cache,
        "HIT"
    );
    let mut other_key = config.clone();
    other_key["api_key"] = json!("sk-2");
    let mut organization = config.clone();
    organization["openai_organization"] = json!("org-2");
    let mut project = config.clone();
    project["openai_project"] = json!("p-2");
    let mut groq = config.clone();
    groq["provider"] = json!("groq");
    let mut parameters = config.clone();
    parameters["override_params"] = json!({"temperature": 0.1});
    for (name, config) in [
        ("key", other_key),
        ("organization", organization),
        ("project", project),
        ("provider", groq),
        ("override", parameters),
    ] {
        let call = Call::new(&gateway, &config);
        assert_eq!(call.send(&body).await.cache, "MISS", "{name}");
        assert_eq!(call.send(&body).await.cache, "HIT", "{name}");
    }
    let headers = [
        ("x-gateway-metadata", r#"{"_user":"ann"}"#),
        ("x-gateway-metadata", r#"{"_user":"bob"}"#),
        ("openai-beta", "assistants=v2"),
        ("x-gateway-cache-namespace", "one"),
        ("x-gateway-cache-namespace", "two"),
    ];
    for (name, value) in headers {
        let call = Call::new(&gateway, &config).header(name, value);
        assert_eq!(call.send(&body).await.cache, "MISS", "{name}: {value}");
        assert_eq!(call.send(&body).await.cache, "HIT", "{name}: {value}");
    }
    // A namespace takes the place of metadata and headers.
    let call = Call::new(&gateway, &config).header("x-gateway-cache-namespace", "one");
    let call = call.header("x-gateway-metadata", r#"{"_user":"carl"}"#).header("openai-beta", "x");
    assert_eq!(call.send(&body).await.cache, "HIT");
    // Headers that change nothing do not count.
    let call = Call::new(&gateway, &config).header("user-agent", "another").header("x-request-id", "1");
    assert_eq!(call.send(&body).await.cache, "HIT");
    assert_eq!(calls.load(Ordering::SeqCst), 11);
}

#[tokio::test]
async fn other_credentials_never_get_a_response() {
    let gateway = gateway();
    let (upstream, calls) = answering(|_, request| match request {
        request if request.contains("/converse ") => json_answer(CONVERSE),
        request if request.contains(":generateContent ") => json_answer(GENERATED),
        _ => json_answer(WHOLE_CHAT),
    })
    .await;
    let body = chat("whose is it");
    let mut keys = BTreeSet::new();
    for provider in ["bedrock", "azure-openai", "vertex-ai", "openai"] {
        let host = upstream.url();
        let host = if provider == "bedrock" || provider == "azure-openai" {
            host.trim_end_matches("/v1")
        } else {
            &host
        };
        for account in accounts(provider) {
            let mut config = cached(json!({"provider": provider, "custom_host": host}));
            config.as_object_mut().unwrap().extend(account.as_object().unwrap().clone());
            let call = Call::new(&gateway, &config);
            let first = call.send(&body).await;
            let second = call.send(&body).await;
            assert_eq!((first.status, first.cache.as_str()), (200, "MISS"), "{config}: {first:?}");
            assert_eq!((second.status, second.cache.as_str()), (200, "HIT"), "{config}: {second:?}");
            let key = gateway.access_line(&first.trace).await["cache"]["key"].clone();
            assert!(keys.insert(key.as_str().unwrap().to_owned()), "{config}");
            // The same account, given with the request instead of the config, where it may be.
            let mut call = Call::new(&gateway, &cached(json!({})))
                .header("x-gateway-provider", provider)
                .header("x-gateway-custom-host", host);
            let Some(headers) = as_headers(&account) else { continue };
            for (name, value) in headers {
                call = call.header(name, &value);
            }
            assert_eq!(call.send(&body).await.cache, "HIT", "{config} in headers");
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), keys.len());
}

/// An account as request headers; `None` where it has what no header may carry.
fn as_headers(account: &Value) -> Option<Vec<(&'static str, String)>> {
    let members = account.as_object().unwrap().iter();
    members
        .map(|(name, value)| {
            let value = value.as_str().unwrap().to_owned();
            Some(match name.as_str() {
                "api_key" => ("authorization", format!("Bearer {value}")),
                "aws_access_key_id" => ("x-gateway-aws-access-key-id", value),
                "aws_secret_access_key" => ("x-gateway-aws-secret-access-key", value),
                "aws_session_token" => ("x-gateway-aws-session-token", value),
                "aws_region" => ("x-gateway-aws-region", value),
                "aws_auth_type" => ("x-gateway-aws-auth-type", value),
                "azure_ad_token" => ("x-gateway-azure-ad-token", value),
                "azure_resource_name" => ("x-gateway-azure-resource-name", value),
                "deployment_id" => ("x-gateway-azure-deployment-id", value),
                "vertex_region" => ("x-gateway-vertex-region", value),
                "vertex_project_id" => ("x-gateway-vertex-project-id", value),
                "openai_organization" => ("x-gateway-openai-organization", value),
                "openai_project" => ("x-gateway-openai-project", value),
                _ => return None,
            })
        })
        .collect()
}

#[tokio::test]
async fn other_workspaces_get_neither_a_stored_response_nor_one_in_flight() {
    let gateway = Gateway::start(STANDARD);
    let (_, red) = workspace(&gateway, "red").await;
    let (_, blue) = workspace(&gateway, "blue").await;
    let calls = Arc::<AtomicUsize>::default();
    let permits = Arc::new(Semaphore::new(0));
    let count = Arc::clone(&calls);
    let wait = Arc::clone(&permits);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let count = Arc::clone(&count);
        let wait = Arc::clone(&wait);
        async move {
            while connection.request().await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                wait.acquire().await.unwrap().forget();
                connection.send_json(WHOLE_CHAT).await;
            }
        }
    })
    .await;
    let config = cached(at(&upstream, "openai"));
    for name in [None, Some("named")] {
        let before = calls.load(Ordering::SeqCst);
        let body = chat("in flight");
        let call = |key: &str| {
            let call = Call::new(&gateway, &config).header("x-gateway-api-key", key);
            match name {
                Some(name) => call.header("x-gateway-cache-namespace", name),
                None => call,
            }
        };
        let clients = [call(&red), call(&blue), call(KEY)];
        let all = futures_util::future::join_all(clients.iter().map(|call| call.send(&body)));
        let opening = async {
            until("a call of each workspace", async || {
                (calls.load(Ordering::SeqCst) == before + 3).then_some(())
            })
            .await;
            permits.add_permits(3);
        };
        let (answers, ()) = tokio::join!(all, opening);
        let keys: BTreeSet<String> = answers.iter().map(|answer| answer.cache.clone()).collect();
        assert_eq!(keys, BTreeSet::from(["MISS".to_owned()]), "{answers:?}");
        for client in &clients {
            assert_eq!(client.send(&body).await.cache, "HIT");
        }
        assert_eq!(calls.load(Ordering::SeqCst), before + 3);
    }
}

#[tokio::test]
async fn a_text_that_means_the_same_is_not_found_in_another_workspace() {
    let (gateway, upstream, _, _embedding) = semantic_gateway().await;
    let (_, red) = workspace(&gateway, "red").await;
    let (_, blue) = workspace(&gateway, "blue").await;
    let mut config = at(&upstream, "openai");
    config["cache"] = json!({"mode": "semantic"});
    let call = |key: &str| Call::new(&gateway, &config).header("x-gateway-api-key", key);
    let text = "how do I reset the password of my account on the web site today please";
    let red = call(&red);
    let blue = call(&blue);
    assert_eq!(red.send(&chat(text)).await.cache, "SEMANTIC MISS");
    let similar = |word: &str| chat(&text.replace("please", word));
    until("the vector", async || (red.send(&similar("thanks")).await.cache == "SEMANTIC HIT").then_some(()))
        .await;
    assert_eq!(blue.send(&similar("thanks")).await.cache, "SEMANTIC MISS");
    assert_eq!(call(KEY).send(&similar("thanks")).await.cache, "SEMANTIC MISS");
    assert_eq!(red.send(&similar("quickly")).await.cache, "SEMANTIC HIT");
}
