//! Fireworks' batches: datasets and batch inference jobs. Each `GET` of a job advances it one step (validating, running,
//! completed); completing it runs every line. A job cannot be cancelled, only deleted.

use super::line_run;
use crate::batches::merge;
use crate::call::Call;
use crate::chat;
use crate::multipart::Form;
use crate::reply::{ApiError, Dialect, Reply};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where signed addresses are, below the emulator's own.
pub(super) const STORAGE: &str = "/storage.googleapis.com/";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewDataset {
    dataset_id: String,
    dataset: Dataset,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dataset {
    example_count: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewJob {
    #[serde(default)]
    display_name: String,
    model: String,
    input_dataset_id: String,
}

/// `POST /accounts/<account>/datasets`.
pub(super) fn create_dataset(call: &Call<'_>) -> Result<Reply, ApiError> {
    let new: NewDataset = call.read(Dialect::Cohere)?;
    if new.dataset.example_count.is_none() {
        return Ok(error(StatusCode::BAD_REQUEST, 3, "example_count is required for uploaded datasets"));
    }
    let name = format!("{}/{}", resource(call), new.dataset_id);
    if call.state.vendors.datasets.find(&name).is_some() {
        return Ok(error(StatusCode::CONFLICT, 6, "dataset already exists"));
    }
    let dataset = json!({"name": name, "state": "UPLOADING", "userUploaded": {}});
    call.state.vendors.datasets.put(&name, dataset.clone(), Bytes::new());
    Ok(Reply::value(&dataset))
}

/// `POST /accounts/<account>/datasets/<id>:upload`.
pub(super) fn upload(call: &Call<'_>, form: &Form) -> Result<Reply, ApiError> {
    let file = form.field("file").ok_or_else(|| ApiError::missing("file"))?;
    let resource = resource(call);
    let name = resource.trim_end_matches(":upload");
    if call.state.vendors.datasets.find(name).is_none() {
        return Ok(missing());
    }
    call.state.vendors.datasets.remove(name);
    let dataset = json!({"name": name, "state": "READY", "userUploaded": {}});
    call.state.vendors.datasets.put(name, dataset, Bytes::copy_from_slice(&file.kept));
    Ok(Reply::value(&json!({
        "id": name, "object": "file", "bytes": file.length, "filename": file.filename, "purpose": "dataset",
    })))
}

/// `POST /accounts/<account>/batchInferenceJobs?batchInferenceJobId=<id>`.
pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let new: NewJob = call.read(Dialect::Cohere)?;
    let id = call.query("batchInferenceJobId").unwrap_or_else(|| call.state.id("", 12).to_ascii_lowercase());
    let name = format!("{}/{id}", resource(call));
    if call.state.vendors.inference_jobs.find(&name).is_some() {
        return Ok(error(StatusCode::CONFLICT, 6, "job already exists"));
    }
    let dataset = call.state.id("bij-", 8).to_ascii_lowercase();
    let output = format!("{}/datasets/{dataset}", resource(call).trim_end_matches("/batchInferenceJobs"));
    let job = json!({
        "name": name, "displayName": new.display_name, "state": "JOB_STATE_VALIDATING",
        "status": {"code": "OK", "message": ""}, "model": new.model, "inputDatasetId": new.input_dataset_id,
        "outputDatasetId": output, "jobProgress": null,
    });
    call.state.vendors.inference_jobs.put(&name, job.clone(), Bytes::new());
    Ok(Reply::value(&job))
}

/// `GET /accounts/<account>/batchInferenceJobs`.
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (jobs, _) = call.state.vendors.inference_jobs.page(None, 200);
    Ok(Reply::value(&json!({"batchInferenceJobs": jobs, "nextPageToken": "", "totalSize": jobs.len()})))
}

/// `GET /accounts/<account>/batchInferenceJobs/<id>`.
pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let name = resource(call);
    let Some(job) = call.state.vendors.inference_jobs.find(name) else { return Ok(missing()) };
    let change = match text(&job.object, "state") {
        "JOB_STATE_VALIDATING" => check(call, &job.object),
        "JOB_STATE_RUNNING" => complete(call, &job.object),
        _ => json!({}),
    };
    let job = call.state.vendors.inference_jobs.change(name, |job| merge(job, &change));
    Ok(Reply::value(&job.unwrap_or_default()))
}

/// `DELETE /accounts/<account>/batchInferenceJobs/<id>`.
pub(super) fn delete(call: &Call<'_>) -> Result<Reply, ApiError> {
    let state = json!({"state": "JOB_STATE_DELETING_CLEANING_UP"});
    Ok(match call.state.vendors.inference_jobs.change(resource(call), |job| merge(job, &state)) {
        Some(_) => Reply::value(&json!({})),
        None => missing(),
    })
}

/// `GET /accounts/<account>/datasets/<id>:getDownloadEndpoint`.
pub(super) fn downloads(call: &Call<'_>) -> Result<Reply, ApiError> {
    let name = resource(call).trim_end_matches(":getDownloadEndpoint");
    let host = call.parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = call.parts.uri.path();
    let base = path.find("/accounts/").and_then(|at| path.get(..at)).unwrap_or_default();
    let mut urls = Map::new();
    for file in ["BIJOutputSet.jsonl", "error-data"] {
        if call.state.vendors.objects.find(&format!("{name}/{file}")).is_some() {
            let url =
                format!("http://{host}{base}{STORAGE}{name}/{file}?X-Goog-Expires=599&X-Goog-Signature=0");
            urls.insert(format!("dataset/{file}"), url.into());
        }
    }
    Ok(if urls.is_empty() { missing() } else { Reply::value(&json!({"filenameToSignedUrls": urls})) })
}

/// `GET /storage.googleapis.com/<name>`: a signed address needs no key, and refuses one.
pub(super) fn download(call: &Call<'_>) -> Result<Reply, ApiError> {
    if call.parts.headers.contains_key(header::AUTHORIZATION) || call.query("X-Goog-Signature").is_none() {
        return Ok(error(StatusCode::BAD_REQUEST, 3, "A signed address is used with its signature alone."));
    }
    Ok(match call.state.vendors.objects.find(call.id) {
        Some(file) => Reply::whole(HeaderValue::from_static("application/octet-stream"), file.content),
        None => missing(),
    })
}

fn check(call: &Call<'_>, job: &Value) -> Value {
    let failed = |message: &str| json!({"state": "JOB_STATE_FAILED", "status": {"code": "INVALID_ARGUMENT", "message": message}});
    let Some(dataset) = call.state.vendors.datasets.find(text(job, "inputDatasetId")) else {
        return failed("the input dataset does not exist");
    };
    let is_good = |line: &Value| {
        let body = line.get("body").and_then(Value::as_object);
        let has_chat = body.is_some_and(|body| body.contains_key("messages") && !body.contains_key("model"));
        has_chat && line.get("custom_id").is_some_and(Value::is_string)
    };
    if line_run::lines(&dataset.content).all(|line| is_good(&line)) {
        json!({"state": "JOB_STATE_RUNNING"})
    } else {
        failed("Dataset has a syntax error: chat dataset validation failed")
    }
}

fn complete(call: &Call<'_>, job: &Value) -> Value {
    let content =
        call.state.vendors.datasets.find(text(job, "inputDatasetId")).map(|dataset| dataset.content);
    let lines: Vec<Value> = line_run::lines(&content.unwrap_or_default()).collect();
    let model = text(job, "model").rsplit('/').next().unwrap_or_default();
    let mut results = Vec::new();
    let mut errors = Vec::new();
    for line in &lines {
        let mut request = line.get("body").cloned().unwrap_or_default();
        merge(&mut request, &json!({"model": model}));
        let id = line.get("custom_id");
        match line_run::run(
            call,
            |call| line_run::refusing(call, chat::create, Dialect::OpenAi),
            "",
            &request,
        ) {
            (StatusCode::OK, response) => results.push(json!({"custom_id": id, "response": response})),
            (status, response) => {
                let message = response.pointer("/error/message");
                errors.push(json!({"custom_id": id, "error": {"code": status.as_u16(), "message": message}}));
            }
        }
    }
    let output = text(job, "outputDatasetId");
    let succeeded = results.len();
    let failed = errors.len();
    for (file, lines) in [("BIJOutputSet.jsonl", results), ("error-data", errors)] {
        let name = format!("{output}/{file}");
        call.state.vendors.objects.put(
            &name,
            json!({"name": name}),
            line_run::jsonl(lines.into_iter().rev()),
        );
    }
    json!({
        "state": "JOB_STATE_COMPLETED",
        "jobProgress": {
            "totalInputRequests": lines.len(), "successfullyProcessedRequests": succeeded, "failedRequests": failed,
        },
    })
}

/// The name in the path: `accounts/<account>/...`.
fn resource<'c>(call: &'c Call<'_>) -> &'c str {
    let path = call.parts.uri.path();
    path.find("/accounts/").and_then(|at| path.get(at + 1..)).unwrap_or_default()
}

fn missing() -> Reply {
    error(StatusCode::NOT_FOUND, 5, "resource not found")
}

/// An error as gRPC's gateway writes it.
fn error(status: StatusCode, code: u32, message: &str) -> Reply {
    Reply { status, ..Reply::value(&json!({"code": code, "message": message, "details": []})) }
}

fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
