//! Traces at a collector: the spans of a request and its attempts, whose trace they are in, what is sampled, and that nobody waits.
//!
//! The collector is a server of the test that reads protobuf as far as spans need it.

use crate::support::client::{client, new_trace};
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use crate::support::{Gateway, ports};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, Instant};

/// The members of a protobuf message: number, and a varint, a fixed number or bytes.
fn members(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                let value = varint(&mut bytes);
                found.push((tag >> 3, value.to_be_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).unwrap(),
            5 => 4,
            wire => panic!("wire type {wire}"),
        };
        found.push((tag >> 3, bytes[..length].to_vec()));
        bytes = &bytes[length..];
    }
    found
}

fn all(bytes: &[u8], number: u64) -> Vec<Vec<u8>> {
    members(bytes).into_iter().filter(|(found, _)| *found == number).map(|(_, value)| value).collect()
}

fn one(bytes: &[u8], number: u64) -> Vec<u8> {
    all(bytes, number).into_iter().next().unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap_or_default())
}

#[derive(Debug, Clone)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    start: u64,
    end: u64,
    attributes: BTreeMap<String, Value>,
    is_error: bool,
    service: String,
}

/// `AnyValue`.
fn any(bytes: &[u8]) -> Value {
    let (kind, value) = members(bytes).into_iter().next().unwrap_or_default();
    match kind {
        1 => text(&value).into(),
        2 => (number(&value) == 1).into(),
        3 => number(&value).into(),
        4 => f64::from_le_bytes(value.try_into().unwrap()).into(),
        5 => all(&value, 1).iter().map(|item| any(item)).collect(),
        _ => Value::Null,
    }
}

fn attributes(pairs: &[Vec<u8>]) -> BTreeMap<String, Value> {
    pairs.iter().map(|pair| (text(&one(pair, 1)), any(&one(pair, 2)))).collect()
}

fn spans_of(message: &Message) -> Vec<Span> {
    assert_eq!(message.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(message.header("content-encoding"), Some("gzip"));
    assert_eq!(message.header("x-collector-key"), Some("canary-collector"));
    let mut body = Vec::new();
    GzDecoder::new(&message.body[..]).read_to_end(&mut body).unwrap();
    let mut found = Vec::new();
    for resource_spans in all(&body, 1) {
        let resource = attributes(&all(&one(&resource_spans, 1), 1));
        for scope_spans in all(&resource_spans, 2) {
            found.extend(all(&scope_spans, 2).into_iter().map(|span| Span {
                trace: hex(&one(&span, 1)),
                id: hex(&one(&span, 2)),
                parent: hex(&one(&span, 4)),
                name: text(&one(&span, 5)),
                kind: number(&one(&span, 6)),
                start: u64::from_le_bytes(one(&span, 7).try_into().unwrap()),
                end: u64::from_le_bytes(one(&span, 8).try_into().unwrap()),
                attributes: attributes(&all(&span, 9)),
                is_error: number(&one(&one(&span, 15), 3)) == 2,
                service: resource["service.name"].as_str().unwrap().to_owned(),
            }));
        }
    }
    found
}

/// A collector, and a gateway that sends to it.
async fn started(sample: f64) -> (Provider, Gateway) {
    started_with(sample, "").await
}

/// The same with further members of `otlp`.
async fn started_with(sample: f64, more: &str) -> (Provider, Gateway) {
    let collector = Provider::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let url = collector.base_url();
    let url = url.trim_end_matches("/v1");
    let telemetry = format!(
        "telemetry:\n  otlp: {{endpoint: '{url}', headers: {{x-collector-key: canary-collector}}, sample: {sample}, service_name: under-test{more}}}\n"
    );
    let gateway = Gateway::start(&format!("{STANDARD}{telemetry}"));
    (collector, gateway)
}

fn spans(collector: &Provider) -> Vec<Span> {
    collector.received().iter().flat_map(spans_of).collect()
}

/// The spans of a trace, that of the request first.
async fn trace(collector: &Provider, id: &str) -> Vec<Span> {
    let mut found = until("the trace", async || {
        let all = spans(collector);
        let request = all.iter().find(|span| span.attributes.get("turnpike.trace_id") == Some(&json!(id)))?;
        let found: Vec<Span> = all.iter().filter(|span| span.trace == request.trace).cloned().collect();
        (!found.is_empty()).then_some(found)
    })
    .await;
    found.sort_by_key(|span| (span.kind, span.start));
    found
}

async fn chat(gateway: &Gateway, headers: &[(&str, &str)], query: &str) -> u16 {
    let url = format!("{}/chat/completions{query}", gateway.base_url());
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "canary-prompt"}]});
    let call = client().post(url).json(&body);
    let call = headers.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    call.send().await.unwrap().status().as_u16()
}

/// A provider that takes nothing, and then one that does.
const FALLBACK: &str = r#"{"strategy":{"mode":"fallback"},"targets":[
    {"provider":"openai","api_key":"sk-canary-inline","custom_host":"http://127.0.0.1:PORT/v1"},{"provider":"@emulator"}]}"#;

#[tokio::test]
async fn a_request_and_its_attempts_are_spans_of_one_trace() {
    let (collector, gateway) = started(1.0).await;
    let id = new_trace();
    let config = FALLBACK.replace("PORT", &ports::free().to_string()).replace('\n', "");
    let key = ("x-gateway-api-key", crate::support::settings::KEY);
    let status = chat(
        &gateway,
        &[key, ("x-gateway-config", &config), ("x-gateway-trace-id", &id)],
        "?note=canary-query",
    )
    .await;
    assert_eq!(status, 200);
    let found = trace(&collector, &id).await;
    let [request, first, second] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((request.kind, first.kind, second.kind), (2, 3, 3));
    assert_eq!((request.parent.as_str(), &first.parent, &second.parent), ("", &request.id, &request.id));
    assert!(request.id != first.id && first.id != second.id);
    assert_eq!((request.name.as_str(), request.service.as_str()), ("chat gpt-4o-mini", "under-test"));
    assert!(!request.is_error && first.is_error && !second.is_error, "{found:#?}");
    assert_eq!(first.attributes["error.type"], "upstream_unreachable");
    assert!(
        request.start <= first.start && first.end <= second.end && second.end <= request.end,
        "{found:#?}"
    );
    for (span, name, wanted) in [
        (request, "http.request.method", json!("POST")),
        (request, "url.path", json!("/v1/chat/completions")),
        (request, "http.response.status_code", json!(200)),
        (request, "gen_ai.operation.name", json!("chat")),
        (request, "gen_ai.provider.name", json!("openai")),
        (request, "gen_ai.request.model", json!("gpt-4o-mini")),
        (request, "gen_ai.response.finish_reasons", json!(["stop"])),
        (request, "turnpike.trace_id", json!(id)),
        (second, "server.address", json!("127.0.0.1")),
        (second, "server.port", json!(gateway.ports.emulator)),
        (second, "turnpike.target", json!("config.targets[1]")),
        (second, "turnpike.attempt", json!(2)),
        (second, "turnpike.provider", json!("emulator")),
    ] {
        assert_eq!(span.attributes.get(name), Some(&wanted), "{name}: {span:#?}");
    }
    for name in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
        assert!(second.attributes[name].as_u64().unwrap() > 0);
        assert_eq!(request.attributes[name], second.attributes[name]);
    }
    let line = gateway.access_line(&id).await;
    for span in [request, second] {
        assert_eq!(span.attributes["gen_ai.usage.cost"], line["cost_usd"], "{span:#?}");
        assert_eq!(span.attributes["turnpike.cost_status"], "priced");
    }
    assert!(!first.attributes.contains_key("turnpike.cost_status"), "{first:#?}");
    assert!(!format!("{found:?}").contains("canary"), "{found:#?}");
    assert!(!gateway.log().contains("canary-collector"));
}

#[tokio::test]
async fn a_client_with_a_trace_decides_where_it_has_decided() {
    let (collector, gateway) = started(0.0).await;
    let key = ("x-gateway-api-key", crate::support::settings::KEY);
    let provider = ("x-gateway-provider", "@emulator");
    let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4700-00f067aa0ba902b7-00";
    let sampled = "00-4bf92f3577b34da6a3ce929d0e0e4701-00f067aa0ba902b7-01";
    assert_eq!(chat(&gateway, &[key, provider], "").await, 200);
    assert_eq!(chat(&gateway, &[key, provider, ("traceparent", unsampled)], "").await, 200);
    assert_eq!(chat(&gateway, &[key, provider, ("traceparent", sampled)], "").await, 200);
    let found = trace(&collector, "4bf92f3577b34da6a3ce929d0e0e4701").await;
    assert_eq!(found[0].parent, "00f067aa0ba902b7");
    // With a share of 0 nothing else was sent, though it was asked for earlier.
    assert!(spans(&collector).iter().all(|span| span.trace == found[0].trace));
}

#[tokio::test]
async fn no_request_waits_for_a_collector_that_does_not_respond() {
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = ports::free();
    for port in [silent.local_addr().unwrap().port(), gone] {
        let telemetry = format!("telemetry:\n  otlp: {{endpoint: 'http://127.0.0.1:{port}'}}\n");
        let gateway = Gateway::start(&format!("{STANDARD}{telemetry}"));
        let key = ("x-gateway-api-key", crate::support::settings::KEY);
        let begin = Instant::now();
        for _ in 0..20 {
            assert_eq!(chat(&gateway, &[key, ("x-gateway-provider", "@emulator")], "").await, 200);
        }
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        if port == gone {
            let failed = r#"turnpike_traces_total{outcome="failed"}"#;
            until("the count", async || gateway.metric(failed).await.filter(|count| *count >= 1.0)).await;
            assert!(gateway.log().contains("telemetry.otlp"), "the log says so");
        }
    }
}

/// The collector, a gateway, and a provider whose requests can be looked at.
#[tokio::test]
async fn providers_get_the_span_of_their_attempt() {
    let body = r#"{"id":"c","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4}}"#;
    let provider = Provider::start(move |_| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    })
    .await;
    let host = provider.base_url();
    let key = ("x-gateway-api-key", crate::support::settings::KEY);
    let target = [
        key,
        ("x-gateway-provider", "openai"),
        ("authorization", "Bearer sk-own"),
        ("x-gateway-custom-host", &*host),
    ];
    let sent = || provider.received().last().unwrap().header("traceparent").map(str::to_owned);
    let (collector, gateway) = started(1.0).await;
    let id = new_trace();
    assert_eq!(chat(&gateway, &[&target[..], &[("x-gateway-trace-id", &id)]].concat(), "").await, 200);
    let found = trace(&collector, &id).await;
    assert_eq!(sent().unwrap(), format!("00-{}-{}-01", found[1].trace, found[1].id));
    // In the client's trace, below the attempt.
    let client_span = "00-4bf92f3577b34da6a3ce929d0e0e4702-00f067aa0ba902b7-01";
    assert_eq!(
        chat(&gateway, &[&target[..], &[("traceparent", client_span), ("tracestate", "a=b")]].concat(), "")
            .await,
        200
    );
    let found = trace(&collector, "4bf92f3577b34da6a3ce929d0e0e4702").await;
    assert_eq!(sent().unwrap(), format!("00-4bf92f3577b34da6a3ce929d0e0e4702-{}-01", found[1].id));
    assert_eq!(provider.received().last().unwrap().header("tracestate"), Some("a=b"));
    // A trace that nobody records is the client's own affair.
    let unrecorded = "00-4bf92f3577b34da6a3ce929d0e0e4703-00f067aa0ba902b7-00";
    assert_eq!(chat(&gateway, &[&target[..], &[("traceparent", unrecorded)]].concat(), "").await, 200);
    assert_eq!(sent().as_deref(), Some(unrecorded));
    let (_collector, gateway) = started(0.0).await;
    assert_eq!(chat(&gateway, &target, "").await, 200);
    assert_eq!(sent(), None);
}

#[tokio::test]
async fn bodies_are_in_spans_only_where_the_operator_wants_them() {
    let (collector, gateway) = started_with(1.0, ", payloads: true, max_payload_bytes: 100").await;
    let key = ("x-gateway-api-key", crate::support::settings::KEY);
    let provider = ("x-gateway-provider", "@emulator");
    let id = new_trace();
    assert_eq!(chat(&gateway, &[key, provider, ("x-gateway-trace-id", &id)], "").await, 200);
    let found = trace(&collector, &id).await;
    let text = |name: &str| found[0].attributes[name].as_str().unwrap().to_owned();
    assert!(text("turnpike.request.body").contains("canary-prompt"), "{found:#?}");
    let response = text("turnpike.response.body");
    assert!(response.starts_with("{\"id\":\"chatcmpl-") && response.len() == 100, "{response}");
    assert!(!found[1].attributes.keys().any(|name| name.ends_with(".body")), "{found:#?}");
    // The client does not want them kept.
    let id = new_trace();
    let headers = [key, provider, ("x-gateway-trace-id", &id), ("x-gateway-debug", "false")];
    assert_eq!(chat(&gateway, &headers, "").await, 200);
    assert!(!format!("{:?}", trace(&collector, &id).await).contains("canary"));
}

/// A request to the emulator in a dialect: its path, and what the chat itself is.
async fn send(gateway: &Gateway, path: &str, body: &Value, id: &str) {
    let call = client().post(format!("{}/{path}", gateway.base_url())).json(body);
    let call = call.header("x-gateway-api-key", crate::support::settings::KEY);
    let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", id);
    let response =
        call.header("x-gateway-metadata", r#"{"_user":"ann","team":"canary"}"#).send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{path}: {text}");
}

#[tokio::test]
async fn spans_have_the_parameters_of_the_request_and_the_id_of_its_response() {
    let (collector, gateway) = started(1.0).await;
    let messages = json!([{"role": "user", "content": "canary-prompt"}]);
    let plain = json!({
        "model": "gpt-4o-mini", "messages": messages, "temperature": 0.5, "top_p": 0.25, "max_tokens": 40, "seed": 7,
        "stop": ["END"], "presence_penalty": 0.5
    });
    let mut streamed = plain.clone();
    streamed["stream"] = true.into();
    for (path, body) in [
        ("chat/completions", plain.clone()),
        ("chat/completions", streamed),
        ("messages", {
            json!({"model": "gpt-4o-mini", "messages": messages, "temperature": 0.5, "top_p": 0.25, "max_tokens": 40, "stop_sequences": ["END"]})
        }),
    ] {
        let id = new_trace();
        send(&gateway, path, &body, &id).await;
        let found = trace(&collector, &id).await;
        let [request, attempt] = &found[..] else { panic!("{found:#?}") };
        for span in [request, attempt] {
            for (name, wanted) in [
                ("gen_ai.request.temperature", json!(0.5)),
                ("gen_ai.request.top_p", json!(0.25)),
                ("gen_ai.request.max_tokens", json!(40)),
                ("gen_ai.request.stop_sequences", json!(["END"])),
            ] {
                assert_eq!(span.attributes.get(name), Some(&wanted), "{path} {name}: {span:#?}");
            }
            let id = span.attributes["gen_ai.response.id"].as_str().unwrap();
            assert!(id.starts_with("chatcmpl-"), "{path}: {id}");
            assert!(!span.attributes.contains_key("gen_ai.request.choice.count"), "{span:#?}");
        }
        assert_eq!(request.attributes["user.id"], "ann");
        assert!(!format!("{found:?}").contains("canary"), "{found:#?}");
    }
}

#[tokio::test]
async fn bodies_are_there_as_messages_too() {
    let (collector, gateway) = started_with(1.0, ", payloads: true, max_payload_bytes: 20000").await;
    let body = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4000});
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let mut instructed = body.clone();
    instructed["system"] = "Be brief.".into();
    let responses = json!({"model": "gpt-4o-mini", "input": "Hello", "store": false});
    for (path, body) in [
        ("chat/completions", &body),
        ("chat/completions", &streamed),
        ("messages", &instructed),
        ("responses", &responses),
    ] {
        let id = new_trace();
        send(&gateway, path, body, &id).await;
        let found = trace(&collector, &id).await;
        let list = |name: &str| -> Value {
            let text = found[0].attributes.get(name).unwrap_or_else(|| panic!("{path} {name}: {found:#?}"));
            serde_json::from_str(text.as_str().unwrap()).unwrap()
        };
        let wanted = json!([{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}]);
        assert_eq!(list("gen_ai.input.messages"), wanted, "{path}");
        let output = list("gen_ai.output.messages");
        assert_eq!(
            (&output[0]["role"], &output[0]["finish_reason"]),
            (&json!("assistant"), &json!("stop")),
            "{path}"
        );
        let text = output[0]["parts"][0]["content"].as_str().unwrap();
        assert!(text.contains("fox"), "{path}: {text}");
        if path == "messages" {
            assert_eq!(list("gen_ai.system_instructions"), json!([{"type": "text", "content": "Be brief."}]));
        }
        assert!(!found[1].attributes.keys().any(|name| name.ends_with(".messages")), "{found:#?}");
    }
    // What is longer than the bound is there as far as that, and not as messages.
    let long = json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "x".repeat(30_000)}]});
    let id = new_trace();
    send(&gateway, "chat/completions", &long, &id).await;
    let found = trace(&collector, &id).await;
    assert!(found[0].attributes.contains_key("turnpike.request.body"), "{found:#?}");
    assert!(!found[0].attributes.contains_key("gen_ai.input.messages"), "{found:#?}");
}
