//! Callers that take their time: with the head, the body, the next request, or reading the answer.
//!
//! Not sizes (`limits`).

use crate::support::client::{hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
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
async fn a_slow_head_is_refused_with_408_however_steadily_it_trickles() {
    let gateway = start("header_timeout_ms: 300");
    let mut caller = Raw::connect(gateway.ports.data).await;
    let begun = Instant::now();
    for byte in b"GET /v1/mod" {
        caller.write(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = caller.answer().await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("300 ms"), "{answer}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let counted = gateway.metric("turnpike_errors_total{code=\"request_timeout\"}").await;
    assert_eq!(counted, Some(1.0));
}

#[tokio::test]
async fn a_slow_second_head_on_the_same_connection_is_refused_as_well() {
    let gateway = start("header_timeout_ms: 300");
    let mut caller = Raw::connect(gateway.ports.data).await;
    let body = hello(false).to_string();
    let request = head(&new_trace(), &format!("content-length: {}\r\n", body.len()));
    caller.write(format!("{request}{body}").as_bytes()).await.unwrap();
    assert!(caller.answer().await.starts_with("HTTP/1.1 200"));
    caller.write(b"GET /v1/mod").await.unwrap();
    let answer = caller.answer().await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let gateway = start("idle_timeout_ms: 200");
    let mut fresh = Raw::connect(gateway.ports.data).await;
    assert!(fresh.read_to_end().await.is_empty());
    let mut used = Raw::connect(gateway.ports.data).await;
    let body = hello(false).to_string();
    let request = head(&new_trace(), &format!("content-length: {}\r\n", body.len()));
    used.write(format!("{request}{body}").as_bytes()).await.unwrap();
    assert!(used.answer().await.starts_with("HTTP/1.1 200"));
    assert!(used.read_to_end().await.is_empty());
}

#[tokio::test]
async fn a_slow_body_is_refused_with_408() {
    let gateway = start("body_timeout_ms: 250");
    for framing in ["content-length: 500\r\n", "transfer-encoding: chunked\r\n"] {
        let trace = new_trace();
        let mut caller = Raw::connect(gateway.ports.data).await;
        caller.write(head(&trace, framing).as_bytes()).await.unwrap();
        caller.write(b"5\r\n{\"mod\r\n").await.unwrap();
        let answer = caller.answer().await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{framing} {answer}");
        assert!(answer.contains("body_timeout_ms"), "{framing} {answer}");
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], "request_timeout", "{framing} {line}");
    }
}

#[tokio::test]
async fn a_caller_that_leaves_in_the_middle_of_its_body_is_noted_as_such() {
    let gateway = start("body_timeout_ms: 5000");
    let trace = new_trace();
    let mut caller = Raw::connect(gateway.ports.data).await;
    caller.write(head(&trace, "content-length: 500\r\n").as_bytes()).await.unwrap();
    caller.write(b"{\"model\"").await.unwrap();
    drop(caller);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&499.into(), &"caller_left".into()), "{line}");
}

/// The provider could send for ever: what is not read may not pile up, and in the end the caller is let go.
#[tokio::test]
async fn a_caller_that_stops_reading_holds_neither_memory_nor_the_provider() {
    const ANSWER: usize = 400 << 20;
    let gateway = start("write_timeout_ms: 700");
    for way in ["whole", "timed"] {
        let (tag, trace) = (new_trace(), new_trace());
        let before = gateway.metric("process_resident_memory_bytes").await.unwrap();
        let limit = if way == "timed" { "x-gateway-request-timeout: 20000\r\n" } else { "" };
        let request = head(&trace, &format!("x-emulator-tag: {tag}\r\n{limit}"));
        let request =
            request.replace("POST /v1/chat/completions", &format!("GET /v1/weather/flood?bytes={ANSWER}"));
        let mut caller = Raw::connect(gateway.ports.data).await;
        caller.write(request.as_bytes()).await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], "caller_left", "{way} {line}");
        let seen = gateway.emulator_requests(&tag).await;
        assert_eq!(seen[0]["closed"], "caller_left", "{way} {seen:?}");
        let after = gateway.metric("process_resident_memory_bytes").await.unwrap();
        assert!(after - before < 32e6, "{way}: {before} bytes became {after}");
        drop(caller);
    }
    until("the last request's end", async || {
        (gateway.metric("turnpike_requests_in_flight").await == Some(0.0)).then_some(())
    })
    .await;
}
