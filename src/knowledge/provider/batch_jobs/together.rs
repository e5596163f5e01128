//! Together's batches. Source: <https://docs.together.ai/docs/batch-inference>, <https://docs.together.ai/reference/batch-create>.
//!
//! A file of lines is uploaded, and a batch is made of it.

use super::{
    BatchApi, BatchJobs, CancelCall, FormUpload, Job, JobCall, JobEnd, JobFailure, JobInput, JobKey,
    JobLimits, JobSearch, LineForm,
};
use serde_json::json;
use words::api::operation::Operation;
use words::error::Error;

#[derive(Debug)]
pub(in crate::provider) struct TogetherJobs;

static API: BatchApi = BatchApi {
    limits: JobLimits::of_one_model(10_000),
    keeps_all_files: false,
    line: LineForm::STANDARD,
    upload: Some(FormUpload {
        path: "files/upload",
        fields: &[("purpose", "batch-api"), ("file_name", "{name}.jsonl"), ("file_type", "jsonl")],
        id: "/id",
    }),
    created: &["/job/id", "/id"],
    find: Some(JobSearch {
        path: "batches",
        lists: &["", "/data"],
        key: JobKey::Input("/input_file_id"),
        id: "/id",
    }),
    job: "batches/{id}",
    cancel: CancelCall::Post("batches/{id}/cancel"),
    state: "/status",
    states: &[
        ("COMPLETED", JobEnd::Complete),
        ("CANCELLED", JobEnd::Cancelled),
        ("EXPIRED", JobEnd::Expired),
        ("FAILED", JobEnd::Failed),
    ],
    failure: JobFailure {
        code: "job_failed",
        message: "/error",
        default: "The provider's batch has failed.",
    },
    result_files: &["/output_file_id", "/error_file_id"],
};

impl BatchJobs for TogetherJobs {
    fn api(&self) -> &'static BatchApi {
        &API
    }

    fn check(&self, job: &Job<'_>) -> Result<(), Error> {
        if job.operation != Operation::Embeddings {
            return Ok(());
        }
        let message = "Batches of Together are of chat completions and completions. Upload the file without a provider: the gateway runs \
                       batches of embeddings itself.";
        Err(Error::invalid_request("endpoint", message))
    }

    fn create(&self, job: &Job<'_>, input: JobInput<'_>) -> Result<JobCall, Error> {
        let endpoint = match job.operation {
            Operation::Completions => "/v1/completions",
            _ => "/v1/chat/completions",
        };
        let body =
            json!({"input_file_id": input.uploaded()?, "endpoint": endpoint, "completion_window": "24h"});
        Ok(JobCall::post("batches", body.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::batch_jobs::tests::with_job;
    use crate::provider::batch_jobs::{JobResults, JobStatus};
    use bytes::Bytes;
    use serde_json::Value;

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
