//! Fireworks' batches: batch inference jobs, whose input and output are datasets.
//!
//! A dataset is created and its file uploaded, a job is made of it, and the files of the job's output dataset have signed
//! addresses in Cloud Storage.
//!
//! Sources: <https://docs.fireworks.ai/guides/batch-inference>,
//! <https://docs.fireworks.ai/api-reference/create-batch-inference-job>,
//! <https://docs.fireworks.ai/api-reference/create-dataset>,
//! <https://docs.fireworks.ai/api-reference/upload-dataset-files>,
//! <https://docs.fireworks.ai/api-reference/get-dataset-download-endpoint>.
//! A job cannot be cancelled, only deleted, with its results:
//! <https://docs.fireworks.ai/api-reference/delete-batch-inference-job>.

use super::jsonl::{self, parse, text, unreadable};
use super::{
    BatchApi, BatchJobs, CancelCall, Job, JobCall, JobEnd, JobFailure, JobInput, JobLimits, JobOutcome,
    JobResult, JobResults, LineForm,
};
use crate::provider::spec::OtherHost;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use words::api::operation::Operation;
use words::error::Error;

/// Batch inference jobs.
#[derive(Debug)]
pub(in crate::provider) struct FireworksJobs;

const ID: &str = "fireworks-ai";

/// Before the number of a line.
const LINE: &str = "line-";

/// Where the signed addresses of results are.
const STORAGE: &str = "storage.googleapis.com/";

/// The hosts of job calls: the control API, and the storage of results.
pub(in crate::provider) const HOSTS: &[OtherHost] = &[
    OtherHost { path: "accounts/", base: "https://api.fireworks.ai/v1", keeps_path: true, takes_key: true },
    OtherHost { path: STORAGE, base: "https://storage.googleapis.com", keeps_path: false, takes_key: false },
];

static API: BatchApi = BatchApi {
    limits: JobLimits::of_one_model(100_000),
    keeps_all_files: true,
    line: LineForm { prefix: LINE, without_model: true, ..LineForm::STANDARD },
    upload: None,
    created: &["/name"],
    find: None,
    job: "{id}",
    cancel: CancelCall::Delete("{id}"),
    state: "/state",
    states: &[
        ("COMPLETED", JobEnd::Complete),
        ("EARLY_STOPPED", JobEnd::Complete),
        ("EXPIRED", JobEnd::Expired),
        ("CANCELLED", JobEnd::Cancelled),
        // Its datasets go with it.
        ("DELETING", JobEnd::Deleted),
        ("DELETING_CLEANING_UP", JobEnd::Deleted),
        ("DELETED", JobEnd::Deleted),
        ("ARCHIVED", JobEnd::Deleted),
        // One wrong line fails the whole job before any is run: there is no output.
        ("FAILED", JobEnd::Refused),
    ],
    failure: JobFailure {
        code: "batch_job_failed",
        message: "/status/message",
        default: "The job failed at fireworks-ai.",
    },
    result_files: &[],
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Downloads {
    #[serde(default)]
    filename_to_signed_urls: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    custom_id: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    error: Option<Value>,
}

impl BatchJobs for FireworksJobs {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if job.operation != Operation::ChatCompletions {
            let message = "Batches of fireworks-ai are chats. Upload the file without a provider: the gateway runs batches of \
                           other endpoints itself.";
            return Err(Error::invalid_request("endpoint", message).with_provider(ID));
        }
        account(job).map(drop)
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        let datasets = format!("{}/datasets", account(job)?);
        let lines = memchr::memchr_iter(b'\n', input).count().to_string();
        let dataset = json!({
            "datasetId": job.name, "dataset": {"userUploaded": {}, "exampleCount": lines},
        });
        Ok(vec![
            JobCall::post(datasets.clone(), dataset.to_string()),
            jsonl::form(&format!("{datasets}/{}:upload", job.name), job, &[], input)?,
        ])
    }

    fn uploaded(&self, job: &Job<'_>, _response: &[u8]) -> Result<String, Error> {
        Ok(format!("{}/datasets/{}", account(job)?, job.name))
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let path = format!("{}/batchInferenceJobs?batchInferenceJobId={}", account(job)?, job.name);
        let body = json!({"displayName": job.name, "model": job.model, "inputDatasetId": input.uploaded()?});
        Ok(JobCall::post(path, body.to_string()))
    }

    fn job_id(&self, given: String) -> Result<String, Error> {
        checked(given)
    }

    /// The gateway chooses the id of a job.
    fn find(&self, job: &Job<'_>) -> Option<JobCall> {
        let account = account(job).ok()?;
        Some(JobCall::get(format!("{account}/batchInferenceJobs/{}", job.name)))
    }

    fn found(&self, _job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        self.created(response).map(Some)
    }

    fn results(&self, _job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        let Some(dataset) = text(view, "/outputDatasetId") else { return Ok(JobResults::NONE) };
        Ok(JobResults::Listed(JobCall::get(format!("{}:getDownloadEndpoint", checked(dataset)?))))
    }

    fn listed(&self, job: &Job<'_>, response: &[u8]) -> Result<Vec<JobCall>, Error> {
        let downloads: Downloads = parse(response)?;
        let calls = downloads.filename_to_signed_urls.values();
        calls.map(|url| storage_path(url, job).map(JobCall::get)).collect()
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        let read: ResultLine<'_> = parse(line)?;
        let id = read.custom_id.unwrap_or_default();
        let Some(line) = id.strip_prefix(LINE).and_then(|number| number.parse().ok()) else {
            return Err(unreadable("an id of a line", &id));
        };
        let (status, body) = match (read.response, read.error.filter(|error| !error.is_null())) {
            (Some(response), None) => (200, Cow::Borrowed(response.get())),
            (_, Some(error)) => (error_status(&error), Cow::Owned(error_body(error).to_string())),
            (None, None) => return Ok(None),
        };
        let outcome = JobOutcome::Response { status, body: body.into_owned().into_bytes() };
        Ok(Some(JobResult { line, outcome }))
    }
}

/// The status of a failed line: its code where that is one.
fn error_status(error: &Value) -> u16 {
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    code.filter(|code| (400..600).contains(code)).unwrap_or(500)
}

fn error_body(error: Value) -> Value {
    match error {
        Value::String(message) => json!({"error": {"message": message}}),
        error => json!({"error": error}),
    }
}

/// `accounts/<id>`.
///
/// # Errors
/// 400 without the account's id.
fn account(job: &Job<'_>) -> Result<String, Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let id = job.account.resource_name.as_deref().map(|id| id.trim_start_matches("accounts/"));
    match id.filter(|id| !id.is_empty() && id.bytes().all(allowed)) {
        Some(id) => Ok(format!("accounts/{id}")),
        None => {
            let message = "fireworks-ai needs the account's id for batches: give fireworks_account_id (resource_name) in the \
                           config, in the stored provider, or as a header.";
            Err(Error::invalid_request("fireworks_account_id", message).with_provider(ID))
        }
    }
}

/// The name of a job or dataset, which becomes a path.
fn checked(name: String) -> Result<String, Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte);
    if name.starts_with("accounts/") && name.len() <= 300 && name.bytes().all(allowed) {
        return Ok(name);
    }
    Err(unreadable("a name of a job or dataset", &name))
}

/// The path of a signed address, as calls have it: in Cloud Storage, or behind the account's custom host.
///
/// # Errors
/// 502 for any other host: a response does not choose where this gateway sends requests.
fn storage_path(url: &str, job: &Job<'_>) -> Result<String, Error> {
    let without_scheme = |url: &'_ str| url.find("://").map_or(0, |at| at + 3);
    if let Some(path) = url.strip_prefix("https://").filter(|path| path.starts_with(STORAGE)) {
        return Ok(path.to_owned());
    }
    let custom = job.account.custom_host.as_deref().map(|host| host.trim_end_matches('/'));
    let rest = url.get(without_scheme(url)..).unwrap_or_default();
    let host = custom.and_then(|custom| custom.get(without_scheme(custom)..));
    let below = host.and_then(|host| rest.strip_prefix(host)?.strip_prefix('/'));
    let below = below.filter(|path| path.starts_with(STORAGE));
    below
        .map(str::to_owned)
        .ok_or_else(|| unreadable("an address of results", url.split('?').next().unwrap_or(url)))
}

#[cfg(test)]
mod tests;
