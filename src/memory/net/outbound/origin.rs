//! A parsed base URL: scheme, host, port and base path. A URL is parsed here once and never again.
//!
//! Purely syntactic. Whether a client may name the host is [`super::custom_host`], which addresses it has
//! is [`super::dns`]. Unusual spellings of IPv4 (decimal, octal, hex, shortened) become the address they mean,
//! because the WHATWG parser normalises them: `http://2130706433` has the host `127.0.0.1`.

use http::HeaderValue;
use std::net::IpAddr;
use url::Url;

/// Maximum length of a base URL, bytes.
const MAX_URL_LENGTH: usize = 2048;
/// Maximum number of labels in a host that a client names.
const MAX_LABELS: usize = 10;

/// A host as written in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Lower-case ASCII, international names as punycode, no dot at the end.
    Name(Box<str>),
    Ip(IpAddr),
}

/// A parsed base URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub tls: bool,
    pub host: Host,
    /// 1 to 65535.
    pub port: u16,
    /// Percent-encoded, begins with a slash and does not end with one; empty for the root.
    pub base_path: String,
    /// Written by the operator (settings, built-in table), not by a client: its addresses are not checked.
    pub trusted: bool,
    authority: Box<str>,
    host_header: HeaderValue,
    name: Box<str>,
}

impl Origin {
    /// Parses `url`. `trusted`: the operator wrote it.
    ///
    /// # Errors
    /// What is wrong with the URL, worded for its author. The URL itself is not repeated, because it may contain
    /// a password.
    pub fn parse(url: &str, trusted: bool) -> Result<Self, String> {
        let text = url.trim_matches(' ');
        check_text(text, trusted)?;
        let parsed = Url::parse(text).map_err(|error| format!("is not a valid URL: {error}"))?;
        let tls = match parsed.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err("must begin with http:// or https://".to_owned()),
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("must not carry a user name or password".to_owned());
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err("must not carry a query or a fragment".to_owned());
        }
        let host = match parsed.host() {
            Some(url::Host::Domain(name)) => Host::Name(checked_name(name, trusted)?),
            Some(url::Host::Ipv4(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Ip(ip.into()),
            None => return Err("has no host".to_owned()),
        };
        let Some(port @ 1..) = parsed.port_or_known_default() else {
            return Err("has a port that is not from 1 to 65535".to_owned());
        };
        let base_path = parsed.path().trim_end_matches('/').to_owned();
        if !base_path.is_empty() && http::uri::PathAndQuery::try_from(&base_path).is_err() {
            return Err("has a path that cannot stand in a request".to_owned());
        }
        let name: Box<str> = match &host {
            Host::Name(name) => name.clone(),
            Host::Ip(ip) => ip.to_string().into(),
        };
        let authority = written_authority(&host, &name, port, tls);
        let Ok(host_header) = HeaderValue::from_str(&authority) else {
            return Err("has a host that cannot stand in a request".to_owned());
        };
        Ok(Self { tls, host, port, base_path, trusted, authority, host_header, name })
    }

    /// Host and port: without the scheme's default port, and with an IPv6 address in brackets.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The value of the `Host` header.
    pub fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// The name the certificate must be valid for: the host name, or the address as text without brackets.
    pub fn sni(&self) -> &str {
        &self.name
    }
}

/// Checks what the parser would hide by normalising the text.
fn check_text(text: &str, trusted: bool) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > MAX_URL_LENGTH {
        return Err(format!("is longer than {MAX_URL_LENGTH} bytes"));
    }
    // The parser silently drops tabs and line breaks: the URL in use would differ from the one the operator sees.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must not contain spaces or control characters".to_owned());
    }
    if text.contains('\\') {
        return Err("must not contain a backslash".to_owned());
    }
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if ["http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s)) => rest,
        _ => return Err("must begin with http:// or https://".to_owned()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        // The parser would skip further slashes and use a path segment as the host.
        return Err("has no host".to_owned());
    }
    if authority.contains('@') {
        return Err("must not carry a user name or password".to_owned());
    }
    if !trusted && rest.contains('@') {
        return Err("must not contain an @".to_owned());
    }
    if authority.contains('%') {
        return Err("must not contain a % in its host".to_owned());
    }
    Ok(())
}

fn checked_name(name: &str, trusted: bool) -> Result<Box<str>, String> {
    let name = name.to_ascii_lowercase();
    let fits = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-') || (trusted && c == '_');
    if !name.chars().all(fits) {
        return Err("has a host with characters that cannot stand in a host name".to_owned());
    }
    if name.ends_with('.') {
        return Err("has a host that ends with a dot; leave the dot out".to_owned());
    }
    if name.len() > 253 || name.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return Err("has a host with an empty or too long label".to_owned());
    }
    if !trusted && name.split('.').count() > MAX_LABELS {
        return Err(format!("has a host with more than {MAX_LABELS} labels"));
    }
    Ok(name.into())
}

fn written_authority(host: &Host, name: &str, port: u16, tls: bool) -> Box<str> {
    let host = match host {
        Host::Ip(IpAddr::V6(_)) => format!("[{name}]"),
        _ => name.to_owned(),
    };
    if port == if tls { 443 } else { 80 } { host.into() } else { format!("{host}:{port}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Origin::parse(url, true).unwrap_or_else(|error| panic!("{url} {error}"))
    }

    #[test]
    fn parses_base_urls() {
        // URL, tls, sni, authority, port, base path
        let rows = [
            ("https://api.openai.com/v1", true, "api.openai.com", "api.openai.com", 443, "/v1"),
            (
                "HTTP://API.Example.com:8080/a/b//",
                false,
                "api.example.com",
                "api.example.com:8080",
                8080,
                "/a/b",
            ),
            ("https://example.com:443", true, "example.com", "example.com", 443, ""),
            ("http://example.com:443/", false, "example.com", "example.com:443", 443, ""),
            ("https://exämple.com", true, "xn--exmple-cua.com", "xn--exmple-cua.com", 443, ""),
            ("http://[::1]:8000/v1/", false, "::1", "[::1]:8000", 8000, "/v1"),
            ("http://2130706433", false, "127.0.0.1", "127.0.0.1", 80, ""),
            ("http://0x7f.1:9", false, "127.0.0.1", "127.0.0.1:9", 9, ""),
            ("http://my_service:8000", false, "my_service", "my_service:8000", 8000, ""),
            ("  https://example.com/a/../b  ", true, "example.com", "example.com", 443, "/b"),
            ("https://example.com/%00", true, "example.com", "example.com", 443, "/%00"),
            ("https://example.com/p@v1", true, "example.com", "example.com", 443, "/p@v1"),
        ];
        for (url, tls, sni, authority, port, path) in rows {
            let origin = origin(url);
            assert_eq!((origin.tls, origin.sni(), origin.authority()), (tls, sni, authority), "{url}");
            assert_eq!((origin.port, origin.base_path.as_str()), (port, path), "{url}");
        }
    }

    #[test]
    fn rejects_invalid_base_urls() {
        for url in [
            "",
            "   ",
            "example.com",
            "//example.com",
            "http:example.com",
            "http:/example.com",
            "http:///example.com",
            "https://",
            "ftp://example.com",
            "file:///etc/passwd",
            "data:text/plain,x",
            "gopher://x",
            "ws://example.com",
            "unix:/run/x",
            "https://user:pass@example.com",
            "https://@example.com",
            "https://example.com?x=1",
            "https://example.com/?",
            "https://example.com/#x",
            "https://example.com:0",
            "https://example.com:65536",
            "https://example.com:-1",
            "https://example.com.",
            "https://a..b",
            "https://exa%6dple.com",
            "http://[fe80::1%25eth0]",
            "http://1.2.3.4.5",
            "http://exam\tple.com",
            "http://example.com\n",
            "http://example.com\r\nx: y",
            "http://exam ple.com",
            "http://example.com\\@evil.com",
            "http://example.com\u{0}",
            "http://<x>",
        ] {
            for trusted in [true, false] {
                assert!(Origin::parse(url, trusted).is_err(), "{url:?} {trusted}");
            }
        }
        assert!(Origin::parse(&format!("https://{}", "a".repeat(64)), true).is_err());
        assert!(Origin::parse(&format!("https://example.com/{}", "a".repeat(2048)), true).is_err());
    }

    #[test]
    fn errors_do_not_repeat_the_url() {
        for url in ["https://user:s3cret@example.com", "s3cret", "https://s3cret.", "https://x/?key=s3cret"] {
            let error = Origin::parse(url, false).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
