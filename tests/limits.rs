//! What one client may use: sizes of headers and bodies, and what happens beyond the limits.
//!
//! Not time limits (`slow_clients`).

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::Upstream;
use crate::support::{gateway, raw};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::Notify;

const SMALL: &str = "limits: {max_body_bytes: 20000, max_header_bytes: 4096}\n";

fn head(key: &str, more: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {key}\r\n\
         x-gateway-provider: @emulator\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}

fn chunk(bytes: usize) -> String {
    format!("{bytes:x}\r\n{}\r\n", " ".repeat(bytes))
}

#[tokio::test]
async fn an_oversized_body_is_refused_with_a_readable_error() {
    let gateway = Gateway::start(&format!("{STANDARD}{SMALL}"));
    let announced = format!("{}{}", head(KEY, "content-length: 200000\r\n"), " ".repeat(200_000));
    let chunked = format!("{}{}", head(KEY, "transfer-encoding: chunked\r\n"), chunk(15_000).repeat(10));
    for (what, request) in [("announced", announced), ("chunked", chunked)] {
        let mut connection = Raw::connect(gateway.ports.data).await;
        // Like many clients, this one sends everything before it reads; the gateway may have closed by then.
        let _ = connection.write(request.as_bytes()).await;
        let response = connection.read_response().await;
        assert!(response.starts_with("HTTP/1.1 413"), "{what}: {response}");
        assert!(
            response.contains("20000 bytes") && response.contains("max_body_bytes"),
            "{what}: {response}"
        );
        assert!(response.contains("body_too_large"), "{what}: {response}");
    }
    // A body of exactly the limit is accepted.
    let mut body = hello(false).to_string();
    body.push_str(&" ".repeat(20_000 - body.len()));
    let call = chat(&gateway, &new_trace(), &hello(false)).body(body);
    assert_eq!(call.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn no_body_is_read_before_authentication() {
    let gateway = Gateway::start(&format!("{STANDARD}{SMALL}"));
    let response =
        raw::send(gateway.ports.data, head("nobody", "content-length: 200000\r\n").as_bytes()).await;
    let response = String::from_utf8_lossy(&response);
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
}

#[tokio::test]
async fn oversized_headers_are_refused_with_a_readable_error() {
    let gateway = Gateway::start(&format!("{STANDARD}{SMALL}"));
    for name_bytes in [5_000, 300_000] {
        let long = format!("x-long: {}\r\ncontent-length: 0\r\n", "y".repeat(name_bytes));
        let mut connection = Raw::connect(gateway.ports.data).await;
        let _ = connection.write(head(KEY, &long).as_bytes()).await;
        let response = connection.read_response().await;
        assert!(response.starts_with("HTTP/1.1 431"), "{name_bytes}: {response}");
        assert!(response.contains("4096 bytes") && response.contains("head_too_large"), "{response}");
        assert!(response.contains("x-gateway-trace-id"), "{response}");
    }
    let counted = gateway.metric("turnpike_errors_total{code=\"head_too_large\"}").await;
    assert_eq!(counted, Some(2.0));
}

#[tokio::test]
async fn malformed_http_is_answered_with_400_or_not_at_all() {
    let gateway = gateway();
    let key = format!("x-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n");
    let rows = [
        "GET\r\n\r\n".to_owned(),
        "GET /v1/models HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(),
        "GET /v1/models HTTP/1.1\r\nbad header\r\n\r\n".to_owned(),
        format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nna me: x\r\n{key}\r\n"),
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n{key}\r\n{{}}"),
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ncontent-length: 3\r\n{key}\r\n{{}}"
        ),
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n{key}\r\n0\r\n\r\n"
        ),
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n{key}\r\nzz\r\n{{}}\r\n0\r\n\r\n"
        ),
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n{key}\r\n{{}}"),
    ];
    for request in rows {
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(request.as_bytes()).await.unwrap();
        connection.close_write().await;
        let response = String::from_utf8_lossy(&connection.read_to_end().await).into_owned();
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{request:?}: {response}");
    }
    assert_eq!(chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn invalid_json_bodies_are_refused_with_the_position() {
    let gateway = gateway();
    for (body, expected) in [
        ("", "empty"),
        ("hello", "column 1"),
        ("{\"model\": \"m\",\n  nope}", "line 2"),
        ("[1, 2]", "object"),
        ("\"text\"", "object"),
        ("{\"model\": \"m\"} trailing", "column 16"),
        ("{\"model\": \"\u{1}\"}", "column"),
    ] {
        let trace = new_trace();
        let response = chat(&gateway, &trace, &hello(false)).body(body).send().await.unwrap();
        assert_eq!(response.status(), 400, "{body:?}");
        let error_body: Value = response.json().await.unwrap();
        let message = error_body["error"]["message"].as_str().unwrap();
        assert!(message.contains("JSON object") && message.contains(expected), "{body:?}: {message}");
    }
    let not_utf8 = chat(&gateway, &new_trace(), &hello(false)).body(vec![b'{', b'"', 0xff, b'"', b'}']);
    assert_eq!(not_utf8.send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_compressed_body_is_read_up_to_the_limit_of_what_comes_out() {
    let gateway = Gateway::start(&format!("{STANDARD}{SMALL}"));
    let gzip = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let trace = new_trace();
    let body = serde_json::to_vec(&hello(false)).unwrap();
    let call = chat(&gateway, &trace, &hello(false)).header("content-encoding", "gzip");
    assert_eq!(call.body(gzip(&body)).send().await.unwrap().status(), 200);
    let bomb = gzip(&vec![b' '; 1 << 20]);
    assert!(bomb.len() < 20_000, "small enough as it is sent: {}", bomb.len());
    let call = chat(&gateway, &new_trace(), &hello(false)).header("content-encoding", "gzip");
    assert_eq!(call.body(bomb).send().await.unwrap().status(), 413);
}

#[tokio::test]
async fn a_body_that_cannot_be_unpacked_is_refused_where_it_is_read() {
    let gateway = gateway();
    let call = chat(&gateway, &new_trace(), &hello(false)).header("content-encoding", "gzip");
    let response = call.body(vec![0x1f, 0x8b, 8, 0]).send().await.unwrap();
    assert_eq!(response.status(), 400);
    let error_body: Value = response.json().await.unwrap();
    assert_eq!(error_body["error"]["param"], "content-encoding", "{error_body}");
    // A compressed body that is only forwarded passes unchanged.
    let tag = new_trace();
    let call = client().put(format!("{}/weather/blob", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let call = call.header("content-encoding", "gzip").header("x-emulator-tag", &tag);
    assert_eq!(call.body(vec![0x1f, 0x8b, 8, 0]).send().await.unwrap().status(), 200);
    let requests = gateway.emulator_requests(&tag).await;
    assert_eq!(requests[0]["body_bytes"], 4, "{requests:?}");
    assert!(requests[0]["headers"].to_string().contains("gzip"), "{requests:?}");
}

#[tokio::test]
async fn a_chunked_json_body_is_read_like_any_other() {
    let gateway = gateway();
    let body = hello(false).to_string();
    let (first, second) = body.split_at(20);
    let request = format!(
        "{}{:x}\r\n{first}\r\n{:x};ext=1\r\n{second}\r\n0\r\nx-trailer: 1\r\n\r\n",
        head(KEY, "transfer-encoding: chunked\r\n"),
        first.len(),
        second.len()
    );
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(request.as_bytes()).await.unwrap();
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("chat.completion"), "{response}");
}

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let gateway = Gateway::start(&format!("{STANDARD}{SMALL}"));
    let body = hello(false).to_string();
    let expect = |key: &str, length: usize| {
        head(key, &format!("content-length: {length}\r\nexpect: 100-continue\r\n"))
    };
    let mut connection = Raw::connect(gateway.ports.data).await;
    connection.write(expect(KEY, body.len()).as_bytes()).await.unwrap();
    let interim = connection.read_response().await;
    assert!(interim.starts_with("HTTP/1.1 100"), "{interim}");
    connection.write(body.as_bytes()).await.unwrap();
    let response = connection.read_response().await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    for (request, status) in [(expect("nobody", body.len()), "401"), (expect(KEY, 200_000), "413")] {
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(request.as_bytes()).await.unwrap();
        let response = connection.read_response().await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{response}");
    }
}

#[tokio::test]
async fn an_http_1_0_client_gets_an_http_1_0_response() {
    let gateway = gateway();
    for stream in [false, true] {
        let body = hello(stream).to_string();
        let head = head(KEY, &format!("content-length: {}\r\n", body.len())).replace("HTTP/1.1", "HTTP/1.0");
        let response = raw::send(gateway.ports.data, format!("{head}{body}").as_bytes()).await;
        let response = String::from_utf8_lossy(&response).into_owned();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.") && head[8..].starts_with(" 200"), "{response}");
        assert!(!head.to_lowercase().contains("chunked"), "{response}");
        if stream {
            assert!(body.starts_with("data:") && body.trim_end().ends_with("[DONE]"), "{response}");
        } else {
            assert!(serde_json::from_str::<Value>(body).is_ok(), "{response}");
        }
    }
}

/// Requests that a client sends without waiting for responses are answered one by one, in their order.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let gateway = gateway();
    for stream in [false, true] {
        let body = hello(stream).to_string();
        let chat = format!("{}{body}", head(KEY, &format!("content-length: {}\r\n", body.len())));
        let models = format!("GET /v1/models HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\n\r\n");
        let health = "GET /livez HTTP/1.1\r\nhost: t\r\n\r\n";
        let last = chat.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let requests = [&chat, health, &chat, &models, health, &last].map(str::to_owned).concat();
        let responses = raw::send(gateway.ports.data, requests.as_bytes()).await;
        let responses = String::from_utf8_lossy(&responses);
        assert_eq!(responses.matches("HTTP/1.1 ").count(), 6, "{responses}");
        let order = ["chat.completion", "\nok", "chat.completion", "HTTP/1.1 ", "\nok", "chat.completion"];
        let mut rest = &*responses;
        for wanted in order {
            let at = rest.find(wanted).unwrap_or_else(|| panic!("{wanted} is missing in {responses}"));
            rest = &rest[at + wanted.len()..];
        }
    }
}

/// A provider that names the path of each request, when it may.
struct Gated {
    upstream: Upstream,
    arrived: Arc<Notify>,
    may_go_on: Arc<Notify>,
}

impl Gated {
    async fn start() -> Self {
        let (arrived, may_go_on) = <(Arc<Notify>, Arc<Notify>)>::default();
        let arriving = Arc::clone(&arrived);
        let going_on = Arc::clone(&may_go_on);
        let upstream = Upstream::start(move |mut line| {
            let arriving = Arc::clone(&arriving);
            let going_on = Arc::clone(&going_on);
            async move {
                while let Some(request) = line.request().await {
                    arriving.notify_one();
                    going_on.notified().await;
                    let path = request.split(' ').nth(1).unwrap();
                    line.send_json(&format!("{{\"was\":\"{path}\"}}")).await;
                }
            }
        });
        Self { upstream: upstream.await, arrived, may_go_on }
    }

    fn request(&self, method: &str, path: &str, more: &str) -> String {
        format!(
            "{method} /v1/{path} HTTP/1.1\r\nhost: t\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: openai\r\n\
             x-gateway-custom-host: {}\r\nauthorization: Bearer sk-1\r\n{more}\r\n",
            self.upstream.url()
        )
    }

    /// Sends `first`, and what follows it at the same time or while the provider has the first.
    async fn send(&self, connection: &mut Raw, first: &str, next: &str, is_late: bool) {
        let (now, later) = if is_late { (first.to_owned(), next) } else { (format!("{first}{next}"), "") };
        connection.write(now.as_bytes()).await.unwrap();
        self.arrived.notified().await;
        connection.write(later.as_bytes()).await.unwrap();
    }
}

/// The same for requests that are passed on as they are, whenever the next one comes.
#[tokio::test]
async fn a_request_that_is_passed_on_is_not_ended_by_the_next_one() {
    let gateway = gateway();
    let provider = Gated::start().await;
    let next = provider.request("GET", "next", "");
    let (start, end) = next.split_at(10);
    for (first, path) in [
        (provider.request("GET", "weather", ""), "weather"),
        (provider.request("DELETE", "files/f", ""), "files/f"),
        (provider.request("POST", "batches/b/cancel", "content-length: 0\r\n"), "batches/b/cancel"),
        (provider.request("POST", "echo", "content-length: 3\r\n") + "abc", "echo"),
    ] {
        for is_late in [false, true] {
            let mut connection = Raw::connect(gateway.ports.data).await;
            provider.send(&mut connection, &first, start, is_late).await;
            // The gateway has it before the response.
            gateway.control(reqwest::Method::GET, "/livez").send().await.unwrap();
            provider.may_go_on.notify_one();
            let response = connection.read_response().await;
            assert!(response.starts_with("HTTP/1.1 200") && response.contains(path), "{first}: {response}");
            assert!(!response.to_lowercase().contains("connection: close"), "{response}");
            connection.write(end.as_bytes()).await.unwrap();
            provider.arrived.notified().await;
            provider.may_go_on.notify_one();
            let response = connection.read_response().await;
            assert!(
                response.starts_with("HTTP/1.1 200") && response.contains("/next"),
                "{first}: {response}"
            );
        }
    }
}

/// Without a length it is the last one, and the client learns that.
#[tokio::test]
async fn nothing_follows_a_request_without_a_length_that_is_passed_on() {
    let gateway = gateway();
    let provider = Gated::start().await;
    let chunked =
        provider.request("POST", "echo", "transfer-encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n";
    let next = provider.request("GET", "next", "");
    for is_late in [false, true] {
        let mut connection = Raw::connect(gateway.ports.data).await;
        provider.send(&mut connection, &chunked, &next, is_late).await;
        provider.may_go_on.notify_one();
        let responses = String::from_utf8_lossy(&connection.read_to_end().await).into_owned();
        assert!(responses.starts_with("HTTP/1.1 200") && responses.contains("/echo"), "{responses}");
        assert_eq!(responses.matches("HTTP/1.1 ").count(), 1, "{responses}");
        assert!(responses.to_lowercase().contains("\r\nconnection: close\r\n"), "{responses}");
    }
}

/// What follows an upload that is refused is not read; the client learns that it must send it again.
#[tokio::test]
async fn an_upload_with_a_request_behind_it_is_the_last_one() {
    let gateway = gateway();
    let upload = format!(
        "POST /v1/files HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ncontent-length: 3\r\n\r\nabc"
    );
    let responses = raw::send(gateway.ports.data, format!("{upload}{upload}").as_bytes()).await;
    let responses = String::from_utf8_lossy(&responses).to_lowercase();
    assert_eq!(responses.matches("http/1.1 ").count(), 1, "{responses}");
    assert!(responses.contains("\r\nconnection: close\r\n"), "{responses}");
}

/// HTTP/1.1 demands a Host, and two lengths are one too many even where they are equal.
#[tokio::test]
async fn requests_with_bad_framing_are_refused_and_the_connection_closed() {
    let gateway = gateway();
    let body = hello(false).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let good = format!("{}{body}", head(KEY, &length));
    let twice = format!("{}{body}", head(KEY, &format!("{length}{length}")));
    let list = format!("{}{body}", head(KEY, &format!("content-length: {0}, {0}\r\n", body.len())));
    let host = good.lines().find(|line| line.to_lowercase().starts_with("host:")).unwrap().to_owned();
    let no_host = good.replace(&format!("{host}\r\n"), "");
    let get = "GET /v1/models HTTP/1.1\r\n\r\n".to_owned();
    for (request, wanted) in [
        (no_host, "no Host header"),
        (get, "no Host header"),
        (twice, "Content-Length"),
        (list, "Content-Length"),
    ] {
        // What follows on the connection must not be taken for a request.
        let responses = raw::send(gateway.ports.data, format!("{request}{good}").as_bytes()).await;
        let responses = String::from_utf8_lossy(&responses);
        assert!(
            responses.starts_with("HTTP/1.1 400") && responses.contains(wanted),
            "{request}: {responses}"
        );
        assert_eq!(responses.matches("HTTP/1.1 2").count(), 0, "{request}: {responses}");
    }
    // HTTP/1.0 has no such rule.
    let old = "GET /livez HTTP/1.0\r\n\r\n";
    let responses = raw::send(gateway.ports.data, old.as_bytes()).await;
    assert!(responses.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&responses));
    assert!(responses[8..].starts_with(b" 200"), "{}", String::from_utf8_lossy(&responses));
}

#[tokio::test]
async fn too_many_headers_are_431() {
    let gateway = gateway();
    let request = |count: usize| {
        let headers: String = (0..count - 2).map(|n| format!("x-{n}: y\r\n")).collect();
        format!("GET /livez HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{headers}\r\n")
    };
    for (count, status) in [(256, "200"), (257, "431"), (5000, "431")] {
        let responses = raw::send(gateway.ports.data, request(count).as_bytes()).await;
        let responses = String::from_utf8_lossy(&responses);
        assert!(responses.starts_with(&format!("HTTP/1.1 {status} ")), "{count}: {responses}");
        assert!(status == "200" || responses.contains("head_too_large"), "{responses}");
    }
}
