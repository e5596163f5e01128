//! What a caller is told when no answer can be had: status, words of its dialect, trace id; and what is noted.
//!
//! Not answers that break after they began (`broken_answers`), nor what the caller itself did wrong (`limits`).

use crate::support::client::{client, hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::talk::{SPEECHES, Speech, WAYS, Way, ask, failed};
use crate::support::{gateway, ports};
use futures_util::future::join_all;
use std::time::{Duration, Instant};

/// Faults in place of an answer, and the code they are told as.
const FAULTS: [(&str, &str); 4] = [
    ("reset", "upstream_unreachable"),
    ("eof", "upstream_unreachable"),
    ("garbage", "upstream_invalid_answer"),
    ("half_head", "upstream_unreachable"),
];

#[tokio::test]
async fn a_provider_that_does_not_answer_is_told_as_such_on_every_way() {
    let gateway = Gateway::start(STANDARD);
    let mut calls = Vec::new();
    for (fault, code) in FAULTS {
        let ways = SPEECHES.iter().flat_map(|speech| WAYS.map(|way| (*speech, way)));
        calls.extend(ways.map(|(speech, way)| tells_of(&gateway, fault, code, speech, way)));
    }
    join_all(calls).await;
    let counted = async |code: &str| {
        gateway.metric(&format!("turnpike_errors_total{{code=\"{code}\"}}")).await.unwrap_or_default()
    };
    let told =
        |code: &str| FAULTS.iter().filter(|(_, fault)| *fault == code).count() * SPEECHES.len() * WAYS.len();
    for code in ["upstream_unreachable", "upstream_invalid_answer"] {
        assert_eq!(counted(code).await, told(code) as f64, "{code}");
    }
}

async fn tells_of(gateway: &Gateway, fault: &str, code: &str, speech: Speech, way: Way) {
    let trace = new_trace();
    let call = ask(gateway, speech, way, &format!("fault={fault}"));
    let call = call.header("x-gateway-provider", speech.slug()).header("x-gateway-trace-id", &trace);
    let answer = call.send().await.unwrap();
    let what = format!("{fault} {speech:?} {way:?}");
    assert_eq!(answer.status(), 502, "{what}");
    assert_eq!(answer.headers()["x-gateway-last-used-option-index"], "config", "{what}");
    let message = failed(answer, speech, &trace, 502, code).await;
    assert!(message.contains("ry again"), "{what}: no advice in {message:?}");
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["error_code"]), (&502.into(), &code.into()), "{what} {line}");
    assert_eq!(line["attempts"].as_array().unwrap().len(), 1, "{what} {line}");
    assert_eq!(line["attempts"][0]["error"], code, "{what} {line}");
}

#[tokio::test]
async fn a_silent_provider_is_given_up_after_the_time_the_request_grants() {
    let gateway = gateway();
    let mut calls = Vec::new();
    for speech in SPEECHES {
        for way in [Way::Plain, Way::Big, Way::Streamed] {
            calls.extend([true, false].map(|by_header| gives_up(&gateway, speech, way, by_header)));
        }
    }
    join_all(calls).await;
}

async fn gives_up(gateway: &Gateway, speech: Speech, way: Way, by_header: bool) {
    let trace = new_trace();
    let call = ask(gateway, speech, way, "fault=hang").header("x-gateway-trace-id", &trace);
    let config = format!(r#"{{"provider": "{}", "request_timeout": 150}}"#, speech.slug());
    let call = match by_header {
        true => call.header("x-gateway-provider", speech.slug()).header("x-gateway-request-timeout", "150"),
        false => call.header("x-gateway-config", config),
    };
    let begun = Instant::now();
    let answer = call.send().await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(150), "{way:?} {by_header}");
    let message = failed(answer, speech, &trace, 408, "request_timeout").await;
    assert_eq!(message, "Request exceeded the timeout sent in the request: 150ms");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "request_timeout", "{line}");
}

#[tokio::test]
async fn the_time_limit_is_for_the_head_of_the_answer_only() {
    let gateway = gateway();
    for way in [Way::Plain, Way::Streamed] {
        let call = ask(&gateway, Speech::OpenAi, way, "ttft=600&tokens=3");
        let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-request-timeout", "300");
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{way:?}");
        let text = answer.text().await.unwrap();
        assert!(text.contains("finish_reason"), "{way:?} {text}");
    }
}

#[tokio::test]
async fn the_operators_limits_hold_where_the_request_names_none() {
    let limits = "limits: {upstream_read_timeout_ms: 250}\n";
    let gateway = Gateway::start(&format!("{STANDARD}{limits}"));
    for way in [Way::Plain, Way::Big, Way::Streamed] {
        let trace = new_trace();
        let call = ask(&gateway, Speech::OpenAi, way, "fault=hang").header("x-gateway-trace-id", &trace);
        let answer = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
        let message = failed(answer, Speech::OpenAi, &trace, 504, "upstream_timeout").await;
        assert!(message.contains("upstream_read_timeout_ms"), "{way:?} {message:?}");
    }
    gateway.reload(&format!("{STANDARD}limits: {{request_timeout_ms: 200}}\n"));
    let said = async || {
        let call = ask(&gateway, Speech::OpenAi, Way::Plain, "fault=hang");
        let call = call.header("x-gateway-provider", "@emulator");
        let call = call.timeout(Duration::from_secs(2));
        Some(call.send().await.ok()?.text().await.ok()?).filter(|text| text.contains("200ms"))
    };
    crate::support::wait::until("the reloaded limit", said).await;
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_told_with_the_reason() {
    let (closed, tls) = (ports::free(), ports::free());
    let gateway = start_with_dead_providers(closed, tls);
    // stored provider, what the message says
    let rows = [
        ("@closed", "refuses connections"),
        ("@nowhere", "(DNS)"),
        ("@plain", "TLS"),
        ("@self-signed", "TLS"),
    ];
    let calls = rows.iter().flat_map(|(slug, reason)| WAYS.map(|way| says_why(&gateway, slug, reason, way)));
    join_all(calls).await;
}

async fn says_why(gateway: &Gateway, slug: &str, reason: &str, way: Way) {
    let trace = new_trace();
    let call = ask(gateway, Speech::OpenAi, way, "").header("x-gateway-provider", slug);
    let answer = call.header("x-gateway-trace-id", &trace).send().await.unwrap();
    let message = failed(answer, Speech::OpenAi, &trace, 502, "upstream_unreachable").await;
    assert!(message.contains(reason), "{slug} {way:?}: {message:?}");
    assert!(!message.contains("127.0.0.1"), "{slug} {way:?}: an address is told: {message:?}");
    let line = gateway.access_line(&trace).await;
    assert_eq!(line["error_code"], "upstream_unreachable", "{line}");
    assert_eq!(line["attempts"][0]["error"], "upstream_unreachable", "{line}");
}

/// Stored providers nobody can talk to; one of them is the gateway's own listener with a certificate nobody signed.
fn start_with_dead_providers(closed: u16, tls: u16) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
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
async fn what_the_caller_did_wrong_is_told_in_its_dialect_with_a_trace_id_of_ours() {
    let gateway = gateway();
    for (speech, path) in [(Speech::OpenAi, "chat/completions"), (Speech::Anthropic, "messages")] {
        let url = format!("{}/{path}", gateway.base_url());
        let wrong_key = client().post(&url).header("x-gateway-api-key", "nobody").json(&hello(false));
        let no_provider = client().post(&url).header("x-gateway-api-key", KEY).json(&hello(false));
        let no_json = client().post(&url).header("x-gateway-api-key", KEY).body("{\"model\": ");
        for (call, status, code) in [
            (wrong_key, 401, "invalid_api_key"),
            (no_provider, 400, "invalid_request"),
            (no_json, 400, "invalid_request"),
        ] {
            let answer = call.send().await.unwrap();
            let trace = answer.headers()["x-gateway-trace-id"].to_str().unwrap().to_owned();
            assert_eq!(trace.len(), 36, "a made id is a UUID: {trace}");
            failed(answer, speech, &trace, status, code).await;
            let line = gateway.access_line(&trace).await;
            assert_eq!((&line["status"], &line["error_code"]), (&status.into(), &code.into()), "{line}");
        }
    }
}
