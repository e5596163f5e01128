//! Credentials fetched before a call: temporary ones of a fake machine, cached, used to sign, and never used
//! for clients' own accounts.
//!
//! The cloud is Bedrock, because the address of its machine credentials is set by an environment variable.
//! The signature itself is tested beside the code that makes it.

use crate::support::Gateway;
use crate::support::client::{client, new_trace};
use crate::support::command::check;
use crate::support::settings::KEY;
use crate::support::upstream::Upstream;
use parking_lot::Mutex;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;

const CONVERSE_RESPONSE: &str = r#"{"output":{"message":{"role":"assistant","content":[{"text":"Hello."}]}},"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}"#;

/// A gateway on a machine with a role, a fake Bedrock, and the requests both servers got.
struct Stage {
    gateway: Gateway,
    machine: Upstream,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// `status` and `credentials` are the response of the machine's credential server.
    async fn set(status: &'static str, credentials: Value) -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&requests);
        let bedrock = Upstream::start(move |mut connection| {
            let log = Arc::clone(&log);
            async move {
                while let Some(request) = connection.request().await {
                    log.lock().push(request);
                    connection.send_json(CONVERSE_RESPONSE).await;
                }
            }
        })
        .await;
        let body = credentials.to_string();
        let machine = Upstream::start(move |mut connection| {
            let body = body.clone();
            async move {
                let request = connection.request().await.unwrap();
                assert!(request.starts_with("GET /role HTTP/1.1\r\n"), "{request}");
                let length = body.len();
                connection
                    .write(&format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"))
                    .await;
            }
        })
        .await;
        let settings = format!(
            "auth: {{keys: [{{name: tests, key: {KEY}}}]}}\n\
             custom_hosts: {{allow_private: true}}\n\
             providers:\n  cloud: {{provider: bedrock, cloud_a_auth_type: serviceRole, custom_host: '{0}'}}\n\
             configs:\n  saved: {{provider: bedrock, cloud_a_auth_type: serviceRole, custom_host: '{0}'}}\n  \
             open: {{provider: bedrock, cloud_a_auth_type: serviceRole}}\n",
            bedrock.url().trim_end_matches("/v1")
        );
        let address = format!("http://127.0.0.1:{}/role", machine.port);
        let gateway = Gateway::start_with(&settings, &|command: &mut Command| {
            for name in
                ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN"]
            {
                command.env_remove(name);
            }
            command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address);
        });
        Self { gateway, machine, requests }
    }

    async fn with_role() -> Self {
        let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let credentials = json!({"AccessKeyId": "AKIDTEST", "SecretAccessKey": "canary-secret",
            "Token": "canary-session", "Expiration": end.to_string()});
        Self::set("200 OK", credentials).await
    }

    fn call(&self, trace: &str) -> RequestBuilder {
        let call = client().post(format!("{}/chat/completions", self.gateway.base_url()));
        call.header("x-gateway-api-key", KEY)
            .header("x-gateway-trace-id", trace)
            .json(&json!({"model": "amazon.nova-lite-v1:0", "messages": [{"role": "user", "content": "Hi"}]}))
    }
}

async fn send(call: RequestBuilder) -> (u16, Value) {
    let response = call.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn fetched_credentials_are_cached_and_sign_every_call() {
    let stage = Stage::with_role().await;
    for (name, value) in [("provider", "@cloud"), ("config", "saved"), ("provider", "@cloud")] {
        let call = stage.call(&new_trace()).header(format!("x-gateway-{name}"), value);
        let (status, body) = send(call).await;
        assert_eq!((status, &body["choices"][0]["message"]["content"]), (200, &json!("Hello.")), "{body}");
    }
    assert_eq!(stage.machine.connections(), 1);
    assert_eq!(stage.gateway.metric(r#"turnpike_grants_total{outcome="fetched"}"#).await, Some(1.0));
    let requests = stage.requests.lock().clone();
    assert_eq!(requests.len(), 3);
    for request in requests {
        let head = request.to_ascii_lowercase();
        assert!(head.contains("authorization: aws4-hmac-sha256 credential=akidtest/"), "{request}");
        assert!(head.contains("x-amz-security-token: canary-session\r\n"), "{request}");
        assert!(!request.contains("canary-secret") && !head.contains("x-gateway"), "{request}");
    }
    let log = [stage.gateway.stdout.lines_with("canary"), stage.gateway.stderr.lines_with("canary")].concat();
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test]
async fn clients_cannot_use_the_machine_role() {
    let stage = Stage::with_role().await;
    let host = format!("http://127.0.0.1:{}", stage.machine.port);
    let config = json!({"provider": "bedrock", "cloud_a_auth_type": "serviceRole"}).to_string();
    let calls = [
        stage.call(&new_trace()).header("x-gateway-config", config),
        stage
            .call(&new_trace())
            .header("x-gateway-provider", "bedrock")
            .header("x-gateway-aws-auth-type", "serviceRole"),
        // The operator's account, but the client's custom host.
        stage.call(&new_trace()).header("x-gateway-config", "open").header("x-gateway-custom-host", &host),
    ];
    for call in calls {
        let (status, body) = send(call).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!(status, 400, "{body}");
        assert!(message.contains("only accounts the operator wrote"), "{message}");
    }
    assert_eq!((stage.machine.connections(), stage.requests.lock().len()), (0, 0));
}

#[tokio::test]
async fn a_missing_machine_role_is_reported_and_not_refetched_at_once() {
    let stage = Stage::set("404 Not Found", json!({"message": "no role here"})).await;
    for _ in 0..2 {
        let trace = new_trace();
        let (status, body) = send(stage.call(&trace).header("x-gateway-provider", "@cloud")).await;
        assert_eq!((status, &body["error"]["code"]), (502, &json!("upstream_grant_failed")), "{body}");
        assert_eq!(body["provider"], "bedrock");
        let line = stage.gateway.access_line(&trace).await;
        assert_eq!(line["attempts"][0]["error"], "upstream_grant_failed", "{line}");
    }
    assert_eq!((stage.machine.connections(), stage.requests.lock().len()), (1, 0));
}

#[test]
fn incomplete_accounts_are_found_by_check() {
    let settings = "providers:\n  half: {provider: bedrock, cloud_a_access_key_id: AKID}\n  \
                    bad:\n    provider: vertex-ai\n    cloud_b_region: us-central1\n    \
                    vertex_service_account_json: {type: authorized_user, refresh_token: canary}\n";
    let output = check(settings);
    assert!(output.code != Some(0) && !output.stderr.contains("canary"), "{}", output.stderr);
    for (line, what) in [
        (2, "providers.half.cloud_a_secret_access_key: "),
        (6, "providers.bad.vertex_service_account_json: "),
    ] {
        let place = format!("turnpike.yaml:{line}:");
        let found =
            output.stderr.lines().any(|text_line| text_line.contains(&place) && text_line.contains(what));
        assert!(found, "{what}\n{}", output.stderr);
    }
}
