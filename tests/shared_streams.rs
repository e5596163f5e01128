//! Many clients of one stream: one call, every byte for each, and memory for one copy, whoever is slow.
//!
//! Who may share a call at all is in `caching` and `cached_tenants`.

use crate::caching::{Call, at, cached};
use crate::stages::{chat_events, text_of};
use crate::support::client::new_trace;
use crate::support::exclusive::exclusive;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, raw};
use futures_util::StreamExt;
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const MIB: u64 = 1 << 20;
/// For a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A provider of one stream. It sends the first event, and the rest after a permit.
pub(crate) async fn stream_of(texts: Vec<String>) -> (Upstream, Arc<Semaphore>, Arc<AtomicUsize>) {
    let steps = Arc::new(Semaphore::new(0));
    let calls = Arc::<AtomicUsize>::default();
    let permits = Arc::clone(&steps);
    let count = Arc::clone(&calls);
    let texts = Arc::new(texts);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let permits = Arc::clone(&permits);
        let count = Arc::clone(&count);
        let texts = Arc::clone(&texts);
        async move {
            if connection.request().await.is_none() {
                return;
            }
            count.fetch_add(1, Ordering::SeqCst);
            let whole = chat_events(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            connection
                .write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                .await;
            for (number, event) in whole.split_inclusive("\n\n").enumerate() {
                if number == 1 {
                    permits.acquire().await.unwrap().forget();
                }
                connection.write(&format!("{:x}\r\n{event}\r\n", event.len())).await;
            }
            connection.write("0\r\n\r\n").await;
        }
    })
    .await;
    (upstream, steps, calls)
}

pub(crate) fn streamed(text: &str) -> String {
    json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": text}]})
        .to_string()
}

/// What a client got: its length and its digest, so that a thousand of them take no memory here.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    bytes: usize,
    digest: Vec<u8>,
}

/// Reads the stream as fast as it comes. `began` counts those who have its header.
async fn read(gateway: &Gateway, config: &Value, body: &str, began: &AtomicUsize) -> Got {
    let request = Call::new(gateway, config).request(body).0.timeout(PATIENCE);
    let response = request.send().await.unwrap();
    began.fetch_add(1, Ordering::SeqCst);
    let mut digest = Context::new(&SHA256);
    let mut bytes = 0;
    let mut parts = response.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.unwrap();
        bytes += part.len();
        digest.update(&part);
    }
    Got { bytes, digest: digest.finish().as_ref().to_vec() }
}

/// A client that has the beginning of the stream, and takes no more of it. Its window is small, so that the system keeps little for it.
pub(crate) async fn slow_client(gateway: &Gateway, config: &Value, body: &str, trace: &str) -> raw::Raw {
    let mut client = raw::Raw::connect_with_window(gateway.ports.data, 4096).await;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\nx-gateway-api-key: {KEY}\r\n\
         x-gateway-config: {config}\r\nx-gateway-trace-id: {trace}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write(request.as_bytes()).await.unwrap();
    let begin = client.read_some().await;
    assert!(begin.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&begin));
    client
}

#[tokio::test]
async fn a_thousand_clients_of_one_stream_make_one_call() {
    const CLIENTS: usize = 1000;
    let _exclusive = exclusive().await;
    let gateway = Gateway::start(STANDARD);
    let texts: Vec<String> = (0..1000).map(|number| format!("{number} {} ", "x".repeat(1000))).collect();
    let (upstream, steps, calls) = stream_of(texts.clone()).await;
    let config = cached(at(&upstream, "openai"));
    let body = streamed("hundreds");
    let began = AtomicUsize::new(0);
    let slow = async {
        until("the first reader", async || (began.load(Ordering::SeqCst) > 0).then_some(())).await;
        slow_client(&gateway, &config, &body, &new_trace()).await
    };
    let fast = futures_util::future::join_all((0..CLIENTS).map(|_| read(&gateway, &config, &body, &began)));
    let opening = async {
        let slow = slow.await;
        until("all of them to read", async || (began.load(Ordering::SeqCst) == CLIENTS).then_some(())).await;
        let before = gateway.memory().0;
        steps.add_permits(1);
        (slow, before)
    };
    // The fast ones end though the slow one takes nothing.
    let (got, (mut slow, before)) = tokio::join!(fast, opening);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(got.iter().all(|one| *one == got[0]));
    let hit = Call::new(&gateway, &config).send(&body).await;
    assert_eq!((hit.cache.as_str(), hit.text.len()), ("HIT", got[0].bytes));
    assert_eq!(text_of(&hit.text), texts.concat());
    let grown = gateway.memory().1.saturating_sub(before) * 1024;
    let of_all = (CLIENTS * got[0].bytes) as u64;
    // Each of them holds what it is sending, 256 KiB at most; a copy for each would be all of it.
    assert!(grown < of_all / 2, "{} MiB for {} MiB of streams", grown / MIB, of_all / MIB);
    let rest = slow.read_to_end().await;
    assert!(
        rest.len() > got[0].bytes / 2 && String::from_utf8_lossy(&rest).contains("data: [DONE]"),
        "{}",
        rest.len()
    );
}

#[tokio::test]
async fn a_slow_client_holds_one_copy_or_slows_the_provider() {
    const FAST: usize = 24;
    let _exclusive = exclusive().await;
    // A response of 16 MiB: what an entry may be, and more than an entry may be.
    for (max_entry, is_kept) in [(48, true), (1, false)] {
        let settings =
            format!("{STANDARD}cache: {{max_bytes: 67108864, max_entry_bytes: {}}}\n", max_entry * MIB);
        let gateway = Gateway::start(&settings);
        let (upstream, steps, calls) = stream_of(vec!["x".repeat(64 << 10); 256]).await;
        let config = cached(at(&upstream, "openai"));
        let body = streamed("large");
        let began = AtomicUsize::new(0);
        let ended = AtomicUsize::new(0);
        let fast = futures_util::future::join_all((0..FAST).map(async |_| {
            let got = read(&gateway, &config, &body, &began).await;
            ended.fetch_add(1, Ordering::SeqCst);
            got
        }));
        let rest = async {
            until("the first reader", async || (began.load(Ordering::SeqCst) > 0).then_some(())).await;
            let mut slow = slow_client(&gateway, &config, &body, &new_trace()).await;
            until("all of them to read", async || (began.load(Ordering::SeqCst) == FAST).then_some(())).await;
            let before = gateway.memory().0;
            steps.add_permits(1);
            if is_kept {
                let all = async || (ended.load(Ordering::SeqCst) == FAST).then_some(());
                until("the fast ones to end", all).await;
            }
            let grown = gateway.memory().1.saturating_sub(before) * 1024;
            let rest = slow.read_to_end().await;
            (rest, grown, before)
        };
        let (got, (rest, grown, before)) = tokio::join!(fast, rest);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert!(got.iter().all(|one| *one == got[0]) && got[0].bytes > 16 * MIB as usize);
        assert!(rest.len() > 15 * MIB as usize && String::from_utf8_lossy(&rest).contains("data: [DONE]"));
        let at_end = gateway.memory().1.saturating_sub(before) * 1024;
        let of_all = 16 * MIB * FAST as u64;
        let bound = if is_kept { of_all / 2 } else { of_all / 4 };
        assert!(
            grown < bound && at_end < bound,
            "{} and {} MiB, entry of {max_entry}",
            grown / MIB,
            at_end / MIB
        );
    }
}
