//! Objects kept between requests: files, responses, batches, jobs. Large bodies in both directions.

use super::client::Server;
use futures_util::StreamExt;
use serde_json::{Value, json};

async fn upload(server: &Server, name: &str, content: Vec<u8>) -> Value {
    let file = reqwest::multipart::Part::bytes(content).file_name(name.to_owned());
    let form = reqwest::multipart::Form::new().text("purpose", "batch").part("file", file);
    server.http.post(server.url("/v1/files")).multipart(form).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn files_are_created_and_deleted() {
    let server = Server::start().await;
    let file = upload(&server, "a.jsonl", b"{\"a\":1}\r\n\0".to_vec()).await;
    assert_eq!(
        (&file["bytes"], &file["filename"], &file["purpose"]),
        (&json!(10), &json!("a.jsonl"), &json!("batch"))
    );
    let path = format!("/v1/files/{}", file["id"].as_str().unwrap());
    assert_eq!(server.fetch(&path).await, file);
    let content = server.http.get(server.url(&format!("{path}/content"))).send().await.unwrap();
    assert_eq!(content.bytes().await.unwrap(), b"{\"a\":1}\r\n\0".as_slice());
    let other = upload(&server, "b.jsonl", Vec::new()).await;
    let list = server.fetch("/v1/files?limit=1").await;
    assert_eq!((&list["data"][0], &list["has_more"]), (&other, &json!(true)));
    let after = format!("/v1/files?after={}", other["id"].as_str().unwrap());
    assert_eq!(server.fetch(&after).await["data"], json!([file]));
    assert_eq!(server.delete(&path).await.1["deleted"], true);
    assert_eq!(server.delete(&path).await.0, 404);
    let refused = server.http.post(server.url("/v1/files")).body("no form").send().await.unwrap();
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn big_bodies_pass() {
    let server = Server::start().await;
    let file = upload(&server, "big.bin", vec![7; 8 << 20]).await;
    assert_eq!(file["bytes"], 8 << 20);
    for path in [
        format!("/v1/files/{}/content", file["id"].as_str().unwrap()),
        "/v1/files/any/content?bytes=8388608".into(),
    ] {
        let response = server.http.get(server.url(&path)).send().await.unwrap();
        assert_eq!(response.content_length(), Some(8 << 20));
        let length = response.bytes_stream().fold(0, async |sum, bytes| sum + bytes.unwrap().len());
        assert_eq!(length.await, 8 << 20);
    }
}

#[tokio::test]
async fn responses_are_stored() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "input": "Hello", "instructions": "be brief", "metadata": {"a": "b"}, "max_output_tokens": 3});
    let response = server.post_ok("/v1/responses", body).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(response["output"][0]["content"][0]["text"], "The quick brown");
    assert_eq!((&response["instructions"], &response["metadata"]["a"]), (&json!("be brief"), &json!("b")));
    let id = response["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}");
    assert_eq!(server.fetch(&path).await, response);
    let items = server.fetch(&format!("{path}/input_items")).await;
    assert_eq!(items["data"][0]["content"][0]["text"], "Hello");
    assert_eq!(server.post(&format!("{path}/cancel"), json!({})).await.0, 400);
    let body = json!({"model": "emulator", "input": "And?", "previous_response_id": id, "background": true});
    let second = server.post_ok("/v1/responses", body.clone()).await;
    let second = format!("/v1/responses/{}/cancel", second["id"].as_str().unwrap());
    assert_eq!(server.post_ok(&second, json!({})).await["status"], "cancelled");
    assert_eq!(server.delete(&path).await.1["deleted"], true);
    assert_eq!(server.delete(&path).await.0, 404);
    assert_eq!(server.post("/v1/responses", body).await.0, 400, "the previous response is deleted");
}

#[tokio::test]
async fn batches_run_their_lines() {
    let server = Server::start().await;
    let line = |id: &str, model: &str| {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "x"}]});
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}).to_string()
            + "\n"
    };
    let input = line("one", "emulator") + &line("two", "missing-x");
    let file = upload(&server, "in.jsonl", input.into_bytes()).await;
    let create = |file: &Value| json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"});
    let batch = server.post_ok("/v1/batches", create(&file["id"])).await;
    assert_eq!((&batch["object"], &batch["status"]), (&json!("batch"), &json!("validating")));
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    assert_eq!(server.fetch(&path).await["status"], "in_progress");
    let done = server.fetch(&path).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["request_counts"], json!({"total": 2, "completed": 1, "failed": 1}));
    let output = format!("/v1/files/{}/content", done["output_file_id"].as_str().unwrap());
    let output = server.http.get(server.url(&output)).send().await.unwrap().text().await.unwrap();
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["response"]["body"]["object"], "chat.completion");
    assert_eq!((&lines[1]["custom_id"], &lines[1]["response"]["status_code"]), (&json!("two"), &json!(404)));

    let failed_batch = server.post_ok("/v1/batches", create(&json!("file-lost"))).await;
    let failed_batch = format!("/v1/batches/{}", failed_batch["id"].as_str().unwrap());
    assert_eq!(server.fetch(&failed_batch).await["errors"]["data"][0]["code"], "invalid_file");
    let third = server.post_ok("/v1/batches", create(&file["id"])).await;
    let third = format!("/v1/batches/{}", third["id"].as_str().unwrap());
    assert_eq!(server.post_ok(&format!("{third}/cancel"), json!({})).await["status"], "cancelling");
    assert_eq!(server.fetch(&third).await["status"], "cancelled");
    assert_eq!(server.fetch("/v1/batches").await["data"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn fine_tuning_jobs_advance() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "training_file": "file-a", "suffix": "mine"});
    let job = server.post_ok("/v1/fine_tuning/jobs", body.clone()).await;
    assert_eq!((&job["object"], &job["status"]), (&json!("fine_tuning.job"), &json!("validating_files")));
    let path = format!("/v1/fine_tuning/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(server.fetch(&path).await["status"], "running");
    let done = server.fetch(&path).await;
    assert_eq!(
        (&done["status"], &done["fine_tuned_model"]),
        (&json!("succeeded"), &json!("ft:emulator:emulator:mine:fox"))
    );
    assert_eq!(server.fetch(&format!("{path}/checkpoints")).await["data"][0]["step_number"], 100);
    assert_eq!(server.fetch(&format!("{path}/events")).await["object"], "list");
    assert_eq!(server.post(&format!("{path}/cancel"), json!({})).await.0, 400);
    let second = server.post_ok("/v1/fine_tuning/jobs", body).await;
    let second = format!("/v1/fine_tuning/jobs/{}/cancel", second["id"].as_str().unwrap());
    assert_eq!(server.post_ok(&second, json!({})).await["status"], "cancelled");
}
