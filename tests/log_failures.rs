//! Requests under load while the log store is full, slow or held up: none fails or waits, memory has its bound, and what was spooled
//! arrives once.
//!
//! A log store that is gone is tested in `logs.rs`, the writer alone beside the code.

use crate::support::client::{chat, hello, new_trace};
use crate::support::settings::STANDARD;
use crate::support::small_disk::SmallDisk;
use crate::support::{Gateway, postgres_server, wait};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::Value;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Bodies fill the queue and the disk faster than rows.
const TEXT_BYTES: usize = 20_000;

/// Sends this many requests, eight at a time, each with a trace id of its own and a long body; returns the trace ids. The
/// slowest may take a second.
async fn load(gateway: &Gateway, requests: usize) -> Vec<String> {
    let clients = (0..8).map(|client| async move {
        let mut traces = Vec::new();
        for number in 0..requests / 8 {
            let trace = new_trace();
            let mut body = hello(false);
            // Different, so that it does not compress to nothing.
            let text: String = (0..TEXT_BYTES / 8)
                .map(|at| format!("{:08x}", (at * 2_654_435_761 + number * 40_503 + client) & 0xffff_ffff))
                .collect();
            body["messages"][0]["content"] = text.into();
            let began = Instant::now();
            let response = chat(gateway, &trace, &body).send().await.unwrap();
            assert_eq!(response.status(), 200);
            response.bytes().await.unwrap();
            assert!(began.elapsed() < Duration::from_secs(5), "a request took {:?}", began.elapsed());
            traces.push(trace);
        }
        traces
    });
    join_all(clients).await.into_iter().flatten().collect()
}

/// All logs, page by page.
async fn logged(gateway: &Gateway) -> Option<Vec<String>> {
    let mut traces = Vec::new();
    for page in 0.. {
        let path = format!("/v1/logs?page_size=200&current_page={page}");
        let response = gateway.control(Method::GET, &path).send().await.unwrap();
        if response.status() != 200 {
            return None;
        }
        let body: Value = response.json().await.unwrap();
        let data = body["data"].as_array().unwrap();
        traces.extend(data.iter().map(|log| log["trace_id"].as_str().unwrap().to_owned()));
        if data.len() < 200 {
            break;
        }
    }
    Some(traces)
}

/// Waits until each of these has its log, and checks that none has two. On a machine that is too slow to take rows out of the queue, some
/// have none: those are counted.
async fn all_arrived_once(gateway: &Gateway, sent: &[String]) {
    let dropped = async |reason: &str| {
        let metric = format!("turnpike_ledger_rows_dropped_total{{reason=\"{reason}\"}}");
        gateway.metric(&metric).await.unwrap_or_default() as usize
    };
    let counted = dropped("queue_full").await;
    // Pages that are read while rows arrive may have one twice, so they are read again in the end.
    wait::until("a log of each", async || {
        let found: HashSet<String> = logged(gateway).await?.into_iter().collect();
        (found.len() + counted >= sent.len()).then_some(())
    })
    .await;
    let found = logged(gateway).await.unwrap();
    let unique: HashSet<&String> = found.iter().collect();
    assert_eq!((found.len() + counted, unique.len() + counted), (sent.len(), sent.len()));
    assert!(unique.iter().all(|trace| sent.contains(trace)));
    for reason in ["spool_full", "spool_failed", "refused"] {
        assert_eq!(dropped(reason).await, 0, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_store_on_a_full_disk_stops_no_request_and_gets_its_rows_later() {
    let Some(disk) = SmallDisk::mount(2 << 20) else { return };
    let logs = format!("logs: {{url: 'sqlite://{}/logs.db', payloads: all}}\n", disk.path().display());
    let gateway = Gateway::start(&format!("{STANDARD}{logs}"));
    let mut sent = Vec::new();
    while gateway.metric("turnpike_ledger_available").await != Some(0.0) {
        sent.extend(load(&gateway, 80).await);
        assert!(sent.len() < 4_000, "the disk is never full");
    }
    sent.extend(load(&gateway, 160).await);
    wait::until("rows in the spool", async || {
        (gateway.metric("turnpike_ledger_rows_spooled_total").await >= Some(160.0)).then_some(())
    })
    .await;
    // What is on the disk can still be read.
    assert!(logged(&gateway).await.is_some());
    disk.grow(64 << 20);
    all_arrived_once(&gateway, &sent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_store_that_is_held_up_costs_no_memory_beyond_its_bound() {
    let Some(server) = postgres_server::shared() else { return };
    let url = server.new_database();
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let logs = format!("logs: {{url: '{url}', payloads: all, queue_max_bytes: 2097152}}\n");
    let gateway = Gateway::start(&format!("{STANDARD}{logs}"));
    let mut sent = load(&gateway, 80).await;
    wait::until("the first logs", async || {
        logged(&gateway).await.is_some_and(|found| found.len() == 80).then_some(())
    })
    .await;
    let (before, _) = gateway.memory();
    // The database holds up every write for six seconds.
    let held = std::thread::spawn(move || {
        let lock = "BEGIN; LOCK TABLE log_rows IN EXCLUSIVE MODE; SELECT pg_sleep(6); COMMIT";
        server.sql(&database, lock)
    });
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        sent.extend(load(&gateway, 80).await);
        let queue = gateway.metric("turnpike_ledger_queue_bytes").await.unwrap();
        assert!(queue <= 2_097_152.0, "{queue}");
    }
    assert!(gateway.metric("turnpike_ledger_rows_spooled_total").await > Some(0.0));
    let (after, _) = gateway.memory();
    assert!(after < before + 96 * 1024, "{before} KiB before, {after} KiB after {} requests", sent.len());
    assert!(held.join().unwrap());
    all_arrived_once(&gateway, &sent).await;
}
