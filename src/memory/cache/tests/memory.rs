//! A store without a shared one: its memory.

use super::*;
use crate::cache::{CacheOptions, Purge, ResponseStore};
use futures_util::FutureExt as _;
use std::time::Duration;

fn store(max_bytes: u64) -> ResponseStore {
    let options = CacheOptions { max_bytes, max_entry_bytes: 100_000, ..CacheOptions::default() };
    ResponseStore::new(&options).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// What is kept of scope 1; it must be there without waiting.
fn found(store: &ResponseStore, number: u8) -> Option<Arc<CachedResponse>> {
    store.get(&key(number), &scope(1, None), at(0)).now_or_never().unwrap()
}

#[test]
fn a_response_is_found_at_once_until_it_expires() {
    let store = store(1 << 20);
    assert!(found(&store, 1).is_none());
    store.put(key(1), entry("{}"));
    assert_eq!(*found(&store, 1).unwrap(), entry("{}"));
    assert!(found(&store, 2).is_none());
    let get = |seconds: i64| store.get(&key(1), &scope(1, None), at(seconds)).now_or_never().unwrap();
    assert!(get(3599).is_some());
    assert!(get(3600).is_none());
    assert!(get(-1).is_some(), "a clock that was set back");
    store.put(key(1), entry("[]"));
    assert_eq!(found(&store, 1).unwrap().body, "[]");
}

#[test]
fn a_response_of_another_scope_is_not_found() {
    let store = store(1 << 20);
    store.put(key(1), entry("{}"));
    for other in [scope(2, None), scope(1, Some("")), scope(0, None)] {
        assert!(store.get(&key(1), &other, at(0)).now_or_never().unwrap().is_none());
    }
}

#[test]
fn what_is_too_large_or_has_expired_is_not_kept() {
    let store = store(1 << 20);
    store.put(key(1), entry(&"x".repeat(100_001)));
    store.put(key(2), CachedResponse { expires_at: at(0), ..entry("{}") });
    assert!(found(&store, 1).is_none() && found(&store, 2).is_none());
    store.put(key(3), entry(&"x".repeat(100_000)));
    assert!(found(&store, 3).is_some());
    assert_eq!(store.stats().dropped_writes[0], ("too_large", 1));
}

#[tokio::test]
async fn an_expired_response_leaves_the_memory() {
    let store = store(1 << 20);
    store.put(key(1), CachedResponse { expires_at: start() + SignedDuration::from_millis(1), ..entry("{}") });
    // Some seconds: the memory looks for them once a second.
    let begin = std::time::Instant::now();
    while store.stats().entries > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stats = store.stats();
    assert_eq!(stats.bytes, 0);
    assert_eq!(stats.evictions, [("size", 0), ("expired", 1), ("removed", 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_is_bounded_by_bytes_and_keeps_what_is_requested() {
    let store = store(1 << 20);
    // It cannot be compressed.
    let body = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..8000).map(|_| random.alphanumeric()).collect::<String>()
    };
    let number = |index: u64| {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&index.to_le_bytes());
        CacheKey(key)
    };
    let scope = scope(1, None);
    for index in 0..20 {
        store.put(number(index), entry(&body(index)));
    }
    for index in 20..1_000 {
        for frequent in 0..20 {
            store.get(&number(frequent), &scope, at(0)).await;
        }
        store.put(number(index), entry(&body(index)));
        store.stats();
    }
    assert!(store.flush(Duration::from_secs(60)).await);
    let stats = store.stats();
    assert!(stats.bytes <= 1 << 20 && stats.entries > 100, "{stats:?}");
    assert!(stats.entries * 8000 < stats.bytes && stats.bytes < stats.entries * 9000, "{stats:?}");
    assert_eq!(stats.evictions[0], ("size", 1_000 - stats.entries));
    let mut kept = 0;
    for frequent in 0..20 {
        kept += usize::from(store.get(&number(frequent), &scope, at(0)).await.is_some());
    }
    assert_eq!(kept, 20, "those that were requested again and again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_kept_compressed_and_is_the_same_again() {
    let store = store(1 << 20);
    let whole = streamed(500);
    store.put(key(1), whole.clone());
    store.put(key(2), entry("{}"));
    let before = store.stats().bytes;
    assert!(before > whole.body.len() as u64);
    assert!(store.flush(Duration::from_secs(60)).await);
    let after = store.stats().bytes;
    assert!(after * 3 < before, "{after} of {before}");
    for _ in 0..2 {
        let found = store.get(&key(1), &whole.scope, at(0)).now_or_never().unwrap();
        assert_eq!(*found.unwrap(), whole);
    }
    assert_eq!(store.stats().entries, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_what_it_concerns_and_counts_it() {
    let scopes = [scope(1, None), scope(1, Some("a")), scope(1, Some("b")), scope(2, Some("a"))];
    let one = Uuid::from_u128(1);
    let a = "a".into();
    let purges = [
        (Purge::Key(key(3)), vec![3]),
        (Purge::Key(key(200)), vec![]),
        (Purge::OwnKey { workspace: one, key: key(2) }, vec![2]),
        (Purge::OwnKey { workspace: one, key: key(3) }, vec![]),
        (Purge::Namespace { workspace: one, namespace: a }, vec![1, 5, 9]),
        (Purge::Workspace(one), vec![0, 1, 2, 4, 5, 6, 8, 9, 10]),
        (Purge::All, (0..12).collect()),
        (Purge::Workspace(Uuid::nil()), vec![]),
    ];
    for (purge, expected) in purges {
        let store = store(1 << 20);
        for number in 0..12_u8 {
            let scope = scopes[usize::from(number % 4)].clone();
            store.put(key(number), CachedResponse { scope, ..entry("{}") });
        }
        assert_eq!(store.purge(purge.clone()).await, Ok(expected.len() as u64), "{purge:?}");
        for number in 0..12_u8 {
            let scope = &scopes[usize::from(number % 4)];
            let is_there = store.get(&key(number), scope, at(0)).await.is_some();
            assert_eq!(is_there, !expected.contains(&number), "{purge:?} {number}");
        }
        assert_eq!(store.stats().evictions[2], ("removed", expected.len() as u64));
    }
}

#[test]
fn a_removed_response_is_gone_and_may_be_put_again() {
    let store = store(1 << 20);
    store.put(key(1), entry("{}"));
    store.remove(&key(1), &scope(1, None));
    assert!(found(&store, 1).is_none());
    store.put(key(1), entry("[]"));
    assert_eq!(found(&store, 1).unwrap().body, "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_purged_while_it_is_compressed_does_not_come_back() {
    let store = store(64 << 20);
    let stream = streamed(200);
    for round in 0..50_u8 {
        store.put(key(round), stream.clone());
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        store.purge(Purge::All).await.unwrap();
    }
    assert!(store.flush(Duration::from_secs(60)).await);
    assert_eq!(store.stats().entries, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_counted_is_in_the_metrics() {
    let store = store(1 << 20);
    let registry = prometheus::Registry::new();
    store.register(&registry).unwrap();
    assert!(store.register(&registry).is_err(), "twice");
    store.put(key(1), entry("{}"));
    store.put(key(2), entry("{}"));
    store.put(key(3), entry(&"x".repeat(100_001)));
    store.purge(Purge::Key(key(2))).await.unwrap();
    let text = || prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for _ in 0..2 {
        let text = text();
        for line in [
            "turnpike_cache_entries 1",
            "turnpike_cache_evictions_total{reason=\"removed\"} 1",
            "turnpike_cache_evictions_total{reason=\"size\"} 0",
            "turnpike_cache_dropped_writes_total{reason=\"too_large\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("turnpike_cache_store"), "there is no shared store: {text}");
    }
    drop(store);
    assert!(text().contains("turnpike_cache_entries"));
}
