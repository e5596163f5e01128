//! The same requests through a Pingora session (the real binary) and through memory: both clients get the same response,
//! and both leave the same record and the same metrics.
//!
//! Not how a request is admitted: the door does that, and memory has none.

use crate::support::client::{client, install_ring};
use crate::support::gateway::Gateway;
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request as HttpRequest};
use pingora::http::RequestHeader;
use pingora_core::server::configuration::ServerConf;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use turnpike::api::body::Body;
use turnpike::config::Checks;
use turnpike::config::headers::GatewayHeaders;
use turnpike::engine::Engine;
use turnpike::engine::memory_downstream::MemoryDownstream;
use turnpike::engine::orchestrator::Admitted;
use turnpike::engine::request_context::RequestContext;
use turnpike::engine::request_env::RequestEnv;
use turnpike::net::outbound::connector::Connector;
use turnpike::route::admission::Endpoint;
use turnpike::route::attempt::Request;
use turnpike::route::compile::{Sources, compile};
use turnpike::route::plan::Plan;
use turnpike::settings::{AccessLog as Output, SecretSources, Settings};
use turnpike::state::Shared;
use turnpike::state::access_log::AccessLog;
use turnpike::state::metrics::Metrics;
use turnpike::state::snapshot::SettingsSnapshot;

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

/// What a client got of a request, and what was recorded of it.
#[derive(Debug, PartialEq)]
struct Observed {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    line: Value,
}

/// The headers and members that must be equal: times and what the client is are not.
fn observed(status: u16, headers: &HeaderMap, body: Vec<u8>, mut line: Value) -> Observed {
    let kept = |name: &str| name.starts_with("x-gateway-") || name == "content-type";
    let without_times = |text: &str| {
        let attempts =
            text.split(", ").map(|attempt| attempt.rsplit_once(':').map_or(attempt, |(before, _)| before));
        attempts.collect::<Vec<_>>().join(", ")
    };
    let headers = headers.iter().filter(|(name, _)| kept(name.as_str())).map(|(name, value)| {
        let text = value.to_str().unwrap();
        let text = if name == "x-gateway-attempts" { without_times(text) } else { text.to_owned() };
        (name.to_string(), text)
    });
    let headers = headers.collect();
    let members = line.as_object_mut().unwrap();
    for name in ["ts", "key", "caller", "ttfb_ms", "ttft_ms", "total_ms", "overhead_ms"] {
        members.remove(name);
    }
    for attempt in line["attempts"].as_array_mut().unwrap() {
        attempt.as_object_mut().unwrap().remove("ms");
    }
    Observed { status, headers, body: String::from_utf8(body).unwrap(), line }
}

/// The engine in this process, with memory of its own.
struct InMemory {
    engine: Arc<Engine>,
    log: tempfile::NamedTempFile,
}

impl InMemory {
    fn new() -> Self {
        install_ring();
        let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse("custom_hosts: {allow_private: true}", &sources, &checks).unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        let access_log = AccessLog::open(&Output::File(log.path().to_owned())).unwrap();
        let shared = Shared::new(SettingsSnapshot::new(settings, 0), Metrics::new().unwrap(), access_log);
        let engine = Engine::new(Arc::new(shared), Connector::new(&ServerConf::default()));
        Self { engine: Arc::new(engine), log }
    }

    async fn send(&self, config: &Value, body: &Value, trace_id: &str) -> Observed {
        let request = HttpRequest::post(PATH).header("x-gateway-config", config.to_string());
        let (parts, ()) = request.header("content-type", "application/json").body(()).unwrap().into_parts();
        let header = RequestHeader::from(parts);
        let mut ctx = RequestContext::new(&self.engine.shared);
        ctx.trace_id = trace_id.into();
        let endpoint = Endpoint::find(&Method::POST, PATH);
        (ctx.operation, ctx.mode) = (endpoint.operation, endpoint.mode);
        let bytes = Bytes::from(body.to_string());
        ctx.record.bytes_in = bytes.len() as u64;
        let admitted = self.admitted(&header, &ctx, bytes);
        let mut downstream = MemoryDownstream::new(header, None);
        self.engine.run(&mut downstream, &mut ctx, admitted).await.unwrap();
        self.engine.record(&downstream, &mut ctx);
        self.engine.shared.access_log.flush().unwrap();
        let log = std::fs::read_to_string(self.log.path()).unwrap();
        let line = log.lines().find(|line| line.contains(trace_id)).unwrap();
        let (header, body, complete) = downstream.into_response().unwrap();
        assert!(complete, "{header:?}");
        observed(header.status.as_u16(), &header.headers, body.concat(), serde_json::from_str(line).unwrap())
    }

    fn admitted(&self, header: &RequestHeader, ctx: &RequestContext, body: Bytes) -> Admitted {
        let settings = &ctx.snapshot.settings;
        let gateway_headers = GatewayHeaders::read(&header.headers, &settings.header_prefixes).unwrap();
        let sources = Sources {
            settings,
            hosts: &ctx.snapshot.hosts,
            gateway_headers: &gateway_headers,
            bearer: None,
            model_slug: None,
        };
        let config = Arc::new(compile(&sources).unwrap());
        let body = Some(Body::parse(body).unwrap());
        let endpoint = Endpoint::find(&Method::POST, PATH);
        let request = Request::new(endpoint, Method::POST, header.uri.clone(), body);
        let shared = Arc::clone(&self.engine.shared);
        let mut env = RequestEnv { shared, key_name: None, request: None };
        let mut plan = Plan::new(config, request.model.clone());
        let first = plan.first(&mut env).unwrap();
        Admitted { plan, request, env, first, prepared: None }
    }
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
    let (gateway, memory) = (Gateway::start(STANDARD), InMemory::new());
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
        let of_memory = memory.send(&config, &body(streamed), &trace_id).await;
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
