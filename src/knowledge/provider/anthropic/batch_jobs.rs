//! Anthropic's message batches. Source: <https://platform.claude.com/docs/en/api/messages/batches/create>,
//! <https://platform.claude.com/docs/en/build-with-claude/batch-processing>.
//!
//! Lines stand in the request itself. A batch has no name there, so one whose creation nobody knows of is created again.

use crate::provider::batch_jobs::{
    BatchJobs, Job, JobCall, JobInput, JobLimits, JobOutcome, JobResult, JobResults, JobStatus, jsonl,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(super) struct MessageBatches;

#[derive(Deserialize)]
struct BatchView {
    id: String,
    processing_status: String,
    results_url: Option<String>,
}

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
    fn limits(&self) -> JobLimits {
        JobLimits {
            max_lines: 10_000,
            min_lines: 1,
            max_bytes: 8 << 20,
            most_bytes: 8 << 20,
            one_model: false,
        }
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if job.operation != Operation::Embeddings {
            return Ok(());
        }
        let message = "Anthropic has no embeddings, so it has no batches of them. Choose another provider.";
        Err(Error::invalid_request("endpoint", message).with_provider(super::SPEC.id))
    }

    fn write_line(&self, line: u32, body: &[u8], _job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        jsonl::write_line("custom_id", line, "params", body, input);
        Ok(())
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

    fn created(&self, response: &[u8]) -> Result<String, Error> {
        jsonl::text(response, "/id")
    }

    fn status(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::get(format!("messages/batches/{id}"))
    }

    fn read_status(&self, _job: &Job<'_>, response: &[u8]) -> Result<JobStatus, Error> {
        let view: BatchView = jsonl::parse(response)?;
        if view.processing_status != "ended" {
            return Ok(JobStatus::Running);
        }
        let path = format!("messages/batches/{}/results", view.id);
        let calls = view.results_url.map(|_| JobCall::get(path)).into_iter().collect();
        Ok(JobStatus::Ended(JobResults::Calls(calls)))
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::post(format!("messages/batches/{id}/cancel"), "")
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
            assert_eq!(view("ended", "null"), JobStatus::Ended(JobResults::Calls(Vec::new())));
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
