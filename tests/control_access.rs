//! Who may call which control route: generated from the routes themselves, so a new one is tested as soon as it exists.
//!
//! Every route × (no key, unknown key, missing scope) is refused, and an object of another workspace is a 404. Not what the
//! routes do.

use crate::support::client::client;
use crate::support::raw::Raw;
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use crate::support::{Gateway, gateway};
use control::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use words::api::operation::Operation as DataOperation;

/// A route of the document: method, path, and whether it needs a key.
struct Operation {
    method: Method,
    path: String,
    /// The parameters that the query must have, with some text: `?slugs=some`.
    query: String,
    needs_key: bool,
    on_data_port: bool,
    scopes: Vec<String>,
}

fn operations() -> Vec<Operation> {
    let document = openapi_document();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scopes = operation["x-scopes"].as_array().cloned().unwrap_or_default();
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let required = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
            let required: Vec<String> =
                required.map(|parameter| format!("{}=some", parameter["name"].as_str().unwrap())).collect();
            all.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                query: if required.is_empty() { String::new() } else { format!("?{}", required.join("&")) },
                // The metrics are open by default.
                needs_key: operation["security"] != json!([]) && path != "/metrics",
                on_data_port: operation["x-on-data-port"] == json!(true),
                scopes: scopes.iter().map(|scope| scope.as_str().unwrap().to_owned()).collect(),
            });
        }
    }
    all
}

/// The path with a value for each parameter.
fn filled(path: &str, value: &str) -> String {
    let segment =
        |segment: &str| if segment.starts_with('{') { value.to_owned() } else { segment.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

async fn status(base: &str, operation: &Operation, key: Option<&str>) -> (u16, Value) {
    let url = format!("{base}{}", filled(&operation.path, "some-id"));
    let call = client().request(operation.method.clone(), url).header("content-type", "application/json");
    let call = key.into_iter().fold(call, |call, key| call.header("x-gateway-api-key", key));
    let response = call.body("{}").send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

#[tokio::test]
async fn no_route_serves_a_client_without_a_key() {
    let gateway = gateway();
    let all = operations();
    let mut refused = 0;
    for operation in all.iter().filter(|operation| operation.needs_key) {
        for base in [gateway.control_url(), gateway.data_url()] {
            if base == gateway.data_url() && !operation.on_data_port {
                continue;
            }
            for key in [None, Some("gk_unknown0000_key"), Some("tp-nobody-0123456789")] {
                let (status, body) = status(&base, operation, key).await;
                assert_eq!(status, 401, "{} {} {key:?}: {body}", operation.method, operation.path);
                assert_eq!(body["data"]["errorCode"], "AB05", "{body}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// What the gateway responds to a head that announces a large body of which only the beginning comes.
async fn early_response(port: u16, method: &str, path: &str, headers: &str) -> String {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 31457280\r\n{headers}\r\n{{\"name\": \"{}",
        "x".repeat(1000)
    );
    let mut connection = Raw::connect(port).await;
    connection.write(head.as_bytes()).await.unwrap();
    let started = Instant::now();
    let response = connection.read_response().await;
    // Who waited for the body would wait for 30 seconds.
    assert!(started.elapsed() < Duration::from_secs(10), "{method} {path}: {:?}", started.elapsed());
    response
}

#[tokio::test]
async fn no_control_route_reads_a_body_before_it_knows_its_client() {
    let gateway = gateway();
    let mut refused = 0;
    for operation in operations().iter().filter(|operation| operation.needs_key) {
        for port in [gateway.ports.control, gateway.ports.data] {
            if port == gateway.ports.data && !operation.on_data_port {
                continue;
            }
            let path = filled(&operation.path, "some-id");
            for headers in
                ["content-type: application/json\r\n", "x-gateway-api-key: tp-nobody-0123456789\r\n"]
            {
                let response = early_response(port, operation.method.as_str(), &path, headers).await;
                assert!(response.starts_with("HTTP/1.1 401 "), "{} {path}: {response}", operation.method);
                refused += 1;
            }
        }
    }
    assert!(refused > 200, "{refused}");
    let path = "/v1/configs";
    // A name of the control plane without a route, and a method that a route does not take.
    for (method, path, status) in [("POST", "/v1/scim/Users", 401), ("PATCH", path, 405)] {
        let response = early_response(gateway.ports.data, method, path, "").await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {response}");
    }
    // A key without the scope, and a body above the bound of the route: nothing of it is read either.
    let operator = format!("x-gateway-api-key: {OPERATOR_KEY}\r\n");
    for port in [gateway.ports.control, gateway.ports.data] {
        let response = early_response(port, "POST", path, &operator).await;
        assert!(
            response.starts_with("HTTP/1.1 413 ")
                && response.contains("1048576 bytes, the most this route reads"),
            "{response}"
        );
    }
}

#[tokio::test]
async fn no_operation_reads_a_body_before_it_knows_its_client() {
    let gateway = gateway();
    let forms = [
        "content-type: application/json\r\n",
        "content-type: multipart/form-data; boundary=b\r\n",
        "content-type: application/json\r\nx-gateway-api-key: tp-nobody-0123456789\r\n",
    ];
    let mut paths: Vec<(String, String)> = DataOperation::paths()
        .map(|(method, path)| {
            (method.to_string(), format!("/v1/{}", path.replace("**", "m").replace('*', "m")))
        })
        .collect();
    for path in
        ["/v1/proxy/anything/else", "/v1/uploads", "/v1/mcp/some-server", "/v1beta/models/m:generateContent"]
    {
        paths.push(("POST".to_owned(), path.to_owned()));
    }
    for (method, path) in &paths {
        for headers in forms {
            let response = early_response(gateway.ports.data, method, path, headers).await;
            assert!(response.starts_with("HTTP/1.1 401 "), "{method} {path} {headers}: {response}");
        }
    }
    assert!(paths.len() > 40, "{}", paths.len());
    // A handshake that has a body.
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    let response = early_response(gateway.ports.data, "GET", "/v1/realtime?model=m", upgrade).await;
    assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
}

#[tokio::test]
async fn no_route_serves_a_key_without_its_scope() {
    let scopes: Vec<String> = operations().into_iter().flat_map(|operation| operation.scopes).collect();
    let gateway = Gateway::start(
        "auth:\n  keys:\n    - {name: nothing, key: tp-nothing-0123456789, scopes: [feedbacks.read]}\n",
    );
    assert!(!scopes.contains(&"feedbacks.read".to_owned()) && !scopes.is_empty());
    let mut refused = 0;
    for operation in
        operations().iter().filter(|operation| !operation.scopes.is_empty() && operation.needs_key)
    {
        for base in [gateway.control_url(), gateway.data_url()] {
            if base == gateway.data_url() && !operation.on_data_port {
                continue;
            }
            let (status, body) = status(&base, operation, Some("tp-nothing-0123456789")).await;
            assert_eq!(status, 403, "{} {}: {body}", operation.method, operation.path);
            assert_eq!(body["data"]["errorCode"], "AB03", "{body}");
            assert!(operation.scopes.iter().any(|scope| body.to_string().contains(scope)), "{body}");
            refused += 1;
        }
    }
    assert!(refused > 60, "{refused}");
}

/// Two workspaces, each with a key that holds every scope a workspace's key can hold.
async fn two_workspaces() -> Gateway {
    let gateway = Gateway::start(&format!(
        "{LISTEN}
auth:
  keys:
    - {{name: operator, key: {OPERATOR_KEY}}}
    - {{name: one, key: tp-one-0123456789, workspace: one}}
    - {{name: two, key: tp-two-0123456789, workspace: two}}
"
    ));
    for slug in ["one", "two"] {
        let made =
            gateway.control(Method::POST, "/v1/admin/workspaces").json(&json!({"name": slug, "slug": slug}));
        assert_eq!(made.send().await.unwrap().status(), 200);
    }
    gateway
}

async fn call(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}{path}", gateway.control_url());
    let response =
        client().request(method, url).header("x-gateway-api-key", key).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

const ONE: &str = "tp-one-0123456789";
const TWO: &str = "tp-two-0123456789";

/// Objects to make, by the path of their list.
fn creations() -> Vec<(&'static str, Value)> {
    vec![
        (
            "/v1/providers",
            json!({"name": "p", "provider": "openai", "key": "sk-0123456789", "slug": "shared-name"}),
        ),
        (
            "/v1/virtual-keys",
            json!({"name": "v", "provider": "openai", "key": "sk-0123456789", "slug": "vk"}),
        ),
        (
            "/v1/integrations",
            json!({"name": "i", "ai_provider_id": "openai", "key": "sk-0123456789", "slug": "in"}),
        ),
        ("/v1/mcp-servers", json!({"name": "m", "url": "https://mcp.example.com/mcp", "slug": "mcp"})),
        ("/v1/configs", json!({"name": "c", "config": {"retry": {"attempts": 2}}, "slug": "co"})),
        (
            "/v1/guardrails",
            json!({"name": "g", "slug": "gu", "checks": [{"id": "default.notNull"}], "actions": {"deny": true}}),
        ),
    ]
}

#[tokio::test]
async fn workspaces_do_not_see_each_others_objects() {
    let gateway = two_workspaces().await;
    let all = operations();
    for (list, body) in creations() {
        let (status, made) = call(&gateway, ONE, Method::POST, list, &body).await;
        assert_eq!(status, 200, "{list}: {made}");
        let slug = body["slug"].as_str().unwrap();
        let (_, own) = call(&gateway, ONE, Method::GET, &format!("{list}/{slug}"), &Value::Null).await;
        let id = own["id"].as_str().unwrap_or_else(|| panic!("{list}: {own}")).to_owned();
        let (_, others) = call(&gateway, TWO, Method::GET, list, &Value::Null).await;
        assert!(!others.to_string().contains(&id), "{list}: {others}");
        // Every route of one object, by slug and by id.
        let of_one = all.iter().filter(|operation| operation.path.starts_with(&format!("{list}/{{")));
        let mut refused = 0;
        for operation in of_one {
            for name in [slug, &id] {
                let path = format!("{}{}", filled(&operation.path, name), operation.query);
                let update = json!({"name": "taken over"});
                // What is below an object has no name.
                let is_object = operation.path.ends_with('}');
                let sent = match operation.path.as_str() {
                    "/v1/guardrails/{id}/test" => json!({"text": "a"}),
                    _ if operation.method == Method::PUT && is_object => update,
                    _ => json!({}),
                };
                let (status, body) = call(&gateway, TWO, operation.method.clone(), &path, &sent).await;
                assert_eq!(status, 404, "{} {path}: {body}", operation.method);
                refused += 1;
            }
        }
        assert!(refused >= 6, "{list}: {refused}");
        let (status, still) = call(&gateway, ONE, Method::GET, &format!("{list}/{slug}"), &Value::Null).await;
        assert!(status == 200 && still["name"] == body["name"], "{list}: {still}");
        // The same slug is free in the other workspace.
        let (status, made) = call(&gateway, TWO, Method::POST, list, &body).await;
        assert_eq!(status, 200, "{list}: {made}");
        // Naming a foreign workspace is refused as such.
        let mut foreign = body.clone();
        foreign["workspace_id"] = "one".into();
        let (status, refusal) = call(&gateway, TWO, Method::POST, list, &foreign).await;
        assert_eq!(status, 403, "{list}: {refusal}");
    }
    // A request of the other workspace does not find them either.
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}]});
    let url = format!("{}/chat/completions", gateway.base_url());
    let sent = |key: &str, slug: &str| {
        client().post(&url).header("x-gateway-api-key", key).header("x-gateway-config", slug).json(&chat)
    };
    let removed = call(&gateway, TWO, Method::DELETE, "/v1/configs/co", &json!({})).await;
    assert_eq!(removed.0, 200);
    let one = sent(ONE, "co").send().await.unwrap();
    let two = sent(TWO, "co").send().await.unwrap();
    let one = one.text().await.unwrap();
    let two = two.text().await.unwrap();
    assert!(!one.contains("Invalid config id") && two.contains("Invalid config id"), "{one} {two}");
}
