//! Responses that break off or stall after they started: never passed off as complete.
//!
//! Not failures before the first byte (`failures`).

use crate::support::client::{client, new_trace};
use crate::support::conversation::{ALL_DIALECTS, Dialect, RequestKind, assert_gateway_error, chat_request};
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::Upstream;
use crate::support::{conversation, gateway, sse};
use futures_util::future::join_all;
use serde_json::Value;

const IMPATIENT: &str = "limits: {upstream_read_timeout_ms: 250}\n";

#[tokio::test]
async fn a_truncated_response_never_looks_complete() {
    let gateway = Gateway::start(&format!("{STANDARD}limits: {{upstream_read_timeout_ms: 3000}}\n"));
    let mut calls = Vec::new();
    for fault in ["cut", "stall", "truncate"] {
        for dialect in ALL_DIALECTS {
            calls.extend(
                [RequestKind::Plain, RequestKind::Timed, RequestKind::Big]
                    .map(|kind| looks_broken(&gateway, fault, dialect, kind)),
            );
        }
    }
    join_all(calls).await;
}

/// A small document, and any under a request timeout, is held until it is complete, so that its failure gets a status;
/// another is sent as it arrives.
async fn looks_broken(gateway: &Gateway, fault: &str, dialect: Dialect, kind: RequestKind) {
    let code = if fault == "stall" { "upstream_timeout" } else { "upstream_unreachable" };
    for (tokens, is_small) in [(48, true), (36_000, false)] {
        let trace = new_trace();
        let script = format!("fault={fault}&tokens={tokens}");
        let mut body = conversation::body(dialect, kind, &script);
        body["max_tokens"] = tokens.into();
        let call = chat_request(gateway, dialect, kind, &script).json(&body);
        let call = call.header("x-gateway-provider", dialect.slug());
        let response = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
        if is_small || kind == RequestKind::Timed {
            let status = if fault == "stall" { 504 } else { 502 };
            assert_gateway_error(response, dialect, &trace, status, code).await;
        } else {
            assert_eq!(response.status(), 200, "{fault} {dialect:?} {kind:?}");
            let read = response.bytes().await;
            assert!(read.is_err(), "{fault} {dialect:?} {kind:?}: {read:?}");
        }
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["error_code"], code, "{fault} {kind:?} {line}");
    }
}

#[tokio::test]
async fn heartbeats_do_not_hide_an_idle_provider() {
    let gateway = Gateway::start(&format!("{STANDARD}{IMPATIENT}"));
    let trace = new_trace();
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Streamed, "fault=stall&after=4");
    let config = r#"{"provider":"@emulator","time_limits":{"heartbeat_ms":60}}"#;
    let call = call.header("x-gateway-config", config).header("x-gateway-trace-id", &trace);
    let text = call.send().await.unwrap().text().await.unwrap();
    assert!(text.contains(": keep-alive") && text.contains("\"error\""), "{text}");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "upstream_timeout", "{line}");
}

#[tokio::test]
async fn a_broken_stream_ends_with_an_error_event_and_no_done() {
    let gateway = Gateway::start(&format!("{STANDARD}{IMPATIENT}"));
    let mut expected_errors = 0.0;
    for fault in ["cut", "stall"] {
        for dialect in ALL_DIALECTS {
            let trace = new_trace();
            let call =
                chat_request(&gateway, dialect, RequestKind::Streamed, &format!("fault={fault}&after=4"));
            let call = call.header("x-gateway-provider", dialect.slug());
            let mut response = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
            assert_eq!(response.status(), 200);
            let mut text = String::new();
            let ended = loop {
                match response.chunk().await {
                    Ok(Some(chunk)) => text.push_str(std::str::from_utf8(&chunk).unwrap()),
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            // Gemini's streams have no end marker, so the connection breaks off.
            assert_eq!(ended, dialect != Dialect::Gemini, "{text}");
            let what = format!("{fault} {dialect:?}: {text}");
            expected_errors += 1.0;
            assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{what}");
            let events = sse::events(&text);
            let last = events.last().unwrap();
            let event: Value = serde_json::from_str(&last.data).unwrap();
            match dialect {
                Dialect::OpenAi => assert_eq!(last.name, "", "{what}"),
                Dialect::Anthropic => {
                    assert_eq!((last.name.as_str(), &event["type"]), ("error", &"error".into()));
                }
                Dialect::Gemini => assert!(!text.contains("finishReason"), "{what}"),
            }
            assert!(event["error"]["message"].is_string(), "{what}");
            let line = gateway.access_line(&trace).await;
            assert!(line["error_code"].is_string(), "{what} {line}");
        }
    }
    let metrics = gateway.metrics().await;
    let counted: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("turnpike_errors_total"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(counted, expected_errors, "{metrics}");
}

#[tokio::test]
async fn a_broken_stream_of_an_unknown_path_breaks_the_connection() {
    let gateway = gateway();
    let call = client().get(format!("{}/weather/today?sse=20", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let response = call.header("x-emulator-script", "fault=cut&after=3").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.text().await.is_err(), "a partial response was passed off as complete");
}

/// Without Content-Length or chunks, the end of the connection ends the response, broken or not: only the
/// missing end marker shows the break.
#[tokio::test]
async fn a_stream_closed_without_an_end_marker_is_reported_as_broken() {
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        line.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await;
        line.write("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"The\"}}]}\n\n").await;
    })
    .await;
    let gateway = gateway();
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Streamed, "");
    let call = call.header("x-gateway-provider", "openai").header("authorization", "Bearer sk-1");
    let response = call.header("x-gateway-custom-host", upstream.url()).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(!text.contains("[DONE]"), "{text}");
    let events = sse::events(&text);
    assert_eq!(events.len(), 2, "{text}");
    let event: Value = serde_json::from_str(&events[1].data).unwrap();
    assert_eq!(event["error"]["code"], "upstream_invalid_answer", "{text}");
}
