//! Together's batches. Source: <https://docs.together.ai/docs/batch-inference>, <https://docs.together.ai/reference/batch-create>.
//!
//! A file of lines is uploaded, and a batch is made of it.

use super::jsonl;
use super::{BatchJobs, Job, JobCall, JobInput, JobLimits, JobResult, JobStatus};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(in crate::provider) struct TogetherJobs;

#[derive(Deserialize)]
struct JobView {
    status: String,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    error: Option<String>,
}

impl BatchJobs for TogetherJobs {
    fn limits(&self) -> JobLimits {
        JobLimits {
            max_lines: 10_000,
            min_lines: 1,
            max_bytes: 8 << 20,
            most_bytes: 8 << 20,
            one_model: true,
        }
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if job.operation != Operation::Embeddings {
            return Ok(());
        }
        let message = "Batches of Together are of chat completions and completions. Upload the file without a provider: the gateway runs \
                       batches of embeddings itself.";
        Err(Error::invalid_request("endpoint", message))
    }

    fn write_line(&self, line: u32, body: &[u8], _job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        jsonl::write_line("custom_id", line, "body", body, input);
        Ok(())
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        let name = format!("{}.jsonl", job.name);
        let fields = [("purpose", "batch-api"), ("file_name", name.as_str()), ("file_type", "jsonl")];
        Ok(vec![jsonl::form("files/upload", job, &fields, input)?])
    }

    fn uploaded(&self, _job: &Job<'_>, response: &[u8]) -> Result<String, Error> {
        jsonl::text(response, "/id")
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let JobInput::Uploaded(file) = input else {
            return Err(Error::internal("a batch without an upload"));
        };
        let endpoint = match job.operation {
            Operation::Completions => "/v1/completions",
            _ => "/v1/chat/completions",
        };
        let body = json!({"input_file_id": file, "endpoint": endpoint, "completion_window": "24h"});
        Ok(JobCall::post("batches", body.to_string()))
    }

    fn created(&self, response: &[u8]) -> Result<String, Error> {
        jsonl::text(response, "/job/id").or_else(|_| jsonl::text(response, "/id"))
    }

    fn find(&self, job: &Job<'_>) -> Option<JobCall> {
        // Without its file it was not created.
        job.input.map(|_| JobCall::get("batches"))
    }

    fn found(&self, job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        let list: Value = jsonl::parse(response)?;
        let all = list.as_array().or_else(|| list.get("data")?.as_array()).into_iter().flatten();
        let text = |batch: &Value, name: &str| batch.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut found = all.filter(|batch| text(batch, "input_file_id").as_deref() == job.input);
        Ok(found.next().and_then(|batch| text(batch, "id")))
    }

    fn status(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::get(format!("batches/{id}"))
    }

    fn read_status(&self, _job: &Job<'_>, response: &[u8]) -> Result<JobStatus, Error> {
        let view: JobView = jsonl::parse(response)?;
        let files = view.output_file_id.into_iter().chain(view.error_file_id).filter(|id| !id.is_empty());
        let results = jsonl::results(files);
        Ok(match view.status.to_ascii_uppercase().as_str() {
            "COMPLETED" => JobStatus::Ended(results),
            "CANCELLED" => JobStatus::Cancelled(results),
            "EXPIRED" => JobStatus::Expired(results),
            "FAILED" => {
                let message = view.error.unwrap_or_else(|| "The provider's batch has failed.".to_owned());
                JobStatus::Failed { code: "job_failed".to_owned(), message, results }
            }
            _ => JobStatus::Running,
        })
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::post(format!("batches/{id}/cancel"), "")
    }

    fn read_result(&self, line: &[u8]) -> Result<Option<JobResult>, Error> {
        jsonl::read_result(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::batch_jobs::JobResults;
    use crate::provider::batch_jobs::tests::with_job;

    #[test]
    fn a_batch_is_made_of_a_file_and_found_by_it() {
        with_job("m", Operation::Completions, |job| {
            let upload = TogetherJobs.uploads(job, &Bytes::from_static(b"{}\n")).unwrap().remove(0);
            let text = String::from_utf8(upload.body.to_vec()).unwrap();
            assert!(
                text.contains("name=\"purpose\"\r\n\r\nbatch-api\r\n") && text.contains("\r\n\r\n{}\n\r\n--"),
                "{text}"
            );
            let create = TogetherJobs.create(job, JobInput::Uploaded("file-1")).unwrap();
            let wanted =
                json!({"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h"});
            assert_eq!(serde_json::from_slice::<Value>(&create.body).unwrap(), wanted);
            assert_eq!(TogetherJobs.created(br#"{"job":{"id":"b"},"warning":"w"}"#).unwrap(), "b");
            assert!(TogetherJobs.find(job).is_none(), "nothing was uploaded");
            let job = Job { input: Some("file-1"), ..*job };
            let list = br#"[{"id":"a","input_file_id":"x"},{"id":"b","input_file_id":"file-1"}]"#;
            assert_eq!(TogetherJobs.found(&job, list).unwrap().as_deref(), Some("b"));
            let done = br#"{"status":"COMPLETED","output_file_id":"o","error_file_id":""}"#;
            let results = JobResults::Calls(vec![JobCall::get("files/o/content")]);
            assert_eq!(TogetherJobs.read_status(&job, done).unwrap(), JobStatus::Ended(results));
            assert_eq!(
                TogetherJobs.read_status(&job, br#"{"status":"VALIDATING"}"#).unwrap(),
                JobStatus::Running
            );
        });
    }

    #[test]
    fn embeddings_are_refused() {
        with_job("m", Operation::Embeddings, |job| {
            assert_eq!(TogetherJobs.check(job).unwrap_err().status(), 400);
        });
    }
}
