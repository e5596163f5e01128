//! Operations other than chat, and how an account's calls are authorized.

use super::rerank::Rerank;
use super::*;
use crate::provider::adapter::{CallTarget, JsonAdapter};
use crate::provider::translation_notes::TranslationNotes;
use http::{HeaderValue, Method};
use std::time::SystemTime;
use words::api::body::Body;
use words::config::account::{AuthTypeA, CloudA};
use words::config::secret::Secret;

fn call(operation: Operation, model: &str) -> Call<'_> {
    Call { operation, method: &Method::POST, path: "x", query: None, model: Some(model), streamed: false }
}

fn written(
    adapter: &dyn JsonAdapter,
    operation: Operation,
    model: &str,
    text: &str,
) -> (String, Vec<String>) {
    let call = call(operation, model);
    let account = Account::default();
    let mut outgoing = TranslationNotes::default();
    let body = Body::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let target = CallTarget { call: &call, account: &account, model, client_betas: None };
    let sent = adapter.write(Some(&body), &target, &mut outgoing).unwrap().unwrap();
    (String::from_utf8(sent).unwrap(), outgoing.warnings)
}

#[test]
fn rerank_requests_and_responses_use_coheres_shape() {
    let request =
        r#"{"model":"m","query":"q","documents":["a",{"text":"b","id":1}],"top_n":1,"rank_fields":["x"]}"#;
    let (sent, warnings) = written(&Rerank, Operation::Rerank, "cohere.rerank-v3-5:0", request);
    assert_eq!(sent, r#"{"query":"q","documents":["a","b"],"top_n":1,"api_version":2}"#);
    assert_eq!(warnings, ["rank_fields: dropped, bedrock has no such parameter"]);
    let (sent, _) = written(&Rerank, Operation::Rerank, "amazon.rerank-v1:0", request);
    assert_eq!(sent, r#"{"query":"q","documents":["a","b"],"top_n":1}"#);

    let response = br#"{"results":[{"index":1,"relevance_score":0.90},{"index":0,"relevance_score":0.1}]}"#;
    let body = |text: &str| Body::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap();
    let read =
        |request: &str| String::from_utf8(Rerank.read(response, Some(&body(request)), "m").unwrap()).unwrap();
    assert_eq!(
        read(request),
        r#"{"object":"list","results":[{"index":1,"relevance_score":0.90},{"index":0,"relevance_score":0.1}],"model":"m"}"#
    );
    assert!(
        read(r#"{"documents":["a",{"text":"b"}],"return_documents":true}"#)
            .contains(r#""document":{"text":"b"}"#)
    );
    assert_eq!(Rerank.read(b"{}", None, "m").unwrap_err().status, 502);
    let more = br#"{"results":[],"id":"7","meta":{"billed_units":{"search_units":1}}}"#;
    let read = String::from_utf8(Rerank.read(more, None, "m").unwrap()).unwrap();
    assert_eq!(
        read,
        r#"{"object":"list","id":"7","results":[],"model":"m","meta":{"billed_units":{"search_units":1}}}"#
    );
}

#[test]
fn count_tokens_wraps_the_converse_request() {
    let request = r#"{"model":"m","max_tokens":10,"system":"Be brief.","messages":[{"role":"user","content":"Hi"}],
        "tools":[{"name":"f","input_schema":{"type":"object"}}]}"#;
    let counter = &count_tokens::CountTokens;
    let (sent, _) =
        written(counter, Operation::CountTokens, "anthropic.claude-sonnet-4-20250514-v1:0", request);
    assert_eq!(
        sent,
        r#"{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"system":[{"text":"Be brief."}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}}}}"#
    );
    assert_eq!(counter.read(br#"{"inputTokens":12}"#, None, "m").unwrap(), br#"{"input_tokens":12}"#);
    assert_eq!(counter.read(b"{}", None, "m").unwrap_err().status, 502);
}

#[test]
fn unsupported_operations_give_501() {
    let adapter = |operation| Bedrock.adapter(&call(operation, "m"), &Account::default());
    for operation in [Operation::Speech, Operation::ResponsesGet, Operation::FilesList, Operation::Models] {
        assert_eq!(adapter(operation).unwrap_err().status(), 501, "{operation:?}");
    }
    assert!(matches!(adapter(Operation::Passthrough), Ok(Adapter::Passthrough(None))));
    for operation in [Operation::Messages, Operation::Responses, Operation::Completions] {
        assert!(matches!(adapter(operation), Ok(Adapter::Chat(_))), "{operation:?}");
    }
}

fn account(auth_type: Option<AuthTypeA>, keys: bool, role: bool, api_key: bool) -> Account {
    let secret = |is: bool, text: &str| is.then(|| Secret::new(text));
    let cloud_a = CloudA {
        access_key_id: secret(keys, "AKID"),
        secret_access_key: secret(keys, "hidden"),
        role_arn: role.then(|| "arn:aws:iam::1:role/r".to_owned()),
        auth_type,
        ..CloudA::default()
    };
    Account { api_key: secret(api_key, "key"), cloud_a: cloud_a.into(), ..Account::default() }
}

#[test]
fn the_account_decides_how_calls_are_authorized() {
    use AuthTypeA::{AccessKey, ApiKey, AssumedRole, ServiceRole};
    let cases = [
        (account(None, true, false, true), "keys"),
        (account(None, true, true, false), "grant"),
        (account(Some(AccessKey), true, true, false), "keys"),
        (account(Some(ApiKey), true, false, true), "bearer"),
        (account(None, false, false, true), "bearer"),
        (account(None, false, true, true), "grant"),
        (account(Some(AssumedRole), true, true, false), "grant"),
        (account(Some(ServiceRole), false, false, true), "grant"),
        (account(Some(ApiKey), true, false, false), "401"),
        (account(Some(AccessKey), false, false, true), "401"),
        (account(None, false, false, false), "401"),
    ];
    for (account, wanted) in cases {
        let call = call(Operation::ChatCompletions, "m");
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer stale"));
        let got = match Bedrock.authorize(&call, &account, &mut headers) {
            Err(error) => error.status().to_string(),
            Ok(()) => match (Bedrock.token_exchange(&account).unwrap().is_some(), Bedrock.signs(&account)) {
                (true, true) => "grant".to_owned(),
                (false, true) => "keys".to_owned(),
                _ if headers.get("authorization").is_some_and(|value| value == "Bearer key") => {
                    "bearer".to_owned()
                }
                other => format!("{other:?} {headers:?}"),
            },
        };
        assert_eq!(got, wanted, "{account:?}");
        assert!(got == "bearer" || got == "401" || headers.is_empty(), "{headers:?}");
    }
}

#[test]
fn fetched_credentials_take_precedence_over_the_accounts_keys() {
    let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse";
    let signing = Signing { method: &Method::POST, url, body: b"{}", now: SystemTime::UNIX_EPOCH };
    let account = account(None, true, true, false);
    let mut headers = HeaderMap::new();
    let credentials = Credentials::Aws {
        access_key_id: Secret::new("ASIA"),
        secret_access_key: Secret::new("s"),
        session_token: Some(Secret::new("t")),
    };
    Bedrock.sign(&signing, &account, Some(&credentials), &mut headers).unwrap();
    let authorization = headers["authorization"].to_str().unwrap();
    assert!(
        authorization.contains("Credential=ASIA/19700101/us-east-1/bedrock/aws4_request"),
        "{authorization}"
    );
    assert_eq!(headers["x-amz-security-token"], "t");
    // A later attempt with plain keys must not keep the session token.
    let mut headers = HeaderMap::new();
    Bedrock.sign(&signing, &account, None, &mut headers).unwrap();
    assert!(headers["authorization"].to_str().unwrap().contains("Credential=AKID/"));
    assert!(!headers.contains_key("x-amz-security-token"));
}

#[test]
fn the_region_is_the_accounts_or_the_endpoints() {
    let region = |stated: Option<&str>, host: Option<&str>| {
        let mut account = Account { custom_host: host.map(str::to_owned), ..Account::default() };
        account.cloud_a.region = stated.map(str::to_owned);
        address::region(&account).map(Cow::into_owned).map_err(|error| error.status())
    };
    let vpce = "https://vpce-1-a.bedrock-runtime.eu-central-1.vpce.amazonaws.com:443/x";
    assert_eq!(region(None, None).as_deref(), Ok("us-east-1"));
    assert_eq!(region(Some("ap-south-1"), Some(vpce)).as_deref(), Ok("ap-south-1"));
    assert_eq!(region(None, Some(vpce)).as_deref(), Ok("eu-central-1"));
    assert_eq!(region(None, Some("http://127.0.0.1:8080")).as_deref(), Ok("us-east-1"));
    for bad in ["", "x.evil.com/", "US-EAST-1", "a b"] {
        assert_eq!(region(Some(bad), None), Err(400), "{bad}");
    }
}

#[test]
fn batch_jobs_have_the_hosts_of_the_control_plane_and_of_s3() {
    let call = |path: &'static str| Call { path, query: Some("a=b"), ..call(Operation::Passthrough, "m") };
    let mut account = Account::default();
    account.cloud_a.region = Some("eu-west-1".to_owned());
    let cases = [
        (
            "model-invocation-job/abc/stop",
            "https://bedrock.eu-west-1.amazonaws.com/model-invocation-job/abc/stop?a=b",
            "bedrock",
        ),
        (
            "model-invocation-jobs",
            "https://bedrock.eu-west-1.amazonaws.com/model-invocation-jobs?a=b",
            "bedrock",
        ),
        ("s3/my-bucket/a/b.jsonl", "https://my-bucket.s3.eu-west-1.amazonaws.com/a/b.jsonl?a=b", "s3"),
        ("s3/my.bucket/a", "https://s3.eu-west-1.amazonaws.com/my.bucket/a?a=b", "s3"),
        ("s3/UPPER/a", "https://bedrock-runtime.eu-west-1.amazonaws.com/s3/UPPER/a?a=b", "bedrock"),
        ("other", "https://bedrock-runtime.eu-west-1.amazonaws.com/other?a=b", "bedrock"),
    ];
    for (path, wanted, service) in cases {
        let url = crate::provider::url(&Bedrock, &call(path), &account).unwrap();
        assert_eq!(url, wanted);
        assert_eq!(address::service(&url, &account), service, "{url}");
    }
    for host in ["http://127.0.0.1:9", "http://127.0.0.1:9/base/"] {
        account.custom_host = Some(host.to_owned());
        for (path, _, service) in cases {
            let url = crate::provider::url(&Bedrock, &call(path), &account).unwrap();
            assert_eq!(url, format!("{}/{path}?a=b", host.trim_end_matches('/')));
            let service = if path == "s3/UPPER/a" { "s3" } else { service };
            assert_eq!(address::service(&url, &account), service, "{url}");
        }
    }
    let call = Call { path: "s3/my-bucket/../x", ..call("other") };
    assert_eq!(crate::provider::url(&Bedrock, &call, &account).unwrap_err().status(), 400);
}
