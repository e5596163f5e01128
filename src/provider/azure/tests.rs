//! Which deployment is meant, what the body says of it, and how tokens are fetched.
//!
//! Addresses and headers: `tests/golden/azure-openai/address.json` and `tests/golden/azure-ai/address.json`.

use super::grant::{Entra, Managed, Workload, is_tenant};
use super::{AzureAi, AzureOpenAi};
use crate::api::body::Body;
use crate::api::chat::ChatRequest;
use crate::api::operation::Operation;
use crate::config::account::{Account, AuthModeC, CloudC, Deployment};
use crate::config::secret::Secret;
use crate::provider::grant::{Brought, Errand, Grant, Granted, Next};
use crate::provider::outgoing::Outgoing;
use crate::provider::way::{Target, Way};
use crate::provider::{Call, Provider};
use http::Method;
use std::time::{Duration, SystemTime};

fn call(operation: Operation, model: &str) -> Call<'_> {
    Call { operation, method: &Method::POST, path: "x", query: None, model: Some(model), streamed: false }
}

/// The body as it goes out, and the warnings.
fn sent(
    provider: &dyn Provider,
    operation: Operation,
    account: &Account,
    json: &str,
) -> (String, Vec<String>) {
    let body = Body::parse(json.to_owned().into()).unwrap();
    let model = body.text("model").unwrap_or_default();
    let call = call(operation, &model);
    let mut outgoing = Outgoing::default();
    let target = Target { call: &call, account, model: &model };
    let edits = provider.edits(&body, &target, &mut outgoing).unwrap();
    (String::from_utf8(body.edit(&edits).to_vec()).unwrap(), outgoing.warnings)
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
fn the_body_names_the_deployment_and_is_else_as_it_came() {
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
    // The base model of a fine-tuning is no deployment; what needs no change keeps its bytes.
    let base = r#"{"model":"gpt-4o-2024-08-06"}"#;
    assert_eq!(out(&fixed, Operation::FineTuningCreate, base), base);
    assert_eq!(out(&Account::default(), chat, "{ \"model\" : \"d\" }"), "{ \"model\" : \"d\" }");
}

#[test]
fn callers_of_other_dialects_reach_the_deployment_too() {
    let account = aliased();
    let call = call(Operation::Messages, "fast");
    let Way::Chat(chat) = AzureOpenAi.way(&call, &account).unwrap() else { panic!() };
    let target = Target { call: &call, account: &account, model: "fast" };
    let bytes = chat.write(ChatRequest::default(), &target, &mut Outgoing::default()).unwrap();
    let body = Body::parse(bytes.into()).unwrap();
    assert_eq!(body.text("model").as_deref(), Some("gpt-4o-mini"));
}

#[test]
fn what_azure_leaves_out_is_told() {
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
fn claude_is_spoken_to_in_its_own_words() {
    let account = Account { resource_name: Some("r".into()), ..Account::default() };
    let way = |operation, model| AzureAi.way(&call(operation, model), &account).unwrap();
    for operation in [Operation::ChatCompletions, Operation::Completions, Operation::Responses] {
        assert!(matches!(way(operation, "claude-opus-4-1"), Way::Chat(_)), "{operation:?}");
    }
    for operation in [Operation::Messages, Operation::CountTokens, Operation::Models] {
        assert!(matches!(way(operation, "claude-opus-4-1"), Way::Same(_)), "{operation:?}");
    }
    // Everybody else speaks OpenAI's chat, and resources have its responses.
    for operation in [Operation::ChatCompletions, Operation::Responses, Operation::Completions] {
        assert!(matches!(way(operation, "gpt-5"), Way::Same(_)), "{operation:?}");
    }
    for operation in [Operation::Messages, Operation::CountTokens] {
        assert!(matches!(way(operation, "gpt-5"), Way::Chat(_)), "{operation:?}");
    }
    let endpoint =
        Account { custom_host: Some("https://x.models.ai.azure.com".into()), ..Account::default() };
    for operation in [Operation::Messages, Operation::Responses, Operation::Completions] {
        let way = AzureAi.way(&call(operation, "llama"), &endpoint).unwrap();
        assert!(matches!(way, Way::Chat(_)), "{operation:?}");
    }
    assert_eq!(AzureAi.way(&call(Operation::ResponsesGet, ""), &endpoint).unwrap_err().status(), 400);
}

fn asked(grant: &dyn Grant, answers: &[Brought]) -> Errand {
    match grant.next(answers, SystemTime::UNIX_EPOCH).unwrap() {
        Next::Ask(errand) => errand,
        Next::Done(..) => panic!("done already"),
    }
}

fn brought(status: u16, body: &str) -> Brought {
    Brought { status, body: body.as_bytes().to_vec() }
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
    let grant = entra();
    let errand = asked(&grant, &[]);
    assert_eq!(errand.method, Method::POST);
    assert_eq!(errand.url, "https://login.microsoftonline.com/contoso.onmicrosoft.com/oauth2/v2.0/token");
    assert_eq!(errand.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(
        String::from_utf8(errand.body).unwrap(),
        "grant_type=client_credentials&client_id=app&\
         scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default&client_secret=s%26cret"
    );
    assert!(!errand.is_metadata);
    for (body, wanted) in [
        (r#"{"token_type":"Bearer","expires_in":3599,"access_token":"t"}"#, 3599),
        (r#"{"expires_in":"86399","access_token":"t"}"#, 86399),
        (r#"{"access_token":"t"}"#, 300),
    ] {
        let next = grant.next(&[brought(200, body)], SystemTime::UNIX_EPOCH).unwrap();
        let Next::Done(granted, life) = next else { panic!("{body}") };
        assert_eq!(granted, Granted::Bearer(Secret::new("t")));
        assert_eq!(life, Duration::from_secs(wanted));
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
        let told = grant.next(&[brought(status, body)], SystemTime::UNIX_EPOCH).unwrap_err();
        assert_eq!(told, why);
    }
}

#[test]
fn a_grant_is_remembered_by_all_that_decides_it_and_shows_no_secret() {
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
fn governments_sign_in_at_their_own_place() {
    for (scope, host) in [
        ("https://cognitiveservices.azure.us/.default", "login.microsoftonline.us"),
        ("https://cognitiveservices.azure.cn/.default", "login.chinacloudapi.cn"),
        ("https://ai.azure.com/.default", "login.microsoftonline.com"),
        ("api://x.azure.us.evil.com/.default", "login.microsoftonline.com"),
    ] {
        let url = asked(&Entra { scope: scope.into(), ..entra() }, &[]).url;
        assert!(url.starts_with(&format!("https://{host}/")), "{scope}: {url}");
    }
}

#[test]
fn the_machine_is_asked_for_its_identity() {
    let scope = "https://cognitiveservices.azure.com/.default".to_owned();
    let errand = asked(&Managed { client_id: Some("a b".into()), scope: scope.clone() }, &[]);
    assert_eq!(
        errand.url,
        "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01\
         &resource=https%3A%2F%2Fcognitiveservices.azure.com&client_id=a+b"
    );
    assert_eq!(errand.headers["metadata"], "true");
    assert!(errand.is_metadata);

    let grant = Workload { tenant: None, client_id: None, scope };
    let mut answers = Vec::new();
    for (wanted, answer) in [
        ("env:AZURE_FEDERATED_TOKEN_FILE", "/var/run/token\n"),
        ("file:/var/run/token", "jwt"),
        ("env:AZURE_TENANT_ID", "tenant-1"),
        ("env:AZURE_CLIENT_ID", "client-1"),
    ] {
        let errand = asked(&grant, &answers);
        assert_eq!((errand.url.as_str(), errand.is_metadata), (wanted, true));
        answers.push(brought(200, answer));
    }
    let errand = asked(&grant, &answers);
    assert_eq!(errand.url, "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token");
    let form = String::from_utf8(errand.body).unwrap();
    assert!(form.contains("client_id=client-1&") && form.ends_with("&client_assertion=jwt"), "{form}");
    answers[2] = brought(200, "../evil");
    assert!(grant.next(&answers, SystemTime::UNIX_EPOCH).is_err());
    assert!(grant.next(&[brought(404, "")], SystemTime::UNIX_EPOCH).is_err());
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
fn an_account_says_which_grant_it_wants() {
    let grant = |cloud_c| {
        let account = Account { cloud_c, api_key: Some(Secret::new("k")), ..Account::default() };
        AzureOpenAi.grant(&call(Operation::ChatCompletions, "m"), &account)
    };
    let whole = CloudC {
        entra_tenant_id: Some("t".into()),
        entra_client_id: Some("c".into()),
        entra_client_secret: Some(Secret::new("s")),
        ..CloudC::default()
    };
    assert!(grant(CloudC::default()).unwrap().is_none());
    assert!(grant(whole.clone()).unwrap().unwrap().key().starts_with("entra|"));
    let key = CloudC { auth_mode: Some(AuthModeC::Key), ..whole.clone() };
    assert!(grant(key).unwrap().is_none());
    let given = CloudC { ad_token: Some(Secret::new("t")), ..whole.clone() };
    assert!(grant(given).unwrap().is_none());
    for (mode, begins) in [(AuthModeC::Managed, "managed|"), (AuthModeC::Workload, "workload|")] {
        let cloud = CloudC { auth_mode: Some(mode), ..CloudC::default() };
        assert!(grant(cloud).unwrap().unwrap().key().starts_with(begins));
    }
    for (halfway, param) in [
        (CloudC { entra_tenant_id: None, ..whole.clone() }, "cloud_c_entra_tenant_id"),
        (CloudC { entra_client_id: None, ..whole.clone() }, "cloud_c_entra_client_id"),
        (
            CloudC { auth_mode: Some(AuthModeC::Entra), entra_client_secret: None, ..whole.clone() },
            "cloud_c_entra_client_secret",
        ),
        (CloudC { entra_tenant_id: Some("a/b".into()), ..whole.clone() }, "cloud_c_entra_tenant_id"),
    ] {
        let error = grant(halfway).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)));
        assert!(!error.message.contains('/'), "{error}");
    }
}
