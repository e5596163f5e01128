//! `limits.max_held_bytes`: what all requests together hold in memory, whatever clients send and do not read.
//!
//! Sizes of one request are `limits`'. Memory is that of the process as the system counts it.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::raw::Raw;
use crate::support::settings::{KEY, OPERATOR_KEY, STANDARD};
use crate::support::wait::until;
use futures_util::future::select_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: usize = 1 << 20;

/// Beside what is counted: what the process takes anyway (a debug build has 100 MiB of code in memory), and what the allocator keeps.
const PROCESS: usize = 200 * MIB;

fn start(max_held: usize) -> Gateway {
    Gateway::start(&format!("{STANDARD}limits: {{max_held_bytes: {max_held}}}\n"))
}

fn request(target: &str, config: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {target} HTTP/1.1\r\nhost: gateway\r\nx-gateway-api-key: {KEY}\r\nx-gateway-config: {config}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn chat(model: &str, content: &str, stream: bool) -> String {
    format!(
        r#"{{"model":"{model}","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"{content}"}}]}}"#
    )
}

/// Polls `/livez` on both ports until it is stopped; returns how often it got something other than a 200.
fn watch_health(gateway: &Gateway) -> (Arc<AtomicBool>, tokio::task::JoinHandle<usize>) {
    let stop = Arc::new(AtomicBool::new(false));
    let urls = [format!("{}/livez", gateway.data_url()), format!("{}/livez", gateway.control_url())];
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move {
        let mut failed = 0;
        while !stopped.load(Ordering::Relaxed) {
            for url in &urls {
                let response = client().get(url).send().await;
                failed += usize::from(!response.is_ok_and(|response| response.status() == 200));
            }
            tokio::task::yield_now().await;
        }
        failed
    });
    (stop, task)
}

async fn nothing_is_held(gateway: &Gateway) {
    until("everything to be given back", async || {
        (gateway.metric("turnpike_held_bytes ").await == Some(0.0)).then_some(())
    })
    .await;
}

fn assert_memory(gateway: &Gateway, limit: usize) {
    let (_, peak) = gateway.memory();
    let peak = peak as usize * 1024;
    assert!(peak < limit + PROCESS, "{} MiB at the peak, {} MiB allowed", peak / MIB, limit / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_beyond_the_limit_are_refused_and_memory_stays_bounded() {
    const LIMIT: usize = 192 * MIB;
    let gateway = start(LIMIT);
    let (stop, health) = watch_health(&gateway);
    let content = "x".repeat(31 * MIB);
    for provider in ["@emulator", "@anthropic-emulator"] {
        let config = format!(r#"{{"provider":"{provider}"}}"#);
        let bytes =
            Arc::new(request("/v1/chat/completions", &config, &chat("m?latency=1500", &content, false)));
        let calls = (0..24).map(|_| {
            let port = gateway.ports.data;
            let bytes = Arc::clone(&bytes);
            tokio::spawn(async move {
                let mut connection = Raw::connect(port).await;
                // A refused client may be cut off while it still sends.
                let _ = connection.write(&bytes).await;
                connection.read_response().await
            })
        });
        let responses = futures_util::future::join_all(calls).await;
        let responses: Vec<String> = responses.into_iter().map(Result::unwrap).collect();
        let served = responses.iter().filter(|response| response.starts_with("HTTP/1.1 200")).count();
        let refused: Vec<&String> =
            responses.iter().filter(|response| response.starts_with("HTTP/1.1 503")).collect();
        assert!(served > 0, "{provider}: {responses:?}");
        assert!(!refused.is_empty(), "{provider}: {served} served");
        for response in refused {
            let response = response.to_lowercase();
            assert!(response.contains("memory_limit") && response.contains("retry-after: 1"), "{response}");
            assert!(response.contains("limits.max_held_bytes"), "{response}");
        }
        nothing_is_held(&gateway).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(health.await.unwrap(), 0, "requests for /livez failed");
    assert_memory(&gateway, LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_clients_do_not_read_are_bounded_too() {
    const LIMIT: usize = 48 * MIB;
    let gateway = start(LIMIT);
    let config = r#"{"provider":"@emulator","stream_rescue":"buffer"}"#;
    // The emulator repeats the prompt's text often enough for a stream of some MiB.
    let body = chat("m?tokens=40000", "hello", true).replace(r#""max_tokens":9,"#, "");
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut connection = Raw::connect(gateway.ports.data).await;
        connection.write(&request("/v1/chat/completions", config, &body)).await.unwrap();
        connections.push(connection);
    }
    // All of them are answered, or held as far as the limit allows.
    let refusals = "turnpike_errors_total{code=\"memory_limit\"}";
    until("responses to be refused", async || {
        gateway.metric(refusals).await.is_some_and(|count| count >= 1.0).then_some(())
    })
    .await;
    let health = client().get(format!("{}/livez", gateway.data_url())).send().await.unwrap();
    assert_eq!(health.status(), 200);
    assert_memory(&gateway, LIMIT);
    drop(connections);
    nothing_is_held(&gateway).await;
}

#[tokio::test]
async fn a_million_tiny_messages_are_refused_at_little_cost() {
    let gateway = start(512 * MIB);
    let messages = vec![r#"{"role":"user","content":"a"}"#; 1_000_000].join(",");
    let body = format!(r#"{{"model":"m","max_tokens":9,"messages":[{messages}]}}"#);
    let (before, _) = gateway.memory();
    for target in ["@anthropic-emulator", "@google-emulator", "@bedrock-emulator", "@cohere-emulator"] {
        let mut connection = Raw::connect(gateway.ports.data).await;
        let config = format!(r#"{{"provider":"{target}"}}"#);
        let _ = connection.write(&request("/v1/chat/completions", &config, &body)).await;
        let response = connection.read_response().await;
        assert!(
            response.starts_with("HTTP/1.1 400") && response.contains("120000 JSON values"),
            "{response}"
        );
    }
    let (_, peak) = gateway.memory();
    let used = (peak.saturating_sub(before) as usize) * 1024;
    assert!(used < 5 * body.len(), "{} MiB for a body of {} MiB", used / MIB, body.len() / MIB);
}

/// The control plane's bodies at both ports: without a key none is read, with one each is counted.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_control_routes_are_counted_and_none_is_read_without_a_key() {
    let gateway = start(16 * MIB);
    let head = |key: &str, length: usize| {
        format!(
            "POST /v1/prompts HTTP/1.1\r\nhost: gateway\r\n{key}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let (_, before) = gateway.memory();
    for port in [gateway.ports.control, gateway.ports.data] {
        // Strangers are refused with what they have sent.
        let strangers = (0..60).map(|_| {
            let head = head("", 30 * MIB);
            tokio::spawn(async move {
                let mut connection = Raw::connect(port).await;
                connection.write(head.as_bytes()).await.unwrap();
                let response = connection.read_response().await;
                // Until the gateway ends the connection.
                while connection.write(&[b'x'; 64 << 10]).await.is_ok() {}
                response
            })
        });
        for stranger in strangers.collect::<Vec<_>>() {
            let response = stranger.await.unwrap();
            assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
        }
    }
    let (_, after) = gateway.memory();
    assert!(after < before + (32 << 10), "{before} KiB before, {after} KiB after");
    // Clients that hold their bodies back: counted while they are there, and no more of them than fit.
    let key = format!("x-gateway-api-key: {OPERATOR_KEY}\r\n");
    let mut connections = Vec::new();
    for index in 0..12 {
        let port = if index % 2 == 0 { gateway.ports.control } else { gateway.ports.data };
        let mut connection = Raw::connect(port).await;
        connection.write(head(&key, MIB).as_bytes()).await.unwrap();
        connection.write(&vec![b' '; MIB - 1]).await.unwrap();
        connections.push(connection);
    }
    until("the bodies to be counted", async || {
        (gateway.metric("turnpike_held_bytes ").await > Some(12.0 * MIB as f64)).then_some(())
    })
    .await;
    // Which of them comes last is up to the gateway's threads.
    let responses = connections.iter_mut().map(|connection| Box::pin(connection.read_response()));
    let (first, _, others) = select_all(responses).await;
    assert!(first.starts_with("HTTP/1.1 503 "), "{first}");
    drop(others);
    drop(connections);
    nothing_is_held(&gateway).await;
}
