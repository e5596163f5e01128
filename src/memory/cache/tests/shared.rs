//! Two gateways with one store, on a real Redis or Valkey; they report that they are skipped where there is none.

use super::*;
use crate::cache::{CacheError, CacheOptions, Purge, ResponseStore};
use crate::net::outbound::redis_client::server::RedisServer;
use std::time::{Duration, Instant};
use words::config::secret::Secret;

const PATIENCE: Duration = Duration::from_secs(20);

fn gateway(url: &str) -> ResponseStore {
    gateway_that_waits(url, 500)
}

/// For the shared store, at most this many milliseconds.
fn gateway_that_waits(url: &str, milliseconds: u64) -> ResponseStore {
    let lookup_timeout = Duration::from_millis(milliseconds);
    let url = Some(Secret::new(url));
    ResponseStore::new(&CacheOptions {
        url,
        lookup_timeout,
        max_entry_bytes: 100_000,
        ..CacheOptions::default()
    })
    .unwrap()
}

/// Kept for an hour from now.
fn fresh(body: &str) -> CachedResponse {
    let stored_at = Timestamp::now();
    CachedResponse { stored_at, expires_at: stored_at + SignedDuration::from_hours(1), ..entry(body) }
}

async fn get(store: &ResponseStore, number: u8) -> Option<Arc<CachedResponse>> {
    store.get(&key(number), &scope(1, None), Timestamp::now()).await
}

async fn written(store: &ResponseStore) {
    assert!(store.flush(PATIENCE).await);
}

/// How long it took to become true.
async fn until(mut is_true: impl AsyncFnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is_true().await {
        assert!(begin.elapsed() < PATIENCE, "it did not become true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begin.elapsed()
}

async fn until_up(store: &ResponseStore) {
    until(async || store.stats().is_store_up == Some(true)).await;
}

fn count(counts: &[(&'static str, u64)], name: &str) -> u64 {
    counts.iter().find(|(found, _)| *found == name).unwrap().1
}

/// One command, by a connection of its own.
async fn command<T: redis::FromRedisValue>(server: &RedisServer, text: &str) -> T {
    command_at(&server.url(), &text.split(' ').collect::<Vec<_>>()).await
}

async fn command_at<T: redis::FromRedisValue>(url: &str, parts: &[&str]) -> T {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::Cmd::new().arg(parts).query_async(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_keeps_the_other_finds() {
    let Some(server) = RedisServer::start().await else { return };
    let one = gateway(&server.url());
    let two = gateway(&server.url());
    let whole = fresh(&"a whole response. ".repeat(100));
    let stream = streamed(300);
    let stream = CachedResponse { stored_at: whole.stored_at, expires_at: whole.expires_at, ..stream };
    one.put(key(1), whole.clone());
    one.put(key(2), stream.clone());
    written(&one).await;
    assert_eq!(*get(&two, 1).await.unwrap(), whole);
    let get_stream = async || two.get(&key(2), &stream.scope, Timestamp::now()).await;
    assert_eq!(*get_stream().await.unwrap(), stream);
    assert!(two.stats().bytes < stream.body.len() as u64, "kept compressed");
    assert!(get(&two, 3).await.is_none());
    let other = two.get(&key(1), &scope(2, None), Timestamp::now()).await;
    assert!(other.is_none(), "of another workspace");

    // The store's entries end with the responses, and are not needed for what is in memory.
    let left: i64 =
        command(&server, &format!("PTTL {}", crate::cache::redis::name(&key(1), &whole.scope))).await;
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    let _: String = command(&server, "CONFIG SET requirepass other").await;
    assert_eq!(*get(&two, 1).await.unwrap(), whole);
    assert_eq!(*get_stream().await.unwrap(), stream);
    let later = Timestamp::now() + SignedDuration::from_hours(2);
    assert!(two.get(&key(1), &scope(1, None), later).await.is_none());
    assert_eq!(one.stats().store_errors.iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_reaches_the_store_and_every_gateway() {
    let Some(server) = RedisServer::start().await else { return };
    let one = gateway(&server.url());
    let two = gateway(&server.url());
    let scopes = [scope(1, None), scope(1, Some("a")), scope(1, Some("b")), scope(2, Some("a"))];
    let scope_of = |number: u8| &scopes[usize::from(number % 4)];
    let workspace = Uuid::from_u128(1);
    let purges = [
        (Purge::Key(key(3)), vec![3]),
        (Purge::OwnKey { workspace, key: key(2) }, vec![2]),
        (Purge::OwnKey { workspace, key: key(3) }, vec![]),
        (Purge::Namespace { workspace, namespace: "a".into() }, vec![1, 5]),
        (Purge::Workspace(workspace), vec![0, 1, 2, 4, 5, 6]),
        (Purge::All, (0..8).collect()),
    ];
    for (purge, expected) in purges {
        // Else a purge before it could still be on its way to one of them, which then does not write.
        until_up(&one).await;
        until(async || {
            for number in 0..8 {
                one.put(key(number), CachedResponse { scope: scope_of(number).clone(), ..fresh("{}") });
            }
            written(&one).await;
            let mut found = 0;
            for number in 0..8 {
                found += u8::from(two.get(&key(number), scope_of(number), Timestamp::now()).await.is_some());
            }
            let names: Vec<String> = command(&server, "KEYS {turnpike}:cache:*").await;
            found == 8 && names.len() == 8
        })
        .await;
        assert_eq!(one.purge(purge.clone()).await, Ok(expected.len() as u64), "{purge:?}");
        let names: Vec<String> = command(&server, "KEYS {turnpike}:cache:*").await;
        assert_eq!(names.len(), 8 - expected.len(), "{purge:?} {names:?}");
        let is_as_expected = async |store: &ResponseStore| {
            for number in 0..8 {
                let is_there = store.get(&key(number), scope_of(number), Timestamp::now()).await.is_some();
                if is_there == expected.contains(&number) {
                    return false;
                }
            }
            true
        };
        assert!(is_as_expected(&one).await, "{purge:?}");
        let took = until(async || is_as_expected(&two).await).await;
        assert!(took < Duration::from_secs(2), "{purge:?} {took:?}");
        one.purge(Purge::All).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_waits_for_a_gateway_that_cannot_reach_the_store() {
    let Some(server) = RedisServer::start().await else { return };
    let one = gateway(&server.url());
    let two = gateway(&server.url());
    one.put(key(1), fresh("{}"));
    written(&one).await;
    assert!(get(&two, 1).await.is_some());
    until_up(&two).await;
    // Only the second is locked out.
    let password = format!("redis://:new@127.0.0.1:{}", server.port);
    let _: String = command(&server, "CONFIG SET requirepass new").await;
    let _: i64 = command_at(&password, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    until(async || two.stats().is_store_up == Some(false)).await;
    assert!(get(&two, 1).await.is_some(), "it goes on with its memory");
    let with_password = gateway(&password);
    until_up(&with_password).await;
    assert_eq!(with_password.purge(Purge::All).await, Ok(1));
    let _: String = command_at(&password, &["CONFIG", "SET", "requirepass", ""]).await;
    until(async || two.stats().is_store_up == Some(true)).await;
    let took = until(async || get(&two, 1).await.is_none()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_on_its_way_when_it_was_purged_is_not_written() {
    let Some(server) = RedisServer::start().await else { return };
    let one = gateway(&server.url());
    let two = gateway(&server.url());
    one.put(key(9), fresh("{}"));
    written(&one).await;
    until_up(&one).await;
    until_up(&two).await;
    assert_eq!(one.purge(Purge::All).await, Ok(1));
    // The second has hardly taken note of it yet: its response may have been made before.
    let name = crate::cache::redis::name(&key(1), &scope(1, None));
    until(async || {
        one.purge(Purge::All).await.unwrap();
        let before = count(&two.stats().dropped_writes, "purged");
        two.put(key(1), fresh("{}"));
        written(&two).await;
        let is_dropped = count(&two.stats().dropped_writes, "purged") > before;
        let is_written = command::<i64>(&server, &format!("EXISTS {name}")).await == 1;
        assert_ne!(is_dropped, is_written);
        is_dropped
    })
    .await;
    // Then it writes again.
    until(async || {
        two.put(key(2), fresh("{}"));
        written(&two).await;
        let name = crate::cache::redis::name(&key(2), &scope(1, None));
        command::<i64>(&server, &format!("EXISTS {name}")).await == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_reaches_the_other_gateways() {
    let Some(server) = RedisServer::start().await else { return };
    let one = gateway(&server.url());
    let two = gateway(&server.url());
    one.put(key(1), fresh("old"));
    written(&one).await;
    until_up(&two).await;
    until_up(&one).await;
    assert_eq!(get(&two, 1).await.unwrap().body, "old");
    one.remove(&key(1), &scope(1, None));
    written(&one).await;
    assert!(get(&one, 1).await.is_none());
    one.put(key(1), fresh("new"));
    written(&one).await;
    let took = until(async || get(&two, 1).await.is_some_and(|found| found.body == "new")).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    // Its own removal does not come back to it.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(one.stats().entries, 1);
    let _: i64 = command(&server, "DEL {turnpike}:cache-removals").await;
    assert_eq!(get(&two, 1).await.unwrap().body, "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_empties_the_memories_once_anything_was_purged() {
    let Some(server) = RedisServer::start().await else { return };
    let store = gateway(&server.url());
    until_up(&store).await;
    store.purge(Purge::Key(key(77))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    store.put(key(1), fresh("{}"));
    let _: String = command(&server, "FLUSHALL").await;
    until(async || get(&store, 1).await.is_none()).await;
    until(async || {
        store.put(key(1), fresh("{}"));
        written(&store).await;
        command::<i64>(&server, "DBSIZE").await == 1
    })
    .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(get(&store, 1).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_holds_up_few_requests_and_no_write() {
    let Some(server) = RedisServer::start().await else { return };
    let store = gateway_that_waits(&server.url(), 50);
    let other = gateway(&server.url());
    other.put(key(200), fresh("there"));
    written(&other).await;
    until_up(&store).await;
    server.pause();
    let mut waits = Vec::new();
    for number in 0..40 {
        let begin = Instant::now();
        assert!(get(&store, number).await.is_none());
        waits.push(begin.elapsed());
        let begin = Instant::now();
        store.put(key(number), fresh("{}"));
        assert!(begin.elapsed() < Duration::from_millis(20));
        assert!(get(&store, number).await.is_some(), "in memory");
    }
    let longest = waits.iter().max().unwrap();
    assert!(*longest < Duration::from_millis(400), "{longest:?}");
    let held_up = waits.iter().filter(|wait| **wait >= Duration::from_millis(40)).count();
    assert!((1..=6).contains(&held_up), "{held_up} of {waits:?}");
    let stats = store.stats();
    assert_eq!(stats.is_store_up, Some(false));
    assert!(count(&stats.store_errors, "timeout") >= 1, "{stats:?}");
    let purged = store.purge(Purge::All).await;
    assert!(matches!(purged, Err(CacheError::Unreachable(_))), "{purged:?}");
    assert!(get(&store, 1).await.is_none(), "removed here all the same");
    server.resume();
    until_up(&store).await;
    let took = until(async || get(&store, 200).await.is_some()).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    written(&store).await;
    until(async || {
        store.put(key(1), fresh("again"));
        written(&store).await;
        get(&other, 1).await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_is_used_again_when_it_is_there() {
    let Some(server) = RedisServer::start().await else { return };
    let url = server.url();
    let port = server.port;
    let store = gateway(&url);
    until_up(&store).await;
    drop(server);
    let begin = Instant::now();
    for number in 0..20 {
        assert!(get(&store, number).await.is_none());
        store.put(key(number), fresh("{}"));
    }
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    until(async || store.stats().is_store_up == Some(false)).await;
    written(&store).await;
    assert!(get(&store, 1).await.is_some(), "in memory");
    let Some(server) = RedisServer::start_at(port, &[]).await else { return };
    until_up(&store).await;
    until(async || {
        store.put(key(30), fresh("{}"));
        written(&store).await;
        command::<i64>(&server, "DBSIZE").await > 0
    })
    .await;
    let stats = store.stats();
    assert!(count(&stats.store_errors, "connection") > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_never_there_costs_no_request_anything() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = gateway(&format!("redis://user:secret-password@127.0.0.1:{port}"));
    until(async || store.stats().is_store_up == Some(false)).await;
    let begin = Instant::now();
    for number in 0..100 {
        assert!(get(&store, number).await.is_none());
        store.put(key(number), fresh("{}"));
        store.remove(&key(number), &scope(1, None));
    }
    assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    let why = store.purge(Purge::All).await.unwrap_err().to_string();
    assert!(!why.contains("secret") && !format!("{store:?}").contains("secret"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_still_gives_what_it_has() {
    let Some(server) = RedisServer::start().await else { return };
    let store = gateway(&server.url());
    let other = gateway(&server.url());
    other.put(key(1), fresh("there"));
    written(&other).await;
    until_up(&store).await;
    let _: String = command(&server, "CONFIG SET maxmemory-policy noeviction").await;
    let _: String = command(&server, "CONFIG SET maxmemory 1").await;
    store.put(key(2), fresh("{}"));
    written(&store).await;
    let stats = store.stats();
    assert_eq!(count(&stats.store_errors, "full"), 1, "{stats:?}");
    assert_eq!(count(&stats.dropped_writes, "failed"), 1, "{stats:?}");
    assert!(get(&store, 1).await.is_some() && get(&store, 2).await.is_some());
    assert_eq!(store.stats().is_store_up, Some(true));
    let _: String = command(&server, "CONFIG SET maxmemory 0").await;
    until(async || {
        store.put(key(3), fresh("{}"));
        written(&store).await;
        get(&other, 3).await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_too_slow_is_not_waited_for() {
    let Some(server) = RedisServer::start().await else { return };
    let (slow, _forwarder) = slow_port(server.port, Duration::from_millis(150)).await;
    let store = gateway_that_waits(&format!("redis://127.0.0.1:{slow}"), 40);
    gateway(&server.url());
    until(async || store.stats().is_store_up == Some(false)).await;
    let begin = Instant::now();
    for number in 0..100 {
        assert!(get(&store, number).await.is_none());
    }
    assert!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
    // Purges arrive all the same.
    store.put(key(1), fresh("{}"));
    let other = gateway(&server.url());
    until_up(&other).await;
    other.purge(Purge::All).await.unwrap();
    until(async || get(&store, 1).await.is_none()).await;
}

/// Forwards to this port, what comes back later by this.
async fn slow_port(port: u16, delay: Duration) -> (u16, tokio::task::JoinHandle<()>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = listener.local_addr().unwrap().port();
    let forwarder = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let ((mut client_read, mut client_write), (mut server_read, mut server_write)) =
                (client.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut client_read, &mut server_write).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while let Ok(length @ 1..) = server_read.read(&mut buffer).await {
                    tokio::time::sleep(delay).await;
                    if client_write.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (slow, forwarder)
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_no_entries_are_misses() {
    let Some(server) = RedisServer::start().await else { return };
    let store = gateway(&server.url());
    let name = |number: u8| crate::cache::redis::name(&key(number), &scope(1, None));
    let _: String = command(&server, &format!("SET {} nonsense", name(1))).await;
    let _: String = command(&server, &format!("SET {} TPC\u{7f}later", name(2))).await;
    let _: i64 = command(&server, &format!("LPUSH {} a", name(3))).await;
    // An entry of another scope at its name.
    let other = CachedResponse { scope: scope(2, None), ..fresh("{}") };
    let value = crate::cache::codec::encode(&other, None).unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("SET").arg(name(4)).arg(value).query_async(&mut connection).await.unwrap();
    for number in 1..=4 {
        assert!(get(&store, number).await.is_none(), "{number}");
    }
    let stats = store.stats();
    for (reason, expected) in [("damaged", 1), ("version", 1), ("refused", 1)] {
        assert_eq!(count(&stats.store_errors, reason), expected, "{reason}");
    }
    store.put(key(1), fresh("{}"));
    written(&store).await;
    assert!(get(&gateway(&server.url()), 1).await.is_some());
}

#[test]
fn a_url_that_cannot_be_used_is_refused_without_its_password() {
    for url in ["redis://:secret@", "http://u:secret@host", "secret", "redis://:secret@host:port"] {
        let url = Some(Secret::new(url));
        let Err(CacheError::Misconfigured(why)) =
            ResponseStore::new(&CacheOptions { url, ..CacheOptions::default() })
        else {
            panic!("it was taken");
        };
        assert!(!why.contains("secret"), "{why}");
    }
}
