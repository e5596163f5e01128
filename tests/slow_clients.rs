//! Slow clients: with headers, the body, the next request, or reading the response.
//!
//! Not sizes (`limits`).

use crate::support::client::{hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, STANDARD};
use std::time::{Duration, Instant};

fn start(limits: &str) -> Gateway {
    Gateway::start(&format!("{STANDARD}limits: {{{limits}}}\n"))
}

fn head(trace: &str, more: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
         x-gateway-provider: @emulator\r\nx-gateway-trace-id: {trace}\r\n{more}\r\n"
    )
}

#[tokio::test]
async fn slow_headers_are_refused_with_408() {
    let gateway = start("header_timeout_ms: 300");
    let mut connection = Raw::connect(gateway.ports.data).await;
    let started = Instant::now();
    for byte in b"GET /v1/mod" {
        connection.write(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 408") && response.contains("300 ms"), "{response}");
    assert!(started.elapsed() >= Duration::from_millis(300));
    let counted = gateway.metric("turnpike_errors_total{code=\"request_timeout\"}").await;
    assert_eq!(counted, Some(1.0));
}

#[tokio::test]
async fn slow_headers_of_a_second_request_are_refused_too() {
    let gateway = start("header_timeout_ms: 300");
    let mut connection = Raw::connect(gateway.ports.data).await;
    let body = hello(false).to_string();
    let request = head(&new_trace(), &format!("content-length: {}\r\n", body.len()));
    connection.write(format!("{request}{body}").as_bytes()).await.unwrap();
    assert!(connection.read_response().await.starts_with("HTTP/1.1 200"));
    connection.write(b"GET /v1/mod").await.unwrap();
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_response() {
    let gateway = start("idle_timeout_ms: 200");
    let mut fresh = Raw::connect(gateway.ports.data).await;
    assert!(fresh.read_to_end().await.is_empty());
    let mut used = Raw::connect(gateway.ports.data).await;
    let body = hello(false).to_string();
    let request = head(&new_trace(), &format!("content-length: {}\r\n", body.len()));
    used.write(format!("{request}{body}").as_bytes()).await.unwrap();
    assert!(used.read_response().await.starts_with("HTTP/1.1 200"));
    assert!(used.read_to_end().await.is_empty());
}

#[tokio::test]
async fn a_body_that_only_trickles_is_refused_with_408() {
    let gateway = start("body_timeout_ms: 300, min_body_rate: 100000");
    let trace = new_trace();
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(head(&trace, "content-length: 5000\r\n").as_bytes()).await.unwrap();
    // Never silent for as long as body_timeout_ms.
    let sent_all = connection.write_slowly(&[b' '; 5000], Duration::from_millis(20)).await;
    assert!(!sent_all, "5,000 bytes were taken at 50 bytes a second");
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&408.into(), &"request_timeout".into()), "{line}");
    assert!(line["error"].as_str().is_some_and(|error| error.contains("min_body_rate")), "{line}");
}

#[tokio::test]
async fn an_upload_that_only_trickles_is_given_up() {
    let gateway = start("body_timeout_ms: 300, min_body_rate: 100000");
    // Sent on by Pingora, and by the engine.
    for path in ["files", "anything/else"] {
        let mut connection = Raw::connect(gateway.ports.data).await;
        let head =
            head(&new_trace(), "content-type: multipart/form-data; boundary=b\r\ncontent-length: 5000\r\n");
        connection.write(head.replace("chat/completions", path).as_bytes()).await.unwrap();
        // Never silent for as long as body_timeout_ms.
        let sent_all = connection.write_slowly(&[b' '; 5000], Duration::from_millis(20)).await;
        assert!(!sent_all, "{path}: 5,000 bytes were taken at 50 bytes a second");
    }
}

#[tokio::test]
async fn a_slow_body_is_refused_with_408() {
    let gateway = start("body_timeout_ms: 250");
    for framing in ["content-length: 500\r\n", "transfer-encoding: chunked\r\n"] {
        let trace = new_trace();
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(head(&trace, framing).as_bytes()).await.unwrap();
        connection.write(b"5\r\n{\"mod\r\n").await.unwrap();
        let response = connection.read_response().await;
        assert!(response.starts_with("HTTP/1.1 408"), "{framing} {response}");
        assert!(response.contains("body_timeout_ms"), "{framing} {response}");
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], "request_timeout", "{framing} {line}");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_during_its_upload_is_logged_as_such() {
    let gateway = start("body_timeout_ms: 5000");
    let trace = new_trace();
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(head(&trace, "content-length: 500\r\n").as_bytes()).await.unwrap();
    connection.write(b"{\"model\"").await.unwrap();
    drop(connection);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&499.into(), &"caller_left".into()), "{line}");
}

/// The provider could send forever: unread data must not pile up, and finally the client is disconnected.
#[tokio::test]
async fn a_client_that_stops_reading_holds_neither_memory_nor_the_provider() {
    const BODY_BYTES: usize = 400 << 20;
    let gateway = start("write_timeout_ms: 700");
    for kind in ["whole", "timed"] {
        let tag = new_trace();
        let trace = new_trace();
        let before = gateway.metric("process_resident_memory_bytes").await.unwrap();
        let limit = if kind == "timed" { "x-gateway-request-timeout: 20000\r\n" } else { "" };
        let request = head(&trace, &format!("x-emulator-tag: {tag}\r\n{limit}"));
        let request = request
            .replace("POST /v1/chat/completions", &format!("GET /v1/weather/flood?bytes={BODY_BYTES}"));
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(request.as_bytes()).await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], "caller_left", "{kind} {line}");
        let requests = gateway.emulator_requests(&tag).await;
        assert_eq!(requests[0]["closed"], "caller_left", "{kind} {requests:?}");
        let after = gateway.metric("process_resident_memory_bytes").await.unwrap();
        assert!(after - before < 32e6, "{kind}: {before} bytes grew to {after}");
        drop(connection);
    }
    gateway.idle().await;
}
