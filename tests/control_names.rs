//! What is meant for the control plane never reaches a provider: every name of the table, by every method, spelled in every
//! way that a server might read as the same, at both ports.
//!
//! Not what the built routes respond (`control`, `explain`, `targets`).

use crate::support::client::new_trace;
use crate::support::message::Message;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, raw};
use control::control_paths;
use futures_util::{StreamExt, stream};
use serde_json::Value;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The ways to write one name.
fn spellings(name: &str) -> Vec<String> {
    let first = name.as_bytes()[0];
    vec![
        format!("/v1/{name}"),
        format!("/v1/{name}/"),
        format!("/v1/{name}/a-1/versions"),
        format!("/v1/{name}?page_size=2"),
        format!("/v1/{}", name.to_uppercase()),
        format!("/v1//{name}"),
        format!("//v1/{name}"),
        format!("/v1/v1/{name}"),
        format!("/v1/./{name}"),
        format!("/v1/files/../{name}"),
        format!("/v1/proxy/../{name}"),
        format!("/v1/%{first:02x}{}", &name[1..]),
        format!("/v1/{name}%2Fa"),
        format!("/v1/{name};x=y"),
        format!("/v1/{name}%20"),
    ]
}

async fn call(port: u16, method: &str, path: &str, headers: &str) -> (u16, Value) {
    const SECRET: &str = r#"{"name":"n","provider":"openai","key":"sk-canary-secret"}"#;
    let body = if method == "GET" { "" } else { SECRET };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let bytes = raw::send(port, request.as_bytes()).await;
    let (response, _) = Message::parse(&bytes, true).unwrap_or_else(|| panic!("{method} {path}"));
    (response.status(), serde_json::from_slice(&response.body).unwrap_or_default())
}

#[tokio::test]
async fn every_name_is_the_control_planes_at_both_ports() {
    // Its own, so that all that the provider received is known.
    let gateway = Gateway::start(&format!("{STANDARD}default_config: '@emulator'\n"));
    let paths = control_paths();
    // Names of Portkey's API that no route has yet.
    let unbuilt = ["mcp-integrations", "scim", "secret-references", "workspace-exclusions"];
    assert!(
        paths.names.len() > 20 && unbuilt.iter().all(|name| paths.names.contains(name)),
        "{:?}",
        paths.names
    );
    let mut cases = Vec::new();
    for name in &paths.names {
        let spelled = spellings(name).into_iter().map(|path| (path, unbuilt.contains(name)));
        for (path, is_unbuilt) in spelled.chain([("/model-configs/pricing/a/b".to_owned(), false)]) {
            for method in METHODS {
                for port in [gateway.ports.data, gateway.ports.control] {
                    cases.push((port, method, path.clone(), is_unbuilt));
                }
            }
        }
    }
    let key = format!("x-gateway-api-key: {KEY}\r\n");
    let responses = stream::iter(&cases).map(|(port, method, path, is_unbuilt)| {
        let key = &key;
        async move {
            let (status, body) = call(*port, method, path, key).await;
            let message = body["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.contains("canary"), "{message}");
            if *is_unbuilt {
                assert_eq!(
                    (status, &body["error"]["code"]),
                    (501, &"not_implemented".into()),
                    "{method} {path}"
                );
                assert!(message.contains("/v1/openapi.json"), "{message}");
            } else {
                // A route of its own, or none under this spelling: 405 and 404, and what a route says of such a body.
                assert!(matches!(status, 200 | 400 | 404 | 405 | 501), "{method} {path}: {status} {body}");
            }
        }
    });
    responses.buffer_unordered(16).collect::<Vec<()>>().await;
    // Operators' routes are at the control port alone, and their names are not a provider's at the other.
    for (method, path) in [("GET", "/metrics"), ("GET", "/v1/targets"), ("POST", "/v1/explain")] {
        let (status, body) = call(gateway.ports.data, method, path, &key).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert!(status == 404 && message.contains("control port"), "{path}: {message}");
    }
    let url = format!("{}/_emulator/requests", gateway.emulator_url());
    let received: Value =
        crate::support::client::client().get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(received, Value::Array(Vec::new()), "a provider was called");
    assert!(!gateway.log().contains("canary"));
}

#[tokio::test]
async fn a_clients_dialect_is_kept() {
    let gateway = crate::support::gateway();
    for port in [gateway.ports.data, gateway.ports.control] {
        for (method, path, status) in [
            ("POST", "/v1/secret-references", 501),
            ("POST", "/v1/health", 405),
            ("GET", "/v1/health/x", 404),
        ] {
            let headers = format!("x-gateway-api-key: {KEY}\r\nanthropic-version: 2023-06-01\r\n");
            let (given, body) = call(port, method, path, &headers).await;
            assert_eq!((given, &body["type"]), (status, &"error".into()), "{path} {body}");
            assert!(body["error"]["message"].is_string() && body["error"].get("code").is_none(), "{body}");
        }
    }
}

/// A provider's own path of such a name.
#[tokio::test]
async fn below_the_proxy_path_all_names_are_the_providers() {
    let gateway = crate::support::gateway();
    for name in ["collections", "providers", "configs"] {
        let tag = new_trace();
        let headers =
            format!("x-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\nx-emulator-tag: {tag}\r\n");
        let (status, _) =
            call(gateway.ports.data, "POST", &format!("/v1/proxy/{name}/points"), &headers).await;
        assert_eq!(status, 200, "{name}");
        let requests = gateway.emulator_requests(&tag).await;
        assert!(requests[0].to_string().contains(&format!("{name}/points")), "{requests:?}");
    }
}
