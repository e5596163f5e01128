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
use crate::provider::batch_jobs::jsonl::{parse, unreadable};
use crate::provider::batch_jobs::{
    BatchApi, BatchJobs, CancelCall, Job, JobCall, JobEnd, JobFailure, JobInput, JobKey, JobLimits,
    JobOutcome, JobResult, JobResults, JobSearch, LineForm,
};
use crate::provider::spec::encode_segment;
use bytes::Bytes;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use words::error::Error;

/// Batch prediction jobs.
#[derive(Debug)]
pub(crate) struct PredictionJobs;

/// The folder of all jobs in the bucket.
const FOLDER: &str = "turnpike-batches";

/// Before the number of a line: a value that looks like a number is changed into one where the input is imported.
const LINE: &str = "line-";

static API: BatchApi = BatchApi {
    limits: JobLimits::of_one_model(100_000),
    keeps_all_files: true,
    line: LineForm { prefix: LINE, body: "request", ..LineForm::STANDARD },
    upload: None,
    created: &["/name"],
    find: Some(JobSearch {
        path: "batchPredictionJobs?filter=display_name%3D%22{name}%22&pageSize=10",
        lists: &["/batchPredictionJobs"],
        key: JobKey::Name("/displayName"),
        id: "/name",
    }),
    job: "{id}",
    cancel: CancelCall::PostObject("{id}:cancel"),
    state: "/state",
    states: &[
        ("SUCCEEDED", JobEnd::Complete),
        ("PARTIALLY_SUCCEEDED", JobEnd::Complete),
        // The lines that were done are exported, and charged.
        ("CANCELLED", JobEnd::Cancelled),
        ("EXPIRED", JobEnd::Expired),
        ("FAILED", JobEnd::Failed),
    ],
    failure: JobFailure {
        code: "batch_job_failed",
        message: "/error/message",
        default: "The job failed at vertex-ai.",
    },
    result_files: &[],
};

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
    fn api(&self) -> &'static BatchApi {
        &API
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
        API.line.write(line, &body, input)
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
        let output = format!("gs://{}/{FOLDER}/{}/output", bucket(job)?, job.name);
        let body = json!({
            "displayName": job.name, "model": model(job.model)?,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input.uploaded()?]}},
            "outputConfig": {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": output}},
        });
        Ok(JobCall::post(jobs(job)?, body.to_string()))
    }

    fn job_id(&self, given: String) -> Result<String, Error> {
        checked(&given)
    }

    fn find(&self, job: &Job<'_>) -> Option<JobCall> {
        let location = address::location_path(job.account).ok()?;
        let call = API.find.as_ref()?.call(job)?;
        Some(JobCall { path: format!("{}/{}", location.trim_start_matches('/'), call.path), ..call })
    }

    fn results(&self, _job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        results(view.pointer("/outputInfo/gcsOutputDirectory").and_then(Value::as_str))
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
