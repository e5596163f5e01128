//! Batches that a provider runs and that end late, or badly: the window is over, the input is gone, results come slowly, there is no place.
//!
//! An Anthropic of the tests, which does what they want when they want it. Batches that go well are in `provider_batches`.

use crate::batches::{CHAT, Client, chats, line};
use crate::provider_batches::made;
use crate::support::Gateway;
use crate::support::provider::Provider;
use crate::support::settings::{JOBS, STANDARD};
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// What the provider does.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    /// Its batches have ended.
    is_ended: bool,
    /// It has no batches any more.
    is_gone: bool,
    /// It sends one result, and then nothing.
    is_slow: bool,
}

fn response(status: &str, body: &str, more: usize) -> Vec<u8> {
    let length = body.len() + more;
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn result(number: u32) -> String {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    json!({"custom_id": number.to_string(), "result": {"type": "succeeded", "message": message}}).to_string()
        + "\n"
}

/// An Anthropic whose batches have three lines each.
async fn anthropic() -> (Provider, Arc<Mutex<Wanted>>) {
    let wanted = Arc::<Mutex<Wanted>>::default();
    let current = Arc::clone(&wanted);
    let provider = Provider::start(move |request| {
        let Wanted { is_ended, is_gone, is_slow } = *current.lock();
        if is_gone {
            let body = json!({"type": "error", "error": {"type": "not_found_error", "message": "gone"}});
            return response("404 Not Found", &body.to_string(), 0);
        }
        if request.start.contains("/results") {
            return if is_slow {
                response("200 OK", &result(1), 1000)
            } else {
                response("200 OK", &(1..=3).map(result).collect::<String>(), 0)
            };
        }
        let status = if is_ended { "ended" } else { "in_progress" };
        let url = is_ended.then_some("https://example.com/results");
        let body = json!({
            "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "results_url": url,
        });
        response("200 OK", &body.to_string(), 0)
    })
    .await;
    (provider, wanted)
}

/// A gateway with this provider.
fn gateway_at(provider: &Provider) -> Gateway {
    let own =
        format!("  late: {{provider: anthropic, api_key: sk-1, custom_host: '{}'}}\n", provider.base_url());
    Gateway::start(&JOBS.replace("custom_hosts:", &format!("{own}custom_hosts:")))
}

fn three_lines() -> Vec<String> {
    let body =
        json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    (1..=3).map(|n| line(&format!("line-{n}"), CHAT, &body)).collect()
}

/// A batch of three lines whose job runs.
async fn running(client: &Client<'_>, provider: &Provider) -> Value {
    let batch = made(client, "@late", &three_lines()).await;
    until("the job to be looked at", async || {
        let requests = provider.received();
        requests.iter().any(|request| request.start.starts_with("GET ")).then_some(())
    })
    .await;
    batch["id"].clone()
}

/// From the next write on, the database has another value in a batch's record than the process that writes it.
fn falsify(gateway: &Gateway, path: &str, value: i64) -> Connection {
    let database = Connection::open(gateway.folder().join("data/turnpike.db")).unwrap();
    let trigger = format!(
        "CREATE TRIGGER falsify AFTER UPDATE ON records WHEN NEW.kind = 'batch' BEGIN \
         UPDATE records SET body = json_set(body, '{path}', {value}) WHERE kind = NEW.kind AND id = NEW.id; END"
    );
    database.execute_batch(&trigger).unwrap();
    database
}

/// Kills the gateway and starts it again after the database has the false value.
async fn restarted(gateway: Gateway, database: Connection, path: &str, value: i64) -> Gateway {
    until("the batch to be written", async || {
        let select = format!(
            "SELECT count(*) FROM records WHERE kind = 'batch' AND json_extract(body, '{path}') = {value}"
        );
        database
            .query_row(&select, [], |row| row.get::<_, i64>(0))
            .is_ok_and(|count| count == 1)
            .then_some(())
    })
    .await;
    gateway.killed_and_started_again()
}

fn input_of(gateway: &Gateway) -> PathBuf {
    let folder = gateway.folder().join("data/blobs/files");
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[tokio::test]
async fn results_of_a_job_that_ended_while_the_gateway_was_away_are_kept() {
    for (path, value, status) in [("$.expires", 1000, "expired"), ("$.cancelling", 1000, "cancelled")] {
        let (provider, wanted) = anthropic().await;
        let gateway = gateway_at(&provider);
        let id = running(&Client::new(&gateway), &provider).await;
        if status == "cancelled" {
            let client = Client::new(&gateway);
            let cancel = format!("/batches/{}/cancel", id.as_str().unwrap());
            assert_eq!(client.read(client.call(Method::POST, &cancel)).await.0, 200);
        }
        let database = falsify(&gateway, path, value);
        let gateway = restarted(gateway, database, path, value).await;
        wanted.lock().is_ended = true;
        let client = Client::new(&gateway);
        let batch = client.finished(&id).await;
        let counts = json!({"total": 3, "completed": 3, "failed": 0});
        assert_eq!((&batch["status"], &batch["request_counts"]), (&json!(status), &counts), "{batch}");
        let cancels = provider.received().iter().filter(|request| request.start.contains("/cancel")).count();
        assert!(cancels > 0, "the job was not cancelled");
    }
}

#[tokio::test]
async fn lines_of_a_job_that_is_gone_when_the_window_is_over_have_expired() {
    let (provider, wanted) = anthropic().await;
    let gateway = gateway_at(&provider);
    let id = running(&Client::new(&gateway), &provider).await;
    let now = jiff::Timestamp::now().as_second();
    let database = falsify(&gateway, "$.expires", now);
    let gateway = restarted(gateway, database, "$.expires", now).await;
    wanted.lock().is_gone = true;
    let client = Client::new(&gateway);
    let batch = client.finished(&id).await;
    assert_eq!(batch["status"], "expired", "{batch}");
    let failed = client.lines(&batch["error_file_id"]).await;
    assert_eq!(failed.len(), 3, "{batch}");
    assert!(failed.values().all(|line| line["error"]["code"] == "batch_expired"), "{failed:?}");
}

#[tokio::test]
async fn results_are_written_while_the_provider_sends_the_others() {
    let (provider, wanted) = anthropic().await;
    *wanted.lock() = Wanted { is_ended: true, is_slow: true, ..Wanted::default() };
    let gateway = gateway_at(&provider);
    let batch = made(&Client::new(&gateway), "@late", &three_lines()).await;
    let id = batch["id"].as_str().unwrap().rsplit('_').next().unwrap();
    let parts = gateway.folder().join("data/blobs/batches").join(id).join("parts");
    until("the first result to be written", async || {
        std::fs::read_dir(&parts).is_ok_and(|mut parts| parts.next().is_some()).then_some(())
    })
    .await;
    let gateway = gateway.killed_and_started_again();
    wanted.lock().is_slow = false;
    let client = Client::new(&gateway);
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 3, "completed": 3, "failed": 0}), "{batch}");
}

#[tokio::test]
async fn a_providers_batch_without_its_input_fails_and_its_job_is_cancelled() {
    let (provider, wanted) = anthropic().await;
    let gateway = gateway_at(&provider);
    let id = running(&Client::new(&gateway), &provider).await;
    std::fs::remove_file(input_of(&gateway)).unwrap();
    wanted.lock().is_ended = true;
    let client = Client::new(&gateway);
    let batch = client.finished(&id).await;
    let error = &batch["errors"]["data"][0];
    assert_eq!((&batch["status"], &error["code"]), (&json!("failed"), &json!("invalid_file")), "{batch}");
    assert!(provider.received().iter().any(|request| request.start.contains("/cancel")));
}

#[tokio::test]
async fn a_batch_without_its_input_fails_with_what_was_done() {
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 4}}\n"));
    let client = Client::new(&gateway);
    let slow = json!({"model": "gpt-4o-mini?ttft=600000", "messages": [{"role": "user", "content": "x"}]});
    let file = client.upload(chats(2) + &line("slow", CHAT, &slow)).await;
    let config = json!({"provider": "@emulator", "request_timeout": 900_000});
    let made = client.create(&file, CHAT, &config).await;
    until("two lines to be done", async || {
        (client.batch(&made["id"]).await["request_counts"]["completed"] == 2).then_some(())
    })
    .await;
    std::fs::remove_file(input_of(&gateway)).unwrap();
    let gateway = gateway.killed_and_started_again();
    let client = Client::new(&gateway);
    let batch = client.finished(&made["id"]).await;
    let error = &batch["errors"]["data"][0];
    assert_eq!((&batch["status"], &error["code"]), (&json!("failed"), &json!("invalid_file")), "{batch}");
    assert!(batch["failed_at"].is_u64(), "{batch}");
    assert_eq!(client.lines(&batch["output_file_id"]).await.len(), 2);
}

#[tokio::test]
async fn batches_that_wait_keep_no_other_from_running_nor_from_being_cancelled() {
    // Places of a workspace for batches whose lines the gateway sends.
    const PLACES: usize = 16;
    let (provider, _wanted) = anthropic().await;
    let gateway = gateway_at(&provider);
    let client = Client::new(&gateway);
    for _ in 0..PLACES {
        made(&client, "@late", &three_lines()).await;
    }
    until("all jobs to be created", async || {
        let requests = provider.received();
        let created = requests.iter().filter(|request| request.start.starts_with("POST ")).count();
        (created == PLACES).then_some(())
    })
    .await;
    let slow = json!({"model": "gpt-4o-mini?ttft=600000", "messages": [{"role": "user", "content": "x"}]});
    let config = json!({"provider": "@openai", "request_timeout": 900_000});
    let file = client.upload(chats(1)).await;
    let quick = client.create(&file, CHAT, &json!({"provider": "@openai"})).await;
    assert_eq!(client.finished(&quick["id"]).await["status"], "completed");
    // One more than there are places for.
    let file = client.upload(line("slow", CHAT, &slow)).await;
    let mut last = Value::Null;
    for _ in 0..=PLACES {
        last = client.create(&file, CHAT, &config).await;
    }
    let cancel = format!("/batches/{}/cancel", last["id"].as_str().unwrap());
    assert_eq!(client.read(client.call(Method::POST, &cancel)).await.0, 200);
    assert_eq!(client.finished(&last["id"]).await["status"], "cancelled");
}
