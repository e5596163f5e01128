//! Bedrock's batches: model invocation jobs, whose input and output are objects in a bucket of S3.
//!
//! A job is three kinds of calls: its input is put into the bucket, the control plane runs it, its output is read from the
//! bucket. Chats are jobs of the type `Converse`, embeddings of the type `InvokeModel`, so a line has the body that the
//! same request has when it is sent alone.
//!
//! Sources: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelInvocationJob.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference-data.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference-results.html>, quotas:
//! <https://docs.aws.amazon.com/general/latest/gr/bedrock.html>.
//! Not here: hosts (`address`) and signatures (`signing`).

use super::auth::Auth;
use super::{SPEC, address};
use crate::provider::batch_jobs::jsonl::{parse, unreadable, write_line};
use crate::provider::batch_jobs::{
    BatchApi, BatchJobs, CancelCall, Job, JobCall, JobEnd, JobFailure, JobInput, JobKey, JobLimits,
    JobOutcome, JobResult, JobResults, JobSearch, LineForm,
};
use crate::provider::key::header_value;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use words::api::operation::Operation;
use words::error::Error;

/// Model invocation jobs.
#[derive(Debug)]
pub(crate) struct InvocationJobs;

/// The folder of all jobs in the bucket.
const FOLDER: &str = "turnpike-batches";

/// The file of the input. The output has its name with `.out`.
const INPUT: &str = "input.jsonl";

/// As long as the window of a batch. It is also the shortest that Bedrock takes.
const TIMEOUT_HOURS: u32 = 24;

/// The member of `POST /v1/batches` with the role that Bedrock uses to reach the bucket.
const ROLE: &str = "role_arn";

static API: BatchApi = BatchApi {
    limits: JobLimits { min_lines: 100, most_bytes: 64 << 20, ..JobLimits::of_one_model(50_000) },
    keeps_all_files: true,
    line: LineForm { id: "recordId", prefix: "", body: "modelInput", without_model: false },
    upload: None,
    created: &["/jobArn"],
    find: Some(JobSearch {
        path: "model-invocation-jobs?nameContains={name}&maxResults=1000",
        lists: &["/invocationJobSummaries"],
        key: JobKey::Name("/jobName"),
        id: "/jobArn",
    }),
    job: "model-invocation-job/{id}",
    cancel: CancelCall::Post("model-invocation-job/{id}/stop"),
    state: "/status",
    states: &[
        // A job that was stopped has written the records that were done.
        ("Stopped", JobEnd::Cancelled),
        ("Completed", JobEnd::Complete),
        ("PartiallyCompleted", JobEnd::Complete),
        ("Expired", JobEnd::Expired),
        ("Failed", JobEnd::Failed),
    ],
    failure: JobFailure {
        code: "batch_job_failed",
        message: "/message",
        default: "The job failed at bedrock.",
    },
    result_files: &[],
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputLine<'a> {
    #[serde(borrow)]
    record_id: Cow<'a, str>,
    #[serde(borrow)]
    model_output: Option<&'a RawValue>,
    error: Option<LineError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LineError {
    error_code: Option<u16>,
    error_message: Option<String>,
}

impl BatchJobs for InvocationJobs {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if !job.operation.is_chat() && job.operation != Operation::Embeddings {
            let message = "Batches on bedrock are chats, completions or embeddings.";
            return Err(Error::invalid_request("endpoint", message).with_provider(SPEC.id));
        }
        if matches!(Auth::from_account(job.account)?, Auth::ApiKey) {
            let message = "A Bedrock API key does not reach the bucket of a batch: batches on bedrock need \
                           cloud_a_access_key_id and cloud_a_secret_access_key, or a role (cloud_a_auth_type).";
            return Err(Error::invalid_request("cloud_a_access_key_id", message).with_provider(SPEC.id));
        }
        bucket(job)?;
        role(job).map(drop)
    }

    fn write_line(&self, line: u32, body: &[u8], _job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        // Eleven characters: the documentation once demanded that.
        write_line(API.line.id, format_args!("{line:011}"), API.line.body, body, input);
        Ok(())
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        let mut headers = vec![(http::header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl"))];
        let cloud = &job.account.cloud_a;
        let encryption = [
            ("x-amz-server-side-encryption", "cloud_a_server_side_encryption", &cloud.encryption),
            (
                "x-amz-server-side-encryption-aws-kms-key-id",
                "cloud_a_server_side_encryption_kms_key_id",
                &cloud.encryption_key_id,
            ),
        ];
        for (name, param, value) in encryption {
            if let Some(value) = value {
                headers.push((HeaderName::from_static(name), header_value(param, value)?));
            }
        }
        let path = format!("{}/{}/{}", address::S3, bucket(job)?, input_key(job));
        Ok(vec![JobCall { method: Method::PUT, path, headers, body: input.clone() }])
    }

    fn uploaded(&self, job: &Job<'_>, _response: &[u8]) -> Result<String, Error> {
        Ok(format!("s3://{}/{}", bucket(job)?, input_key(job)))
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let kind = if job.operation.is_chat() { "Converse" } else { "InvokeModel" };
        let mut output = json!({"s3Uri": format!("s3://{}/{}", bucket(job)?, output_folder(job))});
        if let (Some(key), Some(output)) = (&job.account.cloud_a.encryption_key_id, output.as_object_mut()) {
            output.insert("s3EncryptionKeyId".to_owned(), key.as_str().into());
        }
        let body = json!({
            "jobName": job.name, "clientRequestToken": job.name, "roleArn": role(job)?, "modelId": job.model,
            "modelInvocationType": kind, "timeoutDurationInHours": TIMEOUT_HOURS,
            "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": input.uploaded()?}},
            "outputDataConfig": {"s3OutputDataConfig": output},
        });
        Ok(JobCall::post(address::JOB, body.to_string()))
    }

    fn job_id(&self, given: String) -> Result<String, Error> {
        job_id(&given).map(str::to_owned)
    }

    fn results(&self, job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        let id = job_id(view.get("jobArn").and_then(Value::as_str).unwrap_or_default())?;
        let folder = output_folder(job);
        let path = format!("{}/{}/{folder}{id}/{INPUT}.out", address::S3, bucket(job)?);
        Ok(JobResults::Calls(vec![JobCall::get(path)]))
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall { headers: Vec::new(), ..API.cancel.call(id) }
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        let output: OutputLine<'_> = parse(line)?;
        let number =
            output.record_id.parse().map_err(|_| unreadable("an id of a line", &output.record_id))?;
        let outcome = match (output.model_output, output.error) {
            (_, Some(error)) => {
                let status = error.error_code.filter(|code| (400..600).contains(code)).unwrap_or(500);
                let message = error.error_message.unwrap_or_default();
                JobOutcome::Response { status, body: json!({"message": message}).to_string().into_bytes() }
            }
            (Some(body), None) => JobOutcome::Response { status: 200, body: body.get().as_bytes().to_vec() },
            (None, None) => return Ok(None),
        };
        Ok(Some(JobResult { line: number, outcome }))
    }
}

/// The bucket of the account.
///
/// # Errors
/// 400 without one, and for a name that no bucket has: it becomes part of a host name.
fn bucket<'a>(job: &Job<'a>) -> Result<&'a str, Error> {
    let refused =
        |message: &str| Err(Error::invalid_request("cloud_a_s3_bucket", message).with_provider(SPEC.id));
    match job.account.cloud_a.bucket.as_deref() {
        Some(bucket) if address::is_bucket(bucket) => Ok(bucket),
        Some(_) => {
            refused("cloud_a_s3_bucket must be the name of a bucket: without s3:// and without a folder.")
        }
        None => refused(
            "Batches on bedrock have their input and output in a bucket of S3: give cloud_a_s3_bucket in the \
             config, in the stored provider, or as a header.",
        ),
    }
}

/// The role that Bedrock assumes to read and write the bucket: the request's, or else the account's.
fn role<'a>(job: &Job<'a>) -> Result<&'a str, Error> {
    let (param, role) = match job.options.get(ROLE) {
        Some(role) => (ROLE, role.as_str()),
        None => ("cloud_a_batch_role_arn", job.account.cloud_a.batch_role_arn.as_deref()),
    };
    let given = role.filter(|role| role.starts_with("arn:") && role.contains(":role/"));
    given.ok_or_else(|| {
        let message = "Bedrock reads and writes the bucket of a batch with a service role: give its ARN \
                       (arn:aws:iam::123456789012:role/name) as role_arn in the body, or as cloud_a_batch_role_arn in \
                       the config or the stored provider.";
        Error::invalid_request(param, message).with_provider(SPEC.id)
    })
}

fn input_key(job: &Job<'_>) -> String {
    format!("{FOLDER}/{}/{INPUT}", job.name)
}

/// Ends in a slash. Bedrock adds a folder named as the job's id.
fn output_folder(job: &Job<'_>) -> String {
    format!("{FOLDER}/{}/output/", job.name)
}

/// The id at the end of a job's ARN; the control plane takes either.
fn job_id(arn: &str) -> Result<&str, Error> {
    let id = arn.rsplit('/').next().unwrap_or_default();
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (1..=64).contains(&id.len()) && id.bytes().all(allowed) {
        return Ok(id);
    }
    Err(unreadable("a name of a job", arn))
}

#[cfg(test)]
mod tests;
