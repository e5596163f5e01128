//! Which of the client's headers are forwarded to the provider, and their spelling; traces and metadata.
//!
//! Not keys (`service_keys`).

use crate::support::client::new_trace;
use crate::support::conversation::{Dialect, RequestKind, body, chat_request};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, STANDARD};
use serde_json::{Value, json};

const STOPPED: [&str; 8] = [
    "X-Api-Key",
    "Api-Key",
    "X-Goog-Api-Key",
    "Cookie",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Real-IP",
];

/// The headers the emulator received for a request sent byte by byte as written here.
async fn received(kind: RequestKind, headers: &str) -> Vec<(String, String)> {
    let body = body(Dialect::OpenAi, kind, "").to_string();
    let limit = if kind == RequestKind::Timed { "x-gateway-request-timeout: 20000\r\n" } else { "" };
    received_at("chat/completions", &format!("{limit}{headers}"), &body).await
}

async fn received_at(path: &str, headers: &str, body: &str) -> Vec<(String, String)> {
    received_with_body(path, headers, body).await.0
}

/// The headers and the body that the emulator received.
async fn received_with_body(path: &str, headers: &str, body: &str) -> (Vec<(String, String)>, String) {
    let gateway = gateway();
    let tag = new_trace();
    let request = format!(
        "POST /v1/{path} HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
         x-emulator-tag: {tag}\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(request.as_bytes()).await.unwrap();
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let requests = gateway.emulator_requests(&tag).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let headers = requests[0]["headers"].as_array().unwrap();
    let headers = headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
    (headers, text(&requests[0]["body"]))
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a (String, String)> {
    headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name)).collect()
}

const ALL: [RequestKind; 4] =
    [RequestKind::Plain, RequestKind::Timed, RequestKind::Big, RequestKind::Streamed];

#[tokio::test]
async fn stripped_headers_stop_and_the_rest_passes() {
    let stopped: String = STOPPED.iter().map(|name| format!("{name}: stop-me\r\n")).collect();
    for kind in ALL {
        let headers =
            format!("x-gateway-provider: @emulator\r\n{stopped}X-Custom-THING: Ä b\r\nOpenAI-Beta: x=1\r\n");
        let received_headers = received(kind, &headers).await;
        assert!(
            received_headers.iter().all(|(_, value)| value != "stop-me"),
            "{kind:?} {received_headers:?}"
        );
        assert_eq!(
            find(&received_headers, "x-custom-thing"),
            [&("x-custom-thing".to_owned(), "Ä b".to_owned())],
            "{kind:?}"
        );
        assert_eq!(find(&received_headers, "openai-beta")[0].1, "x=1", "{kind:?}");
        assert_eq!(find(&received_headers, "host").len(), 1, "{kind:?} {received_headers:?}");
        assert!(
            find(&received_headers, "host")[0].1.starts_with("127.0.0.1:"),
            "{kind:?} {received_headers:?}"
        );
        assert_eq!(find(&received_headers, "content-length").len(), 1, "{kind:?} {received_headers:?}");
    }
}

#[tokio::test]
async fn headers_forwarded_by_a_config_keep_their_spelling() {
    let names = STOPPED.map(|name| format!("\"{}\"", name.to_lowercase())).join(", ");
    let in_config =
        format!("x-gateway-config: {{\"provider\": \"@emulator\", \"forward_headers\": [{names}]}}\r\n");
    let in_header =
        format!("x-gateway-provider: @emulator\r\nx-gateway-forward-headers: {}\r\n", STOPPED.join(" ,"));
    let values: String = STOPPED.iter().map(|name| format!("{name}: go-{name}\r\n")).collect();
    for forward_headers in [in_config, in_header] {
        for kind in ALL {
            let received_headers = received(kind, &format!("{forward_headers}{values}")).await;
            for name in STOPPED {
                let wanted = (name.to_owned(), format!("go-{name}"));
                assert_eq!(find(&received_headers, name), [&wanted], "{kind:?} {received_headers:?}");
            }
        }
    }
}

/// Beta headers are merged; a version header of the client takes precedence over the account's.
#[tokio::test]
async fn vendor_headers_of_an_account_are_merged_with_the_clients() {
    let account = r#""openai_beta": "o-1, o-2", "anthropic_beta": "a-1", "anthropic_version": "account""#;
    // A stored provider would use only its own account's headers.
    let host = format!("http://127.0.0.1:{}/v1", gateway().ports.emulator);
    let plain = format!(r#""provider": "openai", "api_key": "k", "custom_host": "{host}""#);
    let config = format!("x-gateway-config: {{{plain}, {account}}}\r\n");
    for kind in ALL {
        let client_headers = "OpenAI-Beta: o-2,o-3\r\nanthropic-version: caller\r\n";
        let received_headers = received(kind, &format!("{config}{client_headers}")).await;
        let value =
            |name: &str| find(&received_headers, name).iter().map(|pair| pair.1.clone()).collect::<Vec<_>>();
        assert_eq!(value("openai-beta"), ["o-2,o-3,o-1"], "{kind:?}");
        assert_eq!(value("anthropic-beta"), ["a-1"], "{kind:?}");
        assert_eq!(value("anthropic-version"), ["caller"], "{kind:?}");
        let received_headers = received(kind, &config).await;
        assert_eq!(find(&received_headers, "anthropic-version")[0].1, "account", "{kind:?}");
    }
}

/// Bedrock takes betas in the body of a chat, and no header. A call that is passed on keeps the client's.
#[tokio::test]
async fn betas_at_bedrock_are_in_the_body() {
    let body = r#"{"model":"us.anthropic.claude-sonnet-4-5-20250929-v1:0","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    let betas =
        "anthropic-beta: context-1m-2025-08-07\r\nanthropic-beta: interleaved-thinking-2025-05-14\r\n";
    let headers = format!("x-gateway-provider: @bedrock-emulator\r\n{betas}");
    for path in ["chat/completions", "messages"] {
        let (received_headers, sent) = received_with_body(path, &headers, body).await;
        assert_eq!(find(&received_headers, "anthropic-beta").len(), 0, "{path} {received_headers:?}");
        let sent: Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            sent["additionalModelRequestFields"]["anthropic_beta"],
            json!(["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"]),
            "{path} {sent}"
        );
    }
}

/// The version of Anthropic's API goes to Anthropic, and elsewhere only where nothing is known of the call.
#[tokio::test]
async fn the_version_of_anthropics_api_goes_to_anthropic_only() {
    for (provider, path, wanted) in [
        ("@emulator", "chat/completions", None),
        ("@emulator", "messages", None),
        ("@anthropic-emulator", "messages", Some("2026-10-21")),
        // A translated call has the version that its body is written for.
        ("@anthropic-emulator", "chat/completions", Some("2023-06-01")),
    ] {
        let headers = format!("x-gateway-provider: {provider}\r\nanthropic-version: 2026-10-21\r\n");
        let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
        let received_headers = received_at(path, &headers, body).await;
        let versions = find(&received_headers, "anthropic-version");
        assert_eq!(versions.first().map(|pair| pair.1.as_str()), wanted, "{provider} {path}");
    }
}

/// Hop-by-hop headers are never forwarded.
#[tokio::test]
async fn hop_by_hop_headers_do_not_travel() {
    for kind in ALL {
        let hops = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: gzip\r\nProxy-Authorization: x\r\n";
        let received_headers = received(kind, &format!("x-gateway-provider: @emulator\r\n{hops}")).await;
        for name in ["x-hop", "keep-alive", "te", "proxy-authorization"] {
            assert!(
                find(&received_headers, name).is_empty(),
                "{kind:?}: {name} travelled: {received_headers:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_traceparent_is_forwarded_and_names_the_trace() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for kind in ALL {
        let headers =
            format!("x-gateway-provider: @emulator\r\ntraceparent: {PARENT}\r\ntracestate: a=b\r\n");
        let received_headers = received(kind, &headers).await;
        assert_eq!(find(&received_headers, "traceparent")[0].1, PARENT, "{kind:?}");
        assert_eq!(find(&received_headers, "tracestate")[0].1, "a=b", "{kind:?}");
    }
    let gateway = gateway();
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "")
        .header("x-gateway-provider", "@emulator");
    let response = call.header("traceparent", PARENT).send().await.unwrap();
    assert_eq!(response.headers()["x-gateway-trace-id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    // An invalid traceparent is ignored.
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "")
        .header("x-gateway-provider", "@emulator");
    let response = call.header("traceparent", "00-zz-00f067aa0ba902b7-01").send().await.unwrap();
    assert_eq!(response.headers()["x-gateway-trace-id"].len(), 36);
}

#[tokio::test]
async fn metadata_appears_only_in_the_access_line() {
    let gateway = gateway();
    let tag = new_trace();
    let trace = new_trace();
    let metadata = json!({"team": "red", "nested": {"a": [1]}});
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Streamed, &format!("tag={tag}"));
    let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
    let response = call.header("x-gateway-metadata", metadata.to_string()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.text().await.unwrap();
    assert_eq!(gateway.access_line(&trace).await["metadata"], metadata);
    assert!(!gateway.emulator_requests(&tag).await[0].to_string().contains("\"red\""));
    let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "")
        .header("x-gateway-provider", "@emulator");
    let response = call.header("x-gateway-metadata", "team=red").send().await.unwrap();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["param"], "x-gateway-metadata", "{body}");
}

#[tokio::test]
async fn a_neutral_name_reaches_the_vendor_as_its_own() {
    let row = "providers:\n  vertex-emulator: {provider: vertex-ai, api_key: ya29.token, cloud_b_region: us-central1,\n    \
               cloud_b_project_id: p, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}\n";
    let gateway = Gateway::start(&STANDARD.replacen("providers:\n", row, 1));
    for (provider, wanted) in [
        ("@vertex-emulator", ("x-vertex-ai-llm-request-type", "x-cloud-b-llm-request-type")),
        ("@emulator", ("x-cloud-b-llm-request-type", "x-vertex-ai-llm-request-type")),
    ] {
        let tag = new_trace();
        let call = chat_request(&gateway, Dialect::OpenAi, RequestKind::Plain, "");
        let call = call.header("x-gateway-provider", provider).header("x-emulator-tag", &tag);
        let response = call.header("X-Cloud-B-LLM-Request-Type", "dedicated").send().await.unwrap();
        assert_eq!(response.status(), 200, "{provider}");
        let headers = gateway.emulator_requests(&tag).await[0]["headers"].to_string();
        assert!(headers.contains(&format!(r#"["{}","dedicated"]"#, wanted.0)), "{headers}");
        assert!(!headers.contains(wanted.1), "{headers}");
    }
}
