//! The same requests through a Pingora session (the real binary) and through memory: both clients get the same response,
//! and both leave the same record and the same metrics.
//!
//! Not how a request is admitted: the door does that, and memory has none.

use crate::memory_engine::{MemoryEngine, Observed, observed};
use crate::support::client::client;
use crate::support::gateway::Gateway;
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use motion::engine::attempt::LAYERS;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PATH: &str = "/v1/chat/completions";
const CHAT: &str = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;
const MESSAGE: &str = r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
const HELLO: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":null}]}\n\n";
const WORLD: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" world\"},\"finish_reason\":null}]}\n\n";
const STOP: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A provider that responds by the path it is called at: its first segment names the response. `start`: the start line.
fn respond(start: &str) -> Vec<u8> {
    let (status, media, body) = match start.split('/').nth(1).unwrap_or_default() {
        "busy" => {
            ("503 Service Unavailable", "application/json", r#"{"error":{"message":"busy"}}"#.to_owned())
        }
        "refuse" => {
            ("400 Bad Request", "application/json", r#"{"error":{"message":"no","code":"bad"}}"#.to_owned())
        }
        "stream" => ("200 OK", "text/event-stream", [HELLO, WORLD, STOP].concat()),
        // It ends without a finish.
        "truncate" => ("200 OK", "text/event-stream", HELLO.to_owned()),
        "message" => ("200 OK", "application/json", MESSAGE.to_owned()),
        _ => ("200 OK", "application/json", CHAT.to_owned()),
    };
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A provider that sends the beginning of a stream, and closes the connection when that has been read for a moment.
async fn breaking_provider() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _read = stream.read(&mut request).await;
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = format!("{head}{:x}\r\n{HELLO}\r\n", HELLO.len());
            stream.write_all(chunk.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    port
}

async fn send_to_gateway(gateway: &Gateway, config: &Value, body: &Value, trace_id: &str) -> Observed {
    let call = client().post(format!("{}{PATH}", gateway.data_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-trace-id", trace_id).header("x-gateway-config", config.to_string());
    let call = call.header("content-type", "application/json").body(body.to_string());
    let response = call.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.bytes().await.unwrap().to_vec();
    observed(status, &headers, body, gateway.access_line(trace_id).await)
}

/// Without the creation time that a translation adds: a second may pass between the two.
fn without_creation(mut observed: Observed) -> Observed {
    if let Ok(mut body) = serde_json::from_str::<Value>(&observed.body) {
        body.as_object_mut().map(|members| members.remove("created"));
        observed.body = body.to_string();
    }
    observed
}

/// The counters of a text of metrics that requests change, without times and sizes.
fn counters(text: &str) -> Vec<&str> {
    let names = ["requests_total", "attempts_total", "errors_total", "rescues_total", "hedges_total"];
    let is_counter = |line: &&str| names.iter().any(|name| line.starts_with(&format!("turnpike_{name}{{")));
    text.lines()
        .filter(is_counter)
        .filter(|line| !line.ends_with(" 0") && !line.contains("\"control\""))
        .collect()
}

#[tokio::test]
async fn a_session_and_memory_get_the_same_response_record_and_metrics() {
    let provider = Provider::start(|message| respond(&message.start)).await;
    let breaking = breaking_provider().await;
    let target = |kind: &str, provider_id: &str| {
        let port = if kind == "break" { breaking } else { provider.port };
        let host = format!("http://127.0.0.1:{port}/{kind}");
        json!({"provider": provider_id, "api_key": "k", "custom_host": host})
    };
    let fallback = |kinds: &[&str]| {
        let targets: Vec<Value> = kinds.iter().map(|kind| target(kind, "openai")).collect();
        json!({"strategy": {"mode": "fallback"}, "targets": targets})
    };
    let body = |stream: bool| json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": stream});
    let (gateway, memory) = (Gateway::start(STANDARD), MemoryEngine::new(LAYERS));
    for (name, config, streamed, status) in [
        ("whole", target("whole", "openai"), false, 200),
        ("streamed", target("stream", "openai"), true, 200),
        ("translated", target("message", "anthropic"), false, 200),
        ("failed over", fallback(&["busy", "whole"]), false, 200),
        ("failed over, streamed", fallback(&["busy", "stream"]), true, 200),
        ("rescued", fallback(&["break", "stream"]), true, 200),
        ("truncated", fallback(&["truncate", "stream"]), true, 200),
        ("broken", target("break", "openai"), true, 200),
        ("refused", target("refuse", "openai"), false, 400),
        ("refused twice", fallback(&["busy", "busy"]), false, 503),
    ] {
        let trace_id = format!("downstreams-{}", name.replace([' ', ','], "-"));
        let of_session = send_to_gateway(&gateway, &config, &body(streamed), &trace_id).await;
        let of_memory = memory.send(PATH, &config, &body(streamed), &trace_id).await;
        let (of_session, of_memory) = (without_creation(of_session), without_creation(of_memory));
        assert_eq!(of_session.status, status, "{name}: {of_session:?}");
        assert_eq!(of_session, of_memory, "{name}");
        assert!(!of_session.body.is_empty(), "{name}");
    }
    let of_gateway = gateway.metrics().await;
    let of_memory = String::from_utf8(memory.engine.shared.metrics.render(&[])).unwrap();
    let (session, memory) = (counters(&of_gateway), counters(&of_memory));
    assert_eq!(session, memory);
    assert!(session.iter().any(|line| line.starts_with("turnpike_rescues_total")), "{session:?}");
}
