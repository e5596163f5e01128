//! Batches of Mistral (`/batch/jobs`) and of Together (`/together/v1/batches`): made of an uploaded file of lines, whose results are files.
//! The second `GET` of a batch ends it: every line is really run then.
//!
//! Nothing depends on time, so that tests need not wait. OpenAI's batches are in `batches`.

use super::line_run;
use crate::batches::merge;
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use crate::state::now;
use crate::{chat, completions, embeddings, files};
use bytes::Bytes;
use serde_json::{Value, json};

/// What the two vendors call the same.
struct Names {
    output: &'static str,
    errors: &'static str,
    running: &'static str,
    completed: &'static str,
    canceled: &'static str,
}

const MISTRAL: Names = Names {
    output: "output_file",
    errors: "error_file",
    running: "RUNNING",
    completed: "SUCCESS",
    canceled: "CANCELLED",
};

const TOGETHER: Names = Names {
    output: "output_file_id",
    errors: "error_file_id",
    running: "IN_PROGRESS",
    completed: "COMPLETED",
    canceled: "CANCELLED",
};

pub(super) fn create_mistral(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Value = call.read(Dialect::OpenAi)?;
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str);
    let input = text("/input_files/0").ok_or_else(|| ApiError::missing("input_files"))?;
    let endpoint = text("/endpoint").ok_or_else(|| ApiError::missing("endpoint"))?;
    let model = text("/model").ok_or_else(|| ApiError::missing("model"))?;
    let content = input_content(call, input)?;
    let id = call.state.id("", 32);
    let job = json!({
        "id": id, "object": "batch", "input_files": [input], "endpoint": endpoint, "model": model,
        "metadata": request.get("metadata"), "agent_id": null, "output_file": null, "error_file": null, "errors": [],
        "status": "QUEUED", "created_at": now(), "started_at": null, "completed_at": null,
        "total_requests": line_run::lines(&content).count(), "completed_requests": 0, "succeeded_requests": 0,
        "failed_requests": 0,
    });
    call.state.vendors.batches.put(&id, job.clone(), content);
    Ok(Reply::value(&job))
}

pub(super) fn list_mistral(call: &Call<'_>) -> Result<Reply, ApiError> {
    let jobs = listed(call, "input_files");
    Ok(Reply::value(&json!({"object": "list", "total": jobs.len(), "data": jobs})))
}

pub(super) fn create_together(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Value = call.read(Dialect::OpenAi)?;
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let input = text("input_file_id").ok_or_else(|| ApiError::missing("input_file_id"))?;
    let endpoint = text("endpoint").ok_or_else(|| ApiError::missing("endpoint"))?;
    let content = input_content(call, input)?;
    let id = call.state.id("", 32);
    let batch = json!({
        "id": id, "user_id": "user", "input_file_id": input, "file_size_bytes": content.len(), "status": "VALIDATING",
        "created_at": "2026-01-01T00:00:00Z", "endpoint": endpoint, "progress": 0,
    });
    call.state.vendors.batches.put(&id, batch.clone(), content);
    Ok(Reply::value(&json!({"job": batch})))
}

pub(super) fn list_together(call: &Call<'_>) -> Result<Reply, ApiError> {
    Ok(Reply::value(&Value::from(listed(call, "input_file_id"))))
}

pub(super) fn one_of_mistral(call: &Call<'_>) -> Result<Reply, ApiError> {
    one(call, &MISTRAL)
}

pub(super) fn one_of_together(call: &Call<'_>) -> Result<Reply, ApiError> {
    one(call, &TOGETHER)
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let batch = call.state.vendors.batches.change(call.id, |batch| {
        if !is_over(batch) {
            merge(batch, &json!({"status": "CANCELLED"}));
        }
    });
    Ok(Reply::value(&line_run::view(batch.ok_or_else(|| unknown(call.id))?)))
}

fn input_content(call: &Call<'_>, file: &str) -> Result<Bytes, ApiError> {
    let file = call.state.files.find(file).ok_or_else(|| ApiError::not_found(format!("No file {file}.")))?;
    Ok(file.content)
}

/// The batches that have this member.
fn listed(call: &Call<'_>, member: &str) -> Vec<Value> {
    let (all, _) = call.state.vendors.batches.page(None, 1000);
    all.into_iter().filter(|batch| batch.get(member).is_some()).map(line_run::view).collect()
}

fn is_over(batch: &Value) -> bool {
    let status = batch.get("status").and_then(Value::as_str).unwrap_or_default();
    [MISTRAL, TOGETHER].iter().any(|names| status == names.completed || status == names.canceled)
}

fn one(call: &Call<'_>, names: &Names) -> Result<Reply, ApiError> {
    let mut steps = 0;
    let batch = call.state.vendors.batches.change(call.id, |batch| steps = line_run::step(batch));
    let batch = batch.ok_or_else(|| unknown(call.id))?;
    let change = match steps {
        _ if is_over(&batch) => json!({}),
        0 => json!({"status": names.running}),
        _ => complete(call, &batch, names),
    };
    let batch = call.state.vendors.batches.change(call.id, |batch| merge(batch, &change));
    Ok(Reply::value(&line_run::view(batch.unwrap_or_default())))
}

/// Runs all lines, and stores those that succeeded and those that failed as files.
fn complete(call: &Call<'_>, batch: &Value, names: &Names) -> Value {
    let content = call.state.vendors.batches.find(call.id).map(|item| item.content).unwrap_or_default();
    let endpoint = batch.get("endpoint").and_then(Value::as_str).unwrap_or_default();
    let mut output = Vec::new();
    let mut errors = Vec::new();
    for line in line_run::lines(&content) {
        let mut body = line.get("body").cloned().unwrap_or_default();
        if let (Some(body), Some(model)) = (body.as_object_mut(), batch.get("model")) {
            body.insert("model".to_owned(), model.clone());
        }
        let (status, response) = match endpoint {
            "/v1/embeddings" => line_run::run(call, embeddings::create, "", &body),
            "/v1/completions" => line_run::run(call, completions::create, "", &body),
            _ => line_run::run(call, chat::create, "", &body),
        };
        let result = json!({
            "id": call.state.id("batch-", 24), "custom_id": line.get("custom_id"),
            "response": {"status_code": status.as_u16(), "body": response}, "error": null,
        });
        if status.is_success() { output.push(result) } else { errors.push(result) }
    }
    let store = |lines: Vec<Value>| {
        let content = line_run::jsonl(lines.into_iter());
        let length = content.len() as u64;
        let file = (length > 0).then(|| files::store(call, "results.jsonl", "batch", length, content));
        file.and_then(|file| file.get("id").cloned())
    };
    json!({"status": names.completed, names.output: store(output), names.errors: store(errors)})
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("No batch found with id '{id}'."))
}
