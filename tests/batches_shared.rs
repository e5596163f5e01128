//! Two gateways with one store and one place for files: either takes what the other has made, and goes on with what it has left.
//!
//! What a batch of one gateway does is in `batches`. The store is PostgreSQL; without one these tests are skipped.

use crate::batches::{CHAT, Client, chats, line};
use crate::provider_batches;
use crate::support::emulator::Emulator;
use crate::support::exclusive::exclusive;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, postgres_server, s3_server, stores};
use axum::http::StatusCode;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The settings of gateways that share a store, and the folder that they share. `None` where there is no PostgreSQL.
fn shared_settings() -> Option<(String, tempfile::TempDir)> {
    let server = postgres_server::shared()?;
    let folder = tempfile::tempdir().unwrap();
    let batches = format!("batches: {{directory: {}, concurrency: 4}}\n", folder.path().display());
    Some((format!("{STANDARD}{batches}{}", stores::settings(&server.new_database(), "")), folder))
}

/// Two gateways, and the folder that both have.
fn two_gateways() -> Option<(Gateway, Gateway, tempfile::TempDir)> {
    let (settings, folder) = shared_settings()?;
    Some((Gateway::start(&settings), Gateway::start(&settings), folder))
}

fn provider() -> Value {
    json!({"provider": "@emulator"})
}

/// Chats that take their time, `line-1` and on.
fn slow_chats(count: usize) -> String {
    let body =
        json!({"model": "gpt-4o-mini?tokens=2&latency=40", "messages": [{"role": "user", "content": "x"}]});
    (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &body) + "\n").collect()
}

#[tokio::test]
async fn what_one_gateway_has_made_the_other_one_has_at_once() {
    let Some((first, second, _folder)) = two_gateways() else { return };
    let first = Client::new(&first);
    let second = Client::new(&second);
    // As behind a load balancer: each request goes to the other one, without a pause.
    for _ in 0..10 {
        let file = first.upload(chats(1)).await;
        let made = second.create(&file, CHAT, &provider()).await;
        let (status, batch) = first.get(&format!("/batches/{}", made["id"].as_str().unwrap())).await;
        assert_eq!((status.as_u16(), &batch["id"]), (200, &made["id"]), "{batch}");
        let finished = first.finished(&made["id"]).await;
        assert_eq!(finished["status"], "completed", "{finished}");
        assert_eq!(second.lines(&finished["output_file_id"]).await.len(), 1);
    }
}

#[tokio::test]
async fn the_batches_of_a_gateway_that_is_killed_are_taken_over() {
    const LINES: usize = 150;
    let _exclusive = exclusive().await;
    let Some((settings, _folder)) = shared_settings() else { return };
    let killed = Gateway::start(&settings);
    let mut made = Vec::new();
    for _ in 0..4 {
        let client = Client::new(&killed);
        let file = client.upload(slow_chats(LINES)).await;
        made.push(client.create(&file, CHAT, &provider()).await);
    }
    until("some lines", async || {
        let done = killed.metric("turnpike_batch_lines_total{result=\"completed\"}").await;
        done.filter(|lines| *lines >= 10.0)
    })
    .await;
    let left = Gateway::start(&settings);
    killed.signal("KILL");
    killed.ended().await;
    let client = Client::new(&left);
    let wanted: BTreeSet<String> = (1..=LINES).map(|n| format!("line-{n}")).collect();
    for batch in made {
        let batch = client.finished(&batch["id"]).await;
        let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
        assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
        let lines = client.lines(&batch["output_file_id"]).await;
        assert_eq!(lines.into_keys().collect::<BTreeSet<_>>(), wanted);
    }
}

/// The files of both are in a bucket, which fails for a while.
#[tokio::test]
async fn a_bucket_has_the_files_of_all_gateways() {
    const LINES: usize = 400;
    let Some(server) = postgres_server::shared() else { return };
    let (bucket, endpoint) = s3_server::start().await;
    let batches = format!(
        "batches:\n  concurrency: 4\n  s3:\n    bucket: bucket\n    prefix: here\n    endpoint: {endpoint}\n    \
         credentials: {{access_key_id: an-id, secret_access_key: a-secret}}\n"
    );
    let settings = format!("{STANDARD}{batches}{}", stores::settings(&server.new_database(), ""));
    let first = Gateway::start(&settings);
    let second = Gateway::start(&settings);
    let first = Client::new(&first);
    let second = Client::new(&second);
    let keys = || bucket.lock().unwrap().objects.keys().cloned().collect::<Vec<_>>();
    let file = first.upload(slow_chats(LINES)).await;
    assert!(keys().len() == 1 && keys()[0].starts_with("here/files/"), "{:?}", keys());
    let made = second.create(&file, CHAT, &provider()).await;
    until("some results in the bucket", async || (keys().len() > 1).then_some(())).await;
    let before = bucket.lock().unwrap().requests.len();
    bucket.lock().unwrap().broken = Some(StatusCode::SERVICE_UNAVAILABLE);
    until("requests that fail", async || (bucket.lock().unwrap().requests.len() > before + 2).then_some(()))
        .await;
    bucket.lock().unwrap().broken = None;
    let batch = first.finished(&made["id"]).await;
    let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
    assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
    assert_eq!(first.lines(&batch["output_file_id"]).await.len(), LINES);
    for id in [&file["id"], &batch["output_file_id"]] {
        let deleted = first.call(Method::DELETE, &format!("/files/{}", id.as_str().unwrap()));
        assert_eq!(first.read(deleted).await.0, 200);
    }
    until("an empty bucket", async || keys().is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_batch_is_cancelled_at_the_gateway_that_does_not_run_it() {
    let Some((first, second, _folder)) = two_gateways() else { return };
    let runs = Client::new(&first);
    let other = Client::new(&second);
    let file = runs.upload(slow_chats(2000)).await;
    let made = runs.create(&file, CHAT, &provider()).await;
    until("a line", async || {
        let batch = other.batch(&made["id"]).await;
        batch["request_counts"]["completed"].as_u64().filter(|lines| *lines > 0)
    })
    .await;
    let cancel = format!("/batches/{}/cancel", made["id"].as_str().unwrap());
    let (status, cancelling) = other.read(other.call(Method::POST, &cancel)).await;
    assert_eq!((status.as_u16(), &cancelling["status"]), (200, &json!("cancelling")), "{cancelling}");
    let batch = runs.finished(&made["id"]).await;
    let done = batch["request_counts"]["completed"].as_u64().unwrap();
    assert!(batch["status"] == "cancelled" && done < 2000, "{batch}");
    assert_eq!(other.lines(&batch["output_file_id"]).await.len() as u64, done);
}

#[tokio::test]
async fn a_providers_batch_of_a_gateway_that_is_killed_is_taken_over() {
    const LINES: usize = 20;
    let _exclusive = exclusive().await;
    let Some(server) = postgres_server::shared() else { return };
    // One that is not killed with its gateway.
    let emulator = Emulator::start(None);
    let folder = tempfile::tempdir().unwrap();
    let provider = format!(
        "providers:\n  mistral: {{provider: mistral-ai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:{}/v1'}}\n",
        emulator.port
    );
    let keys = format!("auth: {{keys: [{{name: tests, key: {KEY}}}]}}\nserver: {{threads: 2}}\n");
    let batches = format!("batches: {{directory: {}}}\n", folder.path().display());
    let settings = format!("{keys}{provider}{batches}{}", stores::settings(&server.new_database(), ""));
    let killed = Gateway::start(&settings);
    let body =
        json!({"model": "mistral-small-latest?tokens=5", "messages": [{"role": "user", "content": "x"}]});
    let lines: Vec<String> = (1..=LINES).map(|n| line(&format!("line-{n}"), CHAT, &body)).collect();
    let batch = provider_batches::made(&Client::new(&killed), "@mistral", &lines).await;
    let left = Gateway::start(&settings);
    killed.signal("KILL");
    killed.ended().await;
    let client = Client::new(&left);
    let batch = client.finished(&batch["id"]).await;
    let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
    assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
    assert_eq!(client.lines(&batch["output_file_id"]).await.len(), LINES);
    // Its job has a name: it was created once.
    let jobs = client.call(Method::GET, "/proxy/batch/jobs").header("x-gateway-provider", "@mistral");
    let (status, jobs) = client.read(jobs).await;
    assert_eq!((status.as_u16(), jobs["data"].as_array().unwrap().len()), (200, 1), "{jobs}");
}
