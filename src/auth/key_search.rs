//! Searches the headers of a request for service keys, so that none travels to a provider.
//!
//! The key by which the client identified itself is searched for everywhere; in headers for credentials and cookies, which
//! are forwarded only where a config names them, every part is compared with all keys. Removes nothing itself.

use super::ServiceKeys;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use memchr::{memchr, memmem};
use percent_encoding::percent_decode;

/// The search in the headers of one request.
#[derive(Clone, Copy)]
pub struct KeySearch<'a> {
    keys: &'a ServiceKeys,
    /// The key that the client has shown.
    shown: Option<&'a [u8]>,
}

impl<'a> KeySearch<'a> {
    pub fn new(headers: &'a HeaderMap, keys: &'a ServiceKeys) -> Self {
        Self { keys, shown: keys.are_required().then(|| shown_key(headers, keys)).flatten() }
    }

    /// Whether a value of any header contains the client's key, plain or percent-encoded.
    pub fn is_in(&self, value: &HeaderValue) -> bool {
        let (value, Some(key)) = (value.as_bytes(), self.shown) else { return false };
        // Most values are shorter than a key.
        value.len() >= key.len()
            && (memmem::find(value, key).is_some()
                || memchr(b'%', value).is_some()
                    && memmem::find(&percent_decode(value).collect::<Vec<u8>>(), key).is_some())
    }

    /// Whether a header for credentials or cookies contains any service key.
    pub fn is_in_credentials(&self, value: &HeaderValue) -> bool {
        if !self.keys.are_required() {
            return false;
        }
        if self.is_in(value) || self.keys.name_in(value).is_some() {
            return true;
        }
        let text = percent_decode(value.as_bytes()).decode_utf8_lossy();
        self.is_among(&text)
            || text.split_whitespace().any(|part| {
                // `Basic` and the like.
                let decoded = STANDARD.decode(part).unwrap_or_default();
                self.is_among(&String::from_utf8_lossy(&decoded))
                    || self.shown.is_some_and(|key| memmem::find(&decoded, key).is_some())
            })
    }

    /// Whether a part of the text is a service key: of a list, of cookies, of a user and password.
    fn is_among(&self, text: &str) -> bool {
        let parts = text.split([';', ',', ' ', '"', ':']);
        let values = parts.flat_map(|part| [Some(part), part.split_once('=').map(|(_, value)| value)]);
        values.flatten().any(|value| self.keys.name_of(value.trim()).is_some())
    }
}

/// The key by which the client identified itself.
fn shown_key<'a>(headers: &'a HeaderMap, keys: &ServiceKeys) -> Option<&'a [u8]> {
    let own = keys.headers.iter().find_map(|name| headers.get(name));
    let key = match own {
        Some(value) => value.as_bytes().trim_ascii(),
        None => {
            let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
            // Behind the scheme, if there is one.
            value.rsplit(|byte| *byte == b' ').next()?
        }
    };
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Checks;
    use crate::settings::{SecretSources, Settings};

    fn keys(yaml: &str) -> ServiceKeys {
        let checks = Checks { provider: &|_| Ok(()), account: &|_, _| Ok(()), custom_host: &|_| Ok(()) };
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        ServiceKeys::new(&Settings::parse(yaml, &sources, &checks).unwrap())
    }

    #[test]
    fn the_key_of_the_client_is_found_anywhere() {
        let keys = keys("auth: {keys: [{name: a, key: key-one/1}, {name: b, key: key-two-2}]}\n");
        for (name, value) in [("x-gateway-api-key", " key-one/1"), ("authorization", "Bearer  key-one/1 ")] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let search = KeySearch::new(&headers, &keys);
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
    fn without_keys_nothing_is_found() {
        let keys = keys("{}");
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Bearer sk-own"));
        let search = KeySearch::new(&headers, &keys);
        assert!(
            !search.is_in(&headers["authorization"]) && !search.is_in_credentials(&headers["authorization"])
        );
    }
}
