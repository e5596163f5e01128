//! Which requests share a key: every form of credentials keeps apart, and whole requests share one only if a slow, obvious comparison says so.
//!
//! That each of these is read from a client's request and its config is tested on the running gateway (`caching`).

use super::scope;
use crate::cache::{CacheKey, KeyParts, Scope, TargetDigest};
use crate::net::outbound::origin::Origin;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use words::config::account::{Account, AuthModeC, AuthTypeA, AuthTypeB, DeploymentType, names};
use words::config::node::Node;
use words::config::read::{Cursor, Problems};

#[path = "../../../words/json/spellings.rs"]
mod spellings;

use spellings::{any_value, is_equal, respelt};

/// A request as the obvious comparison sees it.
#[derive(Debug, Clone)]
struct Sent {
    workspace: u128,
    namespace: Option<&'static str>,
    provider: &'static str,
    host: &'static str,
    account: Value,
    method: &'static str,
    /// Of the whole response, and of the streamed one.
    paths: (&'static str, &'static str),
    streams: bool,
    serves_both: bool,
    /// In any order.
    headers: Vec<(&'static str, &'static str)>,
    metadata: Option<Value>,
    body: Value,
}

fn account(json: &Value) -> Account {
    let node = Node::from_json(json.to_string().as_bytes()).unwrap();
    let problems = Problems::default();
    let account = Account::read(&Cursor::root(&node, &problems));
    assert_eq!(problems.into_vec(), [], "{json}");
    account.unwrap()
}

/// Its key, with body and metadata in the spelling of this number.
fn key(sent: &Sent, spelling: u64) -> CacheKey {
    let scope: Scope = scope(sent.workspace, sent.namespace);
    let origin = Origin::parse(sent.host, false).unwrap();
    let account = account(&sent.account);
    let mut body = sent.body.clone();
    if let (true, Some(members)) = (sent.streams, body.as_object_mut()) {
        members.insert("stream".to_owned(), true.into());
        members.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let body = respelt(&body, spelling);
    let metadata = sent.metadata.as_ref().map(|metadata| respelt(metadata, spelling / 7));
    let mut headers: Vec<(HeaderName, HeaderValue)> = sent
        .headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    if spelling.is_multiple_of(2) {
        headers.reverse();
    }
    let parts = KeyParts {
        scope: &scope,
        target: TargetDigest::new(sent.provider, &origin, &account),
        method: sent.method,
        path: if sent.streams { sent.paths.1 } else { sent.paths.0 },
        headers: headers.iter().map(|(name, value)| (name, value)).collect(),
        metadata: metadata.as_ref().map(String::as_bytes),
        body: body.as_bytes(),
        serves_both: sent.serves_both,
    };
    parts.key().unwrap()
}

fn plain() -> Sent {
    Sent {
        workspace: 1,
        namespace: None,
        provider: "openai",
        host: "https://api.example/v1",
        account: json!({}),
        method: "POST",
        paths: ("/v1/chat/completions", "/v1/chat/completions"),
        streams: false,
        serves_both: true,
        headers: Vec::new(),
        metadata: None,
        body: json!({"model": "m"}),
    }
}

/// Two values, or more, of every field that an account can have, under its first name.
fn values(name: &str) -> Vec<Value> {
    fn written<T>(variants: &[(&'static str, T)]) -> Vec<Value> {
        variants.iter().map(|(value, _)| Value::from(*value)).collect()
    }
    match name {
        "deployments" => ["d", "e"]
            .map(|id| json!([{"deployment_id": id, "alias": "a", "api_version": "v"}]))
            .into_iter()
            .chain([json!([{"deployment_id": "d", "alias": "b", "api_version": "v"}])])
            .chain([json!([{"deployment_id": "d", "alias": "a", "api_version": "w"}])])
            .chain([json!([{"deployment_id": "d", "alias": "a", "api_version": "v", "is_default": true}])])
            .collect(),
        "responses_models" => ["d", "e"]
            .map(|model| json!([{"model": model}]))
            .into_iter()
            .chain([json!([{"model": "d", "when": "always"}])])
            .collect(),
        "cloud_b_service_account_json" => ["x", "y"].map(|key| json!({"private_key": key})).into(),
        "cloud_a_auth_type" => written(&AuthTypeA::VARIANTS),
        "cloud_b_auth_type" => written(&AuthTypeB::VARIANTS),
        "cloud_c_auth_mode" => written(&AuthModeC::VARIANTS),
        "cloud_c_deployment_type" => written(&DeploymentType::VARIANTS),
        _ => ["x", "y", "xy"].map(Value::from).into(),
    }
}

#[test]
fn every_form_of_credentials_keeps_apart() {
    let mut forms: BTreeMap<CacheKey, String> = BTreeMap::new();
    let mut add = |form: String, sent: &Sent| {
        let taken = forms.insert(key(sent, 1), form.clone());
        assert_eq!(taken, None, "{form} shares a key");
    };
    add("no credentials".to_owned(), &plain());
    let names: Vec<&str> = names::keys().collect();
    let fields: Vec<&[&str]> = names.iter().filter_map(|name| names::find(name)).collect();
    for (name, aliases) in names.iter().zip(&fields) {
        for value in values(aliases[0]) {
            let sent = Sent { account: json!({*name: value}), ..plain() };
            if *name == aliases[0] {
                add(format!("{name} {value}"), &sent);
            } else {
                let first = Sent { account: json!({aliases[0]: value}), ..plain() };
                assert_eq!(key(&sent, 1), key(&first, 1), "{name} is {}", aliases[0]);
            }
        }
    }
    // What is joined must not be taken for another pair.
    for (one, other) in [("x", "yz"), ("xy", "z")] {
        let account = json!({"aws_access_key_id": one, "aws_secret_access_key": other});
        add(format!("keys {one} {other}"), &Sent { account, ..plain() });
    }
    for sent in [
        Sent { workspace: 2, ..plain() },
        Sent { workspace: 0, ..plain() },
        Sent { namespace: Some(""), ..plain() },
        Sent { namespace: Some("x"), ..plain() },
        Sent { provider: "groq", ..plain() },
        Sent { host: "http://api.example/v1", ..plain() },
        Sent { host: "https://api.example:444/v1", ..plain() },
        Sent { host: "https://api.example", ..plain() },
        Sent { host: "https://other.example/v1", ..plain() },
        Sent { headers: vec![("anthropic-beta", "x")], ..plain() },
        Sent { headers: vec![("anthropic-beta", "x"), ("anthropic-beta", "y")], ..plain() },
        Sent { headers: vec![("openai-beta", "x")], ..plain() },
        Sent { metadata: Some(json!({})), ..plain() },
        Sent { metadata: Some(json!({"_user": "x"})), ..plain() },
    ] {
        add(format!("{sent:?}"), &sent);
    }
}

#[test]
fn only_a_chat_has_one_key_for_streams_and_whole_responses() {
    for serves_both in [true, false] {
        let whole = Sent { serves_both, ..plain() };
        let streamed = Sent { streams: true, ..whole.clone() };
        assert_eq!(key(&whole, 1) == key(&streamed, 1), serves_both);
        assert_eq!(key(&streamed, 1), key(&streamed, 2));
    }
}

fn any_request() -> impl Strategy<Value = Sent> {
    let accounts = vec![
        json!({}),
        json!({"api_key": "x"}),
        json!({"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "r"}),
        json!({"azure_auth_mode": "managed"}),
    ];
    let paths = vec![
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("/model/m/converse", "/model/m/converse-stream"),
        ("/model/m/invoke", "/model/m/invoke-with-response-stream"),
        ("/v1/m:rawPredict?x=1", "/v1/m:streamRawPredict?x=1"),
    ];
    let headers = vec![("anthropic-beta", "x"), ("anthropic-beta", "y"), ("openai-beta", "x")];
    let body = any_value().prop_map(|value| json!({"model": "m", "x": value}));
    let where_to = (
        0..2_u128,
        prop::sample::select(vec![None, Some("n")]),
        prop::sample::select(vec!["openai", "groq"]),
        prop::sample::select(vec!["https://a.example/v1", "https://b.example/v1"]),
        prop::sample::select(accounts),
    );
    let what = (
        prop::sample::select(vec!["POST", "PUT"]),
        prop::sample::select(paths),
        any::<bool>(),
        prop::sample::subsequence(headers, 0..=3),
        prop::option::of(any_value()),
        body,
    );
    (where_to, what).prop_map(|(place, content)| {
        let (workspace, namespace, provider, host, account) = place;
        let (method, paths, streams, headers, metadata, body) = content;
        Sent {
            workspace,
            namespace,
            provider,
            host,
            account,
            method,
            paths,
            streams,
            serves_both: true,
            headers,
            metadata,
            body,
        }
    })
}

/// The slow and obvious comparison. Whether it streams does not matter.
fn share(one: &Sent, other: &Sent) -> bool {
    let sorted = |sent: &Sent| {
        let mut headers = sent.headers.clone();
        headers.sort_unstable();
        headers
    };
    let metadata = match (&one.metadata, &other.metadata) {
        (Some(one), Some(other)) => is_equal(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    (one.workspace, one.namespace, one.provider, one.host, &one.account, one.method, one.paths)
        == (
            other.workspace,
            other.namespace,
            other.provider,
            other.host,
            &other.account,
            other.method,
            other.paths,
        )
        && sorted(one) == sorted(other)
        && metadata
        && is_equal(&one.body, &other.body)
}

/// A request, and one that takes some parts from another: most pairs differ in few of them.
fn any_pair() -> impl Strategy<Value = (Sent, Sent)> {
    (any_request(), any_request(), any::<u16>(), any::<u16>()).prop_map(|(one, other, keeps, keeps_too)| {
        // A part is taken from the other request with a probability of a quarter.
        let takes = |part: u32| (keeps & keeps_too) >> part & 1 == 1;
        let mut mixed = one.clone();
        if takes(0) {
            mixed.workspace = other.workspace;
        }
        if takes(1) {
            mixed.namespace = other.namespace;
        }
        if takes(2) {
            mixed.provider = other.provider;
        }
        if takes(3) {
            mixed.host = other.host;
        }
        if takes(4) {
            mixed.account = other.account;
        }
        if takes(5) {
            mixed.method = other.method;
        }
        if takes(6) {
            mixed.paths = other.paths;
        }
        if takes(7) {
            mixed.headers = other.headers;
        }
        if takes(8) {
            mixed.metadata = other.metadata;
        }
        if takes(9) {
            mixed.body = other.body;
        }
        mixed.streams = other.streams;
        (one, mixed)
    })
}

proptest! {
    #[test]
    fn whole_requests_share_a_key_exactly_when_they_are_equal(
        (one, other) in any_pair(), first in any::<u64>(), second in any::<u64>(),
    ) {
        prop_assert_eq!(key(&one, first) == key(&other, second), share(&one, &other));
    }
}

/// `docs/cache.md` has the list of what is not in a key.
#[test]
fn neutral_headers_are_documented() {
    let documented = include_str!("../../../../docs/cache.md");
    let names = super::super::key::NEUTRAL.iter().chain(&super::super::key::NEUTRAL_PREFIXES);
    for name in names {
        assert!(documented.contains(&format!("`{name}`")), "{name}");
    }
    for name in
        ["x-user-id", "authorization", "accept-language", "openai-beta", "x-goog-user-project", "cookie"]
    {
        assert!(!crate::cache::is_neutral(&HeaderName::from_static(name)), "{name}");
    }
}
