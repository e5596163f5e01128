//! Tests of fine-tuning jobs at every vendor whose shape is not OpenAI's: requests, paths, responses, lists, refusals.
//!
//! Responses are those of the vendors' references, shortened: the pages that each vendor's file names.

use crate::provider::adapter::{Adapter, CallPlace, CallTarget, ResponseContext};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::{Call, find, url};
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

mod responses;

const CREATE: (Operation, &str) = (Operation::FineTuningCreate, "fine_tuning/jobs");
const LIST: (Operation, &str) = (Operation::FineTuningList, "fine_tuning/jobs");
const VENDORS: [&str; 5] = ["mistral-ai", "together-ai", "fireworks-ai", "vertex-ai", "bedrock"];

fn account() -> Account {
    let mut account = Account { resource_name: Some("acme".to_owned()), ..Account::default() };
    account.cloud_a.region = Some("eu-west-1".to_owned());
    account.cloud_a.role_arn = Some("arn:aws:iam::123456789012:role/tuner".to_owned());
    account.cloud_b.region = Some("us-central1".to_owned());
    account.cloud_b.project_id = Some("p1".to_owned());
    account.api_key = Some(words::config::secret::Secret::new("k"));
    account
}

fn call<'a>(place: (Operation, &'a str), query: Option<&'a str>, method: &'a Method) -> Call<'a> {
    let (operation, path) = place;
    Call { operation, method, path, query, model: None, streamed: false }
}

fn adapter(
    provider: &str,
    operation: Operation,
) -> Result<&'static dyn crate::provider::adapter::JsonAdapter, Error> {
    let adapter = find(provider).unwrap().adapter(&call((operation, ""), None, &Method::GET), &account())?;
    let Adapter::Json(adapter) = adapter else { panic!("{provider} {operation:?}") };
    Ok(adapter)
}

/// The body that is sent for a client's request.
fn sent(provider: &str, request: &Value) -> Result<Value, Error> {
    let body = Body::parse(request.to_string().into()).unwrap();
    let account = account();
    let call = call(CREATE, None, &Method::POST);
    let target = CallTarget { call: &call, account: &account, model: "", client_betas: None };
    let written = adapter(provider, Operation::FineTuningCreate)?.write(
        Some(&body),
        &target,
        &mut TranslationNotes::default(),
    )?;
    Ok(serde_json::from_slice(&written.unwrap()).unwrap())
}

/// What the client gets for a vendor's response.
fn received(
    provider: &str,
    place: (Operation, &str),
    query: Option<&str>,
    response: &Value,
) -> Result<Value, (u16, String)> {
    let place = CallPlace { operation: place.0, path: place.1.to_owned(), query: query.map(str::to_owned) };
    let request = Body::parse(request(provider).to_string().into()).unwrap();
    let context =
        ResponseContext { request: Some(&request), model: "", place: Some(&place), now: 1_700_000_000 };
    let read = adapter(provider, place.operation).unwrap().read_in(response.to_string().as_bytes(), &context);
    read.map(|bytes| serde_json::from_slice(&bytes).unwrap()).map_err(|error| (error.status, error.message))
}

/// A request that every vendor can serve.
fn request(provider: &str) -> Value {
    let file = match provider {
        "vertex-ai" => "gs://bucket/train.jsonl",
        "bedrock" => "s3%3A%2F%2Fbucket%2Fdata%2Ftrain.jsonl",
        _ => "file-1",
    };
    json!({"model": "base", "training_file": file, "suffix": "acme-1",
        "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 3, "batch_size": "auto"}}}})
}

fn with(provider: &str, changes: &Value) -> Value {
    let mut request = request(provider);
    request.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    request
}

#[test]
fn requests_are_written_in_each_vendors_shape() {
    let rows = [
        (
            "mistral-ai",
            json!({"model": "base", "job_type": "completion", "auto_start": true,
            "training_files": [{"file_id": "file-1", "weight": 1}], "suffix": "acme-1", "hyperparameters": {"epochs": 3}}),
        ),
        (
            "together-ai",
            json!({"model": "base", "training_file": "file-1", "suffix": "acme-1", "n_epochs": 3}),
        ),
        (
            "fireworks-ai",
            json!({"baseModel": "base", "dataset": "accounts/acme/datasets/file-1",
            "displayName": "acme-1", "epochs": 3}),
        ),
        (
            "vertex-ai",
            json!({"baseModel": "base", "tunedModelDisplayName": "acme-1", "supervisedTuningSpec":
            {"trainingDatasetUri": "gs://bucket/train.jsonl", "hyperParameters": {"epochCount": "3"}}}),
        ),
        (
            "bedrock",
            json!({"jobName": "acme-1", "customModelName": "acme-1", "customizationType": "FINE_TUNING",
            "roleArn": "arn:aws:iam::123456789012:role/tuner", "baseModelIdentifier": "base",
            "trainingDataConfig": {"s3Uri": "s3://bucket/data/train.jsonl"},
            "outputDataConfig": {"s3Uri": "s3://bucket/data/"}, "hyperParameters": {"epochCount": "3"}}),
        ),
    ];
    for (provider, wanted) in rows {
        assert_eq!(sent(provider, &request(provider)).unwrap(), wanted, "{provider}");
        // The older place of the hyperparameters means the same.
        let mut older = with(provider, &json!({"hyperparameters": {"n_epochs": 3}}));
        older["method"] = json!({});
        assert_eq!(sent(provider, &older).unwrap(), wanted, "{provider}");
    }
}

/// Vendor, what the request has besides, and where that is in the vendor's request.
fn mapped() -> Vec<(&'static str, Value, &'static str, Value)> {
    let settings = |method: &str, settings: Value| json!({"method": {"type": method, method: {"hyperparameters": settings}}});
    let wandb = json!({"integrations": [{"type": "wandb", "wandb": {"project": "p", "api_key": "w"}}]});
    vec![
        ("mistral-ai", json!({"validation_file": "file-2"}), "/validation_files/0", json!("file-2")),
        (
            "mistral-ai",
            settings("supervised", json!({"learning_rate": 0.1})),
            "/hyperparameters/learning_rate",
            json!(0.1),
        ),
        ("mistral-ai", wandb.clone(), "/integrations/0/api_key", json!("w")),
        ("together-ai", json!({"seed": 7}), "/random_seed", json!(7)),
        ("together-ai", settings("dpo", json!({"beta": 0.2})), "/training_method/dpo_beta", json!(0.2)),
        ("together-ai", settings("supervised", json!({"batch_size": 8})), "/batch_size", json!(8)),
        ("together-ai", json!({"training_type": {"type": "Full"}}), "/training_type/type", json!("Full")),
        ("together-ai", wandb.clone(), "/wandb_project_name", json!("p")),
        ("fireworks-ai", settings("supervised", json!({"batch_size": 8})), "/batchSizeSamples", json!(8)),
        ("fireworks-ai", settings("supervised", json!({"learning_rate": 0.1})), "/learningRate", json!(0.1)),
        (
            "fireworks-ai",
            json!({"validation_file": "accounts/b/datasets/d"}),
            "/evaluationDataset",
            json!("accounts/b/datasets/d"),
        ),
        ("fireworks-ai", wandb, "/wandbConfig/apiKey", json!("w")),
        (
            "vertex-ai",
            settings("supervised", json!({"learning_rate_multiplier": 2})),
            "/supervisedTuningSpec/hyperParameters/learningRateMultiplier",
            json!(2),
        ),
        (
            "vertex-ai",
            settings("dpo", json!({"beta": 0.2})),
            "/preferenceOptimizationSpec/hyperParameters/beta",
            json!(0.2),
        ),
        (
            "vertex-ai",
            settings("supervised", json!({"adapter_size": 4})),
            "/supervisedTuningSpec/hyperParameters/adapterSize",
            json!("ADAPTER_SIZE_FOUR"),
        ),
        ("vertex-ai", json!({"metadata": {"team": "a"}}), "/labels/team", json!("a")),
        (
            "bedrock",
            settings("supervised", json!({"batch_size": 8, "learning_rate": 0.1})),
            "/hyperParameters/learningRate",
            json!("0.1"),
        ),
        (
            "bedrock",
            json!({"validation_file": "s3://b/v.jsonl"}),
            "/validationDataConfig/validators/0/s3Uri",
            json!("s3://b/v.jsonl"),
        ),
        ("bedrock", json!({"metadata": {"team": "a"}}), "/jobTags/0/key", json!("team")),
        ("bedrock", json!({"role_arn": "arn:aws:iam::1:role/x"}), "/roleArn", json!("arn:aws:iam::1:role/x")),
    ]
}

#[test]
fn what_some_vendors_have_is_mapped_there() {
    for (provider, changes, pointer, wanted) in mapped() {
        let sent = sent(provider, &with(provider, &changes)).unwrap();
        assert_eq!(sent.pointer(pointer), Some(&wanted), "{provider} {changes}");
    }
}

/// Vendor, what the request has besides, and the `param` of the refusal.
fn refused_by_some() -> Vec<(&'static str, Value, String)> {
    let setting =
        |name: &str| json!({"method": {"type": "supervised", "supervised": {"hyperparameters": {name: 2}}}});
    let param = |name: &str| format!("method.supervised.hyperparameters.{name}");
    vec![
        ("mistral-ai", setting("batch_size"), param("batch_size")),
        ("mistral-ai", setting("learning_rate_multiplier"), param("learning_rate_multiplier")),
        ("mistral-ai", json!({"seed": 1}), "seed".to_owned()),
        ("mistral-ai", json!({"metadata": {"a": "b"}}), "metadata".to_owned()),
        (
            "mistral-ai",
            json!({"integrations": [{"type": "wandb", "wandb": {"project": "p"}}]}),
            "integrations[0].wandb.api_key".to_owned(),
        ),
        ("together-ai", setting("learning_rate_multiplier"), param("learning_rate_multiplier")),
        (
            "together-ai",
            json!({"integrations": [{"type": "tensorboard"}]}),
            "integrations[0].type".to_owned(),
        ),
        ("fireworks-ai", setting("learning_rate_multiplier"), param("learning_rate_multiplier")),
        ("fireworks-ai", json!({"seed": 1}), "seed".to_owned()),
        ("vertex-ai", setting("batch_size"), param("batch_size")),
        ("vertex-ai", json!({"training_file": "file-1"}), "training_file".to_owned()),
        ("vertex-ai", json!({"validation_file": "s3://b/o"}), "validation_file".to_owned()),
        ("bedrock", json!({"training_file": "gs://b/o"}), "training_file".to_owned()),
        ("bedrock", json!({"suffix": "no spaces"}), "suffix".to_owned()),
        ("bedrock", json!({"seed": 1}), "seed".to_owned()),
    ]
}

#[test]
fn what_a_vendor_lacks_is_refused_by_name() {
    let setting =
        |name: &str| json!({"method": {"type": "supervised", "supervised": {"hyperparameters": {name: 2}}}});
    let param = |name: &str| format!("method.supervised.hyperparameters.{name}");
    let mut rows = Vec::new();
    for provider in VENDORS {
        rows.push((provider, setting("temperature"), param("temperature")));
        rows.push((
            provider,
            json!({"hyperparameters": {"momentum": 1}}),
            "hyperparameters.momentum".to_owned(),
        ));
        rows.push((provider, json!({"not_there": 1}), "not_there".to_owned()));
        rows.push((
            provider,
            json!({"method": {"type": "reinforcement", "reinforcement": {}}}),
            "method.type".to_owned(),
        ));
        rows.push((provider, json!({"method": {"type": "supervised", "dpo": {}}}), "method.dpo".to_owned()));
        rows.push((provider, json!({"method": {"type": "magic"}}), "method.type".to_owned()));
        rows.push((
            provider,
            json!({"method": {"supervised": {"hyperparameters": {"n_epochs": 0}}}}),
            param("n_epochs"),
        ));
        rows.push((provider, json!({"hyperparameters": {"n_epochs": 1}}), param("n_epochs")));
    }
    rows.extend(refused_by_some());
    for (provider, changes, param) in rows {
        // A test of a bad number needs the method alone.
        let mut changed = with(provider, &changes);
        if changed.get("hyperparameters") == Some(&json!({"momentum": 1})) {
            changed["method"] = json!({});
        }
        let error = sent(provider, &changed).unwrap_err();
        assert_eq!(
            (error.status(), error.param.as_deref()),
            (400, Some(param.as_str())),
            "{provider} {changes}"
        );
        assert!(!error.message.is_empty());
    }
}

#[test]
fn each_operation_has_the_vendors_own_path() {
    use Operation as O;
    let places = [
        CREATE,
        LIST,
        (O::FineTuningGet, "fine_tuning/jobs/j-1"),
        (O::FineTuningCancel, "fine_tuning/jobs/j-1/cancel"),
        (O::FineTuningEvents, "fine_tuning/jobs/j-1/events"),
        (O::FineTuningCheckpoints, "fine_tuning/jobs/j-1/checkpoints"),
    ];
    let rows = [
        (
            "mistral-ai",
            "https://api.mistral.ai/v1/fine_tuning/jobs",
            ["", "?page=0&page_size=100", "/j-1", "/j-1/cancel", "/j-1", "/j-1"],
        ),
        (
            "together-ai",
            "https://api.together.ai/v1/fine-tunes",
            ["", "", "/j-1", "/j-1/cancel", "/j-1/events", "/j-1/checkpoints"],
        ),
        (
            "fireworks-ai",
            "https://api.fireworks.ai/v1/accounts/acme/supervisedFineTuningJobs",
            ["", "?pageSize=200", "/j-1", "/j-1:cancel", "/j-1", ""],
        ),
        (
            "vertex-ai",
            "https://us-central1-aiplatform.googleapis.com/v1/projects/p1/locations/us-central1/tuningJobs",
            ["", "?pageSize=100", "/j-1", "/j-1:cancel", "/j-1", "/j-1"],
        ),
        (
            "bedrock",
            "https://bedrock.eu-west-1.amazonaws.com/model-customization-jobs",
            [
                "",
                "?maxResults=1000&sortBy=CreationTime&sortOrder=Descending",
                "/j-1",
                "/j-1/stop",
                "/j-1",
                "",
            ],
        ),
    ];
    for (provider, base, ends) in rows {
        for (place, end) in places.iter().zip(ends) {
            if adapter(provider, place.0).is_err() {
                continue;
            }
            let call = call(*place, Some("limit=3&after=x"), &Method::GET);
            let found = url(find(provider).unwrap(), &call, &account()).unwrap();
            assert_eq!(found, format!("{base}{end}"), "{provider} {place:?}");
        }
    }
    // Behind a custom host, the chat's base is not that of Fireworks' other APIs.
    for host in ["http://h", "http://h/v1", "http://h/inference/v1/"] {
        let account = Account { custom_host: Some(host.to_owned()), ..account() };
        let found = url(find("fireworks-ai").unwrap(), &call(LIST, None, &Method::GET), &account).unwrap();
        assert_eq!(found, "http://h/v1/accounts/acme/supervisedFineTuningJobs?pageSize=200", "{host}");
    }
}

#[test]
fn an_id_of_bedrock_is_its_arn_without_slashes() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:model-customization-job/amazon.nova-lite-v1:0:300k/abcdef123456";
    let job = received("bedrock", CREATE, None, &json!({"jobArn": arn})).unwrap();
    let id = job["id"].as_str().unwrap();
    assert!(!id.contains('/') && job["organization_id"] == "123456789012", "{job}");
    assert_eq!(job["hyperparameters"]["n_epochs"], 3);
    let encoded = arn.replace('/', "%2F").replace(':', "%3A");
    for id in [id, &encoded] {
        let path = format!("fine_tuning/jobs/{id}");
        let call = call((Operation::FineTuningGet, &path), None, &Method::GET);
        let found = url(find("bedrock").unwrap(), &call, &account()).unwrap();
        assert_eq!(
            found,
            format!("https://bedrock.eu-west-1.amazonaws.com/model-customization-jobs/{encoded}")
        );
    }
    for id in ["..", "%2e%2e", "a~..~b", "a%2F..%2Fb"] {
        let path = format!("fine_tuning/jobs/{id}");
        for provider in VENDORS {
            let call = call((Operation::FineTuningGet, &path), None, &Method::GET);
            let found = url(find(provider).unwrap(), &call, &account());
            let is_safe = found
                .as_ref()
                .is_ok_and(|url| !url.contains("/..") && !url.to_lowercase().contains("%2e%2e"));
            assert!(found.is_err() || is_safe, "{provider} {id} {found:?}");
        }
    }
}
