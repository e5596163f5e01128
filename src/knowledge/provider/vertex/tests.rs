//! Addresses and credentials of requests to Vertex AI, and the edits of bodies that keep their shape.

use super::*;
use crate::provider::url;
use http::Method;
use words::config::secret::Secret;

fn account(region: &str) -> Account {
    let mut account = Account { api_key: Some(Secret::new("ya29.t")), ..Account::default() };
    account.cloud_b.region = Some(region.to_owned());
    account.cloud_b.project_id = Some("proj".to_owned());
    account
}

fn call<'a>(operation: Operation, model: &'a str, streamed: bool) -> Call<'a> {
    Call {
        operation,
        method: &Method::POST,
        path: "chat/completions",
        query: Some("a=b"),
        model: Some(model),
        streamed,
    }
}

#[test]
fn every_publisher_has_its_path() {
    use Operation::{ChatCompletions, CountTokens, Embeddings, Images, Messages};
    let paths = [
        (ChatCompletions, "gemini-2.5-pro", "/publishers/google/models/gemini-2.5-pro:generateContent"),
        (Embeddings, "text-embedding-005", "/publishers/google/models/text-embedding-005:predict"),
        (Embeddings, "gemini-embedding-2", "/publishers/google/models/gemini-embedding-2:embedContent"),
        (Images, "imagen-4.0", "/publishers/google/models/imagen-4.0:predict"),
        (CountTokens, "google/gemini-x", "/publishers/google/models/gemini-x:countTokens"),
        (ChatCompletions, "anthropic.claude-x@2024", "/publishers/anthropic/models/claude-x@2024:rawPredict"),
        (CountTokens, "claude-x", "/publishers/anthropic/models/count-tokens:rawPredict"),
        (ChatCompletions, "endpoints.123", "/endpoints/123/chat/completions"),
    ];
    let streamed = [
        (ChatCompletions, "gemini-x", "/publishers/google/models/gemini-x:streamGenerateContent?alt=sse"),
        (Messages, "claude-x", "/publishers/anthropic/models/claude-x:streamRawPredict"),
        (ChatCompletions, "mistralai.m", "/publishers/mistralai/models/m:streamRawPredict"),
    ];
    let base = "https://us-central1-aiplatform.googleapis.com";
    let place = "projects/proj/locations/us-central1";
    let account = account("us-central1");
    for (cases, streams) in [(&paths[..], false), (&streamed[..], true)] {
        for (operation, model, rest) in cases {
            let got = url(&Vertex, &call(*operation, model, streams), &account).unwrap();
            assert_eq!(got, format!("{base}/v1/{place}{rest}"));
        }
    }
    let got = url(&Vertex, &call(ChatCompletions, "meta.llama-x", true), &account).unwrap();
    assert_eq!(got, format!("{base}/v1beta1/{place}/endpoints/openapi/chat/completions"));
}

#[test]
fn a_host_is_made_of_regions_only() {
    for (region, host) in [
        ("europe-west4", "https://europe-west4-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ] {
        assert_eq!(Vertex.base_url(&account(region)).unwrap(), host);
    }
    for region in ["evil.example/", "a.b", "US", "", "a b", "-a", "a@b", "a#", "x\r\ny", &"a".repeat(41)] {
        let error = Vertex.base_url(&account(region)).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some("cloud_b_region")), "{region:?}");
    }
    for project in ["..", "a/../b"] {
        let mut account = account("global");
        account.cloud_b.project_id = Some(project.to_owned());
        let error = Vertex.path(&call(Operation::ChatCompletions, "m", false), &account).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("cloud_b_project_id"), "{project}");
    }
    for model in ["..", "google/..", "meta/../x", ""] {
        let path = Vertex.path(&call(Operation::ChatCompletions, model, false), &account("global"));
        assert_eq!(path.unwrap_err().param.as_deref(), Some("model"), "{model}");
    }
}

#[test]
fn a_service_accounts_project_wins_and_a_custom_host_replaces_googles() {
    let mut account = account("global");
    account.cloud_b.service_account_json = Some(Secret::new(r#"{"project_id":"own"}"#));
    account.custom_host = Some("http://127.0.0.1:9/".to_owned());
    let call = call(Operation::ChatCompletions, "m", false);
    let path = "projects/own/locations/global/publishers/google/models/m:generateContent";
    assert_eq!(url(&Vertex, &call, &account).unwrap(), format!("http://127.0.0.1:9/v1/{path}"));
    account.custom_host = Some("http://127.0.0.1:9/v1".to_owned());
    assert_eq!(url(&Vertex, &call, &account).unwrap(), format!("http://127.0.0.1:9/v1/{path}"));
    let passthrough = Call { operation: Operation::Passthrough, path: "projects/x/y", ..call };
    assert_eq!(url(&Vertex, &passthrough, &account).unwrap(), "http://127.0.0.1:9/v1/projects/x/y?a=b");
}

fn headers_of(account: &Account) -> Vec<String> {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", "stale".parse().unwrap());
    Vertex.authorize(&call(Operation::ChatCompletions, "m", false), account, &mut headers).unwrap();
    headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

#[test]
fn calls_carry_one_kind_of_credentials() {
    let exchange_key = |account: &Account| {
        let exchange = Vertex.token_exchange(account).unwrap();
        exchange.map(|exchange| exchange.key())
    };
    let token = account("global");
    assert_eq!(headers_of(&token), ["authorization: Bearer ya29.t"]);
    assert_eq!(exchange_key(&token), None);

    let machine = Account { api_key: None, ..token.clone() };
    assert!(headers_of(&machine).is_empty());
    assert_eq!(exchange_key(&machine).as_deref(), Some("vertex-ai machine"));
    // The machine's token only goes to Google's own host.
    let elsewhere = Account { custom_host: Some("http://h".to_owned()), ..machine };
    assert_eq!(exchange_key(&elsewhere), None);

    let mut express = Account { api_key: Some(Secret::new("AIzaKey")), ..Account::default() };
    assert_eq!(headers_of(&express), ["x-goog-api-key: AIzaKey"]);
    let call = call(Operation::ChatCompletions, "m", false);
    let wanted = "https://aiplatform.googleapis.com/v1/publishers/google/models/m:generateContent";
    assert_eq!(url(&Vertex, &call, &express).unwrap(), wanted);
    express.api_key = None;
    assert_eq!(url(&Vertex, &call, &express).unwrap_err().param.as_deref(), Some("cloud_b_region"));
}

#[test]
fn bodies_that_keep_their_shape_are_edited() {
    for (operation, model, body, wanted) in [
        (
            Operation::Messages,
            "claude-x",
            r#"{"model":"claude-x", "stream":true}"#,
            r#"{"stream":true,"anthropic_version":"vertex-2023-10-16"}"#,
        ),
        (
            Operation::Messages,
            "claude-x",
            r#"{"anthropic_version":"v","model":"claude-x"}"#,
            r#"{"anthropic_version":"v"}"#,
        ),
        (
            Operation::CountTokens,
            "anthropic/claude-x",
            r#"{"model":"anthropic/claude-x"}"#,
            r#"{"model":"claude-x"}"#,
        ),
        (
            Operation::ChatCompletions,
            "meta.llama",
            r#"{"model":"meta.llama","top_p":1.0}"#,
            r#"{"model":"meta/llama","top_p":1.0}"#,
        ),
        (Operation::ChatCompletions, "mistralai/m@1", r#"{"model":"mistralai/m@1"}"#, r#"{"model":"m"}"#),
        (Operation::ChatCompletions, "endpoints.1", r#"{"model":"endpoints.1"}"#, r#"{"model":""}"#),
    ] {
        let body = Body::parse(body.into()).unwrap();
        let call = call(operation, model, false);
        assert!(matches!(Vertex.adapter(&call, &Account::default()).unwrap(), Adapter::Passthrough(_)));
        let target = CallTarget { call: &call, account: &Account::default(), model, client_betas: None };
        let edits = Vertex.edits(&body, &target, &mut TranslationNotes::default()).unwrap();
        assert_eq!(body.edit(&edits), wanted);
    }
    let refused =
        Vertex.adapter(&call(Operation::Speech, "gemini-x", false), &Account::default()).unwrap_err();
    assert_eq!(refused.status(), 501);
}

#[test]
fn objects_of_batches_have_the_host_of_cloud_storage() {
    let call = |path: &'static str| Call { path, ..call(Operation::Passthrough, "", false) };
    let cases = [
        ("storage/v1/b/bucket/o/x%2Fy", "https://storage.googleapis.com/storage/v1/b/bucket/o/x%2Fy?a=b"),
        ("upload/storage/v1/b/bucket/o", "https://storage.googleapis.com/upload/storage/v1/b/bucket/o?a=b"),
        (
            "projects/p/locations/us-east5/batchPredictionJobs",
            "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/batchPredictionJobs?a=b",
        ),
        ("storage/v10/x", "https://us-east5-aiplatform.googleapis.com/v1/storage/v10/x?a=b"),
    ];
    let mut account = account("us-east5");
    for (path, wanted) in cases {
        assert_eq!(url(&Vertex, &call(path), &account).unwrap(), wanted);
    }
    account.custom_host = Some("http://127.0.0.1:9".to_owned());
    let own = url(&Vertex, &call("storage/v1/b/bucket/o"), &account).unwrap();
    assert_eq!(own, "http://127.0.0.1:9/storage/v1/b/bucket/o?a=b");
}
