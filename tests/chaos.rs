//! Providers that fail at random in every way the emulator knows: each client gets a complete response or a
//! clean error, and the gateway leaks nothing.
//!
//! Not one fault at a time (`faults`). The seeds are fixed; which request gets which fault depends on
//! scheduling.

use crate::faults::case::{PrimaryDialect, body, sample_text, send};
use crate::faults::observed::ObservedResponse;
use crate::support::client::{fresh_client, new_trace};
use crate::support::emulator::Emulator;
use crate::support::exclusive::exclusive;
use crate::support::settings::KEY;
use crate::support::wait::until;
use crate::support::{Gateway, report};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const REQUESTS: usize = 2_000;
const AT_ONCE: usize = 64;
const TOKENS: u64 = 20;
/// Far beyond `total_ms`: a request that takes this long hangs.
const HANGS: Duration = Duration::from_secs(20);

/// A quarter of all requests run before the first measurement, so that pools and buffers have their full
/// size.
const WARM: usize = REQUESTS / 4;
/// The accepted growth after 1,500 requests, in KiB: a leak of 1 KiB each would nearly double what is normal.
const LEFT_KIB: u64 = 24 * 1024;
/// The accepted number of additional connections in pools.
const LEFT_FILES: usize = 48;

/// The outcomes of the requests.
#[derive(Default)]
struct Tally {
    /// Outcomes that should not happen; only the first few are kept.
    wrong: Vec<String>,
    whole: usize,
    refused: usize,
    error_status: usize,
    error_event: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_gets_a_clean_response_and_leaks_nothing() {
    let _exclusive = exclusive().await;
    // The emulator runs in a process of its own, so that only the gateway is measured.
    let emulator = Emulator::start(None);
    let gateway = Gateway::start(&settings(emulator.port));
    let started = Instant::now();
    let mut tally = Tally::default();
    run(&gateway, 0..WARM, &mut tally).await;
    settle(&gateway).await;
    let (files, (memory, _)) = (gateway.open_files(), gateway.memory());
    run(&gateway, WARM..REQUESTS, &mut tally).await;
    settle(&gateway).await;
    let (files_then, (memory_then, _)) = (gateway.open_files(), gateway.memory());
    report(&format!(
        "chaos: {REQUESTS} requests in {:?}: {} whole, {} refused, {} errors by status, {} by event; files {files} -> {files_then}, memory {memory} -> {memory_then} KiB",
        started.elapsed(),
        tally.whole,
        tally.refused,
        tally.error_status,
        tally.error_event,
    ));
    assert!(tally.wrong.is_empty(), "{} went wrong:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
    assert_eq!(tally.whole + tally.refused + tally.error_status + tally.error_event, REQUESTS);
    assert!(tally.whole * 10 >= REQUESTS * 8, "too few were rescued: {}", tally.whole);
    assert!(files_then <= files + LEFT_FILES, "{files} files before, {files_then} after");
    assert!(memory_then <= memory + LEFT_KIB, "{memory} KiB before, {memory_then} KiB after");
}

fn settings(port: u16) -> String {
    let host = format!("http://127.0.0.1:{port}");
    format!(
        "
listen: {{data: [127.0.0.1:DATA_PORT], control: 127.0.0.1:CONTROL_PORT}}
auth: {{keys: [{{name: tests, key: {KEY}}}]}}
providers:
  emulator: {{provider: openai, api_key: k, custom_host: {host}/v1}}
  anthropic-emulator: {{provider: anthropic, api_key: k, custom_host: {host}/v1}}
  google-emulator: {{provider: google, api_key: k, custom_host: {host}}}
  bedrock-emulator:
    {{provider: bedrock, cloud_a_access_key_id: A, cloud_a_secret_access_key: k, cloud_a_region: us-east-1, custom_host: {host}}}
custom_hosts: {{allow_private: true}}
"
    )
}

/// Two load balancers in a fallback, four dialects; three in ten attempts get a fault.
fn config() -> Value {
    let target = |dialect: PrimaryDialect, seed: usize| {
        dialect.target("chaos", &format!("chaos=30&seed={seed}&key=chaos-{seed}&tokens={TOKENS}"))
    };
    let pair = |targets: [Value; 2]| json!({"strategy": {"mode": "loadbalance"}, "targets": targets});
    json!({
        "strategy": {"mode": "fallback"},
        "retry": {"attempts": 1, "backoff_ms": 10, "max_backoff_ms": 50, "budget_ms": 500},
        "time_limits": {"connect_ms": 1000, "first_byte_ms": 700, "first_token_ms": 700, "gap_ms": 700, "total_ms": 8000},
        "targets": [
            pair([target(PrimaryDialect::OpenAi, 1), target(PrimaryDialect::Anthropic, 2)]),
            pair([target(PrimaryDialect::Gemini, 3), target(PrimaryDialect::Bedrock, 4)]),
        ],
    })
}

async fn run(gateway: &Gateway, numbers: std::ops::Range<usize>, tally: &mut Tally) {
    let client = fresh_client();
    let config = config();
    let requests = stream::iter(numbers).map(|number| {
        let client = &client;
        let config = &config;
        async move {
            let streamed = number % 2 == 0;
            let messages = number % 8 > 5;
            let trace = new_trace();
            let body = body(messages, streamed);
            let sending = send(gateway, client, &trace, config, &body, messages);
            let response = tokio::time::timeout(HANGS, sending).await;
            (trace.clone(), streamed, response.unwrap_or_else(|_| panic!("{trace} hangs")))
        }
    });
    let mut requests = std::pin::pin!(requests.buffer_unordered(AT_ONCE));
    while let Some((trace, streamed, response)) = requests.next().await {
        if let Err(why) = check_response(streamed, &response, tally) {
            let line = gateway.access_line(&trace).await;
            tally.wrong.push(format!("{why}: {line} {response:?}"));
        }
    }
}

/// Accepts a complete response or a clean error, and nothing in between.
fn check_response(
    streamed: bool,
    response: &ObservedResponse,
    tally: &mut Tally,
) -> Result<(), &'static str> {
    if response.broken.is_some() {
        return Err("the connection or the dialect's grammar broke");
    }
    let message = response.error.as_ref().map(|error| error["message"].as_str().unwrap_or_default());
    if message.is_some_and(str::is_empty) {
        return Err("an error without a message");
    }
    match (response.status, message) {
        (400..600, Some(_)) => tally.error_status += 1,
        // Google's form of a content-filter refusal; on `/v1/messages` it carries a text.
        (200, None)
            if response.done && matches!(response.finish.as_deref(), Some("content_filter" | "refusal")) =>
        {
            tally.refused += 1;
        }
        (200, _) if !sample_text(TOKENS).starts_with(&response.text) => {
            return Err("text that no provider sent");
        }
        (200, Some(_)) if streamed && !response.done => tally.error_event += 1,
        (200, None) if response.done => match response.finish.as_deref() {
            Some("stop" | "end_turn") if response.text == sample_text(TOKENS) => tally.whole += 1,
            // A provider with OpenAI's API that gives no reason, but `[DONE]`.
            None if streamed && response.text == sample_text(TOKENS) => tally.whole += 1,
            Some("stop" | "end_turn") => return Err("a partial response passed off as complete"),
            _ => return Err("no meaningful finish reason"),
        },
        _ => return Err("neither a response nor an error"),
    }
    Ok(())
}

/// Waits until nothing is in flight.
async fn settle(gateway: &Gateway) {
    gateway.idle().await;
    // Client connections close a moment after their client is dropped.
    let mut before = usize::MAX;
    until("the connections to close", async || {
        let now = gateway.open_files();
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::mem::replace(&mut before, now).eq(&now).then_some(())
    })
    .await;
}
