//! Mistral's batch jobs. Source: <https://docs.mistral.ai/api/endpoint/batch>, <https://docs.mistral.ai/capabilities/batch>.
//!
//! A file of lines is uploaded, and a job is made of it with one model and endpoint.

use super::jsonl;
use super::{BatchJobs, Job, JobCall, JobInput, JobLimits, JobResult, JobStatus};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(in crate::provider) struct MistralJobs;

#[derive(Deserialize)]
struct JobView {
    status: String,
    output_file: Option<String>,
    error_file: Option<String>,
    #[serde(default)]
    errors: Vec<JobError>,
}

#[derive(Deserialize)]
struct JobError {
    message: Option<String>,
}

#[derive(Deserialize)]
struct JobList {
    #[serde(default)]
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    metadata: Option<Map<String, Value>>,
}

/// The metadata of a job that has its name.
const NAME: &str = "turnpike_job";

impl BatchJobs for MistralJobs {
    fn limits(&self) -> JobLimits {
        JobLimits {
            max_lines: 10_000,
            min_lines: 1,
            max_bytes: 8 << 20,
            most_bytes: 8 << 20,
            one_model: true,
        }
    }

    fn check(&self, _job: &Job<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn write_line(&self, line: u32, body: &[u8], _job: &Job<'_>, input: &mut Vec<u8>) -> Result<(), Error> {
        let mut body: Map<String, Value> = jsonl::parse(body)?;
        // The job has it.
        body.remove("model");
        jsonl::write_line("custom_id", line, "body", Value::from(body).to_string().as_bytes(), input);
        Ok(())
    }

    fn uploads(&self, job: &Job<'_>, input: &Bytes) -> Result<Vec<JobCall>, Error> {
        Ok(vec![jsonl::form("files", job, &[("purpose", "batch")], input)?])
    }

    fn uploaded(&self, _job: &Job<'_>, response: &[u8]) -> Result<String, Error> {
        jsonl::text(response, "/id")
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let JobInput::Uploaded(file) = input else {
            return Err(Error::internal("a batch without an upload"));
        };
        let endpoint = match job.operation {
            Operation::Embeddings => "/v1/embeddings",
            _ => "/v1/chat/completions",
        };
        let body = json!({
            "input_files": [file], "model": job.model, "endpoint": endpoint, "timeout_hours": 24,
            "metadata": {NAME: job.name},
        });
        Ok(JobCall::post("batch/jobs", body.to_string()))
    }

    fn created(&self, response: &[u8]) -> Result<String, Error> {
        jsonl::text(response, "/id")
    }

    fn find(&self, _job: &Job<'_>) -> Option<JobCall> {
        Some(JobCall::get("batch/jobs?page_size=100&order_by=-created"))
    }

    fn found(&self, job: &Job<'_>, response: &[u8]) -> Result<Option<String>, Error> {
        let list: JobList = jsonl::parse(response)?;
        let has_name = |listed: &Listed| {
            let metadata = listed.metadata.as_ref();
            metadata.and_then(|metadata| metadata.get(NAME)).is_some_and(|name| name == job.name)
        };
        Ok(list.data.into_iter().find(has_name).map(|listed| listed.id))
    }

    fn status(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::get(format!("batch/jobs/{id}"))
    }

    fn read_status(&self, _job: &Job<'_>, response: &[u8]) -> Result<JobStatus, Error> {
        let view: JobView = jsonl::parse(response)?;
        let files = view.output_file.into_iter().chain(view.error_file);
        let results = jsonl::results(files);
        Ok(match view.status.as_str() {
            "SUCCESS" => JobStatus::Ended(results),
            "CANCELLED" => JobStatus::Cancelled(results),
            "TIMEOUT_EXCEEDED" => JobStatus::Expired(results),
            "FAILED" => {
                let message = view.errors.into_iter().find_map(|error| error.message);
                let message = message.unwrap_or_else(|| "The provider's job has failed.".to_owned());
                JobStatus::Failed { code: "job_failed".to_owned(), message, results }
            }
            _ => JobStatus::Running,
        })
    }

    fn cancel(&self, _job: &Job<'_>, id: &str) -> JobCall {
        JobCall::post(format!("batch/jobs/{id}/cancel"), "")
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
    fn a_job_has_one_model_and_lines_without_it() {
        with_job("mistral-small-latest", Operation::ChatCompletions, |job| {
            let mut input = Vec::new();
            let body = br#"{"model":"mistral-small-latest","messages":[]}"#;
            MistralJobs.write_line(3, body, job, &mut input).unwrap();
            assert_eq!(input, b"{\"custom_id\":\"3\",\"body\":{\"messages\":[]}}\n");
            let create = MistralJobs.create(job, JobInput::Uploaded("f1")).unwrap();
            let wanted = json!({
                "input_files": ["f1"], "model": "mistral-small-latest", "endpoint": "/v1/chat/completions",
                "timeout_hours": 24, "metadata": {"turnpike_job": job.name},
            });
            assert_eq!(serde_json::from_slice::<Value>(&create.body).unwrap(), wanted);
        });
    }

    #[test]
    fn states_and_names_are_read() {
        with_job("m", Operation::Embeddings, |job| {
            let status = |text: &str| MistralJobs.read_status(job, text.as_bytes()).unwrap();
            let files = |ids: &[&str]| {
                JobResults::Calls(ids.iter().map(|id| JobCall::get(format!("files/{id}/content"))).collect())
            };
            for running in ["QUEUED", "RUNNING", "CANCELLATION_REQUESTED"] {
                assert_eq!(status(&json!({"status": running}).to_string()), JobStatus::Running);
            }
            let done = |status: &str| {
                json!({"status": status, "output_file": "o", "error_file": "e", "errors": []}).to_string()
            };
            assert_eq!(status(&done("SUCCESS")), JobStatus::Ended(files(&["o", "e"])));
            assert_eq!(status(&done("TIMEOUT_EXCEEDED")), JobStatus::Expired(files(&["o", "e"])));
            assert_eq!(status(&done("CANCELLED")), JobStatus::Cancelled(files(&["o", "e"])));
            let failed = r#"{"status":"FAILED","output_file":null,"errors":[{"message":"bad","count":1}]}"#;
            let wanted =
                JobStatus::Failed { code: "job_failed".into(), message: "bad".into(), results: files(&[]) };
            assert_eq!(status(failed), wanted);
            let list = json!({"data": [{"id": "1"}, {"id": "2", "metadata": {"turnpike_job": job.name}}]})
                .to_string();
            assert_eq!(MistralJobs.found(job, list.as_bytes()).unwrap().as_deref(), Some("2"));
            assert_eq!(MistralJobs.found(job, br#"{"data":[]}"#).unwrap(), None);
        });
    }
}
