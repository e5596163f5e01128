//! How the process stops: readiness fails first, running responses get time to complete, the rest is cut with
//! an error.
//!
//! Not how it starts, nor its notifications (`starting`), nor how another process takes over (`upgrades`).

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, raw, sse};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A chat response with this many tokens, this many milliseconds apart.
fn slow(tokens: u32, gap: u32) -> Value {
    let mut body = hello(true);
    body["model"] = json!(format!("gpt-4o-mini?tokens={tokens}&gap={gap}"));
    body
}

fn with_grace(seconds: u32) -> String {
    STANDARD.replace("grace_period_seconds: 5", &format!("grace_period_seconds: {seconds}"))
}

#[tokio::test]
async fn readiness_fails_first_and_calls_are_still_taken() {
    let gateway = Gateway::start(STANDARD);
    // Keep a request running, or the process exits before the checks below.
    let running = chat(&gateway, &new_trace(), &slow(80, 25)).send().await.unwrap();
    gateway.terminate();
    let readiness = until("the failing readiness", async || {
        let response = client().get(format!("{}/readyz", gateway.control_url())).send().await.unwrap();
        (response.status() == 503).then_some(response)
    })
    .await;
    let readiness: Value = readiness.json().await.unwrap();
    assert_eq!(readiness["status"], "draining");
    // The data port reports it too, and closes each connection after its response.
    let late = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
    assert_eq!(late.status(), 200, "the port must accept requests until the load balancer has noticed");
    assert_eq!(late.headers()["connection"], "close");
    let events = sse::events(&running.text().await.unwrap());
    assert_eq!(events.last().unwrap().data, "[DONE]");
    assert!(gateway.ended().await.success());
}

#[tokio::test]
async fn connections_are_accepted_until_the_delay_is_over() {
    let delayed =
        STANDARD.replace("grace_period_seconds: 5", "grace_period_seconds: 5\n  drain_delay_seconds: 2");
    let gateway = Gateway::start(&delayed);
    let signalled = Instant::now();
    gateway.terminate();
    until("the failing readiness", async || {
        let response = client().get(format!("{}/readyz", gateway.data_url())).send().await.unwrap();
        (response.status() == 503).then_some(())
    })
    .await;
    // Each on a connection of its own, until one is refused.
    let mut served = 0;
    while let Ok(response) = chat(&gateway, &new_trace(), &hello(false)).send().await {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["connection"], "close");
        served += 1;
    }
    assert!(
        served > 0 && signalled.elapsed() >= Duration::from_secs(2),
        "{served} in {:?}",
        signalled.elapsed()
    );
    assert!(gateway.ended().await.success());
}

#[tokio::test]
async fn a_running_stream_completes_before_the_process_exits() {
    let gateway = Gateway::start(&with_grace(60));
    let trace = new_trace();
    let h2_trace = new_trace();
    let mut stream = chat(&gateway, &trace, &slow(40, 40)).send().await.unwrap();
    stream.chunk().await.unwrap().unwrap();
    // The same over HTTP/2, where the last frames are written after the end of the response.
    let h2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let call = h2.post(format!("{}/chat/completions", gateway.base_url())).json(&slow(40, 40));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    let mut h2_stream = call.header("x-gateway-trace-id", &h2_trace).send().await.unwrap();
    h2_stream.chunk().await.unwrap().unwrap();
    // An idle keep-alive connection delays nothing.
    let mut idle = raw::Raw::connect(gateway.ports.data).await;
    idle.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();

    gateway.terminate();
    let text = stream.text().await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let text = h2_stream.text().await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let ended = Instant::now();
    assert!(gateway.ended().await.success());
    assert!(ended.elapsed() < Duration::from_secs(5), "it waited {:?} for no reason", ended.elapsed());
    assert!(String::from_utf8_lossy(&idle.read_to_end().await).starts_with("HTTP/1.1 200"));
    for trace in [trace, h2_trace] {
        assert_eq!(gateway.access_line(&trace).await["status"], 200, "the last lines are missing");
    }
}

#[tokio::test]
async fn a_stream_past_the_grace_period_is_cut_with_an_error_in_its_dialect() {
    let gateway = Gateway::start(&with_grace(1));
    let trace = new_trace();
    let anthropic_trace = new_trace();
    let waiting_trace = new_trace();
    let mut stream = chat(&gateway, &trace, &slow(10_000, 50)).send().await.unwrap();
    stream.chunk().await.unwrap().unwrap();
    let body = json!({"model": "claude?tokens=10000&gap=50", "max_tokens": 10000, "stream": true,
        "messages": [{"role": "user", "content": "Say hello."}]});
    let call = client().post(format!("{}/messages", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call
        .header("x-gateway-provider", "@anthropic-emulator")
        .header("x-gateway-trace-id", &anthropic_trace);
    let mut anthropic = call.json(&body).send().await.unwrap();
    anthropic.chunk().await.unwrap().unwrap();
    // A request whose response has not started.
    let mut body = hello(true);
    body["model"] = json!("gpt-4o-mini?fault=hang");
    let waiting = tokio::spawn(chat(&gateway, &waiting_trace, &body).send());
    until("three requests to be in flight", async || {
        (gateway.metric("turnpike_requests_in_flight").await == Some(3.0)).then_some(())
    })
    .await;

    let signalled = Instant::now();
    gateway.terminate();
    let events = sse::events(&stream.text().await.unwrap());
    let last: Value = serde_json::from_str(&events.last().unwrap().data).unwrap();
    assert_eq!(last["error"]["code"], "draining", "{last}");
    let events = sse::events(&anthropic.text().await.unwrap());
    let last = events.last().unwrap();
    assert_eq!(last.name, "error");
    assert_eq!(serde_json::from_str::<Value>(&last.data).unwrap()["error"]["type"], "overloaded_error");
    let response = waiting.await.unwrap().expect("no response for the waiting request");
    assert_eq!(response.status(), 503);
    assert!(gateway.ended().await.success());
    assert!(signalled.elapsed() < Duration::from_secs(6), "it took {:?}", signalled.elapsed());
    for trace in [&trace, &anthropic_trace, &waiting_trace] {
        assert_eq!(gateway.access_line(trace).await["error_code"], "draining");
    }
}

#[tokio::test]
async fn an_interrupt_ends_it_at_once_even_while_stopping() {
    for first in ["INT", "TERM"] {
        let gateway = Gateway::start(&with_grace(600));
        let trace = new_trace();
        assert_eq!(chat(&gateway, &trace, &hello(false)).send().await.unwrap().status(), 200);
        let mut stream = chat(&gateway, &new_trace(), &slow(10_000, 50)).send().await.unwrap();
        stream.chunk().await.unwrap().unwrap();
        let signalled = Instant::now();
        gateway.signal(first);
        if first == "TERM" {
            until("the listener to close", async || {
                TcpStream::connect(("127.0.0.1", gateway.ports.data)).await.err()
            })
            .await;
            gateway.signal("INT");
        }
        assert!(gateway.ended().await.success(), "after {first}");
        assert!(signalled.elapsed() < Duration::from_secs(8), "{first}: {:?}", signalled.elapsed());
        assert_eq!(gateway.access_line(&trace).await["status"], 200);
    }
}
