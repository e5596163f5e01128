//! Fireworks' batch jobs: their calls, their states by a table, lines of results, and where signed addresses may point.

use super::*;
use crate::provider::batch_jobs::JobStatus;
use crate::provider::{Call, Provider, find, url};
use http::{HeaderMap, Method};
use serde_json::Map;
use words::config::account::Account;
use words::config::secret::Secret;

const NAME: &str = "accounts/my-account/batchInferenceJobs/turnpike-1-0";

fn account_of(id: Option<&str>) -> Account {
    Account {
        api_key: Some(Secret::new("fw_key")),
        resource_name: id.map(str::to_owned),
        ..Account::default()
    }
}

fn job<'a>(account: &'a Account, options: &'a Map<String, Value>) -> Job<'a> {
    Job {
        name: "turnpike-1-0",
        account,
        model: "accounts/fireworks/models/llama-v3p1-8b-instruct",
        operation: Operation::ChatCompletions,
        options,
        input: None,
        id: None,
    }
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// Requests as in <https://docs.fireworks.ai/guides/batch-inference>.
#[test]
fn a_job_is_made_of_a_dataset() {
    let account = account_of(Some("my-account"));
    let options = Map::new();
    let job = job(&account, &options);
    FireworksJobs.check(&job).unwrap();
    let mut input = Vec::new();
    let body = br#"{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":9}"#;
    FireworksJobs.write_line(3, body, &job, &mut input).unwrap();
    let line = "{\"custom_id\":\"line-3\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":9}}\n";
    assert_eq!(String::from_utf8(input.clone()).unwrap(), line);
    let uploads = FireworksJobs.uploads(&job, &Bytes::from(input)).unwrap();
    let [create, upload] = uploads.as_slice() else { panic!("{uploads:?}") };
    assert_eq!(create.path, "accounts/my-account/datasets");
    let wanted = json!({"datasetId": "turnpike-1-0", "dataset": {"userUploaded": {}, "exampleCount": "1"}});
    assert_eq!(json(&create.body), wanted);
    assert_eq!(upload.path, "accounts/my-account/datasets/turnpike-1-0:upload");
    assert!(String::from_utf8_lossy(&upload.body).contains(line));
    let dataset = FireworksJobs.uploaded(&job, b"{}").unwrap();
    assert_eq!(dataset, "accounts/my-account/datasets/turnpike-1-0");
    let create = FireworksJobs.create(&job, JobInput::Uploaded(&dataset)).unwrap();
    assert_eq!(create.path, "accounts/my-account/batchInferenceJobs?batchInferenceJobId=turnpike-1-0");
    let wanted = json!({
        "displayName": "turnpike-1-0", "model": "accounts/fireworks/models/llama-v3p1-8b-instruct",
        "inputDatasetId": dataset,
    });
    assert_eq!(json(&create.body), wanted);
    assert_eq!(FireworksJobs.created(json!({"name": NAME}).to_string().as_bytes()).unwrap(), NAME);
    assert_eq!(FireworksJobs.created(br#"{"name":"accounts/../x"}"#).unwrap_err().status(), 502);
    assert_eq!(FireworksJobs.find(&job).unwrap().path, NAME, "a 404 where it was not created");
    let found = FireworksJobs.found(&job, json!({"name": NAME}).to_string().as_bytes());
    assert_eq!(found.unwrap().as_deref(), Some(NAME));
    let cancel = FireworksJobs.cancel(&job, NAME);
    assert_eq!((cancel.method, cancel.path.as_str()), (Method::DELETE, NAME));
}

/// All states of <https://docs.fireworks.ai/api-reference/get-batch-inference-job>.
#[test]
fn each_state_of_fireworks_is_one_of_ours() {
    let account = account_of(Some("my-account"));
    let options = Map::new();
    let results =
        || JobResults::Listed(JobCall::get("accounts/my-account/datasets/bij-1:getDownloadEndpoint"));
    let failed = JobStatus::Failed {
        code: "batch_job_failed".to_owned(),
        message: "Dataset has a syntax error".to_owned(),
        results: JobResults::NONE,
    };
    let running = [
        "UNSPECIFIED",
        "CREATING",
        "CREATING_INPUT_DATASET",
        "RUNNING",
        "PENDING",
        "VALIDATING",
        "WRITING_RESULTS",
        "RE_QUEUEING",
        "IDLE",
        "PAUSED",
        "CANCELLING",
    ];
    let gone = ["DELETING", "DELETING_CLEANING_UP", "DELETED", "ARCHIVED"];
    let ended = [
        ("COMPLETED", JobStatus::Ended(results())),
        ("EARLY_STOPPED", JobStatus::Ended(results())),
        ("EXPIRED", JobStatus::Expired(results())),
        ("CANCELLED", JobStatus::Cancelled(results())),
        ("FAILED", failed),
    ];
    let running = running.map(|state| (state, JobStatus::Running));
    let gone = gone.map(|state| (state, JobStatus::Cancelled(JobResults::NONE)));
    for (state, wanted) in running.into_iter().chain(gone).chain(ended) {
        let response = json!({
            "name": NAME, "state": format!("JOB_STATE_{state}"),
            "status": {"code": "INVALID_ARGUMENT", "message": "Dataset has a syntax error"},
            "outputDatasetId": "accounts/my-account/datasets/bij-1", "jobProgress": null,
        });
        let status = FireworksJobs.read_status(&job(&account, &options), response.to_string().as_bytes());
        assert_eq!(status.unwrap(), wanted, "{state}");
    }
}

#[test]
fn results_are_read_from_cloud_storage_or_the_custom_host_only() {
    let options = Map::new();
    let listed = |account: &Account, url: &str| {
        let response = json!({"filenameToSignedUrls": {"dataset/b/BIJOutputSet.jsonl": url}}).to_string();
        let calls = FireworksJobs.listed(&job(account, &options), response.as_bytes());
        calls.map(|calls| calls.into_iter().map(|call| call.path).collect::<Vec<_>>())
    };
    let own = account_of(Some("a"));
    let signed = "storage.googleapis.com/fireworks-a/dataset/b/BIJOutputSet.jsonl?X-Goog-Signature=0";
    assert_eq!(listed(&own, &format!("https://{signed}")).unwrap(), [signed]);
    let custom = Account { custom_host: Some("http://127.0.0.1:9/fw/".to_owned()), ..own.clone() };
    assert_eq!(listed(&custom, &format!("http://127.0.0.1:9/fw/{signed}")).unwrap(), [signed]);
    for bad in [
        "https://storage.googleapis.com.evil.example/x",
        "https://evil.example/storage.googleapis.com/x",
        "http://storage.googleapis.com/x",
        "http://127.0.0.1:9/fw/storage.googleapis.com/x",
        "storage.googleapis.com/x",
    ] {
        let error = listed(&own, bad).unwrap_err();
        assert_eq!(error.status(), 502, "{bad}");
    }
    assert_eq!(FireworksJobs.listed(&job(&own, &options), b"{}").unwrap(), [], "no output");
}

#[test]
fn the_key_stays_at_fireworks() {
    let provider: &dyn Provider = find(ID).unwrap();
    let account = account_of(Some("a"));
    let call = |path: &'static str| Call {
        operation: Operation::Passthrough,
        method: &Method::GET,
        path,
        query: Some("q=1"),
        model: None,
        streamed: false,
    };
    let cases = [
        ("accounts/a/datasets", "https://api.fireworks.ai/v1/accounts/a/datasets?q=1", true),
        ("storage.googleapis.com/b/o", "https://storage.googleapis.com/b/o?q=1", false),
        ("models", "https://api.fireworks.ai/inference/v1/models?q=1", true),
    ];
    for (path, wanted, has_key) in cases {
        assert_eq!(url(provider, &call(path), &account).unwrap(), wanted);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", http::HeaderValue::from_static("Bearer client"));
        provider.authorize(&call(path), &account, &mut headers).unwrap();
        let sent = headers.get("authorization").map(|value| value.to_str().unwrap());
        assert_eq!(sent, has_key.then_some("Bearer fw_key"), "{path}");
    }
}

#[test]
fn a_line_of_results_is_a_response_or_an_error() {
    let read = |line: &str| FireworksJobs.read_result(line.as_bytes());
    let result = |status, body: &str| {
        let outcome = JobOutcome::Response { status, body: body.as_bytes().to_vec() };
        Some(JobResult { line: 2, outcome })
    };
    let success = r#"{"custom_id": "line-2", "response": {"id": "chatcmpl-1", "object": "chat.completion", "choices": []}}"#;
    let body = r#"{"id": "chatcmpl-1", "object": "chat.completion", "choices": []}"#;
    assert_eq!(read(success).unwrap(), result(200, body));
    let failed = r#"{"custom_id":"line-2","response":null,"error":{"message":"bad","code":422}}"#;
    assert_eq!(read(failed).unwrap(), result(422, r#"{"error":{"code":422,"message":"bad"}}"#));
    let text = r#"{"custom_id":"line-2","error":"overloaded"}"#;
    assert_eq!(read(text).unwrap(), result(500, r#"{"error":{"message":"overloaded"}}"#));
    assert_eq!(read(r#"{"custom_id":"line-2"}"#).unwrap(), None);
    for bad in ["{", r#"{"custom_id":"2","response":{}}"#, r#"{"response":{}}"#] {
        assert_eq!(read(bad).unwrap_err().status(), 502, "{bad}");
    }
}

#[test]
fn what_a_batch_lacks_is_named() {
    let options = Map::new();
    for id in [None, Some(""), Some("a/b"), Some("a?b")] {
        let account = account_of(id);
        let error = FireworksJobs.check(&job(&account, &options)).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("fireworks_account_id")), "{id:?}");
    }
    let account = account_of(Some("a"));
    let completions = Job { operation: Operation::Completions, ..job(&account, &options) };
    assert_eq!(FireworksJobs.check(&completions).unwrap_err().param.as_deref(), Some("endpoint"));
}
