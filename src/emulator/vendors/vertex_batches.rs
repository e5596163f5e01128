//! Vertex AI's batches of Gemini and Claude: batch prediction jobs. Each `GET` of a job advances it one step (pending, running,
//! succeeded); completing it runs every line. A job that is cancelled while it runs has done half of its lines.
//!
//! Its objects are in [`super::buckets`].

use super::buckets;
use super::line_run;
use crate::batches::merge;
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use crate::{anthropic, gemini};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Gemini;
const INPUT: &str = "/inputConfig/gcsSource/uris/0";
const OUTPUT: &str = "/outputConfig/gcsDestination/outputUriPrefix";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    display_name: String,
    model: String,
    input_config: Value,
    output_config: Value,
}

/// `POST /projects/<p>/locations/<l>/batchPredictionJobs`.
pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(DIALECT)?;
    if !request.model.starts_with("publishers/") || request.model.contains("/missing-") {
        let message = format!("The PublisherModel {} does not exist.", request.model);
        return Err(ApiError::not_found(message).in_dialect(DIALECT));
    }
    let path = call.parts.uri.path();
    let parent = path.find("/projects/").and_then(|at| path.get(at + 1..)).unwrap_or_default();
    let id = call.state.id("", 12);
    let job = json!({
        "name": format!("{parent}/{id}"), "displayName": request.display_name, "model": request.model,
        "inputConfig": request.input_config, "outputConfig": request.output_config, "state": "JOB_STATE_PENDING",
    });
    if [INPUT, OUTPUT].iter().any(|uri| job.pointer(uri).and_then(Value::as_str).is_none()) {
        let message = "Input and output must be locations in Cloud Storage.";
        return Err(ApiError::bad(message).in_dialect(DIALECT));
    }
    call.state.vendors.prediction_jobs.put(&id, job.clone(), Bytes::new());
    Ok(Reply::value(&job))
}

/// `GET /projects/<p>/locations/<l>/batchPredictionJobs?filter=display_name="<name>"`.
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let filter = call.query("filter").unwrap_or_default();
    let wanted = filter.strip_prefix("display_name=").map(|name| name.trim_matches('"'));
    let (mut jobs, _) = call.state.vendors.prediction_jobs.page(None, 100);
    jobs.retain(|job| wanted.is_none() || text(job, "displayName") == wanted);
    Ok(Reply::value(&if jobs.is_empty() { json!({}) } else { json!({"batchPredictionJobs": jobs}) }))
}

/// `GET .../batchPredictionJobs/<id>`.
pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = find(call, call.id)?;
    let change = match text(&job, "state") {
        Some("JOB_STATE_PENDING") => check(call, &job),
        Some("JOB_STATE_RUNNING") => complete(call, &job),
        Some("JOB_STATE_CANCELLING") => {
            json!({"state": "JOB_STATE_CANCELLED", "error": {"code": 1, "message": "CANCELED"}})
        }
        _ => json!({}),
    };
    changed(call, call.id, &change)
}

/// `POST .../batchPredictionJobs/<id>:cancel`.
pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let id = call.id.strip_suffix(":cancel").ok_or_else(|| missing(call.id))?;
    let job = find(call, id)?;
    match text(&job, "state") {
        Some("JOB_STATE_PENDING") => {}
        Some("JOB_STATE_RUNNING") => {
            let lines = lines(call, &job);
            let half = lines.len().div_ceil(2);
            let folder = write(call, &job, lines.get(..half).unwrap_or_default());
            changed(call, id, &json!({"outputInfo": {"gcsOutputDirectory": folder}}))?;
        }
        _ => return Err(ApiError::bad("The job has ended.").in_dialect(DIALECT)),
    }
    changed(call, id, &json!({"state": "JOB_STATE_CANCELLING"}))?;
    Ok(Reply::value(&json!({})))
}

fn check(call: &Call<'_>, job: &Value) -> Value {
    let uri = job.pointer(INPUT).and_then(Value::as_str).unwrap_or_default();
    let records = buckets::read(call, uri).map(|content| line_run::lines(&content).collect::<Vec<_>>());
    match records {
        Some(records) if records.iter().all(|record| record.get("request").is_some()) => {
            json!({"state": "JOB_STATE_RUNNING"})
        }
        Some(_) => failed(3, "Failed to import data. A line has no request."),
        None => failed(9, &format!("Failed to get {uri}. Please check that it exists.")),
    }
}

fn failed(code: u32, message: &str) -> Value {
    json!({"state": "JOB_STATE_FAILED", "error": {"code": code, "message": message}})
}

fn complete(call: &Call<'_>, job: &Value) -> Value {
    let lines = lines(call, job);
    let folder = write(call, job, &lines);
    let failed = lines.iter().filter(|line| text(line, "status") != Some("")).count();
    json!({
        "state": "JOB_STATE_SUCCEEDED", "outputInfo": {"gcsOutputDirectory": folder},
        "completionStats": {
            "successfulCount": (lines.len() - failed).to_string(), "failedCount": failed.to_string(),
        },
    })
}

/// The lines of the output, in the order of the input: those of the input with status and response.
fn lines(call: &Call<'_>, job: &Value) -> Vec<Value> {
    let uri = job.pointer(INPUT).and_then(Value::as_str).unwrap_or_default();
    let content = buckets::read(call, uri).unwrap_or_default();
    let model = text(job, "model").unwrap_or_default();
    let name = model.rsplit('/').next().unwrap_or_default();
    let is_claude = model.starts_with("publishers/anthropic/");
    let method = format!("{name}:generateContent");
    let run = |mut record: Value| {
        let mut request = record.get("request").cloned().unwrap_or_default();
        let (status, response) = if is_claude {
            merge(&mut request, &json!({"model": name}));
            line_run::run(
                call,
                |call| line_run::refusing(call, anthropic::create, Dialect::Anthropic),
                "",
                &request,
            )
        } else {
            line_run::run(call, |call| line_run::refusing(call, gemini::respond, DIALECT), &method, &request)
        };
        merge(
            &mut record,
            &match status.as_u16() {
                200 => json!({"status": "", "response": response}),
                400 => json!({"status": format!("Bad Request: {response}"), "response": {}}),
                _ => json!({"status": format!("Error: {response}"), "response": {}}),
            },
        );
        record
    };
    line_run::lines(&content).map(run).collect()
}

/// Writes the output and returns its folder.
fn write(call: &Call<'_>, job: &Value, lines: &[Value]) -> String {
    let prefix = job.pointer(OUTPUT).and_then(Value::as_str).unwrap_or_default().trim_end_matches('/');
    let folder = format!("{prefix}/prediction-model-2026-01-01T00:00:00.000000Z");
    let name = format!("{}/predictions.jsonl", folder.trim_start_matches("gs://"));
    buckets::store(call, &name, line_run::jsonl(lines.iter().cloned().rev()));
    folder
}

fn find(call: &Call<'_>, id: &str) -> Result<Value, ApiError> {
    Ok(call.state.vendors.prediction_jobs.find(id).ok_or_else(|| missing(id))?.object)
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("The BatchPredictionJob {id} does not exist.")).in_dialect(DIALECT)
}

fn changed(call: &Call<'_>, id: &str, change: &Value) -> Result<Reply, ApiError> {
    let job = call.state.vendors.prediction_jobs.change(id, |job| merge(job, change));
    Ok(Reply::value(&job.unwrap_or_default()))
}

fn text<'v>(job: &'v Value, name: &str) -> Option<&'v str> {
    job.get(name).and_then(Value::as_str)
}
