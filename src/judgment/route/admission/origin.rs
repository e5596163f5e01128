//! Keeps web pages of other origins from using a gateway that demands no key.
//!
//! A browser sends some requests of any page without asking first (a form, a `fetch` in mode `no-cors`, a websocket). The page
//! of the first two cannot read the response, but a provider would be called with the operator's key. Client libraries
//! outside of browsers send no `Origin`. Not here: which pages may read responses (`engine::cors`).

use super::RequestHead;
use http::header::{HOST, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use words::api::operation::Operation;
use words::error::Error;

impl RequestHead<'_> {
    /// # Errors
    /// 403: no key is demanded, and the request is from a page of another origin that `cors.origins` does not list. Requests
    /// that only read pass: their pages cannot read the response.
    pub fn check_origin(&self) -> Result<(), Error> {
        let reads = matches!(*self.method, Method::GET | Method::HEAD | Method::OPTIONS);
        // The protocol demands it of each server, with keys or without.
        let is_mcp = self.endpoint.operation == Operation::Mcp;
        if !is_mcp
            && (self.snapshot.service_keys.are_required() || (reads && !self.headers.contains_key(UPGRADE)))
        {
            return Ok(());
        }
        let cors = self.snapshot.settings.cors.as_ref();
        let has_keys = self.snapshot.service_keys.are_required();
        let public_url = self.snapshot.settings.server.public_url.as_deref();
        let is_allowed = |origin: &HeaderValue| {
            let Ok(origin) = origin.to_str() else { return false };
            let is_own =
                is_own(origin, self.headers, self.uri) && (has_keys || is_unmistakable(origin, public_url));
            is_own || cors.is_some_and(|cors| cors.origins.allow(origin))
        };
        if self.headers.get_all(ORIGIN).iter().all(is_allowed) {
            Ok(())
        } else {
            Err(Error::forbidden(
                "This gateway takes no such requests from pages of other origins, because it demands no key or because this is an MCP endpoint. List the page's origin in \
                 the settings' cors.origins to let it call.",
            )
            .with_param("origin"))
        }
    }
}

/// Whether the name in an origin cannot be one that its owner has made to mean this host: an address, `localhost`, or the name that the
/// settings have. Any other name may be a page's own that resolves to this host now (DNS rebinding).
fn is_unmistakable(origin: &str, public_url: Option<&str>) -> bool {
    let host = |url: &str| {
        let authority = url.split_once("://")?.1.split('/').next()?;
        let name = authority.rsplit_once(':').map_or(authority, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { authority }
        });
        Some(name.to_ascii_lowercase())
    };
    let Some(name) = host(origin) else { return false };
    let is_address = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_address || is_local || public_url.and_then(host).is_some_and(|own| own == name)
}

/// Whether a page of this origin is from the host that is called.
fn is_own(origin: &str, headers: &HeaderMap, uri: &Uri) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_anyone_can_point_here_is_not_enough() {
        let public = Some("https://Gateway.example.com/ai");
        for (origin, wanted) in [
            ("http://127.0.0.1:8787", true),
            ("http://[::1]:8787", true),
            ("http://[::1]", true),
            ("http://localhost:3000", true),
            ("http://app.localhost", true),
            ("https://gateway.example.com", true),
            ("https://gateway.example.com:8443", true),
            ("http://evil.example.com", false),
            ("http://localhost.evil.example.com:8787", false),
            ("http://gateway.example.com.evil.example", false),
            ("null", false),
        ] {
            assert_eq!(is_unmistakable(origin, public), wanted, "{origin}");
        }
        assert!(!is_unmistakable("https://gateway.example.com", None));
    }
}
