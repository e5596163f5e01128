//! Choice of the deployment, the model in the body, and token exchanges.
//!
//! Addresses and headers: `tests/golden/azure-openai/address.json` and `tests/golden/azure-ai/address.json`.

use super::credentials::{Entra, Managed, Workload, is_tenant};
use super::{AzureAi, AzureOpenAi};
use crate::provider::adapter::{Adapter, CallTarget};
use crate::provider::token_exchange::{Credentials, Step, TokenExchange, TokenRequest, TokenResponse};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::{Call, Provider};
use http::Method;
use std::time::{Duration, SystemTime};
use words::api::body::Body;
use words::api::chat::ChatRequest;
use words::api::operation::Operation;
use words::config::account::{Account, AuthModeC, CloudC, Deployment};
use words::config::secret::Secret;

fn call(operation: Operation, model: &str) -> Call<'_> {
    Call { operation, method: &Method::POST, path: "x", query: None, model: Some(model), streamed: false }
}

/// The body that is sent upstream, and the warnings.
fn sent(
    provider: &dyn Provider,
    operation: Operation,
    account: &Account,
    json: &str,
) -> (String, Vec<String>) {
    let body = Body::parse(json.to_owned().into()).unwrap();
    let model = body.text("model").unwrap_or_default();
    let call = call(operation, &model);
    let mut notes = TranslationNotes::default();
    let target = CallTarget { call: &call, account, model: &model, client_betas: None };
    let edits = provider.edits(&body, &target, &mut notes).unwrap();
    (String::from_utf8(body.edit(&edits).to_vec()).unwrap(), notes.warnings)
}

fn aliased() -> Account {
    let item = |alias: &str, id: &str, is_default| Deployment {
        alias: alias.into(),
        deployment_id: id.into(),
        api_version: "v1".into(),
        is_default,
    };
    Account {
        deployments: vec![item("fast", "gpt-4o-mini", false), item("best", "gpt-5", true)],
        ..Account::default()
    }
}

#[test]
fn the_body_names_the_deployment_and_is_otherwise_unchanged() {
    let chat = Operation::ChatCompletions;
    let out = |account: &Account, operation, json: &str| sent(&AzureOpenAi, operation, account, json).0;
    assert_eq!(
        out(&aliased(), chat, r#"{"seed": 1.0, "model": "fast"}"#),
        r#"{"seed": 1.0, "model": "gpt-4o-mini"}"#
    );
    assert_eq!(out(&aliased(), chat, r#"{"model":"?"}"#), r#"{"model":"gpt-5"}"#);
    assert_eq!(out(&aliased(), Operation::Responses, r#"{"model":"best"}"#), r#"{"model":"gpt-5"}"#);
    let fixed = Account { deployment_id: Some("d\"q".into()), ..Account::default() };
    assert_eq!(out(&fixed, chat, r#"{"messages":[]}"#), r#"{"messages":[],"model":"d\"q"}"#);
    // The base model of a fine-tuning job is no deployment. A body that needs no change keeps its bytes.
    let base = r#"{"model":"gpt-4o-2024-08-06"}"#;
    assert_eq!(out(&fixed, Operation::FineTuningCreate, base), base);
    assert_eq!(out(&Account::default(), chat, "{ \"model\" : \"d\" }"), "{ \"model\" : \"d\" }");
}

#[test]
fn clients_of_other_dialects_reach_the_deployment_too() {
    let account = aliased();
    let call = call(Operation::Messages, "fast");
    let Adapter::Chat(chat) = AzureOpenAi.adapter(&call, &account).unwrap() else { panic!() };
    let target = CallTarget { call: &call, account: &account, model: "fast", client_betas: None };
    let bytes = chat.write(ChatRequest::default(), &target, &mut TranslationNotes::default()).unwrap();
    let body = Body::parse(bytes.into()).unwrap();
    assert_eq!(body.text("model").as_deref(), Some("gpt-4o-mini"));
}

#[test]
fn parameters_azure_drops_are_warned_about() {
    let mut account =
        Account { custom_host: Some("https://x.models.ai.azure.com".into()), ..Account::default() };
    let json = r#"{"model":"m","messages":[],"logit_bias":{},"top_p":1}"#;
    let chat = Operation::ChatCompletions;
    let (body, warnings) = sent(&AzureAi, chat, &account, json);
    assert_eq!(body, json);
    assert!(warnings.len() == 1 && warnings[0].starts_with("logit_bias: "), "{warnings:?}");
    account.cloud_c.extra_parameters = Some("pass-through".into());
    assert!(sent(&AzureAi, chat, &account, json).1.is_empty());
}

#[test]
fn claude_uses_the_anthropic_api() {
    let account = Account { resource_name: Some("r".into()), ..Account::default() };
    let adapter = |operation, model| AzureAi.adapter(&call(operation, model), &account).unwrap();
    for operation in [Operation::ChatCompletions, Operation::Completions, Operation::Responses] {
        assert!(matches!(adapter(operation, "claude-opus-4-1"), Adapter::Chat(_)), "{operation:?}");
    }
    for operation in [Operation::Messages, Operation::CountTokens, Operation::Models] {
        assert!(matches!(adapter(operation, "claude-opus-4-1"), Adapter::Passthrough(_)), "{operation:?}");
    }
    // All other models use OpenAI's chat, and resources also offer its responses.
    for operation in [Operation::ChatCompletions, Operation::Responses, Operation::Completions] {
        assert!(matches!(adapter(operation, "gpt-5"), Adapter::Passthrough(_)), "{operation:?}");
    }
    for operation in [Operation::Messages, Operation::CountTokens] {
        assert!(matches!(adapter(operation, "gpt-5"), Adapter::Chat(_)), "{operation:?}");
    }
    let endpoint =
        Account { custom_host: Some("https://x.models.ai.azure.com".into()), ..Account::default() };
    for operation in [Operation::Messages, Operation::Responses, Operation::Completions] {
        let adapter = AzureAi.adapter(&call(operation, "llama"), &endpoint).unwrap();
        assert!(matches!(adapter, Adapter::Chat(_)), "{operation:?}");
    }
    assert_eq!(AzureAi.adapter(&call(Operation::ResponsesGet, ""), &endpoint).unwrap_err().status(), 400);
}

fn token_request(exchange: &dyn TokenExchange, responses: &[TokenResponse]) -> TokenRequest {
    match exchange.next_step(responses, SystemTime::UNIX_EPOCH).unwrap() {
        Step::Request(request) => request,
        Step::Done(..) => panic!("done already"),
    }
}

fn token_response(status: u16, body: &str) -> TokenResponse {
    TokenResponse { status, body: body.as_bytes().to_vec() }
}

fn entra() -> Entra {
    Entra {
        tenant: "contoso.onmicrosoft.com".into(),
        client_id: "app".into(),
        client_secret: Secret::new("s&cret"),
        scope: "https://cognitiveservices.azure.com/.default".into(),
    }
}

#[test]
fn a_client_secret_is_exchanged_for_a_token() {
    let exchange = entra();
    let request = token_request(&exchange, &[]);
    assert_eq!(request.method, Method::POST);
    assert_eq!(request.url, "https://login.microsoftonline.com/contoso.onmicrosoft.com/oauth2/v2.0/token");
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        "grant_type=client_credentials&client_id=app&\
         scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default&client_secret=s%26cret"
    );
    assert!(!request.is_metadata);
    for (body, wanted) in [
        (r#"{"token_type":"Bearer","expires_in":3599,"access_token":"t"}"#, 3599),
        (r#"{"expires_in":"86399","access_token":"t"}"#, 86399),
        (r#"{"access_token":"t"}"#, 300),
    ] {
        let next = exchange.next_step(&[token_response(200, body)], SystemTime::UNIX_EPOCH).unwrap();
        let Step::Done(credentials, lifetime) = next else { panic!("{body}") };
        assert_eq!(credentials, Credentials::Bearer(Secret::new("t")));
        assert_eq!(lifetime, Duration::from_secs(wanted));
    }
    for (status, body, why) in [
        (
            401,
            r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret.\r\nTrace ID: 1"}"#,
            "AADSTS7000215: Invalid client secret.",
        ),
        (400, r#"{"error":"invalid_request"}"#, "invalid_request"),
        (200, r#"{"access_token":""}"#, "its answer (status 200) is no token"),
        (502, "<html>", "its answer (status 502) is no token"),
    ] {
        let error = exchange.next_step(&[token_response(status, body)], SystemTime::UNIX_EPOCH).unwrap_err();
        assert_eq!(error, why);
    }
}

#[test]
fn the_cache_key_covers_every_field_and_shows_no_secret() {
    let key = entra().key();
    assert!(!key.contains("cret\"") && !format!("{:?}", entra()).contains("s&cret"), "{key}");
    let others = [
        Entra { tenant: "other".into(), ..entra() },
        Entra { client_id: "other".into(), ..entra() },
        Entra { client_secret: Secret::new("other"), ..entra() },
        Entra { scope: "other".into(), ..entra() },
    ];
    others.iter().for_each(|other| assert_ne!(other.key(), key));
}

#[test]
fn government_clouds_use_their_own_authority() {
    for (scope, host) in [
        ("https://cognitiveservices.azure.us/.default", "login.microsoftonline.us"),
        ("https://cognitiveservices.azure.cn/.default", "login.chinacloudapi.cn"),
        ("https://ai.azure.com/.default", "login.microsoftonline.com"),
        ("api://x.azure.us.evil.com/.default", "login.microsoftonline.com"),
    ] {
        let url = token_request(&Entra { scope: scope.into(), ..entra() }, &[]).url;
        assert!(url.starts_with(&format!("https://{host}/")), "{scope}: {url}");
    }
}

#[test]
fn managed_and_workload_identities_are_requested() {
    let scope = "https://cognitiveservices.azure.com/.default".to_owned();
    let request = token_request(&Managed { client_id: Some("a b".into()), scope: scope.clone() }, &[]);
    assert_eq!(
        request.url,
        "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01\
         &resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=a+b"
    );
    assert_eq!(request.headers["metadata"], "true");
    assert!(request.is_metadata);

    let exchange = Workload { tenant: None, client_id: None, scope };
    let mut responses = Vec::new();
    for (wanted, response) in [
        ("env:AZURE_FEDERATED_TOKEN_FILE", "/var/run/token\n"),
        ("file:/var/run/token", "jwt"),
        ("env:AZURE_TENANT_ID", "tenant-1"),
        ("env:AZURE_CLIENT_ID", "client-1"),
    ] {
        let request = token_request(&exchange, &responses);
        assert_eq!((request.url.as_str(), request.is_metadata), (wanted, true));
        responses.push(token_response(200, response));
    }
    let request = token_request(&exchange, &responses);
    assert_eq!(request.url, "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token");
    let form = String::from_utf8(request.body).unwrap();
    assert!(form.contains("client_id=client-1&") && form.ends_with("&client_assertion=jwt"), "{form}");
    responses[2] = token_response(200, "../evil");
    assert!(exchange.next_step(&responses, SystemTime::UNIX_EPOCH).is_err());
    assert!(exchange.next_step(&[token_response(404, "")], SystemTime::UNIX_EPOCH).is_err());
}

#[test]
fn a_tenant_is_one_segment() {
    for tenant in ["contoso.com", "72f988bf-86f1-41af-91ab-2d7cd011db47", "common"] {
        assert!(is_tenant(tenant), "{tenant}");
    }
    for tenant in ["", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "a b", "é", "a\\b", "a@b"] {
        assert!(!is_tenant(tenant), "{tenant}");
    }
}

#[test]
fn the_account_selects_the_token_exchange() {
    let exchange_for = |cloud_c: CloudC| {
        let account =
            Account { cloud_c: cloud_c.into(), api_key: Some(Secret::new("k")), ..Account::default() };
        AzureOpenAi.token_exchange(&account)
    };
    let complete = CloudC {
        entra_tenant_id: Some("t".into()),
        entra_client_id: Some("c".into()),
        entra_client_secret: Some(Secret::new("s")),
        ..CloudC::default()
    };
    assert!(exchange_for(CloudC::default()).unwrap().is_none());
    assert!(exchange_for(complete.clone()).unwrap().unwrap().key().starts_with("entra|"));
    let key = CloudC { auth_mode: Some(AuthModeC::Key), ..complete.clone() };
    assert!(exchange_for(key).unwrap().is_none());
    let with_token = CloudC { ad_token: Some(Secret::new("t")), ..complete.clone() };
    assert!(exchange_for(with_token).unwrap().is_none());
    for (mode, begins) in [(AuthModeC::Managed, "managed|"), (AuthModeC::Workload, "workload|")] {
        let cloud = CloudC { auth_mode: Some(mode), ..CloudC::default() };
        assert!(exchange_for(cloud).unwrap().unwrap().key().starts_with(begins));
    }
    for (incomplete, param) in [
        (CloudC { entra_tenant_id: None, ..complete.clone() }, "cloud_c_entra_tenant_id"),
        (CloudC { entra_client_id: None, ..complete.clone() }, "cloud_c_entra_client_id"),
        (
            CloudC { auth_mode: Some(AuthModeC::Entra), entra_client_secret: None, ..complete.clone() },
            "cloud_c_entra_client_secret",
        ),
        (CloudC { entra_tenant_id: Some("a/b".into()), ..complete.clone() }, "cloud_c_entra_tenant_id"),
    ] {
        let error = exchange_for(incomplete).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)));
        assert!(!error.message.contains('/'), "{error}");
    }
}

#[test]
fn chats_that_go_to_the_responses_api_name_the_deployment() {
    use crate::provider::translation::{PrepareOptions, prepare};
    let tool = serde_json::json!([{"type": "function", "function": {"name": "f"}}]);
    let body = serde_json::json!({"model": "gpt-5.6", "messages": [{"role": "user", "content": "x"}], "tools": tool});
    let body = Body::parse(body.to_string().into()).unwrap();
    for (version, path) in [
        (None, "/openai/v1/responses"),
        (Some("2025-04-01-preview"), "/openai/responses?api-version=2025-04-01-preview"),
        (Some("2024-10-21"), "/openai/deployments/prod/chat/completions?api-version=2024-10-21"),
    ] {
        let account = Account {
            resource_name: Some("r".to_owned()),
            deployment_id: Some("prod".to_owned()),
            api_version: version.map(str::to_owned),
            ..Account::default()
        };
        let call = Call { path: "chat/completions", ..call(Operation::ChatCompletions, "gpt-5.6") };
        let options = PrepareOptions {
            strict: true,
            stream_usage: false,
            client_betas: None,
            learned: None,
            prompt_cache: None,
        };
        let mut notes = TranslationNotes::default();
        let prepared = prepare(&AzureOpenAi, &call, &account, Some(&body), options, &mut notes).unwrap();
        let sent: serde_json::Value = serde_json::from_slice(&prepared.body.unwrap()).unwrap();
        assert_eq!((prepared.path.as_str(), &sent["model"]), (path, &serde_json::json!("prod")));
        assert_eq!(sent["input"].is_array(), path.contains("/responses"));
    }
}
