//! `/v1/targets` on the control port: the shape of its responses, and that the data port does not have it.
//!
//! Not what opens and closes a breaker (`breakers`).

use crate::support::client::{client, new_trace};
use crate::support::gateway;
use crate::support::settings::KEY;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn targets_are_listed_and_reset_on_the_control_port() {
    let gateway = gateway();
    let response = gateway.control(Method::GET, "/v1/targets").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let body: Value = response.json().await.unwrap();
    for target in body["targets"].as_array().unwrap() {
        for field in [
            "config",
            "index",
            "provider",
            "slug",
            "model",
            "state",
            "failures",
            "since",
            "next_try_seconds",
            "in_flight",
            "latency_ms",
        ] {
            assert!(target.get(field).is_some(), "{field}: {target}");
        }
    }
    // A config that does not exist, so that breaker tests are not disturbed.
    let unknown = json!({"config": "cf-nobody", "index": "config.targets[0]"}).to_string();
    let response = gateway.control(Method::POST, "/v1/targets/reset").body(unknown).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.json::<Value>().await.unwrap()),
        (200, json!({"reset": 0}))
    );
}

#[tokio::test]
async fn invalid_resets_are_refused_in_the_usual_shape() {
    for (method, path, body, status, code) in [
        (Method::POST, "/reset", "{", 400, "invalid_request"),
        (Method::POST, "/reset", "[]", 400, "invalid_request"),
        (Method::POST, "/reset", r#"{"configs": "cf-nobody"}"#, 400, "invalid_request"),
        (Method::POST, "/reset", r#"{"config": 7}"#, 400, "invalid_request"),
        (Method::GET, "/reset", "", 405, "method_not_allowed"),
        (Method::POST, "", "", 405, "method_not_allowed"),
        (Method::GET, "/cf-nobody", "", 404, "not_found"),
    ] {
        let call = gateway().control(method.clone(), &format!("/v1/targets{path}")).body(body);
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), status, "{method} {path} {body}");
        let response: Value = response.json().await.unwrap();
        assert_eq!(response["error"]["code"], code, "{method} {path} {body}: {response}");
    }
}

#[tokio::test]
async fn the_data_port_neither_serves_it_nor_passes_it_on() {
    let gateway = gateway();
    for (method, path) in [(Method::GET, "/v1/targets"), (Method::POST, "/v1/targets/reset")] {
        let trace = new_trace();
        let call = client().request(method, format!("{}{path}", gateway.data_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
        let response = call.header("x-gateway-trace-id", &trace).body("{}").send().await.unwrap();
        let text = response.text().await.unwrap();
        assert!(!text.contains(r#""targets""#) && !text.contains(r#"{"reset""#), "{path}: {text}");
        let line = gateway.access_line(&trace).await;
        assert_eq!((&line["operation"], &line["status"]), (&"control".into(), &404.into()), "{line}");
        assert_eq!(line["attempts"].as_array().map(Vec::len), Some(0), "{line}");
    }
}
