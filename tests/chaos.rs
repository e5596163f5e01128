//! Providers that fail at random in every way the emulator knows: each caller gets a whole answer or a clean error, and
//! afterwards nothing is left of it in the gateway.
//!
//! Not one fault at a time (`faults`). The seeds are fixed; which request meets which fault is up to the scheduler.

use crate::faults::case::{Who, body, send, story};
use crate::faults::seen::Seen;
use crate::support::client::{fresh_client, new_trace};
use crate::support::emulator::Emulator;
use crate::support::settings::KEY;
use crate::support::turn::turn;
use crate::support::wait::until;
use crate::support::{Gateway, announce};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const REQUESTS: usize = 2_000;
const AT_ONCE: usize = 64;
const TOKENS: u64 = 20;
/// Far beyond `total_ms`: who waits this long hangs.
const HANGS: Duration = Duration::from_secs(20);

/// A quarter of all requests go before the first look: pools and buffers are as large as they will be.
const WARM: usize = REQUESTS / 4;
/// What may be left of 1,500 requests: 1 KiB each would show.
const LEFT_KIB: u64 = 24 * 1024;
/// Connections that a pool may have gained.
const LEFT_FILES: usize = 48;

/// What became of the requests.
#[derive(Default)]
struct Tally {
    /// What should not have happened, at most a few of them.
    wrong: Vec<String>,
    whole: usize,
    refused: usize,
    error_status: usize,
    error_event: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_caller_is_answered_cleanly_and_nothing_stays_behind() {
    let _turn = turn().await;
    // A process of its own: what is measured is the gateway alone.
    let emulator = Emulator::start(None);
    let gateway = Gateway::start(&settings(emulator.port));
    let (begun, mut tally) = (Instant::now(), Tally::default());
    run(&gateway, 0..WARM, &mut tally).await;
    settle(&gateway).await;
    let (files, (memory, _)) = (gateway.open_files(), gateway.memory());
    run(&gateway, WARM..REQUESTS, &mut tally).await;
    settle(&gateway).await;
    let (files_then, (memory_then, _)) = (gateway.open_files(), gateway.memory());
    announce(&format!(
        "chaos: {REQUESTS} requests in {:?}: {} whole, {} refused, {} errors by status, {} by event; files {files} -> {files_then}, memory {memory} -> {memory_then} KiB",
        begun.elapsed(),
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

/// Two load balances in a fallback, four dialects, three in ten attempts a fault.
fn config() -> Value {
    let target = |who: Who, seed: usize| {
        who.target("chaos", &format!("chaos=30&seed={seed}&key=chaos-{seed}&tokens={TOKENS}"))
    };
    let pair = |targets: [Value; 2]| json!({"strategy": {"mode": "loadbalance"}, "targets": targets});
    json!({
        "strategy": {"mode": "fallback"},
        "retry": {"attempts": 1, "backoff_ms": 10, "max_backoff_ms": 50, "budget_ms": 500},
        "time_limits": {"connect_ms": 1000, "first_byte_ms": 700, "first_token_ms": 700, "gap_ms": 700, "total_ms": 8000},
        "targets": [
            pair([target(Who::OpenAi, 1), target(Who::Anthropic, 2)]),
            pair([target(Who::Gemini, 3), target(Who::Bedrock, 4)]),
        ],
    })
}

async fn run(gateway: &Gateway, numbers: std::ops::Range<usize>, tally: &mut Tally) {
    let client = fresh_client();
    let config = config();
    let asks = stream::iter(numbers).map(|number| {
        let (client, config) = (&client, &config);
        async move {
            let (streamed, messages) = (number % 2 == 0, number % 8 > 5);
            let trace = new_trace();
            let body = body(messages, streamed);
            let asking = send(gateway, client, &trace, config, &body, messages);
            let seen = tokio::time::timeout(HANGS, asking).await;
            (trace.clone(), streamed, seen.unwrap_or_else(|_| panic!("{trace} hangs")))
        }
    });
    let mut asks = std::pin::pin!(asks.buffer_unordered(AT_ONCE));
    while let Some((trace, streamed, seen)) = asks.next().await {
        if let Err(why) = judge(streamed, &seen, tally) {
            let line = gateway.access_line(&trace).await;
            tally.wrong.push(format!("{why}: {line} {seen:?}"));
        }
    }
}

/// Complete, or an error that says so: nothing between.
fn judge(streamed: bool, seen: &Seen, tally: &mut Tally) -> Result<(), &'static str> {
    if seen.broke.is_some() {
        return Err("the connection or the dialect broke");
    }
    let message = seen.error.as_ref().map(|error| error["message"].as_str().unwrap_or_default());
    if message.is_some_and(str::is_empty) {
        return Err("an error without words");
    }
    match (seen.status, message) {
        (400..600, Some(_)) => tally.error_status += 1,
        // Google's way to refuse; told in words at `/v1/messages`.
        (200, None) if seen.done && matches!(seen.finish.as_deref(), Some("content_filter" | "refusal")) => {
            tally.refused += 1;
        }
        (200, _) if !story(TOKENS).starts_with(&seen.text) => return Err("words nobody said"),
        (200, Some(_)) if streamed && !seen.done => tally.error_event += 1,
        (200, None) if seen.done => match seen.finish.as_deref() {
            Some("stop" | "end_turn") if seen.text == story(TOKENS) => tally.whole += 1,
            Some("stop" | "end_turn") => return Err("a part passed off as the whole"),
            _ => return Err("no end that means anything"),
        },
        _ => return Err("neither an answer nor an error"),
    }
    Ok(())
}

/// Nothing is under way any more.
async fn settle(gateway: &Gateway) {
    until("the end of all requests", async || {
        (gateway.metric("turnpike_requests_in_flight").await == Some(0.0)).then_some(())
    })
    .await;
    // Callers' connections close a moment after their client is gone.
    let mut before = usize::MAX;
    until("closed connections", async || {
        let now = gateway.open_files();
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::mem::replace(&mut before, now).eq(&now).then_some(())
    })
    .await;
}
