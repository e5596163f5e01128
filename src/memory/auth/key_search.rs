//! Searches the headers of a request for service keys, so that none is sent to a provider.
//!
//! The key by which the client identified itself is searched for everywhere; in headers for credentials and cookies, which
//! are forwarded only where a config names them, every part is compared with all keys. Removes nothing itself.

use super::{ServiceKeys, client_keys, key_format, own_header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Uri};
use memchr::{memchr, memmem};
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// The search in one request.
pub struct KeySearch<'a> {
    keys: &'a ServiceKeys,
    shown: Shown<'a>,
}

/// What may be the key by which the client was identified.
enum Shown<'a> {
    /// It is this.
    Key(&'a [u8]),
    /// It is one of these. Which of them are service keys is looked up where one of them is found: that takes longer than a search.
    Among(Vec<Cow<'a, [u8]>>),
}

impl<'a> KeySearch<'a> {
    /// `uri`: as the client sent it.
    pub fn new(headers: &'a HeaderMap, uri: &'a Uri, keys: &'a ServiceKeys) -> Self {
        let shown = if keys.is_empty() { Shown::Among(Vec::new()) } else { Shown::of(headers, uri, keys) };
        Self { keys, shown }
    }

    /// Whether a value of any header contains the client's key, plain or percent-encoded.
    pub fn is_in(&self, value: &HeaderValue) -> bool {
        self.is_in_bytes(value.as_bytes())
    }

    fn is_in_bytes(&self, value: &[u8]) -> bool {
        self.has_shown(|key| {
            // Most values are shorter than a key.
            value.len() >= key.len()
                && (memmem::find(value, key).is_some()
                    || memchr(b'%', value).is_some()
                        && memmem::find(&percent_decode(value).collect::<Vec<u8>>(), key).is_some())
        })
    }

    /// Whether something has the client's key, by what `has` says of a key.
    fn has_shown(&self, mut has: impl FnMut(&[u8]) -> bool) -> bool {
        match &self.shown {
            Shown::Key(key) => has(key),
            Shown::Among(keys) => keys.iter().any(|key| has(key) && self.keys.is_service_key(key)),
        }
    }

    /// Whether a text of a request, as it is or percent-encoded, is a service key or has the client's key or a stored one in it: for what
    /// is kept of a request.
    pub fn is_in_text(&self, text: &str) -> bool {
        let has = |text: &[u8]| {
            self.is_in_bytes(text)
                || has_stored_key(text)
                || !self.keys.is_empty() && self.keys.is_service_key(text.trim_ascii())
        };
        has(text.as_bytes())
            || text.contains('%') && has(&percent_decode(text.as_bytes()).collect::<Vec<u8>>())
    }

    /// Whether a text that requests are found by (a path, a trace id, metadata) has the client's key or a stored one in it.
    pub fn is_in_name(&self, text: &str) -> bool {
        let has = |text: &[u8]| self.is_in_bytes(text) || has_stored_key(text);
        has(text.as_bytes())
            || text.contains('%') && has(&percent_decode(text.as_bytes()).collect::<Vec<u8>>())
    }

    /// A URI as it may be kept: without its path where that has a key in it.
    pub fn kept_uri(&self, uri: &Uri) -> Uri {
        if self.is_in_name(uri.path()) { Uri::from_static("/*****") } else { uri.clone() }
    }

    /// Whether a header for credentials or cookies contains any service key.
    pub fn is_in_credentials(&self, value: &HeaderValue) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        if self.is_in(value) || client_keys::bearer(value).is_some_and(|key| self.keys.is_service_key(key)) {
            return true;
        }
        let text = percent_decode(value.as_bytes()).decode_utf8_lossy();
        self.is_among(&text)
            || text.split_whitespace().any(|part| {
                // `Basic` and the like.
                let decoded = STANDARD.decode(part).unwrap_or_default();
                self.is_among(&String::from_utf8_lossy(&decoded))
                    || self.has_shown(|key| memmem::find(&decoded, key).is_some())
            })
    }

    /// See [`clean_uri`].
    fn clean_uri(&self, uri: &Uri) -> Uri {
        let Some(query) = uri.query() else { return uri.clone() };
        let holds_key = |pair: &client_keys::Pair<'_>| {
            pair.is_certain_key(uri.path())
                || !self.keys.is_empty()
                    && (self.is_in_bytes(pair.text.as_bytes()) || self.keys.is_service_key(&pair.value()))
        };
        if !client_keys::pairs(query).any(|pair| holds_key(&pair)) {
            return uri.clone();
        }
        let kept = client_keys::pairs(query).filter(|pair| !holds_key(pair)).map(|pair| pair.text);
        let kept = kept.collect::<Vec<_>>().join("&");
        let mark = if kept.is_empty() { "" } else { "?" };
        let mut parts = uri.clone().into_parts();
        // Parts of a valid URI make a valid one; the path alone is the safe answer.
        parts.path_and_query = PathAndQuery::try_from(format!("{}{mark}{kept}", uri.path())).ok();
        Uri::from_parts(parts).unwrap_or_default()
    }

    /// Whether a part of the text is a service key: of a list, of cookies, of a user and password.
    fn is_among(&self, text: &str) -> bool {
        let parts = text.split([';', ',', ' ', '"', ':']);
        let values = parts.flat_map(|part| [Some(part), part.split_once('=').map(|(_, value)| value)]);
        values.flatten().any(|value| self.keys.is_service_key(value.trim().as_bytes()))
    }
}

/// The client's URI as it may be passed on: without parameters that contain a service key, and without those that are a
/// key by the API of the path, which are sent in the provider's own way.
pub fn clean_uri(headers: &HeaderMap, uri: &Uri, keys: &ServiceKeys) -> Uri {
    match uri.query() {
        Some(_) => KeySearch::new(headers, uri, keys).clean_uri(uri),
        None => uri.clone(),
    }
}

/// Whether a text has anything in it with the form and the checksum of a stored key.
fn has_stored_key(text: &[u8]) -> bool {
    let begins = memmem::find_iter(text, key_format::PREFIX.as_bytes());
    begins
        .filter_map(|at| text.get(at..at + key_format::KEY_LEN))
        .any(|part| key_format::KeyText::parse(part).is_some_and(|key| key.is_intact()))
}

impl<'a> Shown<'a> {
    fn of(headers: &'a HeaderMap, uri: &'a Uri, keys: &'a ServiceKeys) -> Self {
        match own_header(headers, keys).map(|(_, value)| value.as_bytes().trim_ascii()) {
            Some([]) => Self::Among(Vec::new()),
            Some(key) => Self::Key(key),
            None => Self::Among(client_keys::find(headers, uri).map(|found| found.key).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use words::config::Checks;
    use words::settings::{SecretSources, Settings};

    fn keys(yaml: &str) -> ServiceKeys {
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        ServiceKeys::new(&Settings::parse(yaml, &sources, &checks).unwrap(), Arc::default(), None)
    }

    #[test]
    fn the_key_of_the_client_is_found_anywhere() {
        let keys = keys("auth: {keys: [{name: a, key: key-one/1}, {name: b, key: key-two-2}]}\n");
        for (name, value) in [
            ("x-gateway-api-key", " key-one/1"),
            ("authorization", "Bearer  key-one/1 "),
            ("x-api-key", "key-one/1"),
            ("x-goog-api-key", "key-one/1"),
            ("sec-websocket-protocol", "realtime, openai-insecure-api-key.key-one/1"),
            ("x-none", "/v1/models?key=key-one%2F1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let uri = Uri::from_static(if name == "x-none" { value } else { "/v1/models" });
            let search = KeySearch::new(&headers, &uri, &keys);
            for text in [
                "key-one/1",
                "a=key-one/1; b",
                "[\"key-one/1\"]",
                "key-one%2F1",
                "%6bey-one/1",
                "xkey-one/1x",
            ] {
                assert!(search.is_in(&HeaderValue::from_static(text)), "{text}");
                assert!(search.is_in_credentials(&HeaderValue::from_static(text)), "{text}");
            }
            for text in ["", "key-one", "key-two-2", "application/json"] {
                assert!(!search.is_in(&HeaderValue::from_static(text)), "{text}");
            }
            for text in [
                "key-two-2",
                "Bearer key-two-2",
                "s=1; k=key-two-2",
                "k=\"key-two-2\"",
                "a,key-two-2",
                "k=key%2Dtwo-2",
            ] {
                assert!(search.is_in_credentials(&HeaderValue::from_static(text)), "{text}");
            }
            for secret in ["user:key-two-2", "key-two-2:", "x:key-one/1x"] {
                let basic = format!("Basic {}", STANDARD.encode(secret));
                assert!(search.is_in_credentials(&HeaderValue::try_from(basic).unwrap()), "{secret}");
            }
            for text in ["", "Bearer sk-own", "s=1; t=2", "Basic dXNlcjpwYXNz", "key-two"] {
                assert!(!search.is_in_credentials(&HeaderValue::from_static(text)), "{text}");
            }
        }
    }

    #[test]
    fn a_key_is_found_in_any_text_that_is_kept() {
        let keys = keys("auth: {keys: [{name: a, key: key-one/1}, {name: b, key: key-two-2}]}\n");
        let mut headers = HeaderMap::new();
        headers.insert("x-gateway-api-key", HeaderValue::from_static("key-one/1"));
        let uri = Uri::from_static("/v1/configs");
        let search = KeySearch::new(&headers, &uri, &keys);
        let stored = key_format::NewKey::make(&key_format::KeyHash::new(b"pepper"), None).unwrap();
        let stored = stored.text.expose();
        let mut mistyped = stored.to_owned();
        mistyped.pop();
        for text in
            ["key-one/1", "x key-one/1 y", "key-one%2F1", "key-two-2", " key-two-2 ", "key%2Dtwo-2", stored]
        {
            assert!(search.is_in_text(text), "{text}");
        }
        assert!(
            search.is_in_text(&format!("name {stored} of a key"))
                && search.is_in_text(&format!("a%20{stored}"))
        );
        for text in ["", "key-one", "a key-two-2 b", "gk_", &mistyped, "configs"] {
            assert!(!search.is_in_text(text), "{text}");
        }
    }

    #[test]
    fn a_key_is_found_in_what_requests_are_found_by() {
        let keys = keys("auth: {keys: [{name: a, key: key-one/1}]}\n");
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer key-one/1"));
        let uri = Uri::from_static("/v1/models");
        let search = KeySearch::new(&headers, &uri, &keys);
        let stored = key_format::NewKey::make(&key_format::KeyHash::new(b"pepper"), None).unwrap();
        let stored = format!("/v1/proxy/{}/x", stored.text.expose());
        for path in ["/v1/proxy/key-one/1", "/v1/key-one%2F1/x", "/v1/%6bey-one/1", &stored] {
            assert!(search.is_in_name(path), "{path}");
            assert_eq!(search.kept_uri(&path.parse().unwrap()), "/*****");
        }
        for path in ["/v1/models", "/v1/proxy/key-one/2", "/v1/gk_/x"] {
            assert!(!search.is_in_name(path), "{path}");
            assert_eq!(search.kept_uri(&path.parse().unwrap()), path);
        }
    }

    #[test]
    fn no_key_stays_in_the_query() {
        let keys = keys("auth: {keys: [{name: a, key: key-one/1}, {name: b, key: key-two-2}]}\n");
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("key-one/1"));
        for (uri, wanted) in [
            ("/v1/files?limit=2&key=key-one%2F1&after=a%20b", "/v1/files?limit=2&after=a%20b"),
            ("/v1/files?any=xkey-one/1x", "/v1/files"),
            ("/v1/files?key=key-two-2&&a", "/v1/files?&a"),
            ("/v1/files?token=%6bey-two-2", "/v1/files"),
            ("http://g/v1/files?key=key-two-2&a=1", "http://g/v1/files?a=1"),
            ("/v1/files?key=other&api-key=b", "/v1/files?key=other&api-key=b"),
            ("/v1/files?", "/v1/files?"),
            ("/v1beta/models/g:generateContent?alt=sse&key=AIza", "/v1beta/models/g:generateContent?alt=sse"),
            ("/openai/realtime?api-key=b&deployment=d", "/openai/realtime?deployment=d"),
        ] {
            let uri = Uri::from_static(uri);
            assert_eq!(clean_uri(&headers, &uri, &keys).to_string(), wanted, "{uri}");
        }
    }

    #[test]
    fn without_keys_nothing_is_found() {
        let keys = keys("{}");
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer sk-own"));
        let uri = Uri::from_static("/v1/models");
        let search = KeySearch::new(&headers, &uri, &keys);
        assert!(
            !search.is_in(&headers["authorization"]) && !search.is_in_credentials(&headers["authorization"])
        );
    }
}
