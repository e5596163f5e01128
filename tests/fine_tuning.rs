//! Fine-tuning jobs in OpenAI's shape at every provider that has them, played by the emulator: from the request to the model.
//!
//! Not each member and state (`provider::fine_tuning::tests`), and not OpenAI's SDK (`sdk`).

use crate::support::client::{client, new_trace};
use crate::support::provider::Provider;
use crate::support::schemas::JobSchemas;
use crate::support::settings::KEY;
use crate::support::{Gateway, gateway};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A provider: its id, what its config has besides, and a training file.
struct Vendor {
    id: &'static str,
    account: Value,
    path: &'static str,
    file: &'static str,
    has_checkpoints: bool,
}

fn vendors() -> Vec<Vendor> {
    let vendor =
        |id, account, path, file, has_checkpoints| Vendor { id, account, path, file, has_checkpoints };
    let bedrock = json!({"cloud_a_access_key_id": "AKIAEMULATOR", "cloud_a_secret_access_key": "s", "cloud_a_region": "us-east-1"});
    let vertex = json!({"cloud_b_region": "us-central1", "cloud_b_project_id": "p1"});
    vec![
        vendor("openai", json!({}), "/v1", "file-train", true),
        vendor("azure-openai", json!({}), "", "file-train", true),
        vendor("mistral-ai", json!({}), "/mistral/v1", "file-train", true),
        vendor("together-ai", json!({}), "/v1", "file-train", true),
        vendor("fireworks-ai", json!({"fireworks_account_id": "acme"}), "/inference/v1", "train", false),
        vendor("vertex-ai", vertex, "", "gs://bucket/train.jsonl", true),
        vendor("bedrock", bedrock, "", "s3%3A%2F%2Fbucket%2Ftrain.jsonl", false),
    ]
}

impl Vendor {
    fn config(&self, gateway: &Gateway) -> Value {
        let host = format!("{}{}", gateway.emulator_url(), self.path);
        let mut config =
            json!({"provider": self.id, "api_key": "sk-emulator-0123456789", "custom_host": host});
        config.as_object_mut().unwrap().extend(self.account.as_object().unwrap().clone());
        config
    }

    fn request(&self, suffix: &str) -> Value {
        let mut request = json!({
            "model": "base-model", "training_file": self.file, "suffix": suffix,
            "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
        });
        if self.id == "bedrock" {
            request["role_arn"] = json!("arn:aws:iam::123456789012:role/tuner");
        }
        request
    }
}

struct Client<'a> {
    gateway: &'a Gateway,
    config: Value,
    tag: String,
}

impl<'a> Client<'a> {
    fn new(gateway: &'a Gateway, vendor: &Vendor) -> Self {
        Self { gateway, config: vendor.config(gateway), tag: new_trace() }
    }

    fn call(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.gateway.base_url());
        let call = client().request(method, url).header("x-gateway-api-key", KEY);
        call.header("x-gateway-config", self.config.to_string()).header("x-emulator-tag", &self.tag)
    }

    async fn read(&self, call: reqwest::RequestBuilder) -> (StatusCode, Value) {
        let response = call.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, value) = self.read(self.call(Method::GET, path)).await;
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    async fn create(&self, request: &Value) -> Value {
        let (status, job) = self.read(self.call(Method::POST, "/fine_tuning/jobs").json(request)).await;
        assert_eq!(status, 200, "{}: {job}", self.config);
        job
    }
}

fn id(job: &Value) -> &str {
    job["id"].as_str().unwrap()
}

fn rank(job: &Value) -> usize {
    const STATES: [&str; 6] = ["validating_files", "queued", "running", "succeeded", "failed", "cancelled"];
    let status = job["status"].as_str().unwrap();
    STATES.iter().position(|state| *state == status).unwrap_or_else(|| panic!("{status} is no state"))
}

/// What a job has besides itself, once it has succeeded.
async fn check_events_and_checkpoints(
    client: &Client<'_>,
    vendor: &Vendor,
    path: &str,
    schemas: &JobSchemas,
) {
    let events = client.get(&format!("{path}/events?limit=1")).await;
    schemas.check_event(&events["data"][0]);
    assert_eq!(events["data"].as_array().unwrap().len(), 1, "{} {events}", vendor.id);
    let call = client.call(Method::GET, &format!("{path}/checkpoints?limit=1"));
    let (status, list) = client.read(call).await;
    if !vendor.has_checkpoints {
        assert_eq!(status, 501, "{} {list}", vendor.id);
        return;
    }
    let checkpoint = &list["data"][0];
    schemas.check_checkpoint(checkpoint);
    assert_eq!((status, &checkpoint["step_number"]), (StatusCode::OK, &json!(100)), "{} {list}", vendor.id);
    if list["has_more"] == true {
        let next = format!("{path}/checkpoints?after={}", list["last_id"].as_str().unwrap());
        let next = client.get(&next).await;
        assert_eq!(
            (&next["data"][0]["step_number"], &next["has_more"]),
            (&json!(50), &json!(false)),
            "{}",
            vendor.id
        );
    }
}

#[tokio::test]
async fn a_job_runs_to_its_model_at_every_provider() {
    let gateway = gateway();
    let schemas = JobSchemas::load();
    for vendor in vendors() {
        let client = Client::new(&gateway, &vendor);
        let mut job = client.create(&vendor.request("acme-a")).await;
        let path = format!("/fine_tuning/jobs/{}", id(&job));
        let mut states = vec![job["status"].clone()];
        while rank(&job) < 3 {
            assert!(job["fine_tuned_model"].is_null() && job["finished_at"].is_null(), "{} {job}", vendor.id);
            assert!(job["error"].is_null(), "{} {job}", vendor.id);
            schemas.check_job(&job);
            assert!(states.len() < 8, "{} {states:?}", vendor.id);
            job = client.get(&path).await;
            states.push(job["status"].clone());
        }
        schemas.check_job(&job);
        assert_eq!(
            (&job["status"], &job["object"]),
            (&json!("succeeded"), &json!("fine_tuning.job")),
            "{} {job}",
            vendor.id
        );
        assert!(states.contains(&json!("running")), "{} {states:?}", vendor.id);
        assert!(job["fine_tuned_model"].is_string() && job["finished_at"].is_u64(), "{} {job}", vendor.id);
        assert_eq!(
            (&job["model"], &job["user_provided_suffix"]),
            (&json!("base-model"), &json!("acme-a")),
            "{}",
            vendor.id
        );
        let file = vendor.file.replace("%3A", ":").replace("%2F", "/");
        assert_eq!(job["training_file"], file, "{}", vendor.id);
        if !["openai", "azure-openai"].contains(&vendor.id) {
            assert_eq!(job["hyperparameters"]["n_epochs"], 2, "{} {job}", vendor.id);
        }
        check_events_and_checkpoints(&client, &vendor, &path, &schemas).await;
    }
}

#[tokio::test]
async fn jobs_are_listed_page_by_page() {
    let gateway = gateway();
    for vendor in vendors() {
        let client = Client::new(&gateway, &vendor);
        let mut wanted = Vec::new();
        for name in ["acme-b1", "acme-b2", "acme-b3"] {
            wanted.push(id(&client.create(&vendor.request(name)).await).to_owned());
        }
        // Other tests have jobs at the emulator, too.
        let mut found = Vec::new();
        let mut after = String::new();
        for _ in 0..1000 {
            let page = client.get(&format!("/fine_tuning/jobs?limit=2{after}")).await;
            let ids: Vec<String> =
                page["data"].as_array().unwrap().iter().map(|job| id(job).to_owned()).collect();
            assert!(ids.len() <= 2 && page["object"] == "list", "{} {page}", vendor.id);
            after = ids.last().map(|id| format!("&after={id}")).unwrap_or_default();
            found.extend(ids);
            if page["has_more"] == false || wanted.iter().all(|id| found.contains(id)) {
                break;
            }
        }
        assert!(wanted.iter().all(|id| found.contains(id)), "{} {wanted:?} {found:?}", vendor.id);
        let own = found.iter().filter(|id| wanted.contains(id)).count();
        assert_eq!(own, 3, "{}: none twice", vendor.id);
    }
}

#[tokio::test]
async fn a_job_is_cancelled_and_the_job_comes_back() {
    let gateway = gateway();
    for vendor in vendors() {
        let client = Client::new(&gateway, &vendor);
        let job = client.create(&vendor.request("acme-c")).await;
        let path = format!("/fine_tuning/jobs/{}", id(&job));
        let cancel = || client.call(Method::POST, &format!("{path}/cancel"));
        let (status, cancelled) = client.read(cancel()).await;
        assert_eq!(
            (status, &cancelled["status"]),
            (StatusCode::OK, &json!("cancelled")),
            "{} {cancelled}",
            vendor.id
        );
        assert_eq!(
            (id(&cancelled), &cancelled["model"]),
            (id(&job), &json!("base-model")),
            "{} {cancelled}",
            vendor.id
        );
        assert_eq!(client.get(&path).await["status"], "cancelled", "{}", vendor.id);
        // A job that has ended is not cancelled, and the client gets the provider's own reason.
        let (status, error) = client.read(cancel()).await;
        assert_eq!(status, 400, "{} {error}", vendor.id);
        assert!(
            error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{} {error}",
            vendor.id
        );
    }
}

#[tokio::test]
async fn a_failed_job_has_the_providers_reason() {
    let gateway = gateway();
    for vendor in vendors().into_iter().filter(|vendor| !["openai", "azure-openai"].contains(&vendor.id)) {
        let client = Client::new(&gateway, &vendor);
        let mut request = vendor.request("acme-d");
        request["training_file"] = json!(vendor.file.replace("train", "broken"));
        let mut job = client.create(&request).await;
        for _ in 0..8 {
            job = client.get(&format!("/fine_tuning/jobs/{}", id(&job))).await;
            if rank(&job) >= 3 {
                break;
            }
        }
        assert_eq!(
            (&job["status"], &job["fine_tuned_model"]),
            (&json!("failed"), &Value::Null),
            "{} {job}",
            vendor.id
        );
        let error = &job["error"];
        assert!(
            error["code"].is_string() && error["message"].as_str().unwrap().len() > 10,
            "{} {job}",
            vendor.id
        );
        JobSchemas::load().check_job(&job);
    }
}

#[tokio::test]
async fn what_a_provider_lacks_is_refused_before_anything_is_sent() {
    let gateway = gateway();
    for vendor in vendors().into_iter().filter(|vendor| !["openai", "azure-openai"].contains(&vendor.id)) {
        let client = Client::new(&gateway, &vendor);
        for (changes, param) in [
            (
                json!({"method": {"type": "supervised", "supervised": {"hyperparameters": {"momentum": 1}}}}),
                "method.supervised.hyperparameters.momentum",
            ),
            (json!({"method": {"type": "reinforcement", "reinforcement": {"grader": {}}}}), "method.type"),
        ] {
            let mut request = vendor.request("acme-e");
            request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let (status, error) =
                client.read(client.call(Method::POST, "/fine_tuning/jobs").json(&request)).await;
            assert_eq!(
                (status, error["error"]["param"].as_str()),
                (StatusCode::BAD_REQUEST, Some(param)),
                "{} {error}",
                vendor.id
            );
            assert!(error["error"]["message"].as_str().unwrap().contains(vendor.id), "{error}");
        }
        assert_eq!(gateway.emulator_requests(&client.tag).await, Vec::<Value>::new(), "{}", vendor.id);
    }
}

#[tokio::test]
async fn jobs_that_are_not_there_are_404() {
    let gateway = gateway();
    for vendor in vendors() {
        let client = Client::new(&gateway, &vendor);
        for path in ["/fine_tuning/jobs/none", "/fine_tuning/jobs/none/events"] {
            let (status, error) = client.read(client.call(Method::GET, path)).await;
            assert_eq!(status, 404, "{} {path} {error}", vendor.id);
            assert!(error["error"]["message"].is_string(), "{} {error}", vendor.id);
        }
        let call = client.call(Method::POST, "/fine_tuning/jobs/none/cancel");
        assert_eq!(client.read(call).await.0, 404, "{}", vendor.id);
    }
}

#[tokio::test]
async fn together_has_its_own_path_for_uploads() {
    let gateway = gateway();
    let vendors = vendors();
    let vendor = vendors.iter().find(|vendor| vendor.id == "together-ai").unwrap();
    let client = Client::new(&gateway, vendor);
    let form = || {
        let part = Part::bytes(br#"{"messages":[]}"#.as_slice()).file_name("train.jsonl");
        Form::new().text("purpose", "fine-tune").part("file", part)
    };
    let (status, file) = client.read(client.call(Method::POST, "/files").multipart(form())).await;
    assert_eq!(
        (status, &file["object"], &file["status"]),
        (StatusCode::OK, &json!("file"), &json!("uploaded")),
        "{file}"
    );
    let found = client.get(&format!("/files/{}", id(&file))).await;
    assert_eq!((&found["filename"], &found["purpose"]), (&json!("train.jsonl"), &json!("fine-tune")));
    let requests = gateway.emulator_requests(&client.tag).await;
    assert_eq!(requests[0]["path"], "/v1/files/upload", "{requests:?}");
}

/// Uploads training data to the gateway itself.
async fn uploaded(client: &Client<'_>, lines: &[Value]) -> String {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let form = Form::new()
        .text("purpose", "fine-tune")
        .part("file", Part::bytes(text.into_bytes()).file_name("train.jsonl"));
    let url = format!("{}/files", client.gateway.base_url());
    let call = crate::support::client::client().post(url).header("x-gateway-api-key", KEY).multipart(form);
    let (status, file) = client.read(call).await;
    assert_eq!(status, 200, "{file}");
    id(&file).to_owned()
}

/// What the emulator received as the object of this URI.
async fn object(client: &Client<'_>, uri: &str) -> String {
    let name = uri.rsplit('/').next().unwrap();
    let requests = client.gateway.emulator_requests(&client.tag).await;
    let upload = requests.iter().find(|request| {
        request["method"] != "GET"
            && request.to_string().contains(name)
            && !request["path"].as_str().unwrap().ends_with("Jobs")
            && !request["path"].as_str().unwrap().ends_with("-jobs")
    });
    upload.unwrap_or_else(|| panic!("{name} {requests:?}"))["body"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn training_data_of_the_gateway_are_converted_and_uploaded() {
    let gateway = gateway();
    let chat = |answer: &str| {
        json!({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": answer}]})
    };
    let vertex = json!({"systemInstruction": {"parts": [{"text": "Be short."}]}, "contents": [
        {"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "One."}]}]});
    let bedrock = json!({"schemaVersion": "bedrock-conversation-2024", "system": [{"text": "Be short."}], "messages": [
        {"role": "user", "content": [{"text": "Hi"}]}, {"role": "assistant", "content": [{"text": "One."}]}]});
    for (provider, bucket, start, model, line) in [
        (
            "vertex-ai",
            json!({"cloud_b_storage_bucket_name": "train"}),
            "gs://train/",
            "gemini-2.5-flash",
            Some(vertex),
        ),
        (
            "bedrock",
            json!({"cloud_a_s3_bucket": "train"}),
            "s3://train/",
            "amazon.nova-lite-v1:0",
            Some(bedrock),
        ),
        ("fireworks-ai", json!({}), "ft-", "base-model", None),
    ] {
        let vendors = vendors();
        let vendor = vendors.iter().find(|vendor| vendor.id == provider).unwrap();
        let mut client = Client::new(&gateway, vendor);
        client.config.as_object_mut().unwrap().extend(bucket.as_object().unwrap().clone());
        let mut request = vendor.request("acme-f");
        request["model"] = json!(model);
        request["training_file"] = json!(uploaded(&client, &[chat("One."), chat("Two.")]).await);
        // The same file may be used again.
        for _ in 0..2 {
            let job = client.create(&request).await;
            let job = client.get(&format!("/fine_tuning/jobs/{}", id(&job))).await;
            let file = job["training_file"].as_str().unwrap();
            assert!(file.starts_with(start), "{provider} {job}");
            let Some(line) = &line else { continue };
            let content = object(&client, file).await;
            let lines: Vec<Value> = content.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((lines.len(), &lines[0]), (2, line), "{provider} {content}");
        }
        refused_before_anything_is_sent(&client, request, &chat("One.")).await;
    }
}

/// A line that cannot be converted, and a member that none of the three providers has: nothing is uploaded, nothing created.
async fn refused_before_anything_is_sent(client: &Client<'_>, mut request: Value, line: &Value) {
    let other = Client { tag: new_trace(), config: client.config.clone(), gateway: client.gateway };
    let refusal = async |request: &Value| {
        let (status, error) = other.read(other.call(Method::POST, "/fine_tuning/jobs").json(request)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{error}");
        error["error"].clone()
    };
    let wrong = json!({"messages": [{"role": "user", "content": "Hi"}]});
    request["training_file"] = json!(uploaded(client, &[line.clone(), wrong]).await);
    let error = refusal(&request).await;
    assert_eq!(error["param"], "training_file", "{error}");
    assert!(error["message"].as_str().unwrap().starts_with("Line 2 of training_file"), "{error}");
    request["training_file"] = json!(uploaded(client, std::slice::from_ref(line)).await);
    request["seed"] = json!(3);
    assert_eq!(refusal(&request).await["param"], "seed");
    assert_eq!(client.gateway.emulator_requests(&other.tag).await, Vec::<Value>::new());
}

#[tokio::test]
async fn no_job_is_made_of_data_that_are_not_there() {
    let gateway = gateway();
    let datasets = AtomicUsize::new(0);
    let provider = Provider::start(move |request| {
        let is_dataset = request.start.starts_with("POST /v1/accounts/acme/datasets ");
        // Made by the first request, there for the others.
        let status = match is_dataset.then(|| datasets.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => 200,
            Some(_) => 409,
            None => 503,
        };
        let length = "content-length: 2\r\ncontent-type: application/json";
        format!("HTTP/1.1 {status} X\r\n{length}\r\n\r\n{{}}").into_bytes()
    })
    .await;
    let vendors = vendors();
    let vendor = vendors.iter().find(|vendor| vendor.id == "fireworks-ai").unwrap();
    let mut client = Client::new(&gateway, vendor);
    client.config["custom_host"] = json!(provider.base_url());
    let chat =
        json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]});
    let mut request = vendor.request("acme-h");
    request["training_file"] = json!(uploaded(&client, &[chat]).await);
    for _ in 0..2 {
        let (status, error) =
            client.read(client.call(Method::POST, "/fine_tuning/jobs").json(&request)).await;
        assert_eq!(status, 400, "{error}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains("refused the training data with status 503"), "{error}");
    }
    let received = provider.received();
    assert!(received.iter().all(|request| request.start.contains("/datasets")), "{received:?}");
}

#[tokio::test]
async fn providers_with_files_of_their_own_refuse_the_gateways() {
    let gateway = gateway();
    for vendor in
        vendors().into_iter().filter(|vendor| ["openai", "mistral-ai", "together-ai"].contains(&vendor.id))
    {
        let client = Client::new(&gateway, &vendor);
        let mut request = vendor.request("acme-g");
        request["training_file"] = json!(uploaded(&client, &[json!({"messages": []})]).await);
        let (status, error) =
            client.read(client.call(Method::POST, "/fine_tuning/jobs").json(&request)).await;
        assert_eq!(
            (status, error["error"]["param"].as_str()),
            (StatusCode::BAD_REQUEST, Some("training_file")),
            "{error}"
        );
        assert!(error["error"]["message"].as_str().unwrap().contains("its own files"), "{error}");
    }
}
