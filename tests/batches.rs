//! Batches that the gateway runs itself: files, validation, results, cancelling, kills, providers that are slow, down or limited.
//!
//! Lines go to the emulator, and to providers of the tests. Batches of providers are not here (`operations`).

use crate::caching::{answering, at, json_answer};
use crate::stages::WHOLE_CHAT;
use crate::support::client::client;
use crate::support::exclusive::exclusive;
use crate::support::settings::{KEY, OTHER_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A line of OpenAI's batch files.
pub(crate) fn line(id: &str, path: &str, body: &Value) -> String {
    json!({"custom_id": id, "method": "POST", "url": path, "body": body}).to_string()
}

pub(crate) fn chat(text: &str) -> Value {
    json!({"model": "gpt-4o-mini?tokens=5", "messages": [{"role": "user", "content": text}]})
}

/// So many lines of chats, `line-1` and on.
pub(crate) fn chats(count: usize) -> String {
    (1..=count).map(|n| line(&format!("line-{n}"), CHAT, &chat(&format!("hello {n}"))) + "\n").collect()
}

pub(crate) struct Client<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) key: &'a str,
}

impl<'a> Client<'a> {
    pub(crate) fn new(gateway: &'a Gateway) -> Self {
        Self { gateway, key: KEY }
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        client()
            .request(method, format!("{}{path}", self.gateway.base_url()))
            .header("x-gateway-api-key", self.key)
    }

    pub(crate) async fn read(&self, call: reqwest::RequestBuilder) -> (StatusCode, Value) {
        let response = call.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.read(self.call(Method::GET, path)).await
    }

    pub(crate) async fn upload(&self, lines: impl Into<Vec<u8>>) -> Value {
        let form = Form::new()
            .text("purpose", "batch")
            .part("file", Part::bytes(lines.into()).file_name("in.jsonl"));
        let (status, file) = self.read(self.call(Method::POST, "/files").multipart(form)).await;
        assert_eq!(status, 200, "{file}");
        file
    }

    /// Creates a batch of this file, whose lines have this config.
    pub(crate) async fn create(&self, file: &Value, endpoint: &str, config: &Value) -> Value {
        let body = json!({
            "input_file_id": file["id"], "endpoint": endpoint, "completion_window": "immediate",
            "metadata": {"job": "test"},
        });
        let call = self.call(Method::POST, "/batches").header("x-gateway-config", config.to_string());
        let (status, batch) = self.read(call.json(&body)).await;
        assert_eq!(status, 200, "{batch}");
        batch
    }

    pub(crate) async fn batch(&self, id: &Value) -> Value {
        let (status, batch) = self.get(&format!("/batches/{}", id.as_str().unwrap())).await;
        assert_eq!(status, 200, "{batch}");
        batch
    }

    /// The batch once it is finished.
    pub(crate) async fn finished(&self, id: &Value) -> Value {
        until("the batch to finish", async || {
            let batch = self.batch(id).await;
            let is_final =
                ["completed", "failed", "cancelled", "expired"].contains(&batch["status"].as_str().unwrap());
            is_final.then_some(batch)
        })
        .await
    }

    /// The lines of an output or error file, by `custom_id`; each must be there once.
    pub(crate) async fn lines(&self, file: &Value) -> BTreeMap<String, Value> {
        let Some(id) = file.as_str() else { return BTreeMap::new() };
        let response = self.call(Method::GET, &format!("/files/{id}/content")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let text = response.text().await.unwrap();
        let mut found = BTreeMap::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let before = found.insert(line["custom_id"].as_str().unwrap().to_owned(), line.clone());
            assert!(before.is_none(), "twice: {line}");
        }
        found
    }
}

#[tokio::test]
async fn a_batch_runs_at_any_provider_and_its_files_are_openais() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let file = client.upload(chats(3)).await;
    assert_eq!(
        (&file["object"], &file["purpose"], &file["filename"]),
        (&json!("file"), &json!("batch"), &json!("in.jsonl"))
    );
    let config = json!({"provider": "@anthropic-emulator", "override_params": {"model": "claude-3-5-haiku-20241022?tokens=5"}});
    let made = client.create(&file, CHAT, &config).await;
    assert_eq!((&made["status"], &made["object"]), (&json!("validating"), &json!("batch")));
    let batch = client.finished(&made["id"]).await;
    assert_eq!(batch["status"], "completed", "{batch}");
    assert_eq!(batch["request_counts"], json!({"total": 3, "completed": 3, "failed": 0}));
    assert_eq!((&batch["metadata"], &batch["error_file_id"]), (&json!({"job": "test"}), &Value::Null));
    for time in ["created_at", "in_progress_at", "finalizing_at", "completed_at", "expires_at"] {
        assert!(batch[time].is_u64(), "{time}: {batch}");
    }
    let lines = client.lines(&batch["output_file_id"]).await;
    assert_eq!(lines.len(), 3);
    for line in lines.values() {
        let response = &line["response"];
        assert_eq!((&response["status_code"], &line["error"]), (&json!(200), &Value::Null), "{line}");
        assert_eq!(response["body"]["object"], "chat.completion", "{line}");
        assert!(line["id"].as_str().unwrap().starts_with("batch_req_") && response["request_id"].is_string());
    }
    let (_, output) = client.get(&format!("/batches/{}/output", batch["id"].as_str().unwrap())).await;
    assert_eq!(output.as_str().unwrap().lines().count(), 3);
    // What each line cost and where it went is in the access lines, under the id of the batch.
    let access = gateway.access_line(batch["id"].as_str().unwrap()).await;
    assert_eq!((&access["status"], &access["provider"]), (&json!(200), &json!("anthropic")), "{access}");
}

#[tokio::test]
async fn failing_lines_are_in_the_error_file() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let bad = json!({"model": "gpt-4o-mini?status=400", "messages": [{"role": "user", "content": "x"}]});
    let wrong = json!({"model": "gpt-4o-mini", "messages": "none"});
    let lines = [line("good", CHAT, &chat("x")), line("bad", CHAT, &bad), line("wrong", CHAT, &wrong)];
    let file = client.upload(lines.join("\r\n")).await;
    let batch = client.create(&file, CHAT, &json!({"provider": "@emulator"})).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 3, "completed": 1, "failed": 2}), "{batch}");
    let failed = client.lines(&batch["error_file_id"]).await;
    assert_eq!(failed.keys().collect::<Vec<_>>(), ["bad", "wrong"]);
    assert_eq!(failed["wrong"]["response"]["status_code"], 400);
    assert_eq!(failed["wrong"]["response"]["body"]["error"]["param"], "messages");
    assert_eq!(client.lines(&batch["output_file_id"]).await.len(), 1);
}

#[tokio::test]
async fn a_file_with_wrong_lines_fails_before_the_first_is_sent() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let (upstream, calls) = answering(|_, _| json_answer(WHOLE_CHAT)).await;
    let lines = [
        line("a", CHAT, &chat("x")),
        "{not json".to_owned(),
        line("a", CHAT, &chat("x")),
        line("b", "/v1/embeddings", &chat("x")),
        json!({"method": "POST", "url": CHAT, "body": {}}).to_string(),
    ];
    let file = client.upload(lines.join("\n")).await;
    let batch = client.create(&file, CHAT, &at(&upstream, "openai")).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!((&batch["status"], &batch["output_file_id"]), (&json!("failed"), &Value::Null));
    let errors = batch["errors"]["data"].as_array().unwrap();
    let found: Vec<(&Value, &Value)> = errors.iter().map(|error| (&error["line"], &error["code"])).collect();
    let wanted = [
        (json!(2), json!("invalid_json_line")),
        (json!(3), json!("duplicate_custom_id")),
        (json!(4), json!("invalid_url")),
        (json!(5), json!("missing_required_parameter")),
    ];
    assert_eq!(found, wanted.iter().map(|(line, code)| (line, code)).collect::<Vec<_>>(), "{batch}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let empty = client.upload("\n").await;
    let batch = client.create(&empty, CHAT, &at(&upstream, "openai")).await;
    assert_eq!(client.finished(&batch["id"]).await["errors"]["data"][0]["code"], "empty_file");
}

#[tokio::test]
async fn files_are_listed_read_and_deleted_by_their_workspace() {
    let gateway = Gateway::start(STANDARD);
    let client = Client::new(&gateway);
    let first = client.upload("one").await;
    let second = client.upload("two").await;
    let (_, list) = client.get("/files?limit=1").await;
    assert_eq!((&list["data"][0], &list["has_more"]), (&second, &json!(true)));
    let (_, list) = client.get(&format!("/files?after={}", second["id"].as_str().unwrap())).await;
    assert_eq!((&list["data"], &list["has_more"]), (&json!([first]), &json!(false)));
    let path = format!("/files/{}", first["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.1, first);
    let content = client.call(Method::GET, &format!("{path}/content")).send().await.unwrap();
    assert_eq!(content.headers()["content-length"], "3");
    assert_eq!(content.text().await.unwrap(), "one");
    let (status, deleted) = client.read(client.call(Method::DELETE, &path)).await;
    assert_eq!((status, &deleted["deleted"]), (StatusCode::OK, &json!(true)));
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::DELETE, path.clone()),
        (Method::GET, format!("{path}/content")),
    ] {
        let (status, error) = client.read(client.call(method, &path)).await;
        assert_eq!((status, &error["error"]["param"]), (StatusCode::NOT_FOUND, &json!("file_id")), "{error}");
    }
    // Nothing of it is left.
    let kept: Vec<String> = std::fs::read_dir(gateway.folder().join("data/blobs/files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let forms = [
        (Form::new().part("file", Part::bytes(b"x".as_slice()).file_name("f")), "purpose"),
        (Form::new().text("purpose", "batch"), "file"),
        (
            Form::new().text("purpose", "fun").part("file", Part::bytes(b"x".as_slice()).file_name("f")),
            "purpose",
        ),
    ];
    for (form, param) in forms {
        let (status, error) = client.read(client.call(Method::POST, "/files").multipart(form)).await;
        assert_eq!((status, &error["error"]["param"]), (StatusCode::BAD_REQUEST, &json!(param)), "{error}");
    }
}

/// An id of nobody, and no provider that could have it.
#[tokio::test]
async fn an_unknown_object_is_not_found() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    for (method, path, param) in [
        (Method::GET, "/batches/batch_unknown", "batch_id"),
        (Method::POST, "/batches/batch_unknown/cancel", "batch_id"),
        (Method::GET, "/batches/batch_unknown/output", "batch_id"),
        (Method::GET, "/files/file-unknown", "file_id"),
        (Method::GET, "/files/file-unknown/content", "file_id"),
        (Method::DELETE, "/files/file-unknown", "file_id"),
    ] {
        let (status, error) = client.read(client.call(method.clone(), path)).await;
        assert_eq!(
            (status.as_u16(), &error["error"]["param"]),
            (404, &json!(param)),
            "{method} {path}: {error}"
        );
        let named = client.call(method.clone(), path).header("x-gateway-provider", "@nobody");
        assert_eq!(client.read(named).await.0, 400, "{method} {path}");
    }
}

#[tokio::test]
async fn what_cannot_be_a_batch_is_refused() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let file = client.upload(chats(1)).await;
    let create = async |body: Value, provider: &str| {
        client
            .read(client.call(Method::POST, "/batches").header("x-gateway-provider", provider).json(&body))
            .await
    };
    let body = |file: &Value, window: &str| json!({"input_file_id": file, "endpoint": CHAT, "completion_window": window});
    // Of a provider: its own file.
    let (status, error) = create(body(&json!("file-abc"), "immediate"), "@emulator").await;
    assert_eq!(
        (status, &error["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("completion_window")),
        "{error}"
    );
    let gone = json!("file-turnpike-00000000000000000000000000000000");
    assert_eq!(create(body(&gone, "24h"), "@emulator").await.0, 404);
    let (status, error) = create(body(&file["id"], "1h"), "@emulator").await;
    assert_eq!(
        (status, &error["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("completion_window")),
        "{error}"
    );
    let mut wrong = body(&file["id"], "24h");
    wrong["metadata"] = json!({"k": "v".repeat(600)});
    assert_eq!(create(wrong, "@emulator").await.0, 400);
    let (status, error) = client.get("/batches?limit=101").await;
    assert_eq!((status, &error["error"]["param"]), (StatusCode::BAD_REQUEST, &json!("limit")), "{error}");
    assert_eq!(client.get("/batches/batch_turnpike_00000000000000000000000000000000").await.0, 404);
    let own = format!("/files/{}", file["id"].as_str().unwrap());
    for (method, path) in [
        (Method::PUT, own.clone()),
        (Method::DELETE, "/batches/batch_turnpike_00000000000000000000000000000000".to_owned()),
        (Method::GET, format!("{own}/contents")),
    ] {
        let (status, error) = client.read(client.call(method.clone(), &path)).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")),
            "{method} {path}: {error}"
        );
    }
    // A key of the settings has the default workspace, as the other one has: they see each other's files, but no others'.
    let other = Client { gateway: &gateway, key: OTHER_KEY };
    assert_eq!(other.get(&format!("/files/{}", file["id"].as_str().unwrap())).await.0, 200);
}

#[tokio::test]
async fn a_cancelled_batch_sends_no_other_line_and_keeps_what_was_done() {
    let gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 2}}\n"));
    let client = Client::new(&gateway);
    let slow = |n: usize| {
        let model = if n <= 2 { "gpt-4o-mini?tokens=2" } else { "gpt-4o-mini?ttft=600000" };
        line(
            &format!("line-{n}"),
            CHAT,
            &json!({"model": model, "messages": [{"role": "user", "content": "x"}]}),
        ) + "\n"
    };
    let file = client.upload((1..=50).map(slow).collect::<String>()).await;
    let config = json!({"provider": "@emulator", "request_timeout": 900_000});
    let made = client.create(&file, CHAT, &config).await;
    until("two lines to be done", async || {
        (client.batch(&made["id"]).await["request_counts"]["completed"] == 2).then_some(())
    })
    .await;
    // The input file cannot be deleted while it is read.
    let path = format!("/files/{}", file["id"].as_str().unwrap());
    assert_eq!(client.read(client.call(Method::DELETE, &path)).await.0, 409);
    let cancel = format!("/batches/{}/cancel", made["id"].as_str().unwrap());
    let (status, cancelling) = client.read(client.call(Method::POST, &cancel)).await;
    assert_eq!((status, &cancelling["status"]), (StatusCode::OK, &json!("cancelling")), "{cancelling}");
    assert!(cancelling["cancelling_at"].is_u64());
    let batch = client.finished(&made["id"]).await;
    assert_eq!(
        (&batch["status"], &batch["request_counts"]["completed"]),
        (&json!("cancelled"), &json!(2)),
        "{batch}"
    );
    let lines = client.lines(&batch["output_file_id"]).await;
    assert_eq!(lines.keys().collect::<Vec<_>>(), ["line-1", "line-2"]);
    // Those in flight were stopped at the provider, too.
    until("the provider's requests to end", async || {
        let url = format!("{}/_emulator/stats", gateway.emulator_url());
        let stats: Value = reqwest::Client::new().get(url).send().await.unwrap().json().await.unwrap();
        (stats["in_flight"] == 0).then_some(())
    })
    .await;
    assert_eq!(client.read(client.call(Method::POST, &cancel)).await.0, 200);
    let done = client.create(&client.upload(chats(1)).await, CHAT, &json!({"provider": "@emulator"})).await;
    let done = client.finished(&done["id"]).await;
    let cancel = format!("/batches/{}/cancel", done["id"].as_str().unwrap());
    let (status, error) = client.read(client.call(Method::POST, &cancel)).await;
    assert_eq!(status, 409, "{error}");
}

#[tokio::test]
async fn a_provider_that_refuses_for_its_rate_gets_every_line_later() {
    let gateway = gateway();
    let client = Client::new(&gateway);
    let (upstream, calls) = answering(|number, _| match number {
        0..8 if number % 2 == 0 => {
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0.05\r\ncontent-length: 2\r\n\r\n{}".to_owned()
        }
        0..8 => "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        _ => json_answer(WHOLE_CHAT),
    })
    .await;
    let file = client.upload(chats(20)).await;
    let batch = client.create(&file, CHAT, &at(&upstream, "openai")).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}), "{batch}");
    assert!(calls.load(Ordering::SeqCst) == 28);
}

#[tokio::test]
async fn every_line_has_one_result_whenever_the_gateway_is_killed() {
    const LINES: usize = 600;
    let kills: u32 = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let _exclusive = exclusive().await;
    let mut gateway = Gateway::start(&format!("{STANDARD}batches: {{concurrency: 16}}\n"));
    let made = {
        let client = Client::new(&gateway);
        let slow = json!({"model": "gpt-4o-mini?tokens=5&latency=150", "messages": [{"role": "user", "content": "x"}]});
        let lines = (1..=LINES).map(|n| line(&format!("line-{n}"), CHAT, &slow) + "\n").collect::<String>();
        let file = client.upload(lines).await;
        client.create(&file, CHAT, &json!({"provider": "@emulator"})).await
    };
    for kill in 1..=kills {
        let wanted = LINES * kill as usize / (kills as usize + 1);
        until("some lines", async || {
            let batch = Client::new(&gateway).batch(&made["id"]).await;
            let done = batch["request_counts"]["completed"].as_u64().unwrap() as usize;
            assert_eq!(batch["completed_at"], Value::Null, "it was killed too late: {batch}");
            (done >= wanted).then_some(())
        })
        .await;
        gateway = gateway.killed_and_started_again();
    }
    let client = Client::new(&gateway);
    let batch = client.finished(&made["id"]).await;
    assert_eq!(
        (&batch["status"], &batch["request_counts"]["completed"]),
        (&json!("completed"), &json!(LINES)),
        "{batch}"
    );
    let sent_again = batch["lines_sent_again"].as_u64().unwrap();
    assert!((1..=u64::from(kills) * 300).contains(&sent_again), "{batch}");
    let lines = client.lines(&batch["output_file_id"]).await;
    let wanted: BTreeSet<String> = (1..=LINES).map(|n| format!("line-{n}")).collect();
    assert_eq!(lines.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    crate::support::report(&format!(
        "{kills} kills during a batch of {LINES} lines: each has one result, {sent_again} may have been sent twice"
    ));
}

#[tokio::test]
async fn a_deleted_workspace_leaves_no_files_and_no_running_batch() {
    let gateway = Gateway::start(STANDARD);
    let workspace = gateway.create("/v1/admin/workspaces", &json!({"name": "red", "slug": "red"})).await;
    let key = json!({"name": "red", "workspace_id": "red", "scopes": ["completions.write"]});
    let key = gateway.create("/v1/api-keys/workspace/service", &key).await;
    let client = Client { gateway: &gateway, key: key["key"].as_str().unwrap() };
    let slow = json!({"model": "gpt-4o-mini?ttft=600000", "messages": [{"role": "user", "content": "x"}]});
    let file = client.upload(line("slow", CHAT, &slow)).await;
    client.upload(chats(1)).await;
    let config = json!({"provider": "openai", "api_key": "sk-1", "custom_host": format!("{}/v1", gateway.emulator_url())});
    let batch = client.create(&file, CHAT, &config).await;
    let status = async |gateway: &Gateway| {
        let all = gateway.read("/v1/managed-batches").await;
        let found = all["data"].as_array().unwrap().iter().find(|found| found["id"] == batch["id"]).cloned();
        let one = gateway.read(&format!("/v1/managed-batches/{}", batch["id"].as_str().unwrap())).await;
        assert_eq!(one["id"], batch["id"]);
        found.unwrap()["status"].clone()
    };
    until("the batch to run", async || (status(&gateway).await == "in_progress").then_some(())).await;
    let path = format!("/v1/admin/workspaces/{}", workspace["id"].as_str().unwrap());
    let delete = gateway.control(Method::DELETE, &path).json(&json!({"force_delete": true}));
    assert_eq!(delete.send().await.unwrap().status(), 200);
    until("the batch to end", async || (status(&gateway).await == "cancelled").then_some(())).await;
    // What is over is looked for at the start, and once a minute.
    let gateway = gateway.killed_and_started_again();
    let files = gateway.folder().join("data/blobs/files");
    until("its files to be deleted", async || {
        // The folder goes with its last file.
        std::fs::read_dir(&files).map_or(true, |mut found| found.next().is_none()).then_some(())
    })
    .await;
}
