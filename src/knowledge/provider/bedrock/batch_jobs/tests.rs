//! Bedrock's batch jobs: their calls, their states by a table, and lines of results as the documentation shows them.

use super::*;
use crate::provider::batch_jobs::JobStatus;
use serde_json::{Map, Value};
use words::config::account::{Account, CloudA};
use words::config::secret::Secret;

const ROLE_ARN: &str = "arn:aws:iam::123456789012:role/MyBatchInferenceRole";
const ARN: &str = "arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/abcdefghijkl";

fn account() -> Account {
    let cloud = CloudA {
        access_key_id: Some(Secret::new("AKID")),
        secret_access_key: Some(Secret::new("secret")),
        bucket: Some("my-bucket".to_owned()),
        batch_role_arn: Some(ROLE_ARN.to_owned()),
        ..CloudA::default()
    };
    Account { cloud_a: cloud.into(), ..Account::default() }
}

fn with_cloud(change: impl FnOnce(&mut CloudA)) -> Account {
    let mut cloud: CloudA = (*account().cloud_a).clone();
    change(&mut cloud);
    Account { cloud_a: cloud.into(), ..Account::default() }
}

fn job<'a>(account: &'a Account, options: &'a Map<String, Value>) -> Job<'a> {
    Job {
        name: "turnpike-1-0",
        account,
        model: "anthropic.claude-3-haiku-20240307-v1:0",
        operation: Operation::ChatCompletions,
        options,
        input: None,
        id: None,
    }
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[test]
fn a_line_has_its_number_and_the_body_of_a_single_request() {
    let account = account();
    let options = Map::new();
    let mut input = Vec::new();
    let job = job(&account, &options);
    InvocationJobs.write_line(7, b"{\"messages\":\n[]}", &job, &mut input).unwrap();
    InvocationJobs.write_line(8, b"{}", &job, &mut input).unwrap();
    let wanted = "{\"recordId\":\"00000000007\",\"modelInput\":{\"messages\": []}}\n\
                  {\"recordId\":\"00000000008\",\"modelInput\":{}}\n";
    assert_eq!(String::from_utf8(input).unwrap(), wanted);
}

#[test]
fn the_input_goes_into_the_bucket_with_its_encryption() {
    let account = with_cloud(|cloud| {
        cloud.encryption = Some("aws:kms".to_owned());
        cloud.encryption_key_id = Some("alias/batches".to_owned());
    });
    let options = Map::new();
    let job = job(&account, &options);
    let uploads = InvocationJobs.uploads(&job, &Bytes::from_static(b"{}\n")).unwrap();
    let [upload] = uploads.as_slice() else { panic!("{uploads:?}") };
    assert_eq!(upload.method, Method::PUT);
    assert_eq!(upload.path, "s3/my-bucket/turnpike-batches/turnpike-1-0/input.jsonl");
    assert_eq!(upload.body, "{}\n");
    let header = |name: &str| upload.headers.iter().find(|(header, _)| header == name).unwrap().1.clone();
    assert_eq!(header("x-amz-server-side-encryption"), "aws:kms");
    assert_eq!(header("x-amz-server-side-encryption-aws-kms-key-id"), "alias/batches");
    let input = InvocationJobs.uploaded(&job, b"").unwrap();
    assert_eq!(input, "s3://my-bucket/turnpike-batches/turnpike-1-0/input.jsonl");
    let create = InvocationJobs.create(&job, JobInput::Uploaded(&input)).unwrap();
    let key = &json(&create.body)["outputDataConfig"]["s3OutputDataConfig"]["s3EncryptionKeyId"];
    assert_eq!(key, "alias/batches");
}

/// The request of <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelInvocationJob.html>.
#[test]
fn a_job_is_created_with_what_the_api_demands() {
    let account = account();
    let options = Map::new();
    let job = job(&account, &options);
    let create = InvocationJobs.create(&job, JobInput::Uploaded("s3://my-bucket/in.jsonl")).unwrap();
    assert_eq!((create.method, create.path.as_str()), (Method::POST, "model-invocation-job"));
    let wanted = json!({
        "jobName": "turnpike-1-0", "clientRequestToken": "turnpike-1-0", "roleArn": ROLE_ARN,
        "modelId": "anthropic.claude-3-haiku-20240307-v1:0", "modelInvocationType": "Converse",
        "timeoutDurationInHours": 24,
        "inputDataConfig": {
            "s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": "s3://my-bucket/in.jsonl"},
        },
        "outputDataConfig": {
            "s3OutputDataConfig": {"s3Uri": "s3://my-bucket/turnpike-batches/turnpike-1-0/output/"},
        },
    });
    assert_eq!(json(&create.body), wanted);
    let embeddings = Job { operation: Operation::Embeddings, ..job };
    let create = InvocationJobs.create(&embeddings, JobInput::Uploaded("s3://my-bucket/in.jsonl")).unwrap();
    assert_eq!(json(&create.body)["modelInvocationType"], "InvokeModel");
    let created = InvocationJobs.created(json!({"jobArn": ARN}).to_string().as_bytes());
    assert_eq!(created.unwrap(), "abcdefghijkl");
    for bad in ["{}", r#"{"jobArn":"a/../b?c"}"#, "<html>"] {
        assert_eq!(InvocationJobs.created(bad.as_bytes()).unwrap_err().status(), 502, "{bad}");
    }
}

#[test]
fn a_job_is_found_by_its_whole_name() {
    let account = account();
    let options = Map::new();
    let job = job(&account, &options);
    let find = InvocationJobs.find(&job).unwrap();
    assert_eq!(find.path, "model-invocation-jobs?nameContains=turnpike-1-0&maxResults=1000");
    let summary = |name: &str| json!({"jobArn": ARN, "jobName": name, "status": "Submitted"});
    let listed = |names: &[&str]| {
        let summaries: Vec<Value> = names.iter().map(|name| summary(name)).collect();
        let response = json!({"invocationJobSummaries": summaries}).to_string();
        InvocationJobs.found(&job, response.as_bytes()).unwrap()
    };
    assert_eq!(listed(&["turnpike-1-01", "turnpike-1-0"]).as_deref(), Some("abcdefghijkl"));
    assert_eq!(listed(&["turnpike-1-01"]), None);
    assert_eq!(InvocationJobs.found(&job, b"{}").unwrap(), None);
}

/// All states of <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_GetModelInvocationJob.html>.
#[test]
fn each_state_of_bedrock_is_one_of_ours() {
    let account = account();
    let options = Map::new();
    let output = "s3/my-bucket/turnpike-batches/turnpike-1-0/output/abcdefghijkl/input.jsonl.out";
    let results = || JobResults::Calls(vec![JobCall::get(output)]);
    let failed = JobStatus::Failed {
        code: "batch_job_failed".to_owned(),
        message: "Your input has no records.".to_owned(),
        results: results(),
    };
    let states = [
        ("Submitted", JobStatus::Running),
        ("Validating", JobStatus::Running),
        ("Scheduled", JobStatus::Running),
        ("InProgress", JobStatus::Running),
        ("Stopping", JobStatus::Running),
        ("Completed", JobStatus::Ended(results())),
        ("PartiallyCompleted", JobStatus::Ended(results())),
        ("Stopped", JobStatus::Cancelled(results())),
        ("Expired", JobStatus::Expired(results())),
        ("Failed", failed),
    ];
    for (state, wanted) in states {
        let response = json!({
            "jobArn": ARN, "jobName": "turnpike-1-0", "status": state, "message": "Your input has no records.",
            "modelId": "m", "roleArn": ROLE_ARN, "submitTime": "2024-08-01T00:00:00Z",
        });
        let status =
            InvocationJobs.read_status(&job(&account, &options), response.to_string().as_bytes()).unwrap();
        assert_eq!(status, wanted, "{state}");
    }
    let job = job(&account, &options);
    assert_eq!(InvocationJobs.status(&job, "abcdefghijkl").path, "model-invocation-job/abcdefghijkl");
    let cancel = InvocationJobs.cancel(&job, "abcdefghijkl");
    assert_eq!(
        (cancel.method, cancel.path.as_str()),
        (Method::POST, "model-invocation-job/abcdefghijkl/stop")
    );
}

/// Lines as in <https://docs.aws.amazon.com/bedrock/latest/userguide/batch-inference-results.html>.
#[test]
fn a_line_of_results_is_a_response_or_an_error() {
    let read = |line: &str| InvocationJobs.read_result(line.as_bytes());
    let result = |line, status, body: &str| {
        let outcome = JobOutcome::Response { status, body: body.as_bytes().to_vec() };
        Some(JobResult { line, outcome })
    };
    let success = r#"{ "recordId" : "00000000003", "modelInput" : {"inputText": "Roses are red, violets are"},
        "modelOutput" : {"inputTextTokenCount": 8, "results": [{"tokenCount": 3, "outputText": "blue\n"}]}}"#;
    let body = r#"{"inputTextTokenCount": 8, "results": [{"tokenCount": 3, "outputText": "blue\n"}]}"#;
    assert_eq!(read(success).unwrap(), result(3, 200, body));
    let failed = r#"{ "recordId" : "00000000012", "modelInput" : {"inputText": "Hello world"},
        "error" : {"errorCode" : 400, "errorMessage" : "bad request" }}"#;
    assert_eq!(read(failed).unwrap(), result(12, 400, r#"{"message":"bad request"}"#));
    let odd = r#"{"recordId":"00000000012","error":{"errorCode":7}}"#;
    assert_eq!(read(odd).unwrap(), result(12, 500, r#"{"message":""}"#));
    assert_eq!(read(r#"{"recordId":"00000000012","modelInput":{}}"#).unwrap(), None);
    for bad in ["{", r#"{"recordId":"x","modelOutput":{}}"#, r#"{"modelOutput":{}}"#] {
        assert_eq!(read(bad).unwrap_err().status(), 502, "{bad}");
    }
}

#[test]
fn what_a_batch_lacks_is_named() {
    let options = Map::new();
    let refused = |account: &Account, options: &Map<String, Value>| {
        let error = InvocationJobs.check(&job(account, options)).unwrap_err();
        assert_eq!(error.status(), 400, "{}", error.message);
        error.param.unwrap().clone()
    };
    InvocationJobs.check(&job(&account(), &options)).unwrap();
    assert_eq!(refused(&with_cloud(|cloud| cloud.bucket = None), &options), "cloud_a_s3_bucket");
    for bucket in ["s3://b", "a/b", "Upper", "ab", "a..b", "-ab", "x.s3.evil.example@"] {
        let account = with_cloud(|cloud| cloud.bucket = Some(bucket.to_owned()));
        assert_eq!(refused(&account, &options), "cloud_a_s3_bucket", "{bucket}");
    }
    let roleless = with_cloud(|cloud| cloud.batch_role_arn = None);
    assert_eq!(refused(&roleless, &options), "cloud_a_batch_role_arn");
    let given = |role: Value| Map::from_iter([("role_arn".to_owned(), role)]);
    InvocationJobs.check(&job(&roleless, &given(ROLE_ARN.into()))).unwrap();
    assert_eq!(refused(&account(), &given("me".into())), "role_arn");
    assert_eq!(refused(&account(), &given(1.into())), "role_arn");
    let with_key =
        Account { api_key: Some(Secret::new("key")), ..with_cloud(|cloud| cloud.access_key_id = None) };
    let with_key = Account {
        cloud_a: CloudA { secret_access_key: None, ..(*with_key.cloud_a).clone() }.into(),
        ..with_key
    };
    assert_eq!(refused(&with_key, &options), "cloud_a_access_key_id");
    let account = account();
    let images = Job { operation: Operation::Images, ..job(&account, &options) };
    assert_eq!(InvocationJobs.check(&images).unwrap_err().param.as_deref(), Some("endpoint"));
}
