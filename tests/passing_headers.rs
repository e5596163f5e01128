//! Which of the caller's headers reach the provider, and how they are spelled; traces and metadata.
//!
//! Not keys (`callers`).

use crate::support::client::new_trace;
use crate::support::gateway;
use crate::support::raw::Raw;
use crate::support::settings::KEY;
use crate::support::talk::{Speech, Way, ask, body};
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

/// What the emulator got of a request sent byte by byte as written here, name and value as they came.
async fn received(way: Way, headers: &str) -> Vec<(String, String)> {
    let (gateway, tag) = (gateway(), new_trace());
    let body = body(Speech::OpenAi, way, "").to_string();
    let limit = if way == Way::Timed { "x-gateway-request-timeout: 20000\r\n" } else { "" };
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: {KEY}\r\n\
         x-emulator-tag: {tag}\r\nContent-Type: application/json\r\n{limit}{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut caller = Raw::connect(gateway.ports.data).await;
    caller.write(request.as_bytes()).await.unwrap();
    let answer = caller.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let seen = gateway.emulator_requests(&tag).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let headers = seen[0]["headers"].as_array().unwrap();
    headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a (String, String)> {
    headers.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name)).collect()
}

const ALL: [Way; 4] = [Way::Plain, Way::Timed, Way::Big, Way::Streamed];

#[tokio::test]
async fn what_must_stop_stops_and_the_rest_passes() {
    let stopped: String = STOPPED.iter().map(|name| format!("{name}: stop-me\r\n")).collect();
    for way in ALL {
        let headers =
            format!("x-gateway-provider: @emulator\r\n{stopped}X-Custom-THING: Ä b\r\nOpenAI-Beta: x=1\r\n");
        let seen = received(way, &headers).await;
        assert!(seen.iter().all(|(_, value)| value != "stop-me"), "{way:?} {seen:?}");
        assert_eq!(
            find(&seen, "x-custom-thing"),
            [&("x-custom-thing".to_owned(), "Ä b".to_owned())],
            "{way:?}"
        );
        assert_eq!(find(&seen, "openai-beta")[0].1, "x=1", "{way:?}");
        assert_eq!(find(&seen, "host").len(), 1, "{way:?} {seen:?}");
        assert!(find(&seen, "host")[0].1.starts_with("127.0.0.1:"), "{way:?} {seen:?}");
        assert_eq!(find(&seen, "content-length").len(), 1, "{way:?} {seen:?}");
    }
}

#[tokio::test]
async fn what_a_config_forwards_keeps_its_name_and_spelling() {
    let names = STOPPED.map(|name| format!("\"{}\"", name.to_lowercase())).join(", ");
    let in_config =
        format!("x-gateway-config: {{\"provider\": \"@emulator\", \"forward_headers\": [{names}]}}\r\n");
    let in_header =
        format!("x-gateway-provider: @emulator\r\nx-gateway-forward-headers: {}\r\n", STOPPED.join(" ,"));
    let values: String = STOPPED.iter().map(|name| format!("{name}: go-{name}\r\n")).collect();
    for asked in [in_config, in_header] {
        for way in ALL {
            let seen = received(way, &format!("{asked}{values}")).await;
            for name in STOPPED {
                let wanted = (name.to_owned(), format!("go-{name}"));
                assert_eq!(find(&seen, name), [&wanted], "{way:?} {seen:?}");
            }
        }
    }
}

/// Betas add up, whoever asks; a version is the caller's before it is the account's.
#[tokio::test]
async fn vendor_headers_of_an_account_join_the_callers_own() {
    let account = r#""openai_beta": "o-1, o-2", "anthropic_beta": "a-1", "anthropic_version": "account""#;
    // A stored provider would look at its own account only.
    let host = format!("http://127.0.0.1:{}/v1", gateway().ports.emulator);
    let plain = format!(r#""provider": "openai", "api_key": "k", "custom_host": "{host}""#);
    let config = format!("x-gateway-config: {{{plain}, {account}}}\r\n");
    for way in ALL {
        let callers = "OpenAI-Beta: o-2,o-3\r\nanthropic-version: caller\r\n";
        let seen = received(way, &format!("{config}{callers}")).await;
        let value = |name: &str| find(&seen, name).iter().map(|pair| pair.1.clone()).collect::<Vec<_>>();
        assert_eq!(value("openai-beta"), ["o-2,o-3,o-1"], "{way:?}");
        assert_eq!(value("anthropic-beta"), ["a-1"], "{way:?}");
        assert_eq!(value("anthropic-version"), ["caller"], "{way:?}");
        let seen = received(way, &config).await;
        assert_eq!(find(&seen, "anthropic-version")[0].1, "account", "{way:?}");
    }
}

/// Hop-by-hop headers are between two neighbours.
#[tokio::test]
async fn hop_by_hop_headers_do_not_travel() {
    for way in ALL {
        let hops = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: gzip\r\nProxy-Authorization: x\r\n";
        let seen = received(way, &format!("x-gateway-provider: @emulator\r\n{hops}")).await;
        for name in ["x-hop", "keep-alive", "te", "proxy-authorization"] {
            assert!(find(&seen, name).is_empty(), "{way:?}: {name} travelled: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_traceparent_is_passed_on_and_names_the_trace() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for way in ALL {
        let headers =
            format!("x-gateway-provider: @emulator\r\ntraceparent: {PARENT}\r\ntracestate: a=b\r\n");
        let seen = received(way, &headers).await;
        assert_eq!(find(&seen, "traceparent")[0].1, PARENT, "{way:?}");
        assert_eq!(find(&seen, "tracestate")[0].1, "a=b", "{way:?}");
    }
    let gateway = gateway();
    let call = ask(&gateway, Speech::OpenAi, Way::Plain, "").header("x-gateway-provider", "@emulator");
    let answer = call.header("traceparent", PARENT).send().await.unwrap();
    assert_eq!(answer.headers()["x-gateway-trace-id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    // A broken one is no trace.
    let call = ask(&gateway, Speech::OpenAi, Way::Plain, "").header("x-gateway-provider", "@emulator");
    let answer = call.header("traceparent", "00-zz-00f067aa0ba902b7-01").send().await.unwrap();
    assert_eq!(answer.headers()["x-gateway-trace-id"].len(), 36);
}

#[tokio::test]
async fn metadata_stands_in_the_access_line_and_nowhere_else() {
    let (gateway, tag, trace) = (gateway(), new_trace(), new_trace());
    let metadata = json!({"team": "red", "nested": {"a": [1]}});
    let call = ask(&gateway, Speech::OpenAi, Way::Streamed, &format!("tag={tag}"));
    let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
    let answer = call.header("x-gateway-metadata", metadata.to_string()).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap();
    assert_eq!(gateway.access_line(&trace).await["metadata"], metadata);
    assert!(!gateway.emulator_requests(&tag).await[0].to_string().contains("\"red\""));
    let call = ask(&gateway, Speech::OpenAi, Way::Plain, "").header("x-gateway-provider", "@emulator");
    let answer = call.header("x-gateway-metadata", "team=red").send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["param"], "x-gateway-metadata", "{body}");
}
