//! Streams pass as they arrive: each event at once, no byte changed, the end reported correctly, nothing
//! leaked.
//!
//! Not what real providers send (`recordings`), nor broken connections of whole responses
//! (`broken_responses`).

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway, raw, sse};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GAP: Duration = Duration::from_millis(60);

/// A streamed request of each dialect: path below `/v1/`, and body with `MODEL` for the model.
const DIALECTS: &[(&str, &str)] = &[
    ("chat/completions", r#"{"model":"MODEL","stream":true,"messages":[{"role":"user","content":"a"}]}"#),
    ("completions", r#"{"model":"MODEL","stream":true,"prompt":"a"}"#),
    ("responses", r#"{"model":"MODEL","stream":true,"input":"a"}"#),
    (
        "messages",
        r#"{"model":"MODEL","stream":true,"max_tokens":99,"messages":[{"role":"user","content":"a"}]}"#,
    ),
];

fn call(gateway: &Gateway, trace: &str, path: &str, body: &str) -> reqwest::RequestBuilder {
    let call = client().post(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-trace-id", trace).header("content-type", "application/json");
    let provider = if path.ends_with("messages") { "@anthropic-emulator" } else { "@emulator" };
    call.header("x-gateway-provider", provider).body(body.to_owned())
}

#[tokio::test]
async fn events_are_forwarded_as_they_arrive() {
    let gateway = gateway();
    let watch = async |path: String, body: &str| {
        let body = body.replace("MODEL", &format!("m?tokens=8&gap={}", GAP.as_millis()));
        let response = call(&gateway, &new_trace(), &path, &body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let mut chunks = response.bytes_stream();
        let mut times = Vec::new();
        while let Some(chunk) = chunks.next().await {
            chunk.unwrap();
            times.push(Instant::now());
        }
        let between = times.last().unwrap().duration_since(times[0]);
        assert!(between > GAP * 5, "{path}: all {} chunks arrived within {between:?}", times.len());
        assert!(times.len() > 5, "{path}: {} pieces", times.len());
    };
    let requests = DIALECTS
        .iter()
        .flat_map(|(path, body)| [(*path).to_owned(), format!("proxy/{path}")].map(|path| watch(path, body)));
    futures_util::future::join_all(requests).await;
}

#[tokio::test]
async fn the_line_of_a_stream_has_its_tokens_and_timings() {
    let gateway = gateway();
    for (path, body) in DIALECTS {
        let trace = new_trace();
        let body = body.replace("MODEL", "m?tokens=12&ttft=50");
        let body = body.replace(r#""messages":"#, r#""stream_options":{"include_usage":true},"messages":"#);
        let response = call(&gateway, &trace, path, &body).send().await.unwrap();
        let text = response.text().await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert_eq!((&line["status"], &line["stream"]), (&json!(200), &json!(true)), "{path}");
        if *path != "completions" {
            assert_eq!(line["tokens"]["output"], 12, "{path}: {line}\n{text}");
        }
        assert_eq!(line["bytes_out"], text.len(), "{path}");
        let at = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{path}: no {name} in {line}"));
        assert!(at("ttfb_ms") <= at("ttft_ms") && at("ttft_ms") <= at("total_ms"), "{path}: {line}");
        assert!(at("ttft_ms") >= 50.0, "{path}: {line}");
        assert!(line["finish_reason"].is_string() && line["error_code"].is_null(), "{path}: {line}");
    }
}

/// What the gateway adds to a canned stream.
#[derive(Debug, PartialEq)]
enum End {
    /// Nothing: the client gets the provider's bytes unchanged.
    AsItIs,
    /// What was missing: the blank line, or `[DONE]`.
    Supplied(&'static str),
    /// An error event: the provider closed the stream without an end.
    Error,
    /// An error event instead of the end that the provider sent.
    Instead(&'static str),
    /// Nothing, and this end of what the provider sent is dropped.
    Before(&'static str),
}

const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DELTA: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const ERROR: &str = "data: {\"error\":{\"message\":\"overloaded\",\"code\":529}}\n\n";
const START: &str =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\"}}\n\n";
const STOPPED: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
/// A whole message in its first event, as after a programmatic tool call.
const WHOLE_START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}],\"stop_reason\":\"tool_use\"}}\n\n";
const CREATED: &str = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\"}}\n\n";
const COMPLETED: &str = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n";

/// Path, what the provider sends, and what the gateway adds.
fn canned() -> Vec<(&'static str, String, End)> {
    let chat = "chat/completions";
    vec![
        (chat, [DELTA, FINISH, DONE].concat(), End::AsItIs),
        // Some providers omit [DONE], some the final blank line, some the finish reason.
        (chat, [DELTA, FINISH].concat(), End::Supplied(DONE)),
        (chat, [DELTA, FINISH, "data: [DONE]"].concat(), End::Supplied("\n\n")),
        // An end without a finish reason is an interrupted stream, unless it is marked.
        (chat, [DELTA, DONE].concat(), End::AsItIs),
        (chat, [DELTA, FINISH, DONE].concat().replace('\n', "\r\n"), End::AsItIs),
        (chat, [DELTA, FINISH, DONE].concat().replace('\n', "\r"), End::AsItIs),
        (
            chat,
            [": PROCESSING\n\n", DELTA, ":\n\n", "event: ping\n\n", "id: 7\nretry: 9\n\n", FINISH, DONE]
                .concat(),
            End::AsItIs,
        ),
        (
            chat,
            [
                DELTA,
                "data: {\"choices\":[{\n\n",
                "data: \n\n",
                "nonsense\n\n",
                "data: \u{fffd}\u{0}\n\n",
                FINISH,
                DONE,
            ]
            .concat(),
            End::AsItIs,
        ),
        (chat, [DELTA, ERROR].concat(), End::AsItIs),
        (chat, [DELTA, "event: error\n", ERROR].concat(), End::AsItIs),
        (chat, [DELTA, DELTA].concat(), End::Error),
        (chat, String::new(), End::Error),
        (chat, ": PROCESSING\n\n".to_owned(), End::Error),
        ("messages", [START, STOPPED, STOP].concat(), End::AsItIs),
        ("messages", [WHOLE_START, STOP].concat(), End::AsItIs),
        ("messages", [START, STOP].concat(), End::Instead(STOP)),
        ("messages", START.to_owned(), End::Error),
        ("responses", [CREATED, COMPLETED].concat(), End::AsItIs),
        ("responses", CREATED.to_owned(), End::Error),
        // What follows the end is dropped: clients that read on would take it for a part of the response.
        (chat, [DELTA, FINISH, DONE, DELTA].concat(), End::Before(DELTA)),
        (
            chat,
            [DELTA, FINISH, DONE, "data: {\"cost\":1}\n\n", ": bye\n\n"].concat(),
            End::Before("data: {\"cost\":1}\n\n: bye\n\n"),
        ),
        (chat, [DELTA, FINISH, DONE, "data: tail"].concat(), End::Before("data: tail")),
        ("messages", [START, STOPPED, STOP, START].concat(), End::Before(START)),
        ("responses", [CREATED, COMPLETED, DONE].concat(), End::AsItIs),
        ("responses", [CREATED, COMPLETED, DONE, DELTA].concat(), End::Before(DELTA)),
        // On an unknown path the end of a stream is unknown.
        ("anything", [DELTA, DELTA].concat(), End::AsItIs),
    ]
}

#[tokio::test]
async fn no_byte_of_a_stream_is_changed_and_its_end_is_reported() {
    let gateway = gateway();
    for (path, stream, end) in canned() {
        let canned = stream.clone();
        let provider = Provider::start(move |_| {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let body =
                if canned.is_empty() { String::new() } else { format!("{:x}\r\n{canned}\r\n", canned.len()) };
            format!("{head}{body}0\r\n\r\n").into_bytes()
        });
        let provider = provider.await;
        let trace = new_trace();
        let body = r#"{"model":"m","stream":true,"max_tokens":9,"input":"a","messages":[{"role":"user","content":"a"}]}"#;
        let call = with_host(call(&gateway, &trace, path, body), &provider);
        let response = client().execute(call).await.unwrap();
        // It is known before anything was sent that nothing follows.
        let is_failure = stream.is_empty() && response.status() == 502;
        let got = response.text().await.unwrap();
        let got = if is_failure { format!("data: {got}\n\n") } else { got };
        let expected = match end {
            End::Instead(end) | End::Before(end) => stream.strip_suffix(end).unwrap(),
            _ => &*stream,
        };
        let tail = got.strip_prefix(expected).unwrap_or_else(|| panic!("{path}: {stream:?} became {got:?}"));
        let events = sse::events(tail);
        let parsed = events.iter().filter_map(|event| serde_json::from_str::<Value>(&event.data).ok());
        let payloads: Vec<Value> = parsed.collect();
        let line = gateway.access_line(&trace).await;
        match end {
            End::AsItIs | End::Before(_) => {
                assert_eq!((tail, &line["error_code"]), ("", &Value::Null), "{path}: {stream:?}");
            }
            End::Supplied(missing) => {
                assert_eq!((tail, &line["error_code"]), (missing, &Value::Null), "{path}: {stream:?}");
            }
            End::Error | End::Instead(_) => {
                let ends = if path.contains("responses") { 2 } else { 1 };
                assert_eq!(payloads.len(), ends, "{path}: {stream:?} ended in {tail:?}");
                let code = payloads[0].pointer("/error/code").or(payloads[0].get("code"));
                let named = code.and_then(Value::as_str).unwrap_or("upstream_invalid_answer");
                assert_eq!(named, "upstream_invalid_answer", "{path}: {tail:?}");
                assert_eq!(line["error_code"], "upstream_invalid_answer", "{path}: {stream:?}");
            }
        }
    }
}

/// The standard allows a bare CR as a line end. Such a stream was held back to its end.
#[tokio::test]
async fn events_with_bare_carriage_returns_are_forwarded_as_they_arrive() {
    let gateway = gateway();
    let provider = Provider::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let event = DELTA.replace('\n', "\r");
        // The stream stays open: no more is sent, and it does not end.
        format!("{head}{:x}\r\n{event}\r\n", event.len()).into_bytes()
    });
    let provider = provider.await;
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}"#;
    let call = with_host(call(&gateway, &new_trace(), "chat/completions", body), &provider);
    let first = async {
        let mut chunks = client().execute(call).await.unwrap().bytes_stream();
        chunks.next().await.unwrap().unwrap()
    };
    let first = tokio::time::timeout(Duration::from_secs(10), first).await.expect("the event was held back");
    assert_eq!(first, DELTA.replace('\n', "\r"));
}

/// A provider that compresses unasked: the gateway cannot parse its bytes, so it must not insert any.
#[tokio::test]
async fn nothing_is_added_to_a_compressed_stream() {
    let gateway = gateway();
    let provider = Provider::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        format!("{head}4\r\nzip!\r\n0\r\n\r\n").into_bytes()
    });
    let provider = provider.await;
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}"#;
    let call = with_host(call(&gateway, &new_trace(), "chat/completions", body), &provider);
    let response = client().execute(call).await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert_eq!(response.text().await.unwrap(), "zip!");
}

/// The request, sent to the test's provider with the client's own key.
fn with_host(call: reqwest::RequestBuilder, provider: &Provider) -> reqwest::Request {
    let mut request = call.header("authorization", "Bearer k").build().unwrap();
    let vendor = if request.url().path().ends_with("messages") { "anthropic" } else { "openai" };
    let headers = request.headers_mut();
    headers.insert("x-gateway-provider", vendor.parse().unwrap());
    headers.insert("x-gateway-custom-host", provider.base_url().parse().unwrap());
    request
}

#[tokio::test]
async fn a_stream_that_is_cut_ends_in_an_error_event() {
    let gateway = gateway();
    for (path, body) in DIALECTS {
        let trace = new_trace();
        let body = body.replace("MODEL", "m?fault=cut&after=4");
        let text = call(&gateway, &trace, path, &body).send().await.unwrap().text().await.unwrap();
        let events = sse::events(&text);
        // On the Responses API a second event says the same, for agents that read no other.
        let ends = if *path == "responses" { 6 } else { 5 };
        assert_eq!(events.len(), ends, "{path}: {text}");
        let last: Value = serde_json::from_str(&events[4].data).unwrap();
        match *path {
            "messages" => assert_eq!((&*events[4].name, &last["type"]), ("error", &json!("error"))),
            "responses" => {
                assert_eq!((&*events[4].name, &last["type"]), ("error", &json!("error")));
                assert_eq!(last["sequence_number"], 4, "{last}");
                let failed: Value = serde_json::from_str(&events[5].data).unwrap();
                assert_eq!(
                    (&failed["type"], &failed["sequence_number"]),
                    (&json!("response.failed"), &json!(5))
                );
                assert_eq!(failed.pointer("/response/error/message"), Some(&last["message"]), "{failed}");
            }
            _ => assert_eq!(last["error"]["code"], "upstream_unreachable", "{path}: {last}"),
        }
        assert!(!text.contains("[DONE]"), "{path}");
        assert_eq!(gateway.access_line(&trace).await["error_code"], "upstream_unreachable", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_concurrent_streams_complete_and_leak_nothing() {
    const STREAMS: usize = 200;
    let gateway = Gateway::start(STANDARD);
    let client = client();
    let mut body = hello(true);
    body["model"] = "m?tokens=20&gap=10".into();
    let one = async |number: usize| {
        let call = chat(&gateway, &format!("many-{number}"), &body).build().unwrap();
        let response = client.execute(call).await.unwrap();
        assert_eq!(response.status(), 200);
        response.text().await.unwrap()
    };
    let texts: Vec<String> = futures_util::future::join_all((0..STREAMS).map(one)).await;
    for text in &texts {
        let events = sse::events(text);
        assert_eq!((events.len(), &*events[events.len() - 1].data), (23, "[DONE]"), "{text}");
    }
    // Clients disconnect in mid-stream. Not with a client library: it may read a body to its end that nobody wants any more.
    body["model"] = "m?tokens=100&gap=50".into();
    let text = body.to_string();
    let leaving = async |number: usize| {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nx-gateway-api-key: {KEY}\r\n\
             x-gateway-provider: @emulator\r\nx-gateway-trace-id: left-{number}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        let mut connection = raw::Raw::connect(gateway.ports.data).await;
        connection.write(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while memchr::memmem::find(&read, b"data: ").is_none() {
            let more = connection.read_some().await;
            assert!(!more.is_empty(), "{}", read.escape_ascii());
            read.extend(more);
        }
    };
    futures_util::future::join_all((0..STREAMS / 4).map(leaving)).await;
    gateway.idle().await;
    let url = format!("{}/_emulator/stats", gateway.emulator_url());
    until("no request in flight at the emulator", async || {
        let stats: Value = client.get(&url).send().await.unwrap().json().await.unwrap();
        (stats["in_flight"] == 0).then_some(())
    })
    .await;
    let left = async || (gateway.stdout.lines_with("\"left-").len() == STREAMS / 4).then_some(());
    until("the line of every client that disconnected", left).await;
    for line in gateway.stdout.lines_with("\"left-") {
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["error_code"], "caller_left", "{line}");
    }
}
