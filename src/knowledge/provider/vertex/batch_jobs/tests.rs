//! Vertex AI's batch jobs: their calls, their states by a table, and lines of results as the documentation shows them.

use super::*;
use crate::provider::batch_jobs::JobStatus;
use serde_json::{Map, Value};
use words::api::operation::Operation;
use words::config::account::{Account, AuthTypeB, CloudB};
use words::config::secret::Secret;

const NAME: &str = "projects/123/locations/us-central1/batchPredictionJobs/456";

fn with_cloud(change: impl FnOnce(&mut CloudB)) -> Account {
    let mut cloud = CloudB {
        project_id: Some("my-project".to_owned()),
        region: Some("us-central1".to_owned()),
        bucket: Some("my_bucket".to_owned()),
        ..CloudB::default()
    };
    change(&mut cloud);
    Account { api_key: Some(Secret::new("ya29.token")), cloud_b: cloud.into(), ..Account::default() }
}

fn job<'a>(account: &'a Account, model: &'a str, options: &'a Map<String, Value>) -> Job<'a> {
    Job {
        name: "turnpike-1-0",
        account,
        model,
        operation: Operation::ChatCompletions,
        options,
        input: None,
        id: None,
    }
}

#[test]
fn a_job_is_uploaded_created_and_found() {
    let account = with_cloud(|_| {});
    let options = Map::new();
    let job = job(&account, "gemini-2.5-flash", &options);
    let uploads = PredictionJobs.uploads(&job, &Bytes::from_static(b"{}\n")).unwrap();
    let [upload] = uploads.as_slice() else { panic!("{uploads:?}") };
    assert_eq!(upload.method, Method::POST);
    let path =
        "upload/storage/v1/b/my_bucket/o?uploadType=media&name=turnpike-batches%2Fturnpike-1-0%2Finput.jsonl";
    assert_eq!(upload.path, path);
    let input = PredictionJobs.uploaded(&job, b"").unwrap();
    assert_eq!(input, "gs://my_bucket/turnpike-batches/turnpike-1-0/input.jsonl");
    let create = PredictionJobs.create(&job, JobInput::Uploaded(&input)).unwrap();
    assert_eq!(create.path, "projects/my-project/locations/us-central1/batchPredictionJobs");
    let wanted = json!({
        "displayName": "turnpike-1-0", "model": "publishers/google/models/gemini-2.5-flash",
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": [input]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": "gs://my_bucket/turnpike-batches/turnpike-1-0/output"},
        },
    });
    assert_eq!(serde_json::from_slice::<Value>(&create.body).unwrap(), wanted);
    let created = json!({"name": NAME, "displayName": "turnpike-1-0", "state": "JOB_STATE_PENDING"});
    assert_eq!(PredictionJobs.created(created.to_string().as_bytes()).unwrap(), NAME);
    for bad in ["{}", r#"{"name":"projects/../x"}"#, r#"{"name":"x?y"}"#] {
        assert_eq!(PredictionJobs.created(bad.as_bytes()).unwrap_err().status(), 502, "{bad}");
    }
    let find = PredictionJobs.find(&job).unwrap().path;
    assert!(
        find.ends_with("batchPredictionJobs?filter=display_name%3D%22turnpike-1-0%22&pageSize=10"),
        "{find}"
    );
    let listed = json!({"batchPredictionJobs": [created]}).to_string();
    assert_eq!(PredictionJobs.found(&job, listed.as_bytes()).unwrap().as_deref(), Some(NAME));
    assert_eq!(PredictionJobs.found(&job, b"{}").unwrap(), None);
    assert_eq!(PredictionJobs.status(&job, NAME).path, NAME);
    let cancel = PredictionJobs.cancel(&job, NAME);
    assert_eq!((cancel.method, cancel.path), (Method::POST, format!("{NAME}:cancel")));
}

#[test]
fn lines_of_gemini_and_claude_have_their_own_bodies() {
    let account = with_cloud(|_| {});
    let options = Map::new();
    let mut input = Vec::new();
    let gemini = job(&account, "gemini-2.5-flash", &options);
    PredictionJobs.write_line(7, br#"{"contents":[]}"#, &gemini, &mut input).unwrap();
    let claude = job(&account, "claude-sonnet-4-5@20250929", &options);
    let body = br#"{"anthropic_version":"vertex-2023-10-16","tools":[{"input_schema":{"$defs":{}}}]}"#;
    PredictionJobs.write_line(8, body, &claude, &mut input).unwrap();
    let wanted = "{\"custom_id\":\"line-7\",\"request\":{\"contents\":[]}}\n\
        {\"custom_id\":\"line-8\",\"request\":{\"anthropic_version\":\"vertex-2023-10-16\",\"tools\":[{\"input_schema\":{\"$defs\":{}}}]}}\n";
    assert_eq!(String::from_utf8(input).unwrap(), wanted);
    let create = PredictionJobs.create(&claude, JobInput::Uploaded("gs://b/i")).unwrap();
    let body: Value = serde_json::from_slice(&create.body).unwrap();
    assert_eq!(body["model"], "publishers/anthropic/models/claude-sonnet-4-5@20250929");
}

/// All states of <https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/JobState>.
#[test]
fn each_state_of_vertex_is_one_of_ours() {
    let account = with_cloud(|_| {});
    let options = Map::new();
    let job = job(&account, "gemini-2.5-flash", &options);
    let list = "storage/v1/b/my_bucket/o?prefix=turnpike-batches%2Foutput%2Fprediction-model-2026-09-02T20%3A06%3A30.166279Z%2F\
                &maxResults=1000&fields=items(name)";
    let results = || JobResults::Listed(JobCall::get(list));
    let failed = JobStatus::Failed {
        code: "batch_job_failed".to_owned(),
        message: "Failed to import data.".to_owned(),
        results: results(),
    };
    let states = [
        ("JOB_STATE_UNSPECIFIED", JobStatus::Running),
        ("JOB_STATE_QUEUED", JobStatus::Running),
        ("JOB_STATE_PENDING", JobStatus::Running),
        ("JOB_STATE_RUNNING", JobStatus::Running),
        ("JOB_STATE_CANCELLING", JobStatus::Running),
        ("JOB_STATE_PAUSED", JobStatus::Running),
        ("JOB_STATE_UPDATING", JobStatus::Running),
        ("JOB_STATE_SUCCEEDED", JobStatus::Ended(results())),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", JobStatus::Ended(results())),
        ("JOB_STATE_CANCELLED", JobStatus::Cancelled(results())),
        ("JOB_STATE_EXPIRED", JobStatus::Expired(results())),
        ("JOB_STATE_FAILED", failed),
    ];
    for (state, wanted) in states {
        let directory = "gs://my_bucket/turnpike-batches/output/prediction-model-2026-09-02T20:06:30.166279Z";
        let response = json!({
            "name": NAME, "displayName": "turnpike-1-0", "state": state,
            "error": {"code": 3, "message": "Failed to import data."},
            "outputInfo": {"gcsOutputDirectory": directory},
            "completionStats": {"successfulCount": "2"},
        });
        let status = PredictionJobs.read_status(&job, response.to_string().as_bytes()).unwrap();
        assert_eq!(status, wanted, "{state}");
    }
    let early = json!({"name": NAME, "state": "JOB_STATE_CANCELLED"}).to_string();
    let status = PredictionJobs.read_status(&job, early.as_bytes()).unwrap();
    assert_eq!(status, JobStatus::Cancelled(JobResults::NONE), "nothing was written");
    let elsewhere = json!({"state": "JOB_STATE_SUCCEEDED", "outputInfo": {"gcsOutputDirectory": "bq://x"}});
    let error = PredictionJobs.read_status(&job, elsewhere.to_string().as_bytes()).unwrap_err();
    assert_eq!(error.status(), 502);
}

#[test]
fn all_files_of_lines_are_read() {
    let account = with_cloud(|_| {});
    let options = Map::new();
    let job = job(&account, "gemini-2.5-flash", &options);
    let response = json!({"items": [
        {"name": "f/predictions_00002.jsonl"}, {"name": "f/errors.txt"}, {"name": "f/predictions_00001.jsonl"},
    ]});
    let calls = PredictionJobs.listed(&job, response.to_string().as_bytes()).unwrap();
    let paths: Vec<String> = calls.into_iter().map(|call| call.path).collect();
    let wanted = [
        "storage/v1/b/my_bucket/o/f%2Fpredictions_00001.jsonl?alt=media",
        "storage/v1/b/my_bucket/o/f%2Fpredictions_00002.jsonl?alt=media",
    ];
    assert_eq!(paths, wanted);
    assert_eq!(PredictionJobs.listed(&job, b"{}").unwrap(), []);
}

/// Lines as in
/// <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/batch-prediction-from-cloud-storage>, with the id
/// that the lines of the input have.
#[test]
fn a_line_of_results_is_a_response_or_an_error() {
    let read = |line: &str| PredictionJobs.read_result(line.as_bytes());
    let result = |line, status, body: &str| {
        let outcome = JobOutcome::Response { status, body: body.as_bytes().to_vec() };
        Some(JobResult { line, outcome })
    };
    let success = r#"{"status": "", "processed_time": "2024-11-01T18:13:16.826+00:00", "custom_id": "line-3",
        "request": {"contents": [{"parts": [{"fileData": null, "text": "Hi"}], "role": "user"}]},
        "response": {"candidates": [{"finishReason": "STOP"}], "modelVersion": "gemini-2.0-flash-001@default"}}"#;
    let body =
        r#"{"candidates": [{"finishReason": "STOP"}], "modelVersion": "gemini-2.0-flash-001@default"}"#;
    assert_eq!(read(success).unwrap(), result(3, 200, body));
    let failed = r#"{"status": "Bad Request: {\"error\": {\"code\": 400, \"message\": \"Please use a valid role: user, model.\", \"status\": \"INVALID_ARGUMENT\"}}",
        "processed_time": "2025-07-09T19:57:43.558+00:00", "custom_id": "line-4", "request": {}, "response": {}}"#;
    let body = r#"{"error": {"code": 400, "message": "Please use a valid role: user, model.", "status": "INVALID_ARGUMENT"}}"#;
    assert_eq!(read(failed).unwrap(), result(4, 400, body));
    let other = r#"{"status": "Internal error", "custom_id": "line-5"}"#;
    let body = r#"{"error":{"code":500,"message":"Internal error","status":"UNKNOWN"}}"#;
    assert_eq!(read(other).unwrap(), result(5, 500, body));
    let claude =
        r#"{"custom_id":"line-6","request":{},"response":{"type":"message","content":[]},"status":""}"#;
    assert_eq!(read(claude).unwrap(), result(6, 200, r#"{"type":"message","content":[]}"#));
    let refused =
        r#"{"custom_id":"line-6","response":{"type":"error","error":{"type":"invalid_request_error"}}}"#;
    let body = r#"{"type":"error","error":{"type":"invalid_request_error"}}"#;
    assert_eq!(read(refused).unwrap(), result(6, 400, body));
    assert_eq!(read(r#"{"custom_id":"line-6"}"#).unwrap(), None);
    for bad in ["{", r#"{"custom_id":"6","response":{}}"#, r#"{"response":{}}"#] {
        assert_eq!(read(bad).unwrap_err().status(), 502, "{bad}");
    }
}

#[test]
fn what_a_batch_lacks_is_named() {
    let options = Map::new();
    let refused = |account: &Account, model: &str| {
        let error = PredictionJobs.check(&job(account, model, &options)).unwrap_err();
        assert_eq!(error.status(), 400, "{}", error.message);
        error.param.unwrap().clone()
    };
    let account = with_cloud(|_| {});
    for model in ["", "gemini-2.5-flash", "anthropic.claude-sonnet-4-5@20250929"] {
        PredictionJobs.check(&job(&account, model, &options)).unwrap();
    }
    assert_eq!(refused(&account, "meta/llama-4-scout"), "model");
    assert_eq!(refused(&with_cloud(|cloud| cloud.bucket = None), ""), "cloud_b_storage_bucket_name");
    assert_eq!(refused(&with_cloud(|cloud| cloud.region = None), ""), "cloud_b_region");
    for bucket in ["gs://b", "a/b", "Upper", "ab"] {
        let account = with_cloud(|cloud| cloud.bucket = Some(bucket.to_owned()));
        assert_eq!(refused(&account, ""), "cloud_b_storage_bucket_name", "{bucket}");
    }
    let express = with_cloud(|cloud| cloud.auth_type = Some(AuthTypeB::ApiKey));
    let express = Account { api_key: Some(Secret::new("AIzaKey")), ..express };
    assert_eq!(refused(&express, ""), "api_key");
    let embeddings = Job { operation: Operation::Embeddings, ..job(&account, "", &options) };
    assert_eq!(PredictionJobs.check(&embeddings).unwrap_err().param.as_deref(), Some("endpoint"));
}
