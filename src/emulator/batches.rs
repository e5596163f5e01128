//! Batches: each `GET` of a batch advances it one step (validating, in progress, completed). Completing it
//! really runs every line.
//!
//! Nothing depends on time, so that tests need not wait.

use super::call::Call;
use super::reply::{ApiError, Content, Dialect, Reply};
use super::state::now;
use super::{chat, completions, embeddings, files, routes};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Request {
    input_file_id: Option<String>,
    endpoint: Option<String>,
    completion_window: Option<String>,
    metadata: Option<Value>,
}

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(Dialect::OpenAi)?;
    let input = request.input_file_id.ok_or_else(|| ApiError::missing("input_file_id"))?;
    let endpoint = request.endpoint.ok_or_else(|| ApiError::missing("endpoint"))?;
    let window = request.completion_window.ok_or_else(|| ApiError::missing("completion_window"))?;
    let id = call.state.id("batch_", 32);
    let created = now();
    let batch = json!({
        "id": id, "object": "batch", "endpoint": endpoint, "input_file_id": input, "errors": null,
        "completion_window": window, "status": "validating", "output_file_id": null, "error_file_id": null,
        "created_at": created, "in_progress_at": null, "expires_at": created + 86_400, "finalizing_at": null,
        "completed_at": null, "failed_at": null, "expired_at": null, "cancelling_at": null,
        "cancelled_at": null, "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": request.metadata,
    });
    call.state.batches.put(&id, batch.clone(), Bytes::new());
    Ok(Reply::value(&batch))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (after, limit) = routes::page(call.parts);
    let (data, has_more) = call.state.batches.page(after.as_deref(), limit);
    Ok(Reply::value(&files::listed(data, has_more)))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let text =
        |batch: &Value, key: &str| batch.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let batch = call.state.batches.find(call.id).ok_or_else(|| unknown(call.id))?.object;
    let input = call.state.files.find(&text(&batch, "input_file_id"));
    let change = match (text(&batch, "status").as_str(), input) {
        ("validating", None) => {
            let error = json!({
                "code": "invalid_file", "message": "The input file does not exist.",
                "param": "input_file_id", "line": null,
            });
            json!({
                "status": "failed", "failed_at": now(), "errors": {"object": "list", "data": [error]},
            })
        }
        ("validating", Some(input)) => {
            let total = lines(&input.content).count();
            json!({
                "status": "in_progress", "in_progress_at": now(),
                "request_counts": {"total": total, "completed": 0, "failed": 0},
            })
        }
        ("in_progress", Some(input)) => complete(call, &input.content),
        ("cancelling", _) => json!({"status": "cancelled", "cancelled_at": now()}),
        _ => json!({}),
    };
    changed(call, &change)
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let batch = call.state.batches.find(call.id).ok_or_else(|| unknown(call.id))?.object;
    match batch.get("status").and_then(Value::as_str) {
        Some("validating" | "in_progress") => {
            changed(call, &json!({"status": "cancelling", "cancelling_at": now()}))
        }
        status => {
            let status = status.unwrap_or_default();
            Err(ApiError::bad(format!("Cannot cancel a batch with status '{status}'.")))
        }
    }
}

fn changed(call: &Call<'_>, change: &Value) -> Result<Reply, ApiError> {
    let batch = call.state.batches.change(call.id, |batch| merge(batch, change));
    Ok(Reply::value(&batch.ok_or_else(|| unknown(call.id))?))
}

/// Overwrites the members of `object` that `change` has.
pub(super) fn merge(object: &mut Value, change: &Value) {
    if let (Some(object), Some(change)) = (object.as_object_mut(), change.as_object()) {
        object.extend(change.clone());
    }
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("No batch found with id '{id}'."))
}

fn lines(content: &Bytes) -> impl Iterator<Item = &[u8]> {
    content.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

fn complete(call: &Call<'_>, input: &Bytes) -> Value {
    let mut total = 0;
    let mut failed = 0;
    let mut output = String::new();
    for line in lines(input) {
        let (status, output_line) = run_line(call, line);
        total += 1;
        failed += u64::from(status != 200);
        output.push_str(&output_line.to_string());
        output.push('\n');
    }
    let length = output.len() as u64;
    let file = files::store(call, "output.jsonl", "batch_output", length, Bytes::from(output));
    json!({
        "status": "completed", "finalizing_at": now(), "completed_at": now(), "output_file_id": file.get("id"),
        "request_counts": {"total": total, "completed": total - failed, "failed": failed},
    })
}

/// Runs one input line; returns its status and the line of the output file.
fn run_line(call: &Call<'_>, line: &[u8]) -> (u16, Value) {
    let line: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
    let body = Bytes::from(line.get("body").unwrap_or(&Value::Null).to_string());
    let line_call = Call { body: &body, id: "", ..*call };
    let reply = match text("url").trim_start_matches("/v1") {
        "/chat/completions" => chat::create(&line_call),
        "/completions" => completions::create(&line_call),
        "/embeddings" => embeddings::create(&line_call),
        url => Err(ApiError::invalid("url", format!("The emulator has no batches for '{url}'."))),
    };
    let reply = reply.unwrap_or_else(Reply::from);
    let response_body = match reply.content {
        Content::Whole(text) => serde_json::from_slice(&text).unwrap_or_default(),
        // A batch line has no place for a stream.
        Content::Events(..) => Value::Null,
    };
    let status = reply.script.status.unwrap_or(reply.status).as_u16();
    let record = json!({
        "id": call.state.id("batch_req_", 24), "custom_id": text("custom_id"), "error": null,
        "response": {"status_code": status, "request_id": call.state.id("req_", 24), "body": response_body},
    });
    (status, record)
}
