//! Batches whose surroundings fail in the middle: the disk is full, the key is revoked, the process is stopped.
//!
//! Providers count what they get, so that a line that is sent twice is seen. Kills are in `batches`, other gateways in `batches_shared`.

use crate::batches::{CHAT, Client, chats};
use crate::caching::{answering, at, json_answer};
use crate::stages::WHOLE_CHAT;
use crate::support::Gateway;
use crate::support::settings::STANDARD;
use crate::support::small_disk::SmallDisk;
use crate::support::wait::until;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The write of results is tried again each second.
const SEVERAL_TRIES: Duration = Duration::from_secs(3);

/// What a provider has answered is paid for: it is kept until there is room, and no line is sent meanwhile.
#[tokio::test]
async fn a_full_disk_costs_no_line_twice() {
    const LINES: usize = 300;
    let Some(disk) = SmallDisk::mount(2 << 20) else { return };
    let blobs = disk.path().join("blobs");
    let settings = format!("{STANDARD}batches: {{directory: {}, concurrency: 8}}\n", blobs.display());
    let gateway = Gateway::start(&settings);
    let client = Client::new(&gateway);
    let answer = json_answer(&WHOLE_CHAT.replace("hello", &"hello ".repeat(5000)));
    let (upstream, calls) = answering(move |_, _| answer.clone()).await;
    let file = client.upload(chats(LINES)).await;
    let made = client.create(&file, CHAT, &at(&upstream, "openai")).await;
    let sent = || calls.load(Ordering::SeqCst);
    until("a full disk", async || gateway.log().contains("no space left").then_some(())).await;
    // Lines in flight may end; then the provider is left alone however often the write is tried again.
    let mut last = (sent(), Instant::now());
    until("the provider to be left alone", async || {
        if last.0 != sent() {
            last = (sent(), Instant::now());
        }
        (last.1.elapsed() > SEVERAL_TRIES).then_some(())
    })
    .await;
    assert!(sent() < LINES, "all were sent");
    let batch = client.batch(&made["id"]).await;
    assert_eq!(batch["status"], "in_progress", "{batch}");
    disk.grow(64 << 20);
    let batch = client.finished(&made["id"]).await;
    let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
    assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
    assert_eq!(client.lines(&batch["output_file_id"]).await.len(), LINES);
    assert_eq!((sent(), &batch["lines_sent_again"]), (LINES, &json!(0)), "{batch}");
}

#[tokio::test]
async fn a_process_that_is_stopped_sends_no_line_twice() {
    const LINES: usize = 600;
    let mut gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 4}}\n"));
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let made = {
        let client = Client::new(&gateway);
        let file = client.upload(chats(LINES)).await;
        client.create(&file, CHAT, &at(&upstream, "openai")).await
    };
    until("some lines", async || (calls.load(Ordering::SeqCst) > 50).then_some(())).await;
    gateway.terminate();
    // Not waited for: its id is still that of the process that has ended.
    let state = format!("/proc/{}/stat", gateway.id());
    until("the gateway's end", async || {
        std::fs::read_to_string(&state).unwrap().contains(") Z ").then_some(())
    })
    .await;
    gateway = gateway.killed_and_started_again();
    let client = Client::new(&gateway);
    let batch = client.finished(&made["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": LINES, "completed": LINES, "failed": 0}), "{batch}");
    assert_eq!(client.lines(&batch["output_file_id"]).await.len(), LINES);
    assert_eq!((calls.load(Ordering::SeqCst), &batch["lines_sent_again"]), (LINES, &json!(0)), "{batch}");
}

#[tokio::test]
async fn lines_of_a_key_that_is_revoked_are_errors() {
    const LINES: usize = 3000;
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 4}}\n"));
    let body = json!({"name": "a", "scopes": ["completions.write"]});
    let made =
        gateway.control(Method::POST, "/v1/api-keys/workspace/service").json(&body).send().await.unwrap();
    let key: Value = made.json().await.unwrap();
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let owner = Client { gateway: &gateway, key: key["key"].as_str().unwrap() };
    let client = Client::new(&gateway);
    let file = owner.upload(chats(LINES)).await;
    let batch = owner.create(&file, CHAT, &at(&upstream, "openai")).await;
    until("a line", async || (calls.load(Ordering::SeqCst) > 0).then_some(())).await;
    let path = format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    assert_eq!(gateway.control(Method::DELETE, &path).send().await.unwrap().status(), 200);
    // Another key of the workspace sees how it ends.
    let batch = client.finished(&batch["id"]).await;
    let sent = calls.load(Ordering::SeqCst);
    let counts = json!({"total": LINES, "completed": sent, "failed": LINES - sent});
    assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
    let failed = client.lines(&batch["error_file_id"]).await;
    assert!(!failed.is_empty() && failed.values().all(|line| line["response"]["status_code"] == 401));
}
