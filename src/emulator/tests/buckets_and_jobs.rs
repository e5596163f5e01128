//! Batch jobs of Bedrock and Vertex AI, and the buckets of their input and output.

use super::client::Server;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

fn hash(body: &[u8]) -> String {
    digest(&SHA256, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a request of S3; returns its status and body.
async fn s3(server: &Server, method: &str, name: &str, body: &str, scope: &str) -> (u16, String) {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let request = server.http.request(method, server.url(&format!("/s3/{name}")));
    let request =
        request.header("authorization", scope).header("x-amz-content-sha256", hash(body.as_bytes()));
    let response = request.body(body.to_owned()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// The input of a job: the last of its lines is refused.
fn records(count: usize, record: impl Fn(String, &str) -> Value) -> String {
    let text = |n: usize| if n + 1 == count { "Please refuse this line." } else { "Hello" };
    (0..count).map(|n| format!("{}\n", record(format!("{n:011}"), text(n)))).collect()
}

fn converse(id: String, text: &str) -> Value {
    json!({"recordId": id, "modelInput": {"messages": [{"role": "user", "content": [{"text": text}]}]}})
}

fn invocation(name: &str) -> Value {
    json!({
        "jobName": name, "clientRequestToken": name, "roleArn": "arn:aws:iam::123456789012:role/r",
        "modelId": "emulator", "modelInvocationType": "Converse",
        "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://b/in/input.jsonl"}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://b/out/"}},
    })
}

#[tokio::test]
async fn objects_of_s3_need_its_signature_and_their_digest() {
    let server = Server::start().await;
    assert_eq!(s3(&server, "PUT", "b/a/key", "content", SIGNED).await.0, 200);
    assert_eq!(s3(&server, "GET", "b/a/key", "", SIGNED).await, (200, "content".to_owned()));
    assert_eq!(s3(&server, "PUT", "b/a/key", "new", SIGNED).await.0, 200);
    assert_eq!(s3(&server, "GET", "b/a/key", "", SIGNED).await.1, "new");
    let (status, text) = s3(&server, "GET", "b/other", "", SIGNED).await;
    assert!(status == 404 && text.contains("NoSuchKey"), "{text}");
    let (status, text) = s3(&server, "PUT", "missing-b/key", "", SIGNED).await;
    assert!(status == 404 && text.contains("NoSuchBucket"), "{text}");
    assert_eq!(s3(&server, "PUT", "b/key", "", &SIGNED.replace("/s3/", "/bedrock/")).await.0, 403);
    let request = server.http.put(server.url("/s3/b/key")).header("authorization", SIGNED);
    let wrong = request.header("x-amz-content-sha256", hash(b"other")).body("content").send().await.unwrap();
    assert_eq!(wrong.status(), 400);
}

#[tokio::test]
async fn invocation_jobs_run_their_lines() {
    let server = Server::start().await;
    s3(&server, "PUT", "b/in/input.jsonl", &records(100, converse), SIGNED).await;
    let arn = server.post_ok("/model-invocation-job", invocation("one")).await["jobArn"].clone();
    let again = server.post_ok("/model-invocation-job", invocation("one")).await;
    assert_eq!(again["jobArn"], arn, "the token is that of an earlier request");
    let id = arn.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let found = server.fetch("/model-invocation-jobs?nameContains=one").await;
    assert_eq!(found["invocationJobSummaries"].as_array().unwrap().len(), 1);
    let path = format!("/model-invocation-job/{id}");
    assert_eq!(server.fetch(&path).await["status"], "InProgress");
    let done = server.fetch(&path).await;
    assert_eq!((&done["status"], &done["errorRecordCount"]), (&json!("Completed"), &json!(1)));
    let (_, output) = s3(&server, "GET", &format!("b/out/{id}/input.jsonl.out"), "", SIGNED).await;
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 100);
    assert_eq!(lines[0]["recordId"], "00000000099", "not in the order of the input");
    assert_eq!(lines[0]["error"]["errorCode"], 400);
    assert_eq!(lines[99]["modelOutput"]["output"]["message"]["role"], "assistant");
    assert_eq!(server.post(&format!("{path}/stop"), json!({})).await.0, 400, "it has ended");
}

#[tokio::test]
async fn a_stopped_job_has_half_of_its_results_and_a_short_one_fails() {
    let server = Server::start().await;
    s3(&server, "PUT", "b/in/input.jsonl", &records(100, converse), SIGNED).await;
    let arn = server.post_ok("/model-invocation-job", invocation("two")).await["jobArn"].clone();
    let path = format!("/model-invocation-job/{}", arn.as_str().unwrap().rsplit('/').next().unwrap());
    server.fetch(&path).await;
    assert_eq!(server.post(&format!("{path}/stop"), json!({})).await.0, 200);
    assert_eq!(server.fetch(&path).await["status"], "Stopped");
    let name = format!("b/out/{}/input.jsonl.out", path.rsplit('/').next().unwrap());
    assert_eq!(s3(&server, "GET", &name, "", SIGNED).await.1.lines().count(), 50);
    s3(&server, "PUT", "b/in/input.jsonl", &records(99, converse), SIGNED).await;
    let arn = server.post_ok("/model-invocation-job", invocation("three")).await["jobArn"].clone();
    let path = format!("/model-invocation-job/{}", arn.as_str().unwrap().rsplit('/').next().unwrap());
    let failed = server.fetch(&path).await;
    assert_eq!(
        (&failed["status"], failed["message"].as_str().unwrap().contains("100")),
        (&json!("Failed"), true)
    );
}

/// Uploads the input, creates a job and returns its path.
async fn prediction(server: &Server, model: &str, input: String) -> String {
    let upload = server.url("/upload/storage/v1/b/b/o?uploadType=media&name=in%2Finput.jsonl");
    let object: Value = server.http.post(upload).body(input).send().await.unwrap().json().await.unwrap();
    assert_eq!(object["name"], "in/input.jsonl");
    let body = json!({
        "displayName": "one", "model": model,
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["gs://b/in/input.jsonl"]}},
        "outputConfig": {"predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": "gs://b/out"}},
    });
    let jobs = "/v1/projects/p/locations/us-central1/batchPredictionJobs";
    let job = server.post_ok(jobs, body).await;
    assert_eq!(job["state"], "JOB_STATE_PENDING");
    let found = server.fetch(&format!("{jobs}?filter=display_name%3D%22one%22")).await;
    assert_eq!(found["batchPredictionJobs"][0]["name"], job["name"]);
    format!("/v1/{}", job["name"].as_str().unwrap())
}

#[tokio::test]
async fn prediction_jobs_run_lines_of_gemini_and_claude() {
    let gemini = |id: String, text: &str| json!({"custom_id": id, "request": {"contents": [{"role": "user", "parts": [{"text": text}]}]}});
    let claude = |id: String, text: &str| {
        let request = json!({
            "anthropic_version": "vertex-2023-10-16", "max_tokens": 9,
            "messages": [{"role": "user", "content": text}],
        });
        json!({"custom_id": id, "request": request})
    };
    let cases = [
        ("publishers/google/models/emulator", records(3, gemini), "/response/candidates/0/finishReason"),
        ("publishers/anthropic/models/emulator", records(3, claude), "/response/content/0/type"),
    ];
    for (model, input, member) in cases {
        let server = Server::start().await;
        let path = prediction(&server, model, input).await;
        assert_eq!(server.fetch(&path).await["state"], "JOB_STATE_RUNNING");
        let done = server.fetch(&path).await;
        assert_eq!(done["state"], "JOB_STATE_SUCCEEDED");
        assert_eq!(done["completionStats"], json!({"successfulCount": "2", "failedCount": "1"}));
        let folder = done["outputInfo"]["gcsOutputDirectory"].as_str().unwrap();
        let listed = server.fetch("/storage/v1/b/b/o?prefix=out%2Fprediction-model").await;
        let name = listed["items"][0]["name"].as_str().unwrap();
        assert_eq!(format!("gs://b/{name}"), format!("{folder}/predictions.jsonl"));
        let object = format!("/storage/v1/b/b/o/{}?alt=media", name.replace('/', "%2F"));
        let output = server.http.get(server.url(&object)).send().await.unwrap().text().await.unwrap();
        let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["custom_id"], "00000000002", "not in the order of the input");
        assert!(lines[0]["status"].as_str().unwrap().starts_with("Bad Request: {"), "{}", lines[0]);
        assert!(lines[1].pointer(member).is_some_and(Value::is_string), "{}", lines[1]);
    }
}

#[tokio::test]
async fn a_cancelled_prediction_job_has_half_of_its_results() {
    let gemini = |id: String, text: &str| json!({"custom_id": id, "request": {"contents": [{"role": "user", "parts": [{"text": text}]}]}});
    let server = Server::start().await;
    let path = prediction(&server, "publishers/google/models/emulator", records(4, gemini)).await;
    server.fetch(&path).await;
    assert_eq!(server.post(&format!("{path}:cancel"), json!({})).await.0, 200);
    let cancelled = server.fetch(&path).await;
    assert_eq!(cancelled["state"], "JOB_STATE_CANCELLED");
    let folder = cancelled["outputInfo"]["gcsOutputDirectory"].as_str().unwrap();
    let name = format!("{}/predictions.jsonl", folder.trim_start_matches("gs://b/")).replace('/', "%2F");
    let output = server.url(&format!("/storage/v1/b/b/o/{name}?alt=media"));
    assert_eq!(server.http.get(output).send().await.unwrap().text().await.unwrap().lines().count(), 2);
    assert_eq!(server.post(&format!("{path}:cancel"), json!({})).await.0, 400, "it has ended");
    let nothing = prediction(&server, "publishers/google/models/emulator", "{}\n".to_owned()).await;
    assert_eq!(server.fetch(&nothing).await["state"], "JOB_STATE_FAILED");
}

#[tokio::test]
async fn inference_jobs_run_lines_of_their_dataset() {
    let server = Server::start().await;
    let dataset = json!({"datasetId": "in", "dataset": {"userUploaded": {}, "exampleCount": "3"}});
    server.post_ok("/v1/accounts/a/datasets", dataset.clone()).await;
    assert_eq!(server.post("/v1/accounts/a/datasets", dataset).await.0, 409);
    let nameless = json!({"datasetId": "x", "dataset": {"userUploaded": {}}});
    assert_eq!(server.post("/v1/accounts/a/datasets", nameless).await.0, 400, "exampleCount");
    let chat = |id: String, text: &str| json!({"custom_id": id, "body": {"messages": [{"role": "user", "content": text}]}});
    let file = reqwest::multipart::Part::bytes(records(3, chat).into_bytes()).file_name("in.jsonl");
    let form = reqwest::multipart::Form::new().part("file", file);
    let upload = server.http.post(server.url("/v1/accounts/a/datasets/in:upload")).multipart(form);
    assert_eq!(upload.send().await.unwrap().status(), 200);
    let jobs = "/v1/accounts/a/batchInferenceJobs";
    let body =
        json!({"model": "accounts/fireworks/models/emulator", "inputDatasetId": "accounts/a/datasets/in"});
    let job = server.post_ok(&format!("{jobs}?batchInferenceJobId=one"), body.clone()).await;
    assert_eq!(job["name"], "accounts/a/batchInferenceJobs/one");
    assert_eq!(server.post(&format!("{jobs}?batchInferenceJobId=one"), body.clone()).await.0, 409);
    let path = format!("{jobs}/one");
    assert_eq!(server.fetch(&path).await["state"], "JOB_STATE_RUNNING");
    let done = server.fetch(&path).await;
    assert_eq!(
        (&done["state"], &done["jobProgress"]["failedRequests"]),
        (&json!("JOB_STATE_COMPLETED"), &json!(1))
    );
    let output = done["outputDatasetId"].as_str().unwrap();
    let downloads = server.fetch(&format!("/v1/{output}:getDownloadEndpoint")).await;
    let url = downloads["filenameToSignedUrls"]["dataset/BIJOutputSet.jsonl"].as_str().unwrap();
    let lines = server.http.get(url).send().await.unwrap().text().await.unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["custom_id"], &first["response"]["object"]),
        (&json!("00000000001"), &json!("chat.completion"))
    );
    let with_key = server.http.get(url).bearer_auth("key").send().await.unwrap();
    assert_eq!(with_key.status(), 400, "a signed address refuses a key");
    server.post_ok(&format!("{jobs}?batchInferenceJobId=two"), body).await;
    assert_eq!(server.delete(&format!("{jobs}/two")).await.0, 200);
    assert_eq!(server.fetch(&format!("{jobs}/two")).await["state"], "JOB_STATE_DELETING_CLEANING_UP");
}
