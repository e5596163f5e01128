//! No input crashes the gateway or makes it return 500: headers, configs, bodies and provider responses drawn
//! from a seed, a few hundred of each kind.
//!
//! It only checks that there is a response wherever HTTP requires one. A failure prints the seed and the
//! bytes; the draws are the same on every run.

use crate::support::message::Message;
use crate::support::rng::Rng;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, raw, report};
use futures_util::{StreamExt, stream};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The default; `HOSTILE_CASES` sets another number.
const CASES: u64 = 300;
const AT_ONCE: usize = 8;

const HEADERS: &[&str] = &[
    "provider",
    "virtual-key",
    "config",
    "custom-host",
    "trace-id",
    "metadata",
    "cache-force-refresh",
    "cache-namespace",
    "request-timeout",
    "forward-headers",
    "strict-std-compliance",
    "cloud-a-access-key-id",
    "cloud-a-region",
    "cloud-b-project-id",
    "cloud-c-resource-name",
    "cloud-c-deployment-id",
    "cloud-c-api-version",
    "span-id",
    "cloud-b-service-account-json",
    "nobody-knows",
];

const VALUES: &[&str] = &[
    "openai",
    "@emulator",
    "@",
    "@/",
    "anthropic",
    "",
    " ",
    "null",
    "{}",
    "[]",
    "{\"a\":1}",
    "0",
    "-1",
    "1",
    "99999999999999999999",
    "true",
    "a,b,c",
    "host, authorization",
    "http://127.0.0.1:1",
    "http://[::1]:1/",
    "http://",
    "//",
    "http://0x7f.1/v1",
    "\u{e9}",
    "cf-emulator",
    "cf-fallback",
    "*",
    "..",
    "%00",
    "http://user:pw@h/",
];

const CONFIGS: &[&str] = &[
    r#"{"provider":"@emulator","retry":{"attempts":3,"on_status_codes":[429,500]},"request_timeout":10000}"#,
    r#"{"strategy":{"mode":"single"},"targets":[{"provider":"@emulator","override_params":{"model":"m","x":[1,2]}}]}"#,
    r#"{"strategy":{"mode":"fallback","on_status_codes":[429]},"targets":[{"provider":"@emulator","weight":0.3},{"virtual_key":"emulator"}]}"#,
    r#"{"strategy":{"mode":"conditional","conditions":[{"query":{"metadata.a":{"$eq":"b"}},"then":"x"}],"default":"x"},"targets":[{"name":"x","provider":"@emulator"}]}"#,
    r#"{"provider":"openai","api_key":"k","custom_host":"http://127.0.0.1:1","forward_headers":["x-a"],"cache":{"mode":"simple","max_age":60}}"#,
    r#"{"provider":"@emulator","input_guardrails":["a"],"output_guardrails":[{"default.contains":{"words":["a"]}}]}"#,
];

const BODIES: &[&str] = &[
    r#"{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"temperature":1,"stop":["a"],"logit_bias":{"1":2}}"#,
    r#"{"model":"@emulator/gpt-4o","messages":[{"role":"user","content":"a"}],"stream":true,"stream_options":{"include_usage":true}}"#,
    r#"{"model":"m","prompt":"a","input":"a","max_tokens":5,"tools":[{"type":"function","function":{"name":"f"}}]}"#,
    r#"{"\u006dodel":"m","model":"n","metadata":{"a":"b"},"messages":[{"role":"user","content":[{"type":"text","text":"\ud83e\udd80"}]}]}"#,
];

const PATHS: &[&str] = &[
    "chat/completions",
    "completions",
    "embeddings",
    "responses",
    "messages",
    "messages/count_tokens",
    "responses/input_tokens",
    "images/generations",
    "audio/speech",
    "moderations",
    "rerank",
    "batches",
    "fine_tuning/jobs",
    "proxy/x",
    "x",
    "proxy/chat/completions",
    "scim/workspaces",
    "logs",
];

/// Sends one request per case, `AT_ONCE` at a time, and checks every response.
async fn all(gateway: &Gateway, sort: &str, request: impl Fn(&mut Rng) -> Vec<u8>, must_respond: bool) {
    let one = async |case: u64| {
        let bytes = request(&mut Rng::new(sort, case));
        let response = raw::send(gateway.ports.data, &bytes).await;
        let describe = || {
            let bytes = bytes.escape_ascii().to_string();
            let response = response.escape_ascii().to_string();
            format!("{sort} {case}:\n{bytes}\ngot the response\n{response}")
        };
        let status = match Message::parse(&response, true) {
            Some((response, _)) => response.status(),
            None if response.starts_with(b"HTTP/1.1 ") => 200,
            None => 0,
        };
        assert!(status != 0 || !must_respond, "{}", describe());
        assert!(status != 500, "{}", describe());
        status
    };
    let requested_cases = std::env::var("HOSTILE_CASES").ok().and_then(|text| text.parse().ok());
    let cases = stream::iter(0..requested_cases.unwrap_or(CASES)).map(one);
    let mut counts = BTreeMap::<u16, usize>::new();
    for status in cases.buffer_unordered(AT_ONCE).collect::<Vec<u16>>().await {
        *counts.entry(status).or_default() += 1;
    }
    if requested_cases.is_some() {
        report(&format!("{sort}: status and how often: {counts:?}"));
    }
    // Inputs that all fail at the same check would prove little.
    assert!(counts.len() >= 3, "{sort}: {counts:?}");
    alive(gateway, sort).await;
}

/// Asserts that the gateway still responds and nothing in it panicked.
async fn alive(gateway: &Gateway, sort: &str) {
    let request = post("chat/completions", "x-gateway-provider: @emulator\r\n", BODIES[0].as_bytes());
    let response = raw::send(gateway.ports.data, &request).await;
    assert!(response.starts_with(b"HTTP/1.1 200 "), "after {sort}: {}", response.escape_ascii());
    assert_eq!(gateway.stderr.lines_with("panicked"), Vec::<String>::new(), "after {sort}");
}

fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/{path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Bytes without line breaks, which a header may carry.
fn header(name: &str, value: &[u8]) -> Vec<u8> {
    let value: Vec<u8> =
        value.iter().copied().filter(|byte| !matches!(byte, 0..=8 | 10..=31 | 127)).collect();
    [format!("x-gateway-{name}: ").as_bytes(), &value, b"\r\n"].concat()
}

fn with_headers(path: &str, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let request = post(path, "@", body);
    let at = memchr::memmem::find(&request, b"@").unwrap();
    [&request[..at], headers, &request[at + 1..]].concat()
}

#[tokio::test]
async fn odd_headers_configs_and_bodies_are_answered() {
    let gateway = Gateway::start(STANDARD);
    let headers = |rng: &mut Rng| {
        let mut headers = Vec::new();
        for _ in 0..1 + rng.below(5) {
            let name = rng.one(HEADERS);
            let value = if rng.below(2) == 0 { rng.one(VALUES).as_bytes().to_vec() } else { rng.bytes(80) };
            headers.extend(header(name, &value));
        }
        with_headers(rng.one(PATHS), &headers, rng.one(BODIES).as_bytes())
    };
    all(&gateway, "headers", headers, true).await;
    let configs = |rng: &mut Rng| {
        let config = rng.one(CONFIGS).as_bytes();
        let config = header("config", &rng.mutated(config));
        with_headers(rng.one(PATHS), &config, rng.one(BODIES).as_bytes())
    };
    all(&gateway, "configs", configs, true).await;
    let bodies = |rng: &mut Rng| {
        let good = rng.one(BODIES).as_bytes();
        let body = if rng.below(4) == 0 { rng.bytes(200) } else { rng.mutated(good) };
        post(rng.one(PATHS), "x-gateway-provider: @emulator\r\n", &body)
    };
    all(&gateway, "bodies", bodies, true).await;
}

#[tokio::test]
async fn deep_or_long_input_is_answered() {
    let gateway = Gateway::start(STANDARD);
    let deep = "[".repeat(200_000);
    let nested = format!("{{\"model\":\"m\",\"messages\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let config = format!("{{\"targets\":{}", "[{\"targets\":".repeat(2_000));
    let many = format!("{{{}}}", (0..50_000).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(","));
    let ours = "x-gateway-provider: @emulator\r\n";
    for (what, request) in [
        ("deep", post("chat/completions", ours, deep.as_bytes())),
        ("nested", post("chat/completions", ours, nested.as_bytes())),
        ("many members", post("chat/completions", ours, many.as_bytes())),
        ("deep config", post("chat/completions", &format!("x-gateway-config: {config}\r\n"), b"{}")),
        ("long path", post(&"a/".repeat(10_000), ours, b"{}")),
        ("long query", post(&format!("x?{}", "a=b&".repeat(5_000)), ours, b"{}")),
        ("many headers", post("x", &"x-a: b\r\n".repeat(2_000), b"{}")),
    ] {
        let response = raw::send(gateway.ports.data, &request).await;
        let status = Message::parse(&response, true).map_or(0, |(response, _)| response.status());
        assert!((200..500).contains(&status), "{what}: {}", response.escape_ascii());
        alive(&gateway, what).await;
    }
}

#[tokio::test]
async fn near_http_bytes_crash_nothing() {
    let gateway = Gateway::start(&format!(
        "{STANDARD}limits: {{header_timeout_ms: 300, body_timeout_ms: 300, idle_timeout_ms: 1000}}\n"
    ));
    let good = post("chat/completions", "x-gateway-provider: @emulator\r\n", BODIES[0].as_bytes());
    let heads = |rng: &mut Rng| match rng.below(4) {
        0 => [rng.bytes(300), b"\r\n\r\n".to_vec()].concat(),
        // Only the headers are mutated, so that the body stays complete.
        _ => {
            let at = memchr::memmem::find(&good, b"\r\n\r\n").unwrap();
            [rng.mutated(&good[..at]), good[at..].to_vec()].concat()
        }
    };
    all(&gateway, "heads", heads, false).await;
}

#[tokio::test]
async fn malformed_requests_get_an_error_response() {
    const CHUNKED: &str = "transfer-encoding: chunked\r\n";
    let gateway = Gateway::start(STANDARD);
    let head = |path: &str, headers: &str| {
        let ours = "content-type: application/json\r\nx-gateway-provider: @emulator";
        format!("POST /v1/{path} HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\n{ours}\r\n{headers}\r\n")
    };
    let body = BODIES[0];
    let length = format!("content-length: {}\r\n", body.len());
    for (what, request) in [
        ("an invalid name", head("chat/completions", &format!("connection: a{{}}\r\n{length}")) + body),
        ("the same, unread", head("files", &format!("connection: a{{}}\r\n{length}")) + body),
        ("a chunk without a size", head("chat/completions", CHUNKED) + "zz\r\n{}\r\n0\r\n\r\n"),
        ("the same, unread", head("files", CHUNKED) + "zz\r\n{}\r\n0\r\n\r\n"),
        ("a chunk longer than its size", head("chat/completions", CHUNKED) + "2\r\n{}{}\r\n0\r\n\r\n"),
        ("the same, unread", head("x", CHUNKED) + "2\r\n{}{}\r\n0\r\n\r\n"),
    ] {
        let response = raw::send(gateway.ports.data, request.as_bytes()).await;
        let (response, _) = Message::parse(&response, true).unwrap_or_else(|| panic!("{what}: no response"));
        assert_eq!(response.status(), 400, "{what}: {}", response.text());
        assert!(response.text().contains("\"error\""), "{what}: {}", response.text());
        assert!(response.header("x-gateway-trace-id").is_some(), "{what}");
    }
}

#[tokio::test]
async fn odd_provider_responses_crash_nothing() {
    const RESPONSES: &[&str] = &[
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 59\r\n\r\n{\"model\":\"m\",\"usage\":{\"prompt_tokens\":1},\"choices\":[{\"a\":1}]}",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n1a\r\nevent: message_start\ndata: {\r\n5\r\n}\n\n: \r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\nHTTP/1.1 429 Slow\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n\u{0}\u{1}",
        "HTTP/1.0 200 OK\r\n\r\n{\"error\":{\"message\":\"a\",\"code\":null}}",
    ];
    let gateway = Gateway::start(STANDARD);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut case = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            case += 1;
            tokio::spawn(async move {
                let mut rng = Rng::new("answers", case);
                // One read returns headers and body: they are smaller than a loopback segment.
                let mut request = vec![0; 64 << 10];
                let _ = stream.read(&mut request).await;
                let good = rng.one(RESPONSES).as_bytes();
                let response = if rng.below(8) == 0 { rng.bytes(500) } else { rng.mutated(good) };
                let _ = stream.write_all(&response).await;
                let _ = stream.shutdown().await;
                // Closing with unread bytes would send a reset.
                while matches!(stream.read(&mut request).await, Ok(count) if count > 0) {}
            });
        }
    });
    let ours = format!(
        "x-gateway-provider: openai\r\nauthorization: Bearer k\r\nx-gateway-custom-host: http://127.0.0.1:{port}/v1\r\n"
    );
    let calls = |rng: &mut Rng| {
        let path = rng.one(&["chat/completions", "messages", "responses", "embeddings", "proxy/x"]);
        let stream = rng.below(2) == 0;
        let body = format!(
            r#"{{"model":"m","stream":{stream},"max_tokens":9,"input":"a","messages":[{{"role":"user","content":"a"}}]}}"#
        );
        post(path, &ours, body.as_bytes())
    };
    // A response may break off after its headers: then the client's does too.
    all(&gateway, "answers", calls, true).await;
}
