//! A proxy that the gateway's own connections go through, as its URL names it: scheme, host, port, credentials.
//!
//! Not here: which connections go through it (`net`), and who may name one (`settings`, `policies::proxy`).

use super::members::{Form, form, non_empty};
use super::secret::Secret;
use crate::json::schema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::sync::Arc;
use url::Url;

/// What stands in place of a URL for no proxy.
const NONE: &str = "none";

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProxyUrl {
    /// `http://proxy.corp:3128`: without credentials, and always with a port.
    name: Box<str>,
    /// The value of `Proxy-Authorization`, where the URL has credentials.
    authorization: Option<Secret>,
    /// The URL with its credentials.
    full: Secret,
}

/// What a level says of proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyChoice {
    /// `none`: connections are direct, whatever the levels above say.
    Direct,
    Through(Arc<ProxyUrl>),
}

pub(crate) const PROXY: Form<ProxyChoice> = form(
    |at| {
        let text = non_empty(at)?;
        if text == NONE {
            return Some(ProxyChoice::Direct);
        }
        let parsed = ProxyUrl::parse(text).map_err(|why| at.problem(why)).ok()?;
        Some(ProxyChoice::Through(Arc::new(parsed)))
    },
    schema::non_empty,
);

impl ProxyUrl {
    /// Reads `[http[s]://][user[:password]@]host[:port]`; credentials are percent-encoded.
    ///
    /// # Errors
    /// What is wrong, without repeating the URL, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // As curl and Go read HTTPS_PROXY=proxy.corp:3128.
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let mut url = Url::parse(&url).map_err(|why| format!("must be the URL of a proxy ({why})"))?;
        if url.scheme().starts_with("socks") {
            return Err("must be an http or https URL: SOCKS proxies are not supported".to_owned());
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must be an http or https URL, or none".to_owned());
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(
                "must end with the proxy's host and port; percent-encode what else stands in a user or \
                        password"
                    .to_owned(),
            );
        }
        let Some(host) = url.host_str().filter(|host| is_host(host)) else {
            return Err("must name a host".to_owned());
        };
        let Some(port @ 1..) = url.port_or_known_default() else {
            return Err("must have a port from 1 to 65535".to_owned());
        };
        let name = format!("{}://{host}:{port}", url.scheme()).into();
        let authorization = basic(&url)?;
        url.set_path("");
        Ok(Self { name, authorization, full: Secret::new(url.as_str()) })
    }

    /// The URL without credentials: `http://proxy.corp:3128`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of `Proxy-Authorization`.
    pub fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    /// The URL with its credentials.
    pub fn full(&self) -> &Secret {
        &self.full
    }
}

/// Whether it is an address, or a name that connections can be made to.
fn is_host(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_label = |label: &str| (1..=63).contains(&label.len());
    host.starts_with('[') || (host.len() <= 253 && host.bytes().all(fits) && host.split('.').all(is_label))
}

/// The Basic credentials of a URL that has some.
fn basic(url: &Url) -> Result<Option<Secret>, String> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let user: Vec<u8> = percent_decode_str(url.username()).collect();
    if user.contains(&b':') {
        return Err("must not have a colon in the user's name".to_owned());
    }
    let password = percent_decode_str(url.password().unwrap_or_default());
    let pair: Vec<u8> = user.into_iter().chain([b':']).chain(password).collect();
    Ok(Some(Secret::new(format!("Basic {}", STANDARD.encode(pair)))))
}

/// With `***` for credentials.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.authorization, self.name.split_once("://")) {
            (Some(_), Some((scheme, rest))) => write!(f, "{scheme}://***@{rest}"),
            _ => f.write_str(&self.name),
        }
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ProxyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str(NONE),
            Self::Through(proxy) => fmt::Display::fmt(proxy, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_scheme_a_host_and_a_port() {
        for (text, name, shown) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128", "http://proxy.corp:3128"),
            ("proxy.corp:3128", "http://proxy.corp:3128", "http://proxy.corp:3128"),
            ("HTTPS://Proxy.corp/", "https://proxy.corp:443", "https://proxy.corp:443"),
            ("http://[::1]:1", "http://[::1]:1", "http://[::1]:1"),
            ("http://proxy", "http://proxy:80", "http://proxy:80"),
            ("user:s3cret@proxy:8080", "http://proxy:8080", "http://***@proxy:8080"),
        ] {
            let proxy = ProxyUrl::parse(text).unwrap();
            assert_eq!((proxy.name(), proxy.to_string().as_str()), (name, shown), "{text}");
            assert_eq!(format!("{proxy:?}"), shown, "{text}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_sent_as_basic() {
        for (text, pair) in [
            ("http://u:p@h", Some("u:p")),
            ("http://u@h", Some("u:")),
            ("http://corp%5Cu:p%40%2Fss@h", Some("corp\\u:p@/ss")),
            ("http://h", None),
        ] {
            let wanted = pair.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
            let found = ProxyUrl::parse(text).unwrap();
            assert_eq!(found.authorization().map(Secret::expose), wanted.as_deref(), "{text}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_its_password() {
        for text in [
            "socks5://u:s3cret@h:1080",
            "ftp://u:s3cret@h",
            "http://",
            "http://u:s3cret@h/path",
            "http://u:s3cret/x@h",
            "http://u:s3cret@h?x",
            "http://u%3A:s3cret@h",
            "http://h:0",
            "http://u:s3cret@h.",
            "http://u:s3cret@a..b",
            "http://u:s3cret@a%21b",
        ] {
            let why = ProxyUrl::parse(text).unwrap_err();
            assert!(!why.contains("s3cret"), "{text}: {why}");
        }
    }
}
