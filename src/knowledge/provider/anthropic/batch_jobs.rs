//! Anthropic's message batches. Source: <https://platform.claude.com/docs/en/api/messages/batches/create>,
//! <https://platform.claude.com/docs/en/build-with-claude/batch-processing>.
//!
//! Lines stand in the request itself. A batch has no name there, so one whose creation nobody knows of is created again.

use crate::provider::batch_jobs::{
    BatchApi, BatchJobs, CancelCall, Job, JobCall, JobEnd, JobFailure, JobInput, JobLimits, JobOutcome,
    JobResult, JobResults, LineForm, jsonl,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(super) struct MessageBatches;

static API: BatchApi = BatchApi {
    limits: JobLimits { one_model: false, ..JobLimits::of_one_model(10_000) },
    keeps_all_files: false,
    line: LineForm { body: "params", ..LineForm::STANDARD },
    upload: None,
    created: &["/id"],
    find: None,
    job: "messages/batches/{id}",
    cancel: CancelCall::Post("messages/batches/{id}/cancel"),
    state: "/processing_status",
    states: &[("ended", JobEnd::Complete)],
    // A batch fails line by line.
    failure: JobFailure { code: "job_failed", message: "", default: "" },
    result_files: &[],
};

#[derive(Deserialize)]
struct ResultLine<'a> {
    custom_id: String,
    #[serde(borrow)]
    result: LineResult<'a>,
}

#[derive(Deserialize)]
struct LineResult<'a> {
    r#type: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorType,
}

#[derive(Deserialize)]
struct ErrorType {
    r#type: String,
}

impl BatchJobs for MessageBatches {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if job.operation != Operation::Embeddings {
            return Ok(());
        }
        let message = "Anthropic has no embeddings, so it has no batches of them. Choose another provider.";
        Err(Error::invalid_request("endpoint", message).with_provider(super::SPEC.id))
    }

    fn create(&self, _job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let JobInput::Lines(lines) = input else { return Err(Error::internal("a batch without lines")) };
        let mut body = Vec::with_capacity(lines.len() + 16);
        body.extend_from_slice(br#"{"requests":["#);
        for (index, line) in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(line);
        }
        body.extend_from_slice(b"]}");
        Ok(JobCall::post("messages/batches", body))
    }

    fn results(&self, _job: &Job<'_>, view: &Value) -> Result<JobResults, Error> {
        if jsonl::text(view, "/results_url").is_none() {
            return Ok(JobResults::NONE);
        }
        let id = jsonl::first_text(view, &["/id"])?;
        Ok(JobResults::Calls(vec![JobCall::get(format!("messages/batches/{id}/results"))]))
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        let ResultLine { custom_id, result } = jsonl::parse(line)?;
        let Ok(line) = custom_id.parse() else { return Ok(None) };
        let outcome = match (result.r#type.as_str(), result.message, result.error) {
            ("succeeded", Some(message), _) => {
                JobOutcome::Response { status: 200, body: message.get().as_bytes().to_vec() }
            }
            ("errored", _, Some(error)) => {
                let kind = serde_json::from_str::<ErrorBody>(error.get()).map(|body| body.error.r#type);
                let status = kind.map_or(500, |kind| status(&kind));
                JobOutcome::Response { status, body: error.get().as_bytes().to_vec() }
            }
            ("canceled", ..) => JobOutcome::Cancelled,
            ("expired", ..) => JobOutcome::Expired,
            _ => return Ok(None),
        };
        Ok(Some(JobResult { line, outcome }))
    }
}

/// The status of an error of this type. <https://platform.claude.com/docs/en/api/errors>
fn status(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" | "invalid_request" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::batch_jobs::JobStatus;
    use crate::provider::batch_jobs::tests::with_job;
    use bytes::Bytes;

    #[test]
    fn lines_stand_in_the_request() {
        with_job("", Operation::ChatCompletions, |job| {
            let mut input = Vec::new();
            MessageBatches.write_line(1, br#"{"model":"m"}"#, job, &mut input).unwrap();
            MessageBatches.write_line(20, b"{}", job, &mut input).unwrap();
            let call = MessageBatches.create(job, JobInput::Lines(&Bytes::from(input))).unwrap();
            let wanted =
                r#"{"requests":[{"custom_id":"1","params":{"model":"m"}},{"custom_id":"20","params":{}}]}"#;
            assert_eq!((call.path.as_str(), &*call.body), ("messages/batches", wanted.as_bytes()));
        });
        with_job("", Operation::Embeddings, |job| {
            assert_eq!(MessageBatches.check(job).unwrap_err().status(), 400);
        });
    }

    /// The bodies of the documentation.
    #[test]
    fn states_and_results_are_read() {
        with_job("", Operation::ChatCompletions, |job| {
            let view = |status: &str, url: &str| {
                let text = format!(
                    r#"{{"id":"msgbatch_1","type":"message_batch","processing_status":"{status}","results_url":{url}}}"#
                );
                MessageBatches.read_status(job, text.as_bytes()).unwrap()
            };
            assert_eq!(view("in_progress", "null"), JobStatus::Running);
            assert_eq!(view("canceling", "null"), JobStatus::Running);
            assert_eq!(view("ended", "null"), JobStatus::Ended(JobResults::NONE));
            let results = JobResults::Calls(vec![JobCall::get("messages/batches/msgbatch_1/results")]);
            assert_eq!(view("ended", "\"https://api.anthropic.com/v1/x\""), JobStatus::Ended(results));
        });
        let read = |line: &str| {
            MessageBatches.read_result(line.as_bytes()).unwrap().map(|result| (result.line, result.outcome))
        };
        let response = |status, body: &str| JobOutcome::Response { status, body: body.as_bytes().to_vec() };
        for (line, wanted) in [
            (
                r#"{"custom_id":"2","result":{"type":"succeeded","message":{"id":"msg_1"}}}"#,
                Some((2, response(200, r#"{"id":"msg_1"}"#))),
            ),
            (
                r#"{"custom_id":"3","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"m"}}}}"#,
                Some((
                    3,
                    response(
                        400,
                        r#"{"type":"error","error":{"type":"invalid_request_error","message":"m"}}"#,
                    ),
                )),
            ),
            (r#"{"custom_id":"4","result":{"type":"canceled"}}"#, Some((4, JobOutcome::Cancelled))),
            (r#"{"custom_id":"5","result":{"type":"expired"}}"#, Some((5, JobOutcome::Expired))),
            (r#"{"custom_id":"other","result":{"type":"expired"}}"#, None),
        ] {
            assert_eq!(read(line), wanted, "{line}");
        }
    }
}
