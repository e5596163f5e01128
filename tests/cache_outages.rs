//! A shared store of the cache that is stopped, paused, slow or full, behind the running gateway: requests go on in their usual time, memory stays flat.
//!
//! What of that the store itself decides is tested beside the code (`cache::tests::shared`).

use crate::caching::{Call, answering, at, cached, json_answer};
use crate::stages::WHOLE_CHAT;
use crate::support::Gateway;
use crate::support::exclusive::exclusive;
use crate::support::redis_server::RedisServer;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use futures_util::StreamExt;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Requests one after the other, of which each would wait this long if it waited at all.
const REQUESTS: usize = 150;
const TIMEOUT: Duration = Duration::from_millis(1000);
/// Responses that nobody can write anywhere, and the size of each.
const LARGE: usize = 400;
const LARGE_BYTES: usize = 512 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    Stopped,
    Paused,
    Slow,
    Full,
}

fn chat(text: &str) -> String {
    json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}).to_string()
}

/// Forwards to this port. What comes back is later by `delay` as long as that is set.
async fn forwarder(port: u16, delay: tokio::sync::watch::Receiver<Duration>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let delay = delay.clone();
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
                    let delay = *delay.borrow();
                    tokio::time::sleep(delay).await;
                    if to_client.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    own
}

/// How long requests take that are not in the cache, each of which is a hit the second time.
async fn requests(call: &Call<'_>, name: &str) -> Duration {
    let begin = Instant::now();
    for number in 0..REQUESTS {
        let body = chat(&format!("{name} {number}"));
        let first = call.send(&body).await;
        assert_eq!((first.status, first.cache.as_str()), (200, "MISS"), "{name} {number}: {first:?}");
        assert_eq!(call.send(&body).await.cache, "HIT", "{name} {number}");
    }
    begin.elapsed()
}

async fn large_responses(call: &Call<'_>, name: &str) {
    let all = futures_util::stream::iter(0..LARGE).map(async |number| {
        let answer = call.send(&chat(&format!("large {name} {number}"))).await;
        assert_eq!((answer.status, answer.cache.as_str()), (200, "MISS"), "{name}");
        assert!(answer.text.len() > LARGE_BYTES);
    });
    all.buffer_unordered(8).collect::<Vec<()>>().await;
}

async fn store_is_up(gateway: &Gateway, is_up: f64) {
    let name = r#"turnpike_cache_store_up{store="redis"}"#;
    until("the store's state", async || (gateway.metric(name).await == Some(is_up)).then_some(())).await;
}

async fn outage(outage: Outage) {
    let Some(mut redis) = RedisServer::start() else { return };
    let _exclusive = exclusive().await;
    let (delay, delays) = tokio::sync::watch::channel(Duration::ZERO);
    let port = forwarder(redis.port, delays).await;
    let yaml = format!(
        "{STANDARD}cache: {{url: 'redis://127.0.0.1:{port}', timeout_ms: {}, max_bytes: 16777216}}\n",
        TIMEOUT.as_millis()
    );
    let gateway = Gateway::start(&yaml);
    let (upstream, _) = answering(|_, request| {
        let text = if request.contains("large ") { "y".repeat(LARGE_BYTES) } else { "hello".to_owned() };
        json_answer(&WHOLE_CHAT.replace("hello world", &text))
    })
    .await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    store_is_up(&gateway, 1.0).await;
    let usual = requests(&call, "usual").await;
    large_responses(&call, "usual").await;
    let entries = || redis.command("DBSIZE").trim_start_matches(':').parse::<usize>().unwrap();
    until("entries in Redis", async || (entries() > REQUESTS).then_some(())).await;
    let before = gateway.memory().0;
    match outage {
        Outage::Stopped => redis.stop(),
        Outage::Paused => redis.signal("STOP"),
        Outage::Slow => delay.send(TIMEOUT * 3).unwrap(),
        Outage::Full => {
            assert_eq!(redis.command("CONFIG SET maxmemory-policy noeviction"), "+OK");
            assert_eq!(redis.command("CONFIG SET maxmemory 1"), "+OK");
        }
    }
    let during = requests(&call, "during").await;
    // A few requests wait before the store is left alone. If each waited, it would be 150 seconds.
    let bound = usual * 4 + TIMEOUT * 20;
    assert!(during < bound, "{outage:?}: {during:?}, usually {usual:?}");
    large_responses(&call, "during").await;
    let grown = gateway.memory().1.saturating_sub(before) >> 10;
    // 200 MiB went through; 16 may be kept in memory, and 64 may wait to be written.
    assert!(grown < 120, "{outage:?}: {grown} MiB more at the peak than before");
    store_is_up(&gateway, if outage == Outage::Full { 1.0 } else { 0.0 }).await;
    let full = r#"turnpike_cache_store_errors_total{reason="full",store="redis"}"#;
    assert_eq!(gateway.metric(full).await.unwrap_or_default() > 0.0, outage == Outage::Full);
    match outage {
        Outage::Stopped => redis.start_again(),
        Outage::Paused => redis.signal("CONT"),
        Outage::Slow => delay.send(Duration::ZERO).unwrap(),
        Outage::Full => assert_eq!(redis.command("CONFIG SET maxmemory 0"), "+OK"),
    }
    store_is_up(&gateway, 1.0).await;
    let mut number = 0;
    let there = redis.command("DBSIZE");
    until("a new entry in Redis", async || {
        number += 1;
        call.send(&chat(&format!("after {number}"))).await;
        (redis.command("DBSIZE") != there).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_go_on_while_the_store_is_stopped() {
    outage(Outage::Stopped).await;
}

#[tokio::test]
async fn requests_go_on_while_the_store_is_paused() {
    outage(Outage::Paused).await;
}

#[tokio::test]
async fn requests_go_on_while_the_store_is_slow() {
    outage(Outage::Slow).await;
}

#[tokio::test]
async fn requests_go_on_while_the_store_is_full() {
    outage(Outage::Full).await;
}
