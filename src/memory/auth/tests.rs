//! Table tests of who a client is by its keys, and which key is the provider's.

use super::*;
use crate::store::{Catalog, Kind, Record, Status};
use words::config::Checks;
use words::settings::scopes::Scope;
use words::settings::{SecretSources, Settings};

const KEYS: &str = "auth: {keys: [{name: a, key: service-a}, {name: b, key: service-b}]}\n";

fn keys(yaml: &str) -> ServiceKeys {
    let checks = Checks::NONE;
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    ServiceKeys::new(&Settings::parse(yaml, &sources, &checks).unwrap(), Arc::default(), None)
}

/// The client's name or the parameter of the error, and the provider's key. A header named `query` is the query.
fn judged(yaml: &str, lines: &[(&str, &str)]) -> (Result<Option<String>, String>, Option<String>) {
    let mut headers = HeaderMap::new();
    let mut uri = Uri::from_static("/v1beta/models/m:generateContent");
    for (name, value) in lines {
        match *name {
            "query" => uri = format!("{}?{value}", uri.path()).parse().unwrap(),
            name => {
                headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
        }
    }
    let keys = keys(yaml);
    let name = authenticate(&headers, &uri, &keys, Timestamp::UNIX_EPOCH)
        .map(|client| client.name.as_ref().map(|name| name.to_string()));
    let key = provider_key(&headers, &uri, &keys).unwrap().map(Cow::into_owned);
    let begin = |text: &str| text.chars().take(2).collect::<String>();
    let shown = |error: Error| format!("{} {}", begin(&error.message), error.param.unwrap());
    (name.map_err(shown), key)
}

#[test]
fn a_service_key_counts_wherever_it_is() {
    for place in ["authorization", "x-api-key", "api-key", "x-goog-api-key", "x-gateway-api-key"] {
        assert_eq!(judged(KEYS, &[(place, "service-b")]), (Ok(Some("b".into())), None), "{place}");
        let unknown = if place == "x-gateway-api-key" { None } else { Some("wrong".to_owned()) };
        assert_eq!(judged(KEYS, &[(place, "wrong")]), (Err(format!("Un {place}")), unknown), "{place}");
    }
    assert_eq!(judged(KEYS, &[("query", "alt=sse&key=service-a")]), (Ok(Some("a".into())), None));
    let protocol = ("sec-websocket-protocol", "realtime, openai-insecure-api-key.service-a");
    assert_eq!(judged(KEYS, &[protocol]), (Ok(Some("a".into())), None));
    assert_eq!(judged(KEYS, &[("query", "key=wrong")]).0, Err("Un key".into()));
    assert_eq!(judged(KEYS, &[("authorization", "Basic c2VydmljZS1h")]).0, Err("Un authorization".into()));
    for nothing in [&[][..], &[("x-api-key", "")], &[("x-gateway-api-key", "")], &[("query", "alt=sse")]] {
        assert_eq!(judged(KEYS, nothing).0, Err("No x-gateway-api-key".into()), "{nothing:?}");
    }
}

#[test]
fn of_several_keys_the_gateways_header_decides_and_else_the_first_service_key() {
    let own = ("x-gateway-api-key", "service-a");
    for (lines, name, key) in [
        (vec![own, ("x-api-key", "sk-own")], Ok(Some("a")), Some("sk-own")),
        (
            vec![own, ("authorization", "Bearer service-b"), ("api-key", "sk-own")],
            Ok(Some("a")),
            Some("sk-own"),
        ),
        (vec![("x-api-key", "service-a"), ("authorization", "Bearer sk-own")], Ok(Some("a")), Some("sk-own")),
        (vec![("authorization", "Bearer service-b"), ("x-api-key", "service-a")], Ok(Some("b")), None),
        (vec![("authorization", "Bearer one"), ("x-goog-api-key", "service-a")], Ok(Some("a")), Some("one")),
        (vec![("authorization", "Bearer one"), ("x-api-key", "two")], Err("Un authorization"), Some("one")),
        (vec![("x-gateway-api-key", "wrong"), ("x-api-key", "service-a")], Err("Un x-gateway-api-key"), None),
        (vec![("query", "key=AIza"), ("x-goog-api-key", "service-a")], Ok(Some("a")), Some("AIza")),
    ] {
        let wanted =
            (name.map(|name| name.map(str::to_owned)).map_err(str::to_owned), key.map(str::to_owned));
        assert_eq!(judged(KEYS, &lines), wanted, "{lines:?}");
    }
}

#[test]
fn without_service_keys_the_first_key_is_the_providers() {
    for (lines, key) in [
        (vec![("authorization", "Bearer one"), ("x-api-key", "two")], Some("one")),
        (vec![("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", "two")], Some("two")),
        (vec![("x-goog-api-key", "three"), ("query", "key=four")], Some("three")),
        (vec![("query", "key=four")], Some("four")),
        (vec![("sec-websocket-protocol", "openai-insecure-api-key.five")], Some("five")),
        (vec![("x-gateway-api-key", "none of a provider")], None),
        (vec![], None),
    ] {
        assert_eq!(judged("{}", &lines), (Ok(None), key.map(str::to_owned)), "{lines:?}");
    }
}

#[test]
fn a_key_that_no_header_can_carry_is_refused_by_its_place() {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_bytes(b"k\xc3\xa9y").unwrap());
    let uri = Uri::from_static("/v1beta/models/m:generateContent?key=a%0Ab");
    let refused = |headers: &HeaderMap| provider_key(headers, &uri, &keys("{}")).unwrap_err().param.unwrap();
    assert_eq!((refused(&headers), refused(&HeaderMap::new())), ("x-api-key".into(), "key".into()));
}

/// Keys that only administrate do not close the data port to others; and they are recognized there all the same.
#[test]
fn a_key_is_demanded_as_soon_as_any_key_may_call() {
    let operator = "auth: {keys: [{name: op, key: key-of-an-operator, scopes: [administration]}]}\n";
    let client = "auth: {keys: [{name: op, key: key-of-a-client, scopes: [completions.write]}]}\n";
    assert!(!keys("{}").are_required() && !keys(operator).are_required() && keys(client).are_required());
    let own = |value| [("x-gateway-api-key", value)];
    for (yaml, lines, name) in [
        (operator, &own("key-of-an-operator")[..], Ok(Some("op".into()))),
        (operator, &own("sk-anything"), Ok(None)),
        (operator, &[], Ok(None)),
        (client, &[], Err("No x-gateway-api-key".into())),
    ] {
        assert_eq!(judged(yaml, lines).0, name, "{lines:?}");
    }
    // An operator's key is no provider's key, on an open port neither.
    assert_eq!(judged(operator, &[("x-api-key", "key-of-an-operator")]).1, None);
    let identity = |yaml: &str, lines: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        lines
            .iter()
            .for_each(|(name, value)| assert!(!headers.append(*name, HeaderValue::from_static(value))));
        authenticate(&headers, &Uri::from_static("/v1/models"), &keys(yaml), Timestamp::UNIX_EPOCH).unwrap()
    };
    let anonymous = identity(operator, &[]);
    assert!(anonymous.require(Scope::CompletionsWrite).is_ok());
    assert_eq!(anonymous.require(Scope::ConfigsList).unwrap_err().status(), 401);
    let op = identity(operator, &own("key-of-an-operator"));
    assert!(op.require(Scope::ConfigsList).is_ok());
    assert_eq!(op.require(Scope::CompletionsWrite).unwrap_err().status(), 403);
}

#[test]
fn the_control_plane_always_demands_a_key() {
    let operator = |yaml: &str, lines: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        lines
            .iter()
            .for_each(|(name, value)| assert!(!headers.append(*name, HeaderValue::from_static(value))));
        let uri = Uri::from_static("/v1/configs");
        let found = authenticate_control(&headers, &uri, &keys(yaml), Timestamp::UNIX_EPOCH);
        found.map(|client| client.name.as_deref().map(str::to_owned)).map_err(|error| error.status())
    };
    assert_eq!(operator("{}", &[]), Err(401));
    assert_eq!(operator("{}", &[("authorization", "Bearer sk-x")]), Err(401));
    assert_eq!(operator(KEYS, &[("authorization", "Bearer service-a")]), Ok(Some("a".to_owned())));
}

#[test]
fn the_keys_of_a_control_route_are_those_of_the_headers() {
    for (lines, wanted) in [
        (&[("authorization", "bearer one")][..], &["one"][..]),
        (&[("authorization", "Bearer  one "), ("x-api-key", "two")], &["one", "two"]),
        (&[("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", " two ")], &["two"]),
        (&[("authorization", "Basic dXNlcjpwYXNz")], &[]),
        (&[("x-gateway-api-key", " own "), ("authorization", "Bearer one"), ("x-api-key", "two")], &["own"]),
        (&[("x-gateway-api-key", ""), ("authorization", "one")], &["one"]),
        (&[("cookie", "key=a")], &[]),
    ] {
        let mut headers = HeaderMap::new();
        lines.iter().for_each(|(name, value)| {
            headers.append(*name, HeaderValue::from_static(value));
        });
        assert_eq!(
            control_keys(&headers, &keys(KEYS)),
            wanted.iter().map(|key| key.as_bytes()).collect::<Vec<_>>(),
            "{lines:?}"
        );
    }
}

#[test]
fn a_key_in_the_query_is_none_at_the_control_plane() {
    let headers = HeaderMap::new();
    for name in ["key", "api-key"] {
        let uri: Uri = format!("/v1/configs?{name}=service-a").parse().unwrap();
        let refused = authenticate_control(&headers, &uri, &keys(KEYS), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(
            refused.status() == 401 && refused.message.contains("in the query"),
            "{name}: {}",
            refused.message
        );
        let at_data = authenticate_operator(&headers, &uri, &keys(KEYS), Timestamp::UNIX_EPOCH);
        assert!(at_data.is_ok(), "{name}: client libraries send it so to models");
    }
}

/// A key is bound to the workspace that the settings name, and to none that does not exist.
#[test]
fn a_key_of_the_settings_acts_in_its_workspace() {
    let yaml = "auth: {keys: [{name: a, key: service-a}, {name: b, key: service-b, workspace: team}, {name: c, key: service-c, workspace: gone}]}\n";
    let checks = Checks::NONE;
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse(yaml, &sources, &checks).unwrap();
    let default = uuid::Uuid::from_u128(1);
    let team = uuid::Uuid::from_u128(2);
    let workspace = |id, slug: &str| {
        Arc::new(Record {
            kind: Kind::Workspace,
            id,
            parent: None,
            workspace: None,
            slug: Some(slug.to_owned()),
            number: None,
            status: Status::Active,
            revision: 1,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            body: "{}".into(),
            sealed: None,
        })
    };
    let catalog = Catalog::new([workspace(default, "default"), workspace(team, "team")], 1);
    let keys = ServiceKeys::new(&settings, Arc::new(StoredKeys::default().with(&catalog).0), None);
    let find = |key: &str| keys.identify(key.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
    let a = find("service-a");
    let b = find("service-b");
    let c = find("service-c");
    assert_eq!((a.workspace, b.workspace, c.workspace), (Some(default), Some(team), None));
    assert!(a.may_enter(Some(team)) && a.may_enter(None));
    assert!(b.may_enter(Some(team)) && !b.may_enter(Some(default)) && !b.may_enter(None));
    assert!(!c.may_enter(Some(team)) && !c.may_enter(None));
    assert_eq!(keys.anonymous().workspace, Some(default));
}
