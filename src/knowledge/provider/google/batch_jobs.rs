//! Batch jobs of the Gemini API. Source: <https://ai.google.dev/api/batch-api>, <https://ai.google.dev/gemini-api/docs/batch-api>.
//!
//! Lines are uploaded as a file, since responses in the job itself come without their keys. A job has one model.

use super::{SPEC, model_path};
use crate::provider::batch_jobs::{
    BatchApi, BatchJobs, CancelCall, Job, JobCall, JobEnd, JobFailure, JobInput, JobKey, JobLimits,
    JobOutcome, JobResult, JobResults, JobSearch, LineForm, jsonl,
};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(super) struct GeminiJobs;

static API: BatchApi = BatchApi {
    limits: JobLimits::of_one_model(10_000),
    keeps_all_files: false,
    line: LineForm { id: "key", prefix: "", body: "request", without_model: false },
    upload: None,
    created: &["/name"],
    find: Some(JobSearch {
        path: "v1beta/batches?pageSize=1000",
        lists: &["/operations"],
        key: JobKey::Name("/metadata/displayName"),
        id: "/name",
    }),
    job: "v1beta/{id}",
    cancel: CancelCall::Post("v1beta/{id}:cancel"),
    // `BATCH_STATE_SUCCEEDED`, or `JOB_STATE_SUCCEEDED` as SDKs have it.
    state: "/metadata/state",
    states: &[
        ("SUCCEEDED", JobEnd::Complete),
        ("CANCELLED", JobEnd::Cancelled),
        ("EXPIRED", JobEnd::Expired),
        ("FAILED", JobEnd::Failed),
    ],
    failure: JobFailure {
        code: "job_failed",
        message: "/error/message",
        default: "The provider's job has failed.",
    },
    result_files: &[],
};

#[derive(Deserialize)]
struct EmbeddingsBody<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    key: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: Option<u16>,
}

impl BatchJobs for GeminiJobs {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn write_line(&self, line: u32, body: &[u8], job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        if job.operation != Operation::Embeddings {
            return API.line.write(line, body, input);
        }
        let body: EmbeddingsBody<'_> = jsonl::parse(body)?;
        let [request] = body.requests.as_slice() else {
            let message = "A line of a batch of embeddings at Gemini has one input. Make a line of each, or upload the file without a \
                           provider: the gateway runs such a batch itself.";
            return Err(Error::invalid_request("input", message).with_provider(SPEC.id));
        };
        API.line.write(line, request.get().as_bytes(), input)
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        let name = job.name;
        let file = json!({"file": {"displayName": name, "mimeType": "application/jsonl"}});
        let start = format!(
            "--{name}\r\nContent-Type: application/json\r\n\r\n{file}\r\n--{name}\r\nContent-Type: application/jsonl\r\n\r\n"
        );
        let mut body = BytesMut::with_capacity(input.len() + start.len() + 128);
        body.put_slice(start.as_bytes());
        body.put_slice(input);
        body.put_slice(format!("\r\n--{name}--\r\n").as_bytes());
        let kind = HeaderValue::try_from(format!("multipart/related; boundary={name}"));
        let kind = kind.map_err(|why| Error::internal(why.to_string()))?;
        let protocol = HeaderName::from_static("x-goog-upload-protocol");
        Ok(vec![JobCall {
            method: Method::POST,
            path: "upload/files".to_owned(),
            headers: vec![(CONTENT_TYPE, kind), (protocol, HeaderValue::from_static("multipart"))],
            body: body.freeze(),
        }])
    }

    fn uploaded(&self, _job: &Job<'_>, response: &[u8]) -> Result<String, Error> {
        jsonl::first_text(&jsonl::parse(response)?, &["/file/name"])
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let method = match job.operation {
            Operation::Embeddings => "asyncBatchEmbedContent",
            _ => "batchGenerateContent",
        };
        let body =
            json!({"batch": {"displayName": job.name, "inputConfig": {"fileName": input.uploaded()?}}});
        Ok(JobCall::post(format!("{}:{method}", model_path(Some(job.model))?), body.to_string()))
    }

    fn results(&self, _job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        let places = ["/response/responsesFile", "/metadata/output/responsesFile"];
        let file = places.into_iter().find_map(|pointer| jsonl::text(view, pointer));
        let download = |file: String| JobCall::get(format!("download/{file}:download?alt=media"));
        Ok(JobResults::Calls(file.map(download).into_iter().collect()))
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        let read: ResultLine<'_> = jsonl::parse(line)?;
        let Some(line) = read.key.and_then(|key| key.parse().ok()) else { return Ok(None) };
        let outcome = match (read.response, read.error) {
            (Some(response), _) => {
                JobOutcome::Response { status: 200, body: response.get().as_bytes().to_vec() }
            }
            (None, Some(error)) => {
                // A gRPC code, or a status.
                let code = serde_json::from_str::<ErrorCode>(error.get()).ok().and_then(|error| error.code);
                let status = code.map_or(500, status);
                JobOutcome::Response { status, body: format!(r#"{{"error":{error}}}"#).into_bytes() }
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(JobResult { line, outcome }))
    }
}

/// The HTTP status of a gRPC code. <https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto>
fn status(code: u16) -> u16 {
    match code {
        400..=599 => code,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::batch_jobs::JobStatus;
    use crate::provider::batch_jobs::tests::with_job;

    #[test]
    fn a_job_is_made_of_a_file() {
        with_job("gemini-2.5-flash", Operation::ChatCompletions, |job| {
            let mut input = Vec::new();
            GeminiJobs.write_line(4, br#"{"contents":[]}"#, job, &mut input).unwrap();
            assert_eq!(input, b"{\"key\":\"4\",\"request\":{\"contents\":[]}}\n");
            let upload = GeminiJobs.uploads(job, &Bytes::from(input)).unwrap().remove(0);
            assert_eq!(upload.path, "upload/files");
            assert_eq!(GeminiJobs.uploaded(job, br#"{"file":{"name":"files/1"}}"#).unwrap(), "files/1");
            let create = GeminiJobs.create(job, JobInput::Uploaded("files/1")).unwrap();
            assert_eq!(create.path, "models/gemini-2.5-flash:batchGenerateContent");
            let wanted = json!({"batch": {"displayName": job.name, "inputConfig": {"fileName": "files/1"}}});
            assert_eq!(serde_json::from_slice::<Value>(&create.body).unwrap(), wanted);
            let list = json!({"operations": [{"name": "batches/1", "metadata": {"displayName": job.name}}]})
                .to_string();
            assert_eq!(GeminiJobs.found(job, list.as_bytes()).unwrap().as_deref(), Some("batches/1"));
        });
    }

    #[test]
    fn a_line_of_embeddings_has_one_input() {
        with_job("gemini-embedding-001", Operation::Embeddings, |job| {
            let mut input = Vec::new();
            GeminiJobs.write_line(4, br#"{"requests":[{"content":{}}]}"#, job, &mut input).unwrap();
            assert_eq!(input, b"{\"key\":\"4\",\"request\":{\"content\":{}}}\n");
            let refused = GeminiJobs.write_line(5, br#"{"requests":[{},{}]}"#, job, &mut input).unwrap_err();
            assert_eq!((refused.status(), refused.param.as_deref()), (400, Some("input")));
        });
    }

    #[test]
    fn states_and_results_are_read() {
        with_job("m", Operation::ChatCompletions, |job| {
            let status = |state: &str| {
                let view = json!({"name": "batches/1", "metadata": {"state": state}, "response": {"responsesFile": "files/r"}});
                GeminiJobs.read_status(job, view.to_string().as_bytes()).unwrap()
            };
            let results = || JobResults::Calls(vec![JobCall::get("download/files/r:download?alt=media")]);
            assert_eq!(status("BATCH_STATE_PENDING"), JobStatus::Running);
            assert_eq!(status("BATCH_STATE_SUCCEEDED"), JobStatus::Ended(results()));
            assert_eq!(status("JOB_STATE_CANCELLED"), JobStatus::Cancelled(results()));
            assert_eq!(status("BATCH_STATE_EXPIRED"), JobStatus::Expired(results()));
        });
        let read = |line: &str| {
            GeminiJobs.read_result(line.as_bytes()).unwrap().map(|result| (result.line, result.outcome))
        };
        let response =
            |status, body: &str| Some((4, JobOutcome::Response { status, body: body.as_bytes().to_vec() }));
        for (line, wanted) in [
            (r#"{"key":"4","response":{"candidates":[]}}"#, response(200, r#"{"candidates":[]}"#)),
            (
                r#"{"key":"4","error":{"code":3,"message":"m"}}"#,
                response(400, r#"{"error":{"code":3,"message":"m"}}"#),
            ),
            (
                r#"{"key":"4","error":{"code":429,"message":"m"}}"#,
                response(429, r#"{"error":{"code":429,"message":"m"}}"#),
            ),
            (r#"{"key":"x","response":{}}"#, None),
        ] {
            assert_eq!(read(line), wanted, "{line}");
        }
    }
}
