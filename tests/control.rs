//! The control plane: health on both ports, unimplemented paths, and a listener that malformed or idle
//! connections cannot block.
//!
//! Not the content of `/metrics` (`metrics`), nor the axum bridge alone (unit tests in `net`).

use crate::support::client::{client, new_trace};
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use crate::support::{Gateway, gateway, raw};
use serde_json::{Value, json};

#[tokio::test]
async fn health_is_reported_on_both_ports() {
    let gateway = gateway();
    for base in [gateway.data_url(), gateway.control_url()] {
        for (path, wanted) in
            [("/livez", "ok"), ("/readyz", "\"ready\""), ("/v1/health", "\"Server is healthy\"")]
        {
            let response =
                client().get(format!("{base}{path}")).header("x-gateway-api-key", KEY).send().await.unwrap();
            assert_eq!(response.status(), 200, "{base}{path}");
            let text = response.text().await.unwrap();
            assert!(text.contains(wanted), "{path}: {text}");
            let head =
                client().head(format!("{base}{path}")).header("x-gateway-api-key", KEY).send().await.unwrap();
            assert_eq!(head.status(), 200, "HEAD {path}");
            assert_eq!(head.headers()["content-length"], text.len().to_string().as_str(), "HEAD {path}");
        }
    }
    // A load balancer has no key.
    for path in ["/livez", "/readyz"] {
        let response = client().get(format!("{}{path}", gateway.data_url())).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path} without a key");
    }
}

#[tokio::test]
async fn unimplemented_and_unknown_paths_are_refused() {
    let gateway = gateway();
    for base in [gateway.data_url(), gateway.control_url()] {
        for path in ["/v1/secret-references", "/v1/scim/workspaces", "/v1/mcp-integrations"] {
            for method in [reqwest::Method::GET, reqwest::Method::POST, reqwest::Method::DELETE] {
                let trace = new_trace();
                let call = client().request(method, format!("{base}{path}")).header("x-gateway-api-key", KEY);
                let response = call.header("x-gateway-trace-id", &trace).body("{}").send().await.unwrap();
                assert_eq!(response.status(), 501, "{base}{path}");
                let body: Value = response.json().await.unwrap();
                assert_eq!(body["error"]["code"], "not_implemented", "{body}");
            }
        }
    }
    for path in ["/", "/v1", "/v1/nothing", "/metricsx", "/v1/chat/completions"] {
        let response = gateway.control(reqwest::Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], "not_found", "{body}");
    }
    let wrong = client().post(format!("{}/metrics", gateway.control_url())).send().await.unwrap();
    assert_eq!(wrong.status(), 405);
}

#[tokio::test]
async fn a_control_path_on_the_data_port_needs_a_key_and_is_logged() {
    let gateway = gateway();
    let trace = new_trace();
    let call =
        || client().get(format!("{}/v1/prompts", gateway.data_url())).header("x-gateway-trace-id", &trace);
    let response = call().send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(gateway.access_line(&trace).await["status"], 401);
    let trace = new_trace();
    let call =
        client().get(format!("{}/v1/prompts", gateway.data_url())).header("x-gateway-trace-id", &trace);
    assert_eq!(
        call.header("x-gateway-api-key", KEY).send().await.unwrap().headers()["x-gateway-trace-id"],
        trace.as_str()
    );
    let line = gateway.access_line(&trace).await;
    assert_eq!(
        (&line["status"], &line["operation"], &line["key"]),
        (&200.into(), &"control".into(), &"tests".into()),
        "{line}"
    );
}

#[tokio::test]
async fn malformed_control_requests_are_answered_and_closed() {
    let gateway = gateway();
    let port = gateway.ports.control;
    for (sent, wanted) in [
        ("GET\r\n\r\n".to_owned(), "400"),
        ("GET /livez HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), "400"),
        ("\x16\x03\x01\x02\x00 hello\r\n\r\n".to_owned(), "400"),
        ("OPTIONS / HTTP/1.0\r\n\r\n".to_owned(), "401"),
        ("GET /livez HTTP/1.0\r\n\r\n".to_owned(), "200"),
        ("POST /v1/feedback HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n".to_owned(), "401"),
        (
            format!(
                "POST /v1/feedback HTTP/1.1\r\nhost: x\r\nx-gateway-api-key: {OPERATOR_KEY}\r\n\
                 content-length: 99999999\r\n\r\n"
            ),
            "413",
        ),
        (format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(2 << 20)), "4"),
    ] {
        let mut connection = raw::Raw::connect(port).await;
        // Endless headers may be refused before they are sent completely.
        let _refused = connection.write(sent.as_bytes()).await;
        let response = String::from_utf8_lossy(&connection.read_to_end().await).into_owned();
        let status_text = response.split(' ').nth(1).unwrap_or_default();
        let cut_off = sent.len() > 1 << 20 && response.is_empty();
        assert!(status_text.starts_with(wanted) || cut_off, "{:?} got {response:?}", sent.get(..40));
    }
    let h2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let response = h2.get(format!("{}/readyz", gateway.control_url())).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, reqwest::Version::HTTP_2));
    assert_eq!(h2.get(format!("{}/metrics", gateway.control_url())).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn idle_control_connections_do_not_block_others() {
    let gateway = gateway();
    let mut idle_connections = Vec::new();
    for _ in 0..200 {
        let mut connection = raw::Raw::connect(gateway.ports.control).await;
        connection.write(b"GET /livez HT").await.unwrap();
        idle_connections.push(connection);
    }
    let response = client().get(format!("{}/livez", gateway.control_url())).send().await.unwrap();
    assert_eq!(response.status(), 200);
}

/// A page in the operator's browser must not reach operators' routes, be it through a name of its own that resolves to
/// this address. Load balancers may call the health routes as they like.
#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    // Its own: it resets all circuits, also those that other tests are about to open.
    let gateway = Gateway::start(STANDARD);
    let port = gateway.ports.control;
    let own = format!("127.0.0.1:{port}");
    let own_origin = format!("origin: http://127.0.0.1:{port}\r\n");
    let evil = "origin: https://evil.example\r\n";
    for (line, host, origin, status) in [
        ("GET /metrics", own.as_str(), "", "200"),
        ("GET /metrics", "localhost", "", "200"),
        ("GET /v1/targets", own.as_str(), own_origin.as_str(), "200"),
        ("POST /v1/targets/reset", own.as_str(), own_origin.as_str(), "200"),
        ("GET /metrics", "evil.example", "", "403"),
        ("GET /v1/targets", "evil.example:8788", "", "403"),
        ("GET /v1/targets", own.as_str(), evil, "403"),
        ("POST /v1/targets/reset", own.as_str(), evil, "403"),
        ("POST /v1/targets/reset", own.as_str(), "origin: null\r\n", "403"),
        ("POST /v1/explain", "evil.example", "", "403"),
        ("GET /livez", "balancer.example", "", "200"),
        ("GET /readyz", "balancer.example", evil, "200"),
    ] {
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {host}\r\n{origin}x-gateway-api-key: {KEY}\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n"
        );
        let response = String::from_utf8_lossy(&raw::send(port, request.as_bytes()).await).into_owned();
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{line} {host} {origin}: {response}");
        assert!(status == "200" || response.contains("\"code\":\"forbidden\""), "{response}");
    }
}

#[tokio::test]
async fn the_data_port_is_without_the_control_api_where_the_settings_take_it_off() {
    let listen =
        "listen: {data: [127.0.0.1:DATA_PORT], control: 127.0.0.1:CONTROL_PORT, control_on_data: false}
emulator: {listen: 127.0.0.1:EMULATOR_PORT}";
    let gateway = Gateway::start(&format!("{listen}{STANDARD}"));
    let at = async |port: &str, method: reqwest::Method, path: &str, key: &str| {
        let call = client().request(method, format!("{port}{path}")).header("x-gateway-api-key", key);
        let response = call.json(&json!({})).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let data = gateway.data_url();
    for path in ["/v1/configs", "/v1/api-keys", "/v1/analytics/groups/users", "/v1/targets", "/v1//configs"] {
        let (status, body) = at(&data, reqwest::Method::GET, path, OPERATOR_KEY).await;
        assert_eq!(status, 404, "{path}: {body}");
        assert_eq!(at(&data, reqwest::Method::GET, path, "wrong").await.0, 401, "{path}");
    }
    let (_, body) = at(&data, reqwest::Method::GET, "/v1/configs", OPERATOR_KEY).await;
    assert!(body.contains("at the control port only"), "{body}");
    for path in ["/readyz", "/v1/health", "/v1/api-keys/self"] {
        assert_eq!(at(&data, reqwest::Method::GET, path, KEY).await.0, 200, "{path}");
    }
    // Reached, and refused for its body.
    assert_eq!(at(&data, reqwest::Method::POST, "/v1/feedback", KEY).await.0, 400);
    let control = gateway.control_url();
    assert_eq!(at(&control, reqwest::Method::GET, "/v1/configs", OPERATOR_KEY).await.0, 200);
    // No provider got any of it.
    assert!(gateway.stdout.lines_with("\"operation\":\"proxy\"").is_empty());
}
