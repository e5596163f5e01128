//! The places in which client libraries send a key, other than the gateway's own header, in the order in which they are
//! looked at. A key found there may be a service key or a provider's.
//!
//! Does not decide which of the two it is, and removes nothing: `authenticate` and `engine::upstream_headers` do.
//!
//! A new place is a line in this list and a header of `STRIPPED` in `engine::forwarded_headers`.

use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Headers whose value is the key alone: Anthropic's SDKs, Azure's and Google's.
static KEY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Names of query parameters: Google's clients, and Azure's realtime clients in browsers.
const KEY_PARAMETERS: [&str; 2] = ["key", "api-key"];

/// How OpenAI's realtime clients in browsers send a key: as an entry of `Sec-WebSocket-Protocol`.
pub const KEY_PROTOCOL: &str = "openai-insecure-api-key.";

/// A key as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientKey<'a> {
    /// The header or parameter, for messages.
    pub place: &'static str,
    pub key: Cow<'a, [u8]>,
    /// Whether the value can only be a key. In other paths `?key=` may be a provider's own parameter.
    pub is_certain: bool,
}

/// All keys of a request that are not in the gateway's own header. Empty values count as absent.
pub(super) fn find<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> impl Iterator<Item = ClientKey<'a>> {
    let certain = |place, key: &'a [u8]| ClientKey { place, key: Cow::Borrowed(key), is_certain: true };
    let bearers = headers.get_all(AUTHORIZATION).iter().filter_map(bearer);
    let named = KEY_HEADERS.iter().flat_map(move |name| {
        let values = headers.get_all(name).iter();
        values.map(move |value| certain(name.as_str(), value.as_bytes().trim_ascii()))
    });
    let protocols = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().flat_map(protocol_keys);
    bearers
        .map(move |key| certain("authorization", key))
        .chain(named)
        .chain(query_keys(uri))
        .chain(protocols.map(move |key| certain("sec-websocket-protocol", key)))
        .filter(|client_key| !client_key.key.is_empty())
}

/// The credential of `Authorization`: the part after `Bearer`, or the whole value if it names no scheme, as clients of
/// Portkey send it.
pub(super) fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes().trim_ascii();
    let (scheme, credential) = match value.iter().position(|byte| *byte == b' ') {
        Some(space) => value.split_at_checked(space)?,
        None if value.eq_ignore_ascii_case(b"bearer") => return None,
        None => return Some(value),
    };
    scheme.eq_ignore_ascii_case(b"bearer").then(|| credential.trim_ascii())
}

fn protocol_keys(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    let entries = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    entries.filter_map(|entry| entry.strip_prefix(KEY_PROTOCOL.as_bytes()))
}

fn query_keys(uri: &Uri) -> impl Iterator<Item = ClientKey<'_>> {
    uri.query().into_iter().flat_map(pairs).filter_map(|pair| {
        let place = KEY_PARAMETERS.into_iter().find(|name| pair.is_named(name))?;
        Some(ClientKey { place, key: pair.value(), is_certain: pair.is_certain_key(uri.path()) })
    })
}

/// One parameter of a query, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub text: &'a str,
}

pub(super) fn pairs(query: &str) -> impl Iterator<Item = Pair<'_>> {
    query.split('&').map(|text| Pair { text })
}

impl<'a> Pair<'a> {
    fn is_named(self, wanted: &str) -> bool {
        let name = self.text.split_once('=').map_or(self.text, |(name, _)| name);
        name == wanted
            || name.contains('%') && percent_decode_str(name).collect::<Vec<u8>>() == wanted.as_bytes()
    }

    /// Decoded.
    pub fn value(self) -> Cow<'a, [u8]> {
        percent_decode_str(self.text.split_once('=').map_or("", |(_, value)| value)).into()
    }

    /// Whether the parameter is a key in the API that the path belongs to, whatever its value is.
    pub(crate) fn is_certain_key(self, path: &str) -> bool {
        self.is_named("key") && is_google_path(path) || self.is_named("api-key") && is_realtime_path(path)
    }
}

/// Google's methods, `models/NAME:METHOD`, and everything below its versions.
fn is_google_path(path: &str) -> bool {
    let is_versioned = ["/v1beta", "/v1alpha"].iter().any(|version| path.starts_with(version));
    is_versioned
        || path.contains("/models/") && path.rsplit('/').next().is_some_and(|last| last.contains(':'))
}

fn is_realtime_path(path: &str) -> bool {
    path.ends_with("/realtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[(&'static str, &'static str)], uri: &'static str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let uri = Uri::from_static(uri);
        let shown = |client_key: ClientKey<'_>| {
            let certain = if client_key.is_certain { "" } else { "?" };
            format!("{} {}{certain}", client_key.place, String::from_utf8_lossy(&client_key.key))
        };
        find(&headers, &uri).map(shown).collect()
    }

    #[test]
    fn keys_are_found_in_their_order() {
        let all = [
            ("sec-websocket-protocol", "realtime, openai-insecure-api-key.g ,openai-beta.realtime-v1"),
            ("x-goog-api-key", "e"),
            ("api-key", " d "),
            ("x-api-key", "c"),
            ("authorization", "Bearer  a"),
            ("authorization", "b"),
        ];
        let wanted =
            ["authorization a", "authorization b", "x-api-key c", "api-key d", "x-goog-api-key e", "key f?"];
        let found = found(&all, "/v1/x?a=b&key=f");
        assert_eq!(found[..6], wanted);
        assert_eq!(found[6..], ["sec-websocket-protocol g"]);
    }

    #[test]
    fn what_is_no_key_is_not_found() {
        for value in ["", "Bearer", "bearer ", "Basic dXNlcjpwYXNz", "Digest a=b"] {
            assert_eq!(found(&[("authorization", value)], "/v1/x"), [""; 0], "{value:?}");
        }
        assert_eq!(found(&[("x-api-key", " "), ("cookie", "key=a")], "/v1/x?monkey=a&key=&keys=b"), [""; 0]);
    }

    #[test]
    fn a_parameter_is_a_key_by_the_path() {
        for (uri, wanted) in [
            ("/v1beta/models/g:generateContent?key=k%2F1", "key k/1"),
            ("/v1/models/g:streamGenerateContent?alt=sse&%6bey=k", "key k"),
            ("/v1beta/files?key=k", "key k"),
            ("/v1/files?key=k", "key k?"),
            ("/v1/models/a?key=k", "key k?"),
            ("/openai/realtime?api-key=k", "api-key k"),
            ("/v1/chat/completions?api-key=k", "api-key k?"),
        ] {
            assert_eq!(found(&[], uri), [wanted], "{uri}");
        }
    }
}
