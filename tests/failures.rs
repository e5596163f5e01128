//! What a client gets when there is no response: status, an error in its dialect, trace id; and what is
//! logged.
//!
//! Not responses that break after they started (`broken_responses`), nor the client's own errors (`limits`).

use crate::support::client::{client, hello, new_trace};
use crate::support::conversation::{
    ALL_DIALECTS, Dialect, REQUEST_KINDS, RequestKind, assert_gateway_error, chat_request,
};
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{gateway, ports};
use futures_util::future::join_all;
use std::time::{Duration, Instant};

/// Faults that replace the response, and the error code of each.
const FAULTS: [(&str, &str); 4] = [
    ("reset", "upstream_unreachable"),
    ("eof", "upstream_unreachable"),
    ("garbage", "upstream_invalid_answer"),
    ("half_head", "upstream_unreachable"),
];

#[tokio::test]
async fn a_provider_that_does_not_respond_is_reported_for_every_request_kind() {
    let gateway = Gateway::start(STANDARD);
    let mut calls = Vec::new();
    for (fault, code) in FAULTS {
        let kinds = ALL_DIALECTS.iter().flat_map(|dialect| REQUEST_KINDS.map(|kind| (*dialect, kind)));
        calls.extend(kinds.map(|(dialect, kind)| assert_reported(&gateway, fault, code, dialect, kind)));
    }
    join_all(calls).await;
    let counted = async |code: &str| {
        gateway.metric(&format!("turnpike_errors_total{{code=\"{code}\"}}")).await.unwrap_or_default()
    };
    let expected_count = |code: &str| {
        FAULTS.iter().filter(|(_, fault)| *fault == code).count() * ALL_DIALECTS.len() * REQUEST_KINDS.len()
    };
    for code in ["upstream_unreachable", "upstream_invalid_answer"] {
        assert_eq!(counted(code).await, expected_count(code) as f64, "{code}");
    }
}

async fn assert_reported(gateway: &Gateway, fault: &str, code: &str, dialect: Dialect, kind: RequestKind) {
    let trace = new_trace();
    let call = chat_request(gateway, dialect, kind, &format!("fault={fault}"));
    let call = call.header("x-gateway-provider", dialect.slug()).header("x-gateway-trace-id", &trace);
    let response = call.send().await.unwrap();
    let what = format!("{fault} {dialect:?} {kind:?}");
    assert_eq!(response.status(), 502, "{what}");
    assert_eq!(response.headers()["x-gateway-last-used-option-index"], "config", "{what}");
    let message = assert_gateway_error(response, dialect, &trace, 502, code).await;
    assert!(message.contains("Retry your request"), "{what}: no advice in {message:?}");
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&502.into(), &code.into()), "{what} {line}");
    assert_eq!(line["attempts"].as_array().unwrap().len(), 1, "{what} {line}");
    assert_eq!(line["attempts"][0]["error"], code, "{what} {line}");
}

#[tokio::test]
async fn a_hanging_provider_times_out_after_the_request_timeout() {
    let gateway = gateway();
    let mut calls = Vec::new();
    for dialect in ALL_DIALECTS {
        for kind in [RequestKind::Plain, RequestKind::Big, RequestKind::Streamed] {
            calls.extend([true, false].map(|by_header| assert_times_out(&gateway, dialect, kind, by_header)));
        }
    }
    join_all(calls).await;
}

async fn assert_times_out(gateway: &Gateway, dialect: Dialect, kind: RequestKind, by_header: bool) {
    let trace = new_trace();
    let call = chat_request(gateway, dialect, kind, "fault=hang").header("x-gateway-trace-id", &trace);
    let config = format!(r#"{{"provider": "{}", "request_timeout": 150}}"#, dialect.slug());
    let call = if by_header {
        call.header("x-gateway-provider", dialect.slug()).header("x-gateway-request-timeout", "150")
    } else {
        call.header("x-gateway-config", config)
    };
    let started = Instant::now();
    let response = call.send().await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(150), "{kind:?} {by_header}");
    let message = assert_gateway_error(response, dialect, &trace, 408, "request_timeout").await;
    assert_eq!(message, "Request exceeded the timeout sent in the request: 150ms");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "request_timeout", "{line}");
}

/// Scripts whose response begins before the timeout of 300 ms, the kind of request, and whether it times out.
const LATE: [(&str, RequestKind, bool); 6] = [
    ("ttft=900&tokens=3", RequestKind::Plain, true),
    ("fault=slow_body&gap=100", RequestKind::Plain, true),
    ("fault=slow_body&gap=100&status=500", RequestKind::Plain, true),
    ("ttft=900&tokens=3", RequestKind::Streamed, true),
    // A stream may go on for longer once it has content.
    ("gap=100&tokens=8", RequestKind::Streamed, false),
    ("tokens=3", RequestKind::Plain, false),
];

#[tokio::test]
async fn the_request_timeout_bounds_whole_responses_and_the_first_token_of_streams() {
    let gateway = gateway();
    join_all(LATE.map(|(script, kind, expires)| assert_bounded(&gateway, script, kind, expires))).await;
}

async fn assert_bounded(gateway: &Gateway, script: &str, kind: RequestKind, expires: bool) {
    let trace = new_trace();
    let call = chat_request(gateway, Dialect::OpenAi, kind, script).header("x-gateway-trace-id", &trace);
    let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-request-timeout", "300");
    let response = call.send().await.unwrap();
    if expires {
        let message = assert_gateway_error(response, Dialect::OpenAi, &trace, 408, "request_timeout").await;
        assert_eq!(message, "Request exceeded the timeout sent in the request: 300ms", "{script}");
        return;
    }
    assert_eq!(response.status(), 200, "{script} {kind:?}");
    let text = response.text().await.unwrap();
    assert!(text.contains("finish_reason") && !text.contains("\"error\""), "{script} {kind:?} {text}");
}

#[tokio::test]
async fn a_response_that_is_neither_json_nor_events_is_bounded_as_well() {
    let gateway = gateway();
    for (script, status) in [("fault=slow_body&gap=200", 408), ("", 200)] {
        let call = client().post(format!("{}/audio/speech", gateway.base_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
        let call = call.header("x-gateway-request-timeout", "400").header("x-emulator-script", script);
        let body = serde_json::json!({"model": "m", "input": "hello", "voice": "alloy"});
        let response = call.json(&body).send().await.unwrap();
        assert_eq!(response.status(), status, "{script}");
        assert!(!response.bytes().await.unwrap().is_empty(), "{script}");
    }
}

#[tokio::test]
async fn a_request_timeout_is_each_attempts_own_so_that_a_fallback_follows() {
    let gateway = gateway();
    let target = |script: &str| serde_json::json!({"provider": "@emulator", "override_params": {"model": format!("m?{script}")}});
    let config = serde_json::json!({
        "strategy": {"mode": "fallback", "on_status_codes": [408]},
        "request_timeout": 400,
        "targets": [target("ttft=5000"), target("latency=200&tokens=3")],
    });
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "");
    let started = Instant::now();
    let response = call.header("x-gateway-config", config.to_string()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-gateway-last-used-option-index"], "config.targets[1]");
    assert!(started.elapsed() >= Duration::from_millis(600), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_operators_limits_hold_where_the_request_names_none() {
    let limits = "limits: {upstream_read_timeout_ms: 250}\n";
    let gateway = Gateway::start(&format!("{STANDARD}{limits}"));
    for kind in [RequestKind::Plain, RequestKind::Big, RequestKind::Streamed] {
        let trace = new_trace();
        let call =
            chat_request(&gateway, Dialect::OpenAi, kind, "fault=hang").header("x-gateway-trace-id", &trace);
        let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
        let message = assert_gateway_error(response, Dialect::OpenAi, &trace, 504, "upstream_timeout").await;
        assert!(message.contains("upstream_read_timeout_ms"), "{kind:?} {message:?}");
    }
    gateway.reload(&format!("{STANDARD}limits: {{request_timeout_ms: 200}}\n"));
    let reloaded_message = async || {
        let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "fault=hang");
        let call = call.header("x-gateway-provider", "@emulator");
        let call = call.timeout(Duration::from_secs(2));
        Some(call.send().await.ok()?.text().await.ok()?).filter(|text| text.contains("200ms"))
    };
    crate::support::wait::until("the reloaded timeout", reloaded_message).await;
}

#[tokio::test]
async fn an_unreachable_provider_is_reported_with_the_reason() {
    let closed = ports::free();
    let tls = ports::free();
    let gateway = start_with_dead_providers(closed, tls);
    // stored provider, what the message contains
    let rows = [
        ("@closed", "refuses connections"),
        ("@nowhere", "(DNS)"),
        ("@plain", "TLS"),
        ("@self-signed", "TLS"),
    ];
    let calls = rows
        .iter()
        .flat_map(|(slug, reason)| REQUEST_KINDS.map(|kind| assert_reason(&gateway, slug, reason, kind)));
    join_all(calls).await;
}

async fn assert_reason(gateway: &Gateway, slug: &str, reason: &str, kind: RequestKind) {
    let trace = new_trace();
    let call = chat_request(gateway, Dialect::OpenAi, kind, "").header("x-gateway-provider", slug);
    let response = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
    let message = assert_gateway_error(response, Dialect::OpenAi, &trace, 502, "upstream_unreachable").await;
    assert!(message.contains(reason), "{slug} {kind:?}: {message:?}");
    assert!(!message.contains("127.0.0.1"), "{slug} {kind:?}: an address is disclosed: {message:?}");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "upstream_unreachable", "{line}");
    assert_eq!(line["attempts"][0]["error"], "upstream_unreachable", "{line}");
}

/// Stored providers that cannot be reached; one is the gateway's own listener with a self-signed certificate.
fn start_with_dead_providers(closed: u16, tls: u16) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = folder.path().join("cert.pem");
    let key = folder.path().join("key.pem");
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let settings = format!(
        "
listen:
  data: [127.0.0.1:DATA_PORT, {{address: '127.0.0.1:{tls}', tls: {{cert: {}, key: {}}}}}]
  control: 127.0.0.1:CONTROL_PORT
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}
auth: {{keys: [{{name: tests, key: {KEY}}}]}}
providers:
  closed: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:{closed}/v1'}}
  nowhere: {{provider: openai, api_key: k, custom_host: 'http://x.invalid/v1'}}
  plain: {{provider: openai, api_key: k, custom_host: 'https://127.0.0.1:EMULATOR_PORT/v1'}}
  self-signed: {{provider: openai, api_key: k, custom_host: 'https://localhost:{tls}/v1'}}
",
        cert.display(),
        key.display(),
    );
    // Certificates are read at the start.
    Gateway::start(&settings)
}

#[tokio::test]
async fn client_errors_are_reported_in_its_dialect_with_a_trace_id() {
    let gateway = gateway();
    for (dialect, path) in [(Dialect::OpenAi, "chat/completions"), (Dialect::Anthropic, "messages")] {
        let url = format!("{}/{path}", gateway.base_url());
        let wrong_key = client().post(&url).header("x-gateway-api-key", "nobody").json(&hello(false));
        let no_provider = client().post(&url).header("x-gateway-api-key", KEY).json(&hello(false));
        let no_json = client().post(&url).header("x-gateway-api-key", KEY).body("{\"model\": ");
        for (call, status, code) in [
            (wrong_key, 401, "invalid_api_key"),
            (no_provider, 404, "model_not_found"),
            (no_json, 400, "invalid_request"),
        ] {
            let response = call.send().await.unwrap();
            let trace = response.headers()["x-gateway-trace-id"].to_str().unwrap().to_owned();
            assert_eq!(trace.len(), 36, "a generated id is a UUID: {trace}");
            assert_gateway_error(response, dialect, &trace, status, code).await;
            let line = gateway.access_line(&trace).await;
            assert_eq!((&line["status"], &line["error_code"]), (&status.into(), &code.into()), "{line}");
        }
    }
}
