//! Batches that providers run in jobs of their own, in OpenAI's shape: from JSONL to the output file, errors, cancelling, kills, costs.
//!
//! The emulator plays the providers' sides. Batches of the gateway itself are in `batches`.

use crate::batches::{CHAT, Client, line};
use crate::support::Gateway;
use crate::support::emulator::Emulator;
use crate::support::provider::Provider;
use crate::support::settings::{JOBS, KEY};
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A stored provider, its id, and a model that the emulator answers for.
struct Vendor {
    slug: &'static str,
    id: &'static str,
    model: &'static str,
}

const VENDORS: [Vendor; 4] = [
    Vendor { slug: "@anthropic", id: "anthropic", model: "claude-3-5-haiku-20241022" },
    Vendor { slug: "@google", id: "google", model: "gemini-2.5-flash" },
    Vendor { slug: "@mistral", id: "mistral-ai", model: "mistral-small-latest" },
    Vendor { slug: "@together", id: "together-ai", model: "meta-llama/Llama-3.3-70B-Instruct-Turbo" },
];

fn chat(model: &str, text: &str) -> Value {
    json!({"model": format!("{model}?tokens=5"), "messages": [{"role": "user", "content": text}], "max_tokens": 50})
}

pub(crate) async fn upload(
    client: &Client<'_>,
    slug: &str,
    purpose: &str,
    lines: &[String],
) -> (StatusCode, Value) {
    let part = Part::bytes(lines.join("\n").into_bytes()).file_name("in.jsonl");
    // The file before its purpose, as some clients have it.
    let form = Form::new().part("file", part).text("purpose", purpose.to_owned());
    let call = client.call(Method::POST, "/files").header("x-gateway-provider", slug.to_owned());
    client.read(call.multipart(form)).await
}

pub(crate) async fn create(
    client: &Client<'_>,
    slug: &str,
    file: &Value,
    change: Value,
) -> (StatusCode, Value) {
    let mut body = json!({
        "input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", "metadata": {"job": "test"},
    });
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let call = client.call(Method::POST, "/batches").header("x-gateway-provider", slug.to_owned());
    client.read(call.json(&body)).await
}

/// A batch that was made of these lines.
pub(crate) async fn made(client: &Client<'_>, slug: &str, lines: &[String]) -> Value {
    let (status, file) = upload(client, slug, "batch", lines).await;
    assert_eq!(status, 200, "{file}");
    let (status, batch) = create(client, slug, &file, json!({})).await;
    assert_eq!(status, 200, "{batch}");
    batch
}

#[tokio::test]
async fn each_provider_runs_a_batch_from_its_lines_to_its_files() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    for Vendor { slug, id, model } in VENDORS {
        let lines = [
            line("one", CHAT, &chat(model, "hello")),
            line("bad \"ü\"", CHAT, &json!({"model": format!("{model}?tokens=5"), "messages": "none"})),
            line("two", CHAT, &chat(model, "hello again")),
        ];
        let (status, file) = upload(&client, slug, "batch", &lines).await;
        assert_eq!(status, 200, "{file}");
        let prefix = format!("file-turnpike-{id}-");
        assert!(file["id"].as_str().unwrap().starts_with(&prefix), "{file}");
        let (status, made) = create(&client, slug, &file, json!({})).await;
        assert_eq!((status, &made["status"]), (StatusCode::OK, &json!("validating")), "{made}");
        assert!(made["id"].as_str().unwrap().starts_with(&format!("batch_turnpike_{id}_")), "{made}");
        assert_eq!(made["input_file_id"], file["id"]);
        // From here on by its id alone.
        let batch = client.finished(&made["id"]).await;
        assert_eq!((&batch["status"], &batch["errors"]), (&json!("completed"), &Value::Null), "{batch}");
        assert_eq!(batch["request_counts"], json!({"total": 3, "completed": 2, "failed": 1}), "{batch}");
        assert_eq!((&batch["metadata"], &batch["lines_sent_again"]), (&json!({"job": "test"}), &json!(0)));
        let output = client.lines(&batch["output_file_id"]).await;
        assert_eq!(output.keys().collect::<Vec<_>>(), ["one", "two"], "{id}");
        for line in output.values() {
            let body = &line["response"]["body"];
            assert_eq!(line["response"]["status_code"], 200, "{line}");
            assert_eq!(body["object"], "chat.completion", "{line}");
            assert!(
                body["choices"][0]["message"]["content"].is_string()
                    && body["usage"]["total_tokens"].is_u64(),
                "{line}"
            );
        }
        let failed = client.lines(&batch["error_file_id"]).await;
        assert_eq!(failed["bad \"ü\""]["response"]["status_code"], 400, "{failed:?}");
        assert_eq!(failed["bad \"ü\""]["response"]["body"]["error"]["param"], "messages", "{failed:?}");
        let (_, text) = client.get(&format!("/batches/{}/output", batch["id"].as_str().unwrap())).await;
        assert_eq!(text.as_str().unwrap().lines().count(), 2);
        // Listed with the provider, and with others' without one.
        let list = |path: &str| client.call(Method::GET, path).header("x-gateway-provider", slug);
        let (_, files) = client.read(list("/files?purpose=batch")).await;
        assert_eq!(files["data"], json!([file]), "{files}");
        let (_, batches) = client.read(list("/batches")).await;
        assert_eq!(batches["data"], json!([batch]), "{batches}");
    }
    let (_, all) = client.get("/batches").await;
    assert_eq!(all["data"].as_array().unwrap().len(), VENDORS.len(), "{all}");
}

#[tokio::test]
async fn what_a_provider_refuses_of_a_line_is_its_result_in_openais_shape() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let body = |status: u16| {
        let model = format!("claude-3-5-haiku-20241022?status={status}");
        json!({"model": model, "messages": [{"role": "user", "content": "x"}]})
    };
    let lines = [line("a", CHAT, &body(400)), line("b", CHAT, &body(529)), line("c", CHAT, &body(200))];
    let batch = made(&client, "@anthropic", &lines).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 3, "completed": 1, "failed": 2}), "{batch}");
    let failed = client.lines(&batch["error_file_id"]).await;
    for (id, status) in [("a", 400), ("b", 529)] {
        let response = &failed[id]["response"];
        assert_eq!(response["status_code"], status, "{response}");
        // Anthropic's own errors have `type` beside `error`.
        let error = &response["body"]["error"];
        assert!(error["message"].is_string() && response["body"]["type"].is_null(), "{response}");
    }
}

#[tokio::test]
async fn lines_cost_what_batches_cost_and_have_a_log_each() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    // Half of it, by `turnpike prices show anthropic/claude-haiku-4-5`.
    let lines = [line("one", CHAT, &chat("claude-haiku-4-5", "hello"))];
    let batch = made(&client, "@anthropic", &lines).await;
    let batch = client.finished(&batch["id"]).await;
    let single = client.call(Method::POST, "/chat/completions").header("x-gateway-provider", "@anthropic");
    let single = single.header("x-gateway-trace-id", "single").json(&chat("claude-haiku-4-5", "hello"));
    assert_eq!(client.read(single).await.0, 200);
    let cost = async |trace: &str| {
        until("the line's log", async || {
            let list = gateway.read(&format!("/v1/logs?trace_id={trace}")).await;
            let rows = list["data"].as_array().cloned().unwrap_or_default();
            let row = rows.into_iter().find(|row| row["operation"] == "chat")?;
            assert_eq!(
                (&row["response_status_code"], &row["cost_status"]),
                (&json!(200), &json!("priced")),
                "{row}"
            );
            assert_eq!(row["ai_org"], "anthropic", "{row}");
            Some((row["cost"].as_f64().unwrap(), row["total_units"].as_u64().unwrap()))
        })
        .await
    };
    let of_line = cost(batch["id"].as_str().unwrap()).await;
    let of_single = cost("single").await;
    assert_eq!(of_line.1, of_single.1, "tokens");
    assert!((of_line.0 * 2.0 - of_single.0).abs() < 1e-9 && of_line.0 > 0.0, "{of_line:?} {of_single:?}");
}

#[tokio::test]
async fn a_cancelled_batch_has_its_jobs_cancelled() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    for Vendor { slug, model, .. } in VENDORS {
        let lines = ["a", "b"].map(|id| line(id, CHAT, &chat(model, "hello")));
        let batch = made(&client, slug, &lines).await;
        until("the batch to begin", async || {
            let batch = client.batch(&batch["id"]).await;
            (batch["status"] != "validating").then_some(())
        })
        .await;
        let path = format!("/batches/{}/cancel", batch["id"].as_str().unwrap());
        let (status, cancelling) = client.read(client.call(Method::POST, &path)).await;
        assert_eq!((status, &cancelling["status"]), (StatusCode::OK, &json!("cancelling")), "{cancelling}");
        let batch = client.finished(&batch["id"]).await;
        assert_eq!(
            (&batch["status"], &batch["output_file_id"]),
            (&json!("cancelled"), &Value::Null),
            "{batch}"
        );
        let failed = client.lines(&batch["error_file_id"]).await;
        assert_eq!(failed.len(), 2, "{batch}");
        assert_eq!(failed["a"]["error"]["code"], "batch_cancelled", "{failed:?}");
    }
}

#[tokio::test]
async fn what_a_provider_cannot_run_is_refused() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let lines = [line("a", CHAT, &chat("claude-3-5-haiku-20241022", "x"))];
    let (_, file) = upload(&client, "@anthropic", "batch", &lines).await;
    let refused = async |slug: &str, change: Value, param: &str, wanted: &str| {
        let (status, error) = create(&client, slug, &file, change).await;
        let error = &error["error"];
        assert_eq!((status, &error["param"]), (StatusCode::BAD_REQUEST, &json!(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(wanted), "{error}");
    };
    refused(
        "@anthropic",
        json!({"completion_window": "immediate"}),
        "completion_window",
        "without a provider",
    )
    .await;
    refused("@google", json!({}), "input_file_id", "for batches at anthropic").await;
    refused("@openai", json!({}), "input_file_id", "for batches at anthropic").await;
    refused("@anthropic", json!({"endpoint": "/v1/embeddings"}), "endpoint", "no embeddings").await;
    // One target only.
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@anthropic"}, {"provider": "@openai"}]});
    let several =
        |call: reqwest::RequestBuilder| client.read(call.header("x-gateway-config", config.to_string()));
    let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
    for call in [client.call(Method::POST, "/batches").json(&body), client.call(Method::GET, "/files")] {
        let (status, error) = several(call).await;
        assert_eq!(status, 400, "{error}");
        assert!(
            error["error"]["message"].as_str().unwrap().starts_with("Maximum one target is allowed"),
            "{error}"
        );
    }
    // A file has the id under which it was uploaded, and no other.
    let id = file["id"].as_str().unwrap().replace("anthropic", "google");
    assert_eq!(client.get(&format!("/files/{id}")).await.0, 404);
}

#[tokio::test]
async fn a_batch_with_two_models_fails_where_a_job_has_one() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let lines =
        [line("a", CHAT, &chat("gemini-2.5-flash", "x")), line("b", CHAT, &chat("gemini-2.5-pro", "x"))];
    let batch = made(&client, "@google", &lines).await;
    let batch = client.finished(&batch["id"]).await;
    let error = &batch["errors"]["data"][0];
    assert_eq!(batch["status"], "failed", "{batch}");
    assert_eq!(
        (&error["code"], &error["line"], &error["param"]),
        (&json!("mismatched_model"), &json!(2), &json!("body.model"))
    );
    // Anthropic's batches may have several.
    let lines = [
        line("a", CHAT, &chat("claude-3-5-haiku-20241022", "x")),
        line("b", CHAT, &chat("claude-sonnet-4-5", "x")),
    ];
    let batch = made(&client, "@anthropic", &lines).await;
    let batch = client.finished(&batch["id"]).await;
    assert_eq!(batch["request_counts"], json!({"total": 2, "completed": 2, "failed": 0}), "{batch}");
}

#[tokio::test]
async fn a_killed_process_loses_no_line_and_creates_no_named_job_twice() {
    const LINES: usize = 40;
    let kills: usize = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    // One that is not killed with the gateway.
    let emulator = Emulator::start(None);
    let mut gateway = Gateway::start(JOBS);
    for Vendor { slug, id, model } in VENDORS {
        let path = match id {
            "google" => "",
            "together-ai" => "/together/v1",
            _ => "/v1",
        };
        let host = format!("http://127.0.0.1:{}{path}", emulator.port);
        let config =
            json!({"provider": id, "api_key": "sk-emulator-0123456789", "custom_host": host}).to_string();
        let lines: Vec<String> =
            (0..LINES).map(|n| line(&format!("l{n}"), CHAT, &chat(model, "hello"))).collect();
        let batch = {
            let client = Client::new(&gateway);
            let (_, file) = upload(&client, slug, "batch", &lines).await;
            let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
            let call = client.call(Method::POST, "/batches").header("x-gateway-config", config);
            let (status, batch) = client.read(call.json(&body)).await;
            assert_eq!(status, 200, "{batch}");
            batch
        };
        for kill in 0..kills {
            // Before, while and after its job is created.
            tokio::time::sleep(std::time::Duration::from_millis(40 * kill as u64)).await;
            gateway = gateway.killed_and_started_again();
        }
        let client = Client::new(&gateway);
        let batch = client.finished(&batch["id"]).await;
        let counts = json!({"total": LINES, "completed": LINES, "failed": 0});
        assert_eq!(
            (&batch["status"], &batch["request_counts"]),
            (&json!("completed"), &counts),
            "{id} {batch}"
        );
        assert_eq!(client.lines(&batch["output_file_id"]).await.len(), LINES, "{id}");
        let again = batch["lines_sent_again"].as_u64().unwrap() as usize;
        assert!(again <= if id == "anthropic" { kills * LINES } else { 0 }, "{id} {batch}");
    }
}

#[tokio::test]
async fn no_other_workspace_gets_at_a_providers_batch() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let batch =
        made(&client, "@anthropic", &[line("a", CHAT, &chat("claude-3-5-haiku-20241022", "x"))]).await;
    let batch = client.finished(&batch["id"]).await;
    let workspace = json!({"name": "other", "slug": "other"});
    gateway.control(Method::POST, "/v1/admin/workspaces").json(&workspace).send().await.unwrap();
    let key = json!({"name": "other", "workspace_id": "other", "scopes": ["completions.write"]});
    let key =
        gateway.control(Method::POST, "/v1/api-keys/workspace/service").json(&key).send().await.unwrap();
    let key = key.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned();
    let other = Client { gateway: &gateway, key: &key };
    let id = |name: &str| batch[name].as_str().unwrap().to_owned();
    for path in [
        format!("/batches/{}", id("id")),
        format!("/batches/{}/output", id("id")),
        format!("/files/{}", id("input_file_id")),
        format!("/files/{}/content", id("output_file_id")),
    ] {
        assert_eq!(other.get(&path).await.0, 404, "{path}");
    }
    assert_eq!(other.read(other.call(Method::POST, &format!("/batches/{}/cancel", id("id")))).await.0, 404);
    assert_eq!(other.get("/batches").await.1["data"], json!([]));
}

#[tokio::test]
async fn files_for_other_purposes_are_the_providers() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    let (status, file) = upload(&client, "@mistral", "fine-tune", &["{}".to_owned()]).await;
    assert_eq!(status, 200, "{file}");
    assert!(file["id"].as_str().unwrap().starts_with("file-") && file["purpose"] == "fine-tune", "{file}");
    assert!(!file["id"].as_str().unwrap().starts_with("file-turnpike-"), "{file}");
    let call = client.call(Method::GET, "/files?purpose=fine-tune").header("x-gateway-provider", "@mistral");
    let (_, list) = client.read(call).await;
    assert_eq!(list["data"][0]["id"], file["id"], "{list}");
    let (_, own) = client.get("/files").await;
    assert_eq!(own["data"], json!([]), "{own}");
}

#[tokio::test]
async fn the_gateway_lists_all_files_of_a_provider_that_has_none() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    for slug in ["@bedrock", "@vertex", "@fireworks"] {
        let (status, file) = upload(&client, slug, "fine-tune", &["{}".to_owned()]).await;
        assert_eq!(status, 200, "{file}");
        for path in ["/files?purpose=fine-tune", "/files"] {
            let call = client.call(Method::GET, path).header("x-gateway-provider", slug);
            let (status, list) = client.read(call).await;
            assert_eq!((status, &list["data"]), (StatusCode::OK, &json!([file])), "{slug} {list}");
        }
    }
}

#[tokio::test]
async fn uploads_at_a_time_have_no_more_room_than_one_after_the_other() {
    let gateway = Gateway::start(&format!("{JOBS}batches: {{max_workspace_bytes: 1000000}}\n"));
    let client = Client::new(&gateway);
    let lines = ["x".repeat(300_000)];
    let uploads = (0..16).map(|_| upload(&client, "@anthropic", "batch", &lines));
    let uploads = futures_util::future::join_all(uploads).await;
    let count = |wanted: u16| uploads.iter().filter(|(status, _)| *status == wanted).count();
    assert_eq!((count(200), count(413)), (3, 13), "{uploads:?}");
    // What is passed on needs no room.
    let (status, file) = upload(&client, "@mistral", "fine-tune", &lines).await;
    assert_eq!(status, 200, "{file}");
}

/// Where a provider's jobs have no names, lines run twice if one is created again: that is done once a failure, and only counted
/// where the job may be there.
#[tokio::test]
async fn a_job_is_created_again_only_by_the_batch_and_its_lines_are_counted_once() {
    let gateway = Gateway::start(JOBS);
    let client = Client::new(&gateway);
    for (failures, creates, again) in [(vec![500, 502], 3, 2), (vec![529], 2, 0)] {
        let failures = Mutex::new(failures.into_iter());
        let provider = Provider::start(move |request| {
            let message = json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-3-5-haiku-20241022", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 3, "output_tokens": 1},
            });
            let result = |id: &str| json!({"custom_id": id, "result": {"type": "succeeded", "message": message}});
            let job = json!({
                "id": "msgbatch_1", "type": "message_batch", "processing_status": "ended", "results_url": "https://example.com/r",
            });
            let failed = json!({"type": "error", "error": {"type": "api_error", "message": "not now"}});
            let is_create = request.start.starts_with("POST ");
            let (status, body) = match is_create.then(|| failures.lock().next()).flatten() {
                Some(status) => (status, failed.to_string()),
                None if request.start.contains("/results") => (200, format!("{}\n{}\n", result("1"), result("2"))),
                None => (200, job.to_string()),
            };
            let length = body.len();
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        })
        .await;
        let config = json!({
            "provider": "anthropic", "api_key": "k", "custom_host": provider.base_url(),
            "retry": {"attempts": 3, "on_status_codes": [500, 502, 529]},
        });
        let lines = ["a", "b"].map(|id| line(id, CHAT, &chat("claude-3-5-haiku-20241022", "x")));
        let (_, file) = upload(&client, "@anthropic", "batch", &lines).await;
        let body = json!({"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"});
        let call = client.call(Method::POST, "/batches").header("x-gateway-config", config.to_string());
        let (status, batch) = client.read(call.json(&body)).await;
        assert_eq!(status, 200, "{batch}");
        let batch = client.finished(&batch["id"]).await;
        assert_eq!(batch["request_counts"], json!({"total": 2, "completed": 2, "failed": 0}), "{batch}");
        let made = provider.received().iter().filter(|request| request.start.starts_with("POST ")).count();
        assert_eq!((made, &batch["lines_sent_again"]), (creates, &json!(again)), "{batch}");
    }
}

/// The files and batches of providers with OpenAI's API pass on.
#[tokio::test]
async fn batches_in_openais_api_pass_on() {
    let gateway = Gateway::start(JOBS);
    let client = Client { gateway: &gateway, key: KEY };
    let lines = [line("a", CHAT, &chat("gpt-4o-mini", "x"))];
    for provider in ["@openai", "@azure", "@groq"] {
        let (_, file) = upload(&client, provider, "batch", &lines).await;
        assert!(!file["id"].as_str().unwrap().starts_with("file-turnpike-"), "{provider} {file}");
        let (status, batch) = create(&client, provider, &file, json!({})).await;
        assert_eq!(status, 200, "{provider} {batch}");
        let get = async |path: String| {
            client.read(client.call(Method::GET, &path).header("x-gateway-provider", provider)).await.1
        };
        let path = format!("/batches/{}", batch["id"].as_str().unwrap());
        let batch = until("the batch to finish", async || {
            Some(get(path.clone()).await).filter(|batch| batch["status"] == "completed")
        })
        .await;
        let output = get(format!("/files/{}", batch["output_file_id"].as_str().unwrap())).await;
        assert_eq!(output["purpose"], "batch_output", "{provider} {output}");
        let list = get("/batches?limit=1".to_owned()).await;
        assert_eq!(list["data"][0]["id"], batch["id"], "{provider} {list}");
    }
}
