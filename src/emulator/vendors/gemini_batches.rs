//! Batch jobs of the Gemini API: uploads, jobs of a file, their results. The third `GET` of a job ends it: every line is really run then.
//!
//! Nothing depends on time, so that tests need not wait.

use super::line_run;
use crate::batches::merge;
use crate::call::Call;
use crate::gemini;
use crate::reply::{ApiError, Dialect, Reply};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use memchr::memmem;
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Gemini;

/// `POST /upload/v1beta/files`, with `multipart/related`: the file's metadata, then its content.
pub(super) fn upload(call: &Call<'_>) -> Result<Reply, ApiError> {
    let kind = call.parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/related").and_then(|kind| kind.split_once("boundary="));
    let boundary = boundary.map(|(_, boundary)| boundary.trim_matches('"'));
    let boundary = boundary.ok_or_else(|| bad("An upload is multipart/related with a boundary."))?;
    let parts = parts(call.body, boundary);
    let [metadata, content] = parts.as_slice() else { return Err(bad("An upload has two parts.")) };
    let metadata: Value =
        serde_json::from_slice(metadata).map_err(|why| bad(&format!("The metadata is no JSON: {why}.")))?;
    let content = Bytes::copy_from_slice(content);
    let name = call.state.id("", 12);
    let file = json!({
        "name": format!("files/{name}"), "displayName": metadata.pointer("/file/displayName"),
        "mimeType": metadata.pointer("/file/mimeType"), "sizeBytes": content.len().to_string(), "state": "ACTIVE",
    });
    call.state.vendors.files.put(&name, file.clone(), content);
    Ok(Reply::value(&json!({"file": file})).in_dialect(DIALECT))
}

/// The contents of the parts.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let delimiter = format!("--{boundary}");
    let starts: Vec<usize> = memmem::find_iter(body, delimiter.as_bytes()).collect();
    let ends = starts.iter().skip(1);
    let part = |(start, end): (&usize, &usize)| {
        let part = body.get(start + delimiter.len()..*end)?;
        let head = memmem::find(part, b"\r\n\r\n")?;
        part.get(head + 4..part.len().saturating_sub(2))
    };
    starts.iter().zip(ends).filter_map(part).collect()
}

/// `GET /download/v1beta/files/{name}:download`.
pub(super) fn download(call: &Call<'_>) -> Result<Reply, ApiError> {
    let name = call.id.strip_suffix(":download").unwrap_or(call.id);
    let file = call.state.vendors.files.find(name).ok_or_else(|| unknown(name))?;
    Ok(Reply::whole(HeaderValue::from_static("application/jsonl"), file.content).in_dialect(DIALECT))
}

/// `POST /v1beta/models/{model}:batchGenerateContent` and `:asyncBatchEmbedContent`.
pub(crate) fn create(call: &Call<'_>, model: &str, method: &str) -> Result<Reply, ApiError> {
    let request: Value = call.read(DIALECT)?;
    let file = request.pointer("/batch/inputConfig/fileName").and_then(Value::as_str);
    let file = file.ok_or_else(|| bad("batch.input_config is required, with the name of a file."))?;
    let input =
        call.state.vendors.files.find(file.trim_start_matches("files/")).ok_or_else(|| unknown(file))?;
    let id = call.state.id("", 16);
    let kind = if method == "asyncBatchEmbedContent" { "EmbedContentBatch" } else { "GenerateContentBatch" };
    let job = json!({
        "name": format!("batches/{id}"),
        "metadata": {
            "@type": format!("type.googleapis.com/google.ai.generativelanguage.v1main.{kind}"),
            "model": format!("models/{model}"), "displayName": request.pointer("/batch/displayName"),
            "state": "BATCH_STATE_PENDING", "createTime": "2026-01-01T00:00:00Z", "name": format!("batches/{id}"),
        },
    });
    call.state.vendors.batches.put(&id, job.clone(), input.content);
    Ok(Reply::value(&job).in_dialect(DIALECT))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (all, _) = call.state.vendors.batches.page(None, 1000);
    let jobs: Vec<Value> =
        all.into_iter().filter(|job| job.pointer("/metadata/state").is_some()).map(line_run::view).collect();
    Ok(Reply::value(&json!({"operations": jobs})).in_dialect(DIALECT))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let mut steps = 0;
    let job = call.state.vendors.batches.change(call.id, |job| steps = line_run::step(job));
    let job = job.ok_or_else(|| unknown(call.id))?;
    let change = match (state(&job), steps) {
        ("BATCH_STATE_PENDING", 0) => json!({"metadata": with_state(&job, "BATCH_STATE_RUNNING")}),
        ("BATCH_STATE_PENDING" | "BATCH_STATE_RUNNING", 2..) => complete(call, &job),
        _ => json!({}),
    };
    let job = call.state.vendors.batches.change(call.id, |job| merge(job, &change));
    Ok(Reply::value(&line_run::view(job.unwrap_or_default())).in_dialect(DIALECT))
}

/// `POST /v1beta/batches/{id}:cancel`.
pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let id = call.id.strip_suffix(":cancel").unwrap_or(call.id);
    let job = call.state.vendors.batches.change(id, |job| {
        if job.get("done").is_none() {
            let change = json!({"metadata": with_state(job, "BATCH_STATE_CANCELLED"), "done": true});
            merge(job, &change);
        }
    });
    job.ok_or_else(|| unknown(id))?;
    Ok(Reply::value(&json!({})).in_dialect(DIALECT))
}

fn complete(call: &Call<'_>, job: &Value) -> Value {
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let model = text("/metadata/model").trim_start_matches("models/").to_owned();
    let method = if text("/metadata/@type").ends_with("EmbedContentBatch") {
        "embedContent"
    } else {
        "generateContent"
    };
    let path = format!("{model}:{method}");
    let content = call.state.vendors.batches.find(call.id).map(|item| item.content).unwrap_or_default();
    let results = line_run::lines(&content).map(|line| {
        let key = line.get("key").cloned().unwrap_or_default();
        let request = line.get("request").unwrap_or(&Value::Null);
        let (status, body) = line_run::run(call, gemini::respond, &path, request);
        if status.is_success() {
            json!({"key": key, "response": body})
        } else {
            json!({"key": key, "error": body.get("error")})
        }
    });
    let output = line_run::jsonl(results);
    let id = call.state.id("batch-", 16);
    call.state.vendors.files.put(&id, Value::Null, output);
    let file = format!("files/{id}");
    json!({
        "metadata": with_state(job, "BATCH_STATE_SUCCEEDED"), "done": true,
        "response": {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatchOutput",
            "responsesFile": file,
        },
    })
}

fn state(job: &Value) -> &str {
    job.pointer("/metadata/state").and_then(Value::as_str).unwrap_or_default()
}

fn with_state(job: &Value, state: &str) -> Value {
    let mut metadata = job.get("metadata").cloned().unwrap_or_default();
    merge(&mut metadata, &json!({"state": state}));
    metadata
}

fn bad(message: &str) -> ApiError {
    ApiError::bad(message).in_dialect(DIALECT)
}

fn unknown(name: &str) -> ApiError {
    ApiError::not_found(format!("Requested entity was not found: {name}.")).in_dialect(DIALECT)
}
