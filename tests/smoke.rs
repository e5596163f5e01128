//! One request of every kind through the running gateway, and its life from start to stop.
//!
//! Not thorough: each behaviour has its own file. If several tests fail, look here first.

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, command, gateway, raw, sse};
use serde_json::Value;
use std::time::Duration;

#[tokio::test]
async fn a_whole_response_passes() {
    let gateway = gateway();
    let trace = new_trace();
    let response = chat(&gateway, &trace, &hello(false)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-gateway-trace-id"], trace.as_str());
    assert_eq!(response.headers()["x-gateway-provider"], "openai");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["object"], "chat.completion");
    assert!(!body["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_streamed_response_passes() {
    let gateway = gateway();
    let trace = new_trace();
    let response = chat(&gateway, &trace, &hello(true)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let events = sse::events(&response.text().await.unwrap());
    assert_eq!(events.last().unwrap().data, "[DONE]");
    assert!(!sse::chat_text(&events).is_empty());
}

#[tokio::test]
async fn the_access_line_names_the_client_and_holds_no_secret() {
    let gateway = gateway();
    let trace = new_trace();
    let call = chat(&gateway, &trace, &hello(false)).header("authorization", format!("Bearer {OTHER_KEY}"));
    assert_eq!(call.send().await.unwrap().status(), 200);
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["trace_id"], trace.as_str());
    assert_eq!(line["status"], 200);
    let written = line.to_string();
    assert!(written.contains("\"tests\""), "the key's name is not in {written}");
    for secret in [KEY, OTHER_KEY, PROVIDER_KEY] {
        assert!(!written.contains(secret) && !gateway.log().contains(secret), "a key is in the log");
    }
}

#[tokio::test]
async fn the_provider_gets_its_own_key_and_no_gateway_headers() {
    let gateway = gateway();
    let tag = new_trace();
    let mut body = hello(false);
    body["model"] = format!("gpt-4o-mini?tag={tag}").into();
    let call = chat(&gateway, &new_trace(), &body).header("authorization", format!("Bearer {OTHER_KEY}"));
    assert_eq!(call.send().await.unwrap().status(), 200);
    let received = gateway.emulator_requests(&tag).await;
    assert_eq!(received.len(), 1, "{received:?}");
    let received = received[0].to_string();
    assert!(received.contains(PROVIDER_KEY), "{received}");
    for ours in [KEY, OTHER_KEY, "x-gateway-"] {
        assert!(!received.contains(ours), "{ours} was forwarded: {received}");
    }
}

#[tokio::test]
async fn requests_without_a_service_key_are_refused() {
    let gateway = gateway();
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
    assert_eq!(response.status(), 401);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["code"], "invalid_api_key");
}

#[tokio::test]
async fn non_http_bytes_are_answered_and_closed() {
    let gateway = gateway();
    let response = raw::send(gateway.ports.data, b"\x16\x03\x01 hello\r\n\r\n").await;
    let text = String::from_utf8_lossy(&response);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");
}

#[tokio::test]
async fn a_client_with_slow_headers_is_refused() {
    let gateway = Gateway::start(&format!("{STANDARD}limits: {{header_timeout_ms: 300}}\n"));
    let mut connection = raw::Raw::connect(gateway.ports.data).await;
    let head = format!("GET /v1/models HTTP/1.1\r\nhost: gateway\r\nx: {}", "y".repeat(400));
    let let_in = connection.write_slowly(head.as_bytes(), Duration::from_millis(20)).await;
    assert!(!let_in, "the gateway read headers that took 8 s to send");
}

#[tokio::test]
async fn a_reload_accepts_a_valid_file_and_refuses_an_invalid_one() {
    const LAST: &str = "turnpike_settings_last_reload_successful";
    let gateway = Gateway::start(STANDARD);
    let status = async || chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap().status().as_u16();
    assert_eq!(status().await, 200);
    assert_eq!(gateway.metric(LAST).await, Some(1.0));

    gateway.reload("auth: {no_such_key: 1}\n");
    until("the invalid file to be refused", async || (gateway.metric(LAST).await == Some(0.0)).then_some(()))
        .await;
    assert_eq!(status().await, 200, "the last valid settings are no longer in force");

    gateway.reload(&STANDARD.replace(KEY, "tp-renewed-0123456789"));
    until("the new settings", async || (status().await == 401).then_some(())).await;
    assert_eq!(gateway.metric(LAST).await, Some(1.0));
}

#[tokio::test]
async fn it_stops_cleanly_on_sigterm() {
    // Pingora waits for the whole grace period.
    let gateway = Gateway::start(&STANDARD.replace("grace_period_seconds: 5", "grace_period_seconds: 1"));
    gateway.terminate();
    let end = gateway.ended().await;
    assert!(end.success(), "it ended with {end}");
}

#[test]
fn check_reports_what_is_wrong_and_where() {
    let good = command::check("listen: {control: '127.0.0.1:8788'}\n");
    assert_eq!(good.code, Some(0), "{good:?}");
    let bad = command::check("limits:\n  max_body_bytes: many\nlisten: {}\nno_such_key: 1\n");
    assert_eq!(bad.code, Some(1), "{bad:?}");
    let output = bad.stdout + &bad.stderr;
    assert!(output.contains("turnpike.yaml:2:") && output.contains("turnpike.yaml:4:1"), "{output}");
    assert!(output.contains("max_body_bytes") && output.contains("no_such_key"), "{output}");
}
