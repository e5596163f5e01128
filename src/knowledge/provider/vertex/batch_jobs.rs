//! Vertex AI's batches of Gemini and Claude: batch prediction jobs, whose input and output are objects in a bucket of Cloud
//! Storage.
//!
//! A job is three kinds of calls: its input is uploaded to the bucket, the region runs it, its output is listed and read from
//! the bucket.
//!
//! Sources: <https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.batchPredictionJobs>,
//! <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/batch-prediction-from-cloud-storage>,
//! <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/batch>,
//! <https://docs.cloud.google.com/storage/docs/json_api/v1/objects>.
//! Not here: hosts (`address`), and what the importer of lines takes (`importable`).

mod importable;

use super::credential_source::CredentialSource;
use super::model::{ModelApi, ModelName};
use super::{ID, address};
use crate::provider::batch_jobs::jsonl::{parse, unreadable, write_line};
use crate::provider::batch_jobs::{
    BatchJobs, Job, JobCall, JobInput, JobLimits, JobOutcome, JobResult, JobResults, JobStatus,
};
use crate::provider::spec::encode_segment;
use bytes::Bytes;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use words::error::Error;

/// Batch prediction jobs.
#[derive(Debug)]
pub(crate) struct PredictionJobs;

/// The folder of all jobs in the bucket.
const FOLDER: &str = "turnpike-batches";

/// Before the number of a line: a value that looks like a number is changed into one where the input is imported.
const LINE: &str = "line-";

#[derive(Deserialize)]
struct JobName<'a> {
    name: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    #[serde(borrow, default)]
    batch_prediction_jobs: Vec<Summary<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    name: &'a str,
    #[serde(borrow)]
    display_name: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    state: String,
    error: Option<JobError>,
    output_info: Option<OutputInfo>,
}

#[derive(Deserialize)]
struct JobError {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputInfo {
    gcs_output_directory: Option<String>,
}

#[derive(Deserialize)]
struct Objects {
    #[serde(default)]
    items: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    name: String,
}

#[derive(Deserialize)]
struct OutputLine<'a> {
    custom_id: String,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    status: Option<String>,
}

/// The start of a response of Claude.
#[derive(Deserialize)]
struct MessageKind {
    r#type: Option<String>,
}

#[derive(Deserialize)]
struct StatusText {
    error: StatusError,
}

#[derive(Deserialize)]
struct StatusError {
    code: u16,
}

impl BatchJobs for PredictionJobs {
    fn limits(&self) -> JobLimits {
        JobLimits {
            max_lines: 100_000,
            min_lines: 1,
            max_bytes: 8 << 20,
            most_bytes: 8 << 20,
            one_model: true,
        }
    }

    /// It has no API for files.
    fn keeps_all_files(&self) -> bool {
        true
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if !job.operation.is_chat() {
            let message = "Batches on vertex-ai are chats or completions.";
            return Err(Error::invalid_request("endpoint", message).with_provider(ID));
        }
        let is_key = CredentialSource::from_account(job.account) == CredentialSource::Key
            && job.account.api_key.as_ref().is_some_and(|key| address::is_api_key(key.expose()));
        if is_key {
            let message = "A key of Vertex AI's express mode reaches no bucket: batches on vertex-ai need a project with a \
                           service account, a token or the machine's own identity.";
            return Err(Error::invalid_request("api_key", message).with_provider(ID));
        }
        address::location_path(job.account)?;
        bucket(job)?;
        if !job.model.is_empty() {
            model(job.model)?;
        }
        Ok(())
    }

    fn write_line(&self, line: u32, body: &[u8], job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        let body = match ModelName::parse(job.model).api {
            ModelApi::Gemini => importable::request(body)?,
            _ => Cow::Borrowed(body),
        };
        write_line("custom_id", format_args!("{LINE}{line}"), "request", &body, input);
        Ok(())
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        let key = input_key(job);
        let name = encode_segment(&key);
        let path = format!("{}/b/{}/o?uploadType=media&name={name}", address::STORAGE_UPLOAD, bucket(job)?);
        let jsonl = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
        Ok(vec![JobCall { method: Method::POST, path, headers: vec![jsonl], body: input.clone() }])
    }

    fn uploaded(&self, job: &Job<'_>, _response: &[u8]) -> Result<String, Error> {
        Ok(format!("gs://{}/{}", bucket(job)?, input_key(job)))
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let JobInput::Uploaded(input) = input else {
            return Err(Error::internal("vertex-ai's batches need an upload"));
        };
        let output = format!("gs://{}/{FOLDER}/{}/output", bucket(job)?, job.name);
        let body = json!({
            "displayName": job.name, "model": model(job.model)?,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input]}},
            "outputConfig": {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": output}},
        });
        Ok(JobCall::post(jobs(job)?, body.to_string()))
    }

    fn created(&self, response: &[u8]) -> Result<String, Error> {
        let created: JobName<'_> = parse(response)?;
        checked(created.name)
    }

    fn find(&self, job: &Job<'_>) -> Option<JobCall> {
        let jobs = jobs(job).ok()?;
        Some(JobCall::get(format!("{jobs}?filter=display_name%3D%22{}%22&pageSize=10", job.name)))
    }

    fn found(&self, job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        let found: Found<'_> = parse(response)?;
        let found = found.batch_prediction_jobs.iter().find(|summary| summary.display_name == job.name);
        found.map(|summary| checked(summary.name)).transpose()
    }

    fn status(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::get(id)
    }

    fn read_status(&self, _job: &Job<'_>, response: &[u8]) -> Result<JobStatus, Error> {
        let described: Described = parse(response)?;
        let folder = described.output_info.and_then(|info| info.gcs_output_directory);
        let results = || results(folder.as_deref());
        Ok(match described.state.as_str() {
            "JOB_STATE_SUCCEEDED" | "JOB_STATE_PARTIALLY_SUCCEEDED" => JobStatus::Ended(results()?),
            // The lines that were done are exported, and charged.
            "JOB_STATE_CANCELLED" => JobStatus::Cancelled(results()?),
            "JOB_STATE_EXPIRED" => JobStatus::Expired(results()?),
            "JOB_STATE_FAILED" => JobStatus::Failed {
                code: "batch_job_failed".to_owned(),
                message: described
                    .error
                    .map_or_else(|| "The job failed at vertex-ai.".to_owned(), |error| error.message),
                results: results()?,
            },
            // QUEUED, PENDING, RUNNING, CANCELLING, PAUSED, UPDATING, and what may come.
            _ => JobStatus::Running,
        })
    }

    fn listed(&self, job: &Job<'_>, response: &[u8]) -> Result<Vec<JobCall>, Error> {
        let mut objects: Objects = parse(response)?;
        let bucket = bucket(job)?;
        objects.items.retain(|object| object.name.ends_with(".jsonl"));
        objects.items.sort_by(|a, b| a.name.cmp(&b.name));
        let call = |object: &Object| {
            let name = encode_segment(&object.name);
            JobCall::get(format!("{}/b/{bucket}/o/{name}?alt=media", address::STORAGE))
        };
        Ok(objects.items.iter().map(call).collect())
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::post(format!("{id}:cancel"), "{}")
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        let output: OutputLine<'_> = parse(line)?;
        let number = output.custom_id.strip_prefix(LINE).and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| unreadable("an id of a line", &output.custom_id))?;
        let outcome = match (output.status.filter(|status| !status.is_empty()), output.response) {
            (Some(status), _) => failed(&status),
            (None, Some(response)) => {
                let kind =
                    serde_json::from_str::<MessageKind>(response.get()).ok().and_then(|kind| kind.r#type);
                let status = if kind.as_deref() == Some("error") { 400 } else { 200 };
                JobOutcome::Response { status, body: response.get().as_bytes().to_vec() }
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(JobResult { line: number, outcome }))
    }
}

/// The outcome of a failed line, whose status is `Bad Request: {"error": {"code": 400, ...}}`, or another text.
fn failed(text: &str) -> JobOutcome {
    let error = text.find('{').and_then(|at| text.get(at..));
    if let Some((error, parsed)) =
        error.and_then(|error| Some((error, serde_json::from_str::<StatusText>(error).ok()?)))
    {
        let status = if (400..600).contains(&parsed.error.code) { parsed.error.code } else { 500 };
        return JobOutcome::Response { status, body: error.as_bytes().to_vec() };
    }
    let status = if text.starts_with("Bad Request") { 400 } else { 500 };
    let body = json!({"error": {"code": status, "message": text, "status": "UNKNOWN"}});
    JobOutcome::Response { status, body: body.to_string().into_bytes() }
}

/// Where results are, in a folder that the job named. None where it wrote nothing.
fn results(folder: Option<&str>) -> Result<JobResults, Error> {
    let Some(folder) = folder else { return Ok(JobResults::NONE) };
    let parts = folder.strip_prefix("gs://").and_then(|rest| rest.split_once('/'));
    let (bucket, folder) = parts.ok_or_else(|| unreadable("a folder of results", folder))?;
    let prefix = format!("{}/", folder.trim_end_matches('/'));
    let bucket = encode_segment(bucket);
    let prefix = encode_segment(&prefix);
    let path =
        format!("{}/b/{bucket}/o?prefix={prefix}&maxResults=1000&fields=items(name)", address::STORAGE);
    Ok(JobResults::Listed(JobCall::get(path)))
}

/// The bucket of the account.
///
/// # Errors
/// 400 without one, and for a name that no bucket has.
fn bucket<'a>(job: &Job<'a>) -> Result<&'a str, Error> {
    let refused =
        |message: &str| Err(Error::invalid_request("cloud_b_storage_bucket_name", message).with_provider(ID));
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    match job.account.cloud_b.bucket.as_deref() {
        Some(bucket) if (3..=222).contains(&bucket.len()) && bucket.bytes().all(allowed) => Ok(bucket),
        Some(_) => refused(
            "cloud_b_storage_bucket_name must be the name of a bucket: without gs:// and without a folder.",
        ),
        None => refused(
            "Batches on vertex-ai have their input and output in a bucket of Cloud Storage: give \
             cloud_b_storage_bucket_name in the config, in the stored provider, or as a header.",
        ),
    }
}

/// The name of a model in a job.
///
/// # Errors
/// 400 for a model whose batches have another format.
fn model(model: &str) -> Result<String, Error> {
    let named = ModelName::parse(model);
    match named.api {
        ModelApi::Gemini | ModelApi::Anthropic => {
            Ok(format!("publishers/{}/models/{}", named.publisher, named.name))
        }
        ModelApi::Raw | ModelApi::Shared | ModelApi::Endpoint => {
            let message = "Batches on vertex-ai are for models of Gemini and Claude. For any other model upload the file \
                           without a provider: the gateway runs its lines itself.";
            Err(Error::invalid_request("model", message).with_provider(ID))
        }
    }
}

fn input_key(job: &Job<'_>) -> String {
    format!("{FOLDER}/{}/input.jsonl", job.name)
}

/// The path of the project's jobs in the account's region.
fn jobs(job: &Job<'_>) -> Result<String, Error> {
    let location = address::location_path(job.account)?;
    Ok(format!("{}/batchPredictionJobs", location.trim_start_matches('/')))
}

/// The name of a job, which becomes a path.
fn checked(name: &str) -> Result<String, Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/:".contains(&byte);
    if name.starts_with("projects/") && name.len() <= 300 && name.bytes().all(allowed) {
        return Ok(name.to_owned());
    }
    Err(unreadable("a name of a job", name))
}

#[cfg(test)]
mod tests;
