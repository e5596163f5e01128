//! Table tests of who a client is by its keys, and which key is the provider's.

use super::*;
use crate::config::Checks;
use crate::settings::{SecretSources, Settings};

const KEYS: &str = "auth: {keys: [{name: a, key: service-a}, {name: b, key: service-b}]}\n";

fn keys(yaml: &str) -> ServiceKeys {
    let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    ServiceKeys::new(&Settings::parse(yaml, &sources, &checks).unwrap())
}

/// The client's name or the parameter of the error, and the provider's key. A header named `query` is the query.
fn judged(yaml: &str, lines: &[(&str, &str)]) -> (Result<Option<String>, String>, Option<String>) {
    let (mut headers, mut uri) = (HeaderMap::new(), Uri::from_static("/v1beta/models/m:generateContent"));
    for (name, value) in lines {
        match *name {
            "query" => uri = format!("{}?{value}", uri.path()).parse().unwrap(),
            name => {
                headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
        }
    }
    let keys = keys(yaml);
    let name = authenticate(&headers, &uri, &keys).map(|client| client.name.map(|name| name.to_string()));
    let key = provider_key(&headers, &uri, &keys).unwrap().map(Cow::into_owned);
    let begin = |text: &str| text.chars().take(2).collect::<String>();
    (name.map_err(|error| format!("{} {}", begin(&error.message), error.param.unwrap())), key)
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
