//! Batches that Bedrock, Vertex AI and Fireworks run in jobs of their own, whose input and output are in buckets and datasets.
//!
//! The emulator plays the clouds' sides. What holds for every provider is in `provider_batches`.

use crate::batches::{CHAT, Client, line};
use crate::provider_batches::{create, made, upload};
use crate::support::Gateway;
use crate::support::emulator::Emulator;
use crate::support::settings::JOBS;
use crate::support::wait::until;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const CLAUDE: &str = "anthropic.claude-3-5-haiku-20241022-v1:0";

fn chat(model: &str, text: &str) -> Value {
    json!({"model": format!("{model}?tokens=5"), "messages": [{"role": "user", "content": text}], "max_tokens": 50})
}

/// So many lines: `line-1` cannot be translated, `line-2` is refused by the provider.
fn lines(model: &str, count: usize) -> Vec<String> {
    let body = |n| match n {
        1 => json!({"model": format!("{model}?tokens=5"), "messages": "none"}),
        2 => chat(model, "Please refuse this line."),
        n => chat(model, &format!("hello {n}")),
    };
    (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &body(n))).collect()
}

#[tokio::test]
async fn each_cloud_runs_a_batch_from_its_lines_to_its_files() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let clouds = [
        // One line less, `line-1`, is in the job: as many as Bedrock takes at the least.
        ("@bedrock", CLAUDE, 101),
        ("@vertex", "gemini-2.5-flash", 4),
        ("@vertex", "anthropic.claude-3-5-haiku@20241022", 4),
        ("@fireworks", "accounts/fireworks/models/llama-v3p1-8b-instruct", 4),
    ];
    for (slug, model, count) in clouds {
        let batch = made(&client, slug, &lines(model, count)).await;
        let batch = client.finished(&batch["id"]).await;
        assert_eq!((&batch["status"], &batch["errors"]), (&json!("completed"), &Value::Null), "{batch}");
        let counts = json!({"total": count, "completed": count - 2, "failed": 2});
        assert_eq!(batch["request_counts"], counts, "{batch}");
        assert_eq!(batch["lines_sent_again"], 0);
        let output = client.lines(&batch["output_file_id"]).await;
        assert_eq!(output.len(), count - 2, "{slug} {model}");
        for n in 3..=count {
            let line = &output[&format!("line-{n}")];
            let body = &line["response"]["body"];
            assert_eq!(
                (&line["response"]["status_code"], &body["object"]),
                (&json!(200), &json!("chat.completion")),
                "{line}"
            );
            assert!(body["choices"][0]["message"]["content"].is_string(), "{line}");
            assert!(body["usage"]["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{line}");
        }
        let failed = client.lines(&batch["error_file_id"]).await;
        assert_eq!(failed["line-1"]["response"]["body"]["error"]["param"], "messages", "{failed:?}");
        let refused = &failed["line-2"]["response"];
        assert_eq!(refused["status_code"], 400, "{refused}");
        let message = refused["body"]["error"]["message"].as_str().unwrap();
        assert!(message.contains("The emulator refuses this line."), "{slug}: {message}");
    }
}

#[tokio::test]
async fn a_cancelled_job_keeps_what_its_cloud_has_done() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    for (slug, model, count) in [("@bedrock", CLAUDE, 100), ("@vertex", "gemini-2.5-flash", 10)] {
        let chats: Vec<String> =
            (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &chat(model, "hello"))).collect();
        let id = made(&client, slug, &chats).await["id"].clone();
        until("the batch to run", async || {
            (client.batch(&id).await["status"] == "in_progress").then_some(())
        })
        .await;
        let path = format!("/batches/{}/cancel", id.as_str().unwrap());
        let (status, cancelled) = client.read(client.call(Method::POST, &path)).await;
        assert_eq!(status, 200, "{cancelled}");
        let batch = client.finished(&id).await;
        assert_eq!(batch["status"], "cancelled", "{batch}");
        let output = client.lines(&batch["output_file_id"]).await;
        let failed = client.lines(&batch["error_file_id"]).await;
        assert_eq!(output.len() + failed.len(), count, "each line has one result: {batch}");
        // Before the job ran, in its middle, or after its end.
        assert!([0, count / 2, count].contains(&output.len()), "{batch}");
        for line in failed.values() {
            assert_eq!(line["error"]["code"], "batch_cancelled", "{line}");
        }
    }
}

#[tokio::test]
async fn what_a_cloud_needs_is_named_before_a_batch_is_made() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let chats = lines(CLAUDE, 101);
    let (_, file) = upload(&client, "@plain-bedrock", "batch", &chats).await;
    let (status, refused) = create(&client, "@plain-bedrock", &file, json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    assert_eq!(refused["error"]["param"], "cloud_a_batch_role_arn", "{refused}");
    let role = json!({"role_arn": "arn:aws:iam::123456789012:role/other"});
    let (status, batch) = create(&client, "@plain-bedrock", &file, role).await;
    assert_eq!(status, 200, "{batch}");
    assert_eq!(client.finished(&batch["id"]).await["status"], "completed");
    let few = made(&client, "@bedrock", &lines(CLAUDE, 3)).await;
    let few = client.finished(&few["id"]).await;
    assert_eq!(
        (&few["status"], &few["errors"]["data"][0]["code"]),
        (&json!("failed"), &json!("too_few_tasks"))
    );
    let mixed =
        [line("a", CHAT, &chat("gemini-2.5-flash", "x")), line("b", CHAT, &chat("gemini-2.5-pro", "x"))];
    let mixed = made(&client, "@vertex", &mixed).await;
    let mixed = client.finished(&mixed["id"]).await;
    assert_eq!(
        (&mixed["status"], &mixed["errors"]["data"][0]["line"]),
        (&json!("failed"), &json!(2)),
        "{mixed}"
    );
    let lost = made(&client, "@lost-vertex", &[line("a", CHAT, &chat("gemini-2.5-flash", "x"))]).await;
    let lost = client.finished(&lost["id"]).await;
    let failed = client.lines(&lost["error_file_id"]).await;
    let message = failed["a"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("bucket does not exist"), "{message}");
}

#[tokio::test]
async fn a_killed_process_creates_no_job_of_a_cloud_twice() {
    // One that is not killed with the gateway.
    let emulator = Emulator::start(None);
    let mut gateway = Gateway::start(JOBS);
    let host = format!("http://127.0.0.1:{}", emulator.port);
    let bedrock = json!({
        "provider": "bedrock", "custom_host": host, "cloud_a_access_key_id": "AKIAEXAMPLE",
        "cloud_a_secret_access_key": "secret-0123456789", "cloud_a_s3_bucket": "batches-of-tests",
        "cloud_a_batch_role_arn": "arn:aws:iam::123456789012:role/batches",
    });
    let vertex = json!({
        "provider": "vertex-ai", "custom_host": host, "api_key": "ya29.emulator-0123456789",
        "cloud_b_project_id": "my-project", "cloud_b_region": "us-central1",
        "cloud_b_storage_bucket_name": "batches-of-tests",
    });
    let fireworks = json!({
        "provider": "fireworks-ai", "custom_host": format!("{host}/v1"), "api_key": "fw-emulator-0123456789",
        "resource_name": "my-account",
    });
    let clouds = [
        ("@bedrock", bedrock, CLAUDE, "/model-invocation-jobs", "invocationJobSummaries"),
        (
            "@vertex",
            vertex,
            "gemini-2.5-flash",
            "/v1/projects/my-project/locations/us-central1/batchPredictionJobs",
            "batchPredictionJobs",
        ),
        (
            "@fireworks",
            fireworks,
            "accounts/fireworks/models/llama-v3p1-8b-instruct",
            "/v1/accounts/my-account/batchInferenceJobs",
            "batchInferenceJobs",
        ),
    ];
    for (slug, config, model, jobs, member) in clouds {
        let chats: Vec<String> =
            (0..100).map(|n| line(&format!("l{n}"), CHAT, &chat(model, "hello"))).collect();
        let batch = {
            let client = Client::new(&gateway);
            let (_, file) = upload(&client, slug, "batch", &chats).await;
            let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
            let call = client.call(Method::POST, "/batches").header("x-gateway-config", config.to_string());
            let (status, batch) = client.read(call.json(&body)).await;
            assert_eq!(status, 200, "{batch}");
            batch
        };
        for kill in 0..3 {
            // Before, while and after its job is created.
            tokio::time::sleep(std::time::Duration::from_millis(40 * kill)).await;
            gateway = gateway.killed_and_started_again();
        }
        let client = Client::new(&gateway);
        let batch = client.finished(&batch["id"]).await;
        let counts = json!({"total": 100, "completed": 100, "failed": 0});
        assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
        assert_eq!(batch["lines_sent_again"], 0, "{batch}");
        assert_eq!(client.lines(&batch["output_file_id"]).await.len(), 100, "{slug}");
        let list = crate::support::client::client().get(format!("{host}{jobs}")).send().await.unwrap();
        let list: Value = list.json().await.unwrap();
        assert_eq!(list[member].as_array().unwrap().len(), 1, "{slug}: {list}");
    }
}

/// Bedrock takes no job with less than a hundred lines, however long they are.
#[tokio::test]
async fn long_lines_are_in_jobs_with_as_many_lines_as_the_provider_wants() {
    const COUNT: usize = 120;
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let long = "x".repeat(1 << 20);
    let text = |n| if n <= 9 { long.as_str() } else { "hello" };
    let chats: Vec<String> =
        (1..=COUNT).map(|n| line(&format!("line-{n}"), CHAT, &chat(CLAUDE, text(n)))).collect();
    let batch = made(&client, "@bedrock", &chats).await;
    let batch = client.finished(&batch["id"]).await;
    let counts = json!({"total": COUNT, "completed": COUNT, "failed": 0});
    assert_eq!((&batch["status"], &batch["request_counts"]), (&json!("completed"), &counts), "{batch}");
}
