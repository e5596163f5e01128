//! The facts of a request that conditions and sticky balancing read: metadata, body, headers and path.
//!
//! Facts are parsed only when they are requested, and text is borrowed from the request's own bytes. How facts are
//! used is not here (`config::query`, `pick`).

use http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use words::api::body::Body;
use words::config::headers::{is_credential, is_gateway_header};
use words::config::query::{Fact, Facts};

/// The parts of a request that routing may read.
#[derive(Debug)]
pub struct RequestFacts<'a> {
    /// The body as the client sent it; `None` if it was not read or is not JSON.
    body: Option<&'a Body>,
    headers: &'a HeaderMap,
    /// Prefixes of the gateway's own headers, which conditions cannot read.
    prefixes: &'a [String],
    /// The metadata header's text, a JSON object.
    metadata: Option<&'a str>,
    pathname: &'a str,
    /// The members of `metadata`, parsed at first use. A header's size bounds their number.
    members: OnceCell<HashMap<String, &'a RawValue>>,
}

impl<'a> RequestFacts<'a> {
    /// `metadata` is the JSON text of the metadata header, `prefixes` the settings' `header_prefixes`.
    pub fn new(
        body: Option<&'a Body>,
        headers: &'a HeaderMap,
        prefixes: &'a [String],
        metadata: Option<&'a str>,
        pathname: &'a str,
    ) -> Self {
        Self { body, headers, prefixes, metadata, pathname, members: OnceCell::new() }
    }
}

impl Facts for RequestFacts<'_> {
    fn metadata(&self, name: &str) -> Option<Fact<'_>> {
        let text = self.metadata?;
        let members = self.members.get_or_init(|| serde_json::from_str(text).unwrap_or_default());
        Fact::from_json(members.get(name)?.get().as_bytes())
    }

    fn param(&self, name: &str) -> Option<Fact<'_>> {
        Fact::from_json(self.body?.value(name)?)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        if is_credential(name.as_str()) || is_gateway_header(&name, self.prefixes) {
            return None;
        }
        let mut lines = self.headers.get_all(&name).iter();
        let first = std::str::from_utf8(lines.next()?.as_bytes()).ok()?;
        let Some(second) = lines.next() else { return Some(first.into()) };
        // Several header lines form one value, joined by commas (RFC 9110, 5.3).
        let mut joined = first.to_owned();
        for line in std::iter::once(second).chain(lines) {
            joined.push_str(", ");
            joined.push_str(std::str::from_utf8(line.as_bytes()).ok()?);
        }
        Some(joined.into())
    }

    fn pathname(&self) -> &str {
        self.pathname
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-tier", "gold"),
            ("accept", "a"),
            ("accept", "b"),
            ("authorization", "Bearer k"),
            ("cookie", "c"),
            ("x-api-key", "k"),
            ("x-gateway-api-key", "k"),
            ("x-other-config", "{}"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        headers.append("x-odd", http::HeaderValue::from_bytes(&[0xff]).unwrap());
        headers
    }

    #[test]
    fn each_fact_is_found() {
        let body =
            Body::parse(Bytes::from_static(br#"{"model":"m","n":1,"x":{"y":null},"z":null}"#)).unwrap();
        let headers = headers();
        let prefixes = ["x-gateway-".to_owned(), "x-other-".to_owned()];
        let metadata = Some(r#"{"plan":"free","plan":"paid","\u0061ge":"11","list":[1]}"#);
        let facts = RequestFacts::new(Some(&body), &headers, &prefixes, metadata, "/v1/chat/completions");
        assert_eq!(facts.param("model"), Some(Fact::String(br#""m""#)));
        assert_eq!(facts.param("n"), Some(Fact::Number(1.0)));
        assert_eq!(facts.param("x"), Some(Fact::Compound(br#"{"y":null}"#)));
        assert_eq!(facts.param("z"), Some(Fact::Null));
        assert_eq!(facts.param("plan"), None);
        assert_eq!(facts.metadata("plan"), Some(Fact::String(br#""paid""#)), "as JSON parsers have it");
        assert_eq!(facts.metadata("age"), Some(Fact::String(br#""11""#)));
        assert_eq!(facts.metadata("list"), Some(Fact::Compound(b"[1]")));
        assert_eq!(facts.metadata("model"), None);
        assert_eq!(facts.header("x-tier").as_deref(), Some("gold"));
        assert_eq!(facts.header("X-Tier").as_deref(), Some("gold"));
        assert_eq!(facts.header("accept").as_deref(), Some("a, b"));
        assert_eq!(facts.pathname(), "/v1/chat/completions");
        for hidden in ["authorization", "cookie", "x-api-key", "x-gateway-api-key", "x-other-config", "x-odd"]
        {
            assert_eq!(facts.header(hidden), None, "{hidden}");
        }
    }

    #[test]
    fn absent_facts_are_none() {
        let headers = HeaderMap::new();
        let nothing = RequestFacts::new(None, &headers, &[], None, "/");
        assert_eq!((nothing.param("a"), nothing.metadata("a"), nothing.header("a b")), (None, None, None));
        let list = Body::opaque(Bytes::from_static(b"[1]"));
        let broken = RequestFacts::new(Some(&list), &headers, &[], Some("nope"), "/");
        assert_eq!((broken.param("0"), broken.metadata("a")), (None, None));
    }
}
