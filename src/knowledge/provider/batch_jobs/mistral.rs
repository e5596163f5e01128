//! Mistral's batch jobs. Source: <https://docs.mistral.ai/api/endpoint/batch>, <https://docs.mistral.ai/capabilities/batch>.
//!
//! A file of lines is uploaded, and a job is made of it with one model and endpoint.

use super::{
    BatchApi, BatchJobs, CancelCall, FormUpload, Job, JobCall, JobEnd, JobFailure, JobInput, JobKey,
    JobLimits, JobSearch, LineForm,
};
use serde_json::json;
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(in crate::provider) struct MistralJobs;

static API: BatchApi = BatchApi {
    limits: JobLimits::of_one_model(10_000),
    keeps_all_files: false,
    line: LineForm { without_model: true, ..LineForm::STANDARD },
    upload: Some(FormUpload { path: "files", fields: &[("purpose", "batch")], id: "/id" }),
    created: &["/id"],
    find: Some(JobSearch {
        path: "batch/jobs?page_size=100&order_by=-created",
        lists: &["/data"],
        key: JobKey::Name("/metadata/turnpike_job"),
        id: "/id",
    }),
    job: "batch/jobs/{id}",
    cancel: CancelCall::Post("batch/jobs/{id}/cancel"),
    state: "/status",
    states: &[
        ("SUCCESS", JobEnd::Complete),
        ("CANCELLED", JobEnd::Cancelled),
        ("TIMEOUT_EXCEEDED", JobEnd::Expired),
        ("FAILED", JobEnd::Failed),
    ],
    failure: JobFailure {
        code: "job_failed",
        message: "/errors/0/message",
        default: "The provider's job has failed.",
    },
    result_files: &["/output_file", "/error_file"],
};

impl BatchJobs for MistralJobs {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let endpoint = match job.operation {
            Operation::Embeddings => "/v1/embeddings",
            _ => "/v1/chat/completions",
        };
        let body = json!({
            "input_files": [input.uploaded()?], "model": job.model, "endpoint": endpoint, "timeout_hours": 24,
            "metadata": {"turnpike_job": job.name},
        });
        Ok(JobCall::post("batch/jobs", body.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::batch_jobs::tests::with_job;
    use crate::provider::batch_jobs::{JobResults, JobStatus};
    use serde_json::Value;

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
