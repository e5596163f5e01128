//! Bedrock's batches: model invocation jobs. Each `GET` of a job advances it one step (submitted, in progress, completed);
//! completing it runs every line. A job that is stopped while it runs has done half of its lines.
//!
//! Its objects are in [`super::buckets`].

use super::buckets;
use super::line_run;
use crate::batches::merge;
use crate::bedrock;
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Bedrock;

/// The quota of most models.
const MIN_RECORDS: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    job_name: String,
    client_request_token: Option<String>,
    role_arn: String,
    model_id: String,
    model_invocation_type: Option<String>,
    timeout_duration_in_hours: Option<u32>,
    input_data_config: Value,
    output_data_config: Value,
}

/// `POST /model-invocation-job`.
pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Request = call.read(DIALECT)?;
    if !request.role_arn.starts_with("arn:aws:iam::") {
        return Err(bad("The provided role is not a role."));
    }
    if request.timeout_duration_in_hours.is_some_and(|hours| !(24..=168).contains(&hours)) {
        return Err(bad("timeoutDurationInHours must be between 24 and 168."));
    }
    let uri = |config: &Value, name: &str| {
        let uri = config.pointer(&format!("/{name}/s3Uri")).and_then(Value::as_str);
        uri.filter(|uri| uri.starts_with("s3://")).map(str::to_owned)
    };
    let input = uri(&request.input_data_config, "s3InputDataConfig");
    let output = uri(&request.output_data_config, "s3OutputDataConfig");
    let (Some(input), Some(output)) = (input, output) else {
        return Err(bad("Input and output must be locations in S3."));
    };
    let (jobs, _) = call.state.vendors.invocation_jobs.page(None, usize::MAX);
    let token = request.client_request_token;
    let earlier =
        jobs.iter().find(|job| token.is_some() && text(job, "clientRequestToken") == token.as_deref());
    if let Some(job) = earlier {
        return Ok(Reply::value(&json!({"jobArn": job.get("jobArn")})));
    }
    let id = call.state.id("", 12).to_ascii_lowercase();
    let arn = format!("arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/{id}");
    let job = json!({
        "jobArn": arn, "jobName": request.job_name, "clientRequestToken": token, "roleArn": request.role_arn,
        "modelId": request.model_id, "status": "Submitted", "message": null,
        "modelInvocationType": request.model_invocation_type.unwrap_or_else(|| "InvokeModel".to_owned()),
        "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": input}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": output}},
        "submitTime": "2026-01-01T00:00:00Z",
    });
    call.state.vendors.invocation_jobs.put(&id, job, Bytes::new());
    Ok(Reply::value(&json!({"jobArn": arn})))
}

/// `GET /model-invocation-jobs`.
pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let wanted = call.query("nameContains").unwrap_or_default();
    let (mut jobs, _) = call.state.vendors.invocation_jobs.page(None, 1000);
    jobs.retain(|job| text(job, "jobName").is_some_and(|name| name.contains(&wanted)));
    Ok(Reply::value(&json!({"invocationJobSummaries": jobs})))
}

/// `GET /model-invocation-job/<id or ARN>`.
pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = find(call)?;
    let change = match text(&job, "status") {
        Some("Submitted") => check(call, &job),
        Some("InProgress") => complete(call, &job),
        Some("Stopping") => json!({"status": "Stopped"}),
        _ => json!({}),
    };
    changed(call, &change)
}

/// `POST /model-invocation-job/<id or ARN>/stop`.
pub(super) fn stop(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = find(call)?;
    match text(&job, "status") {
        Some("InProgress") => {
            let lines = lines(call, &job);
            let half = lines.len().div_ceil(2);
            write(call, &job, lines.get(..half).unwrap_or_default());
        }
        Some("Submitted") => {}
        status => {
            let message = format!("The job cannot be stopped: it is {}.", status.unwrap_or_default());
            return Err(bad(&message));
        }
    }
    changed(call, &json!({"status": "Stopping"}))?;
    Ok(Reply::json(Bytes::new()))
}

fn check(call: &Call<'_>, job: &Value) -> Value {
    let uri = job.pointer("/inputDataConfig/s3InputDataConfig/s3Uri").and_then(Value::as_str);
    let records = uri
        .and_then(|uri| buckets::read(call, uri))
        .map(|content| line_run::lines(&content).collect::<Vec<_>>());
    let message = match records {
        None => "The input location does not exist.".to_owned(),
        Some(records) if records.len() < MIN_RECORDS => {
            format!("The input has {} records; the minimum is {MIN_RECORDS}.", records.len())
        }
        Some(records) if records.iter().any(|record| record.get("modelInput").is_none()) => {
            "A record has no modelInput.".to_owned()
        }
        Some(_) => return json!({"status": "InProgress"}),
    };
    json!({"status": "Failed", "message": message})
}

fn complete(call: &Call<'_>, job: &Value) -> Value {
    let lines = lines(call, job);
    write(call, job, &lines);
    let failed = lines.iter().filter(|line| line.get("error").is_some()).count();
    json!({
        "status": "Completed", "totalRecordCount": lines.len(), "processedRecordCount": lines.len(),
        "successRecordCount": lines.len() - failed, "errorRecordCount": failed,
    })
}

/// The lines of the output, in the order of the input.
fn lines(call: &Call<'_>, job: &Value) -> Vec<Value> {
    let uri = job.pointer("/inputDataConfig/s3InputDataConfig/s3Uri").and_then(Value::as_str);
    let content = uri.and_then(|uri| buckets::read(call, uri)).unwrap_or_default();
    let model = text(job, "modelId").unwrap_or_default();
    let is_converse = text(job, "modelInvocationType") == Some("Converse");
    let run = |record: Value| {
        let input = record.get("modelInput").unwrap_or(&Value::Null);
        let (status, response) = if is_converse {
            line_run::run(call, |call| line_run::refusing(call, bedrock::converse, DIALECT), model, input)
        } else {
            (StatusCode::BAD_REQUEST, json!({"message": "The emulator has no model for InvokeModel."}))
        };
        let mut line = json!({"recordId": record.get("recordId"), "modelInput": input});
        merge(
            &mut line,
            &match status.as_u16() {
                200 => json!({"modelOutput": response}),
                _ => {
                    json!({"error": {"errorCode": status.as_u16(), "errorMessage": response.get("message")}})
                }
            },
        );
        line
    };
    line_run::lines(&content).map(run).collect()
}

/// Writes the output where Bedrock does: in a folder with the job's id, under the name of the input.
fn write(call: &Call<'_>, job: &Value, lines: &[Value]) {
    let uri = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let input = uri("/inputDataConfig/s3InputDataConfig/s3Uri");
    let folder =
        uri("/outputDataConfig/s3OutputDataConfig/s3Uri").trim_start_matches("s3://").trim_end_matches('/');
    let id = text(job, "jobArn").and_then(|arn| arn.rsplit('/').next()).unwrap_or_default();
    let file = input.rsplit('/').next().unwrap_or_default();
    buckets::store(call, &format!("{folder}/{id}/{file}.out"), line_run::jsonl(lines.iter().cloned().rev()));
    let manifest = json!({"totalRecordCount": lines.len(), "processedRecordCount": lines.len()});
    buckets::store(call, &format!("{folder}/{id}/manifest.json.out"), Bytes::from(manifest.to_string()));
}

fn find(call: &Call<'_>) -> Result<Value, ApiError> {
    let missing = || ApiError::not_found("The job does not exist.").in_dialect(DIALECT);
    Ok(call.state.vendors.invocation_jobs.find(id(call)).ok_or_else(missing)?.object)
}

fn changed(call: &Call<'_>, change: &Value) -> Result<Reply, ApiError> {
    let job = call.state.vendors.invocation_jobs.change(id(call), |job| merge(job, change));
    Ok(Reply::value(&job.unwrap_or_default()))
}

fn id<'c>(call: &'c Call<'_>) -> &'c str {
    call.id.rsplit('/').next().unwrap_or_default()
}

fn bad(message: &str) -> ApiError {
    ApiError::bad(message).in_dialect(DIALECT)
}

fn text<'v>(job: &'v Value, name: &str) -> Option<&'v str> {
    job.get(name).and_then(Value::as_str)
}
