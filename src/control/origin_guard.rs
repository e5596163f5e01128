//! Keeps web pages away from the operators' routes: a browser on the operator's machine reaches the control port, and
//! runs any page's requests.
//!
//! A page of another site shows itself by its `Origin`; one that has its own name resolve to this address (DNS rebinding)
//! by the `Host` it calls. Not authentication: whoever can connect without a browser is not held up.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Uri, Version};
use std::net::{IpAddr, Ipv6Addr};
use words::error::Error;

/// Refuses requests for hosts that are not this port, and from pages of other origins.
///
/// # Errors
/// 403 for such a request, 400 for one without `Host`.
pub(super) fn check(request: &Parts, names: &[String]) -> Result<(), Error> {
    judge(request.version, &request.uri, &request.headers, names)
}

/// `names`: the host names that are allowed besides addresses and names without a dot.
fn judge(version: Version, uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), Error> {
    let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let host = headers.get(HOST).map(text).or_else(|| uri.authority().map(|authority| authority.to_string()));
    let Some(host) = host else {
        return match version {
            Version::HTTP_11 => {
                Err(Error::bad_framing("The request has no Host header. HTTP/1.1 demands one."))
            }
            // No browser speaks HTTP/1.0.
            _ if headers.contains_key(ORIGIN) => Err(foreign_origin()),
            _ => Ok(()),
        };
    };
    if !is_allowed(&host, names) {
        let message = "The control port is called by address, by a name without a dot, or by a name of the \
                       settings' listen.control_names, and not by this name.";
        return Err(Error::forbidden(message).with_param("host"));
    }
    let is_own = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(&host))
    };
    if headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(is_own)) {
        Ok(())
    } else {
        Err(foreign_origin())
    }
}

fn foreign_origin() -> Error {
    Error::forbidden("The control port takes no requests from pages of other origins.").with_param("origin")
}

/// `host`: with or without a port.
fn is_allowed(host: &str, names: &[String]) -> bool {
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_port =
            port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        return is_port && address.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // A name without a dot is of this machine or its network: nobody outside can have it resolve to anything.
    let is_local = !name.is_empty() && !name.contains('.') && name.bytes().all(is_name_byte);
    name.parse::<IpAddr>().is_ok() || is_local || name.ends_with(".localhost") || names.contains(&name)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: Option<&str>, origin: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let names = ["gateway.internal".to_owned()];
        let judged = judge(Version::HTTP_11, &Uri::from_static("/v1/targets"), &headers, &names);
        judged.map_or_else(|error| error.status(), |()| 200)
    }

    #[test]
    fn hosts_that_are_this_port_are_allowed() {
        for host in [
            "127.0.0.1:8788",
            "10.1.2.3",
            "[::1]:8788",
            "[fe80::1]",
            "localhost:8788",
            "LOCALHOST",
            "a.localhost.:1",
            "gateway.internal:8788",
            "Gateway.Internal.",
            "turnpike:8788",
        ] {
            assert_eq!(status(Some(host), None), 200, "{host}");
        }
        for host in [
            "evil.example:8788",
            "gateway.internal.evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[evil.example]",
            "[::1].evil.example",
            "[::1]:80.evil.example",
            "",
            "evil@x",
            "127.0.0.1@evil.example",
        ] {
            assert_eq!(status(Some(host), None), 403, "{host}");
        }
        assert_eq!(status(None, None), 400);
    }

    #[test]
    fn only_the_ports_own_origin_is_allowed() {
        let host = Some("localhost:8788");
        for origin in ["http://localhost:8788", "https://LOCALHOST:8788"] {
            assert_eq!(status(host, Some(origin)), 200, "{origin}");
        }
        for origin in
            ["null", "http://localhost:3000", "http://localhost", "https://evil.example", "file://", ""]
        {
            assert_eq!(status(host, Some(origin)), 403, "{origin}");
        }
    }

    #[test]
    fn over_http_2_the_host_is_in_the_uri() {
        let judged = |uri: &'static str| {
            judge(Version::HTTP_2, &Uri::from_static(uri), &HeaderMap::new(), &[]).is_ok()
        };
        assert!(judged("http://127.0.0.1:8788/metrics") && !judged("http://evil.example:8788/metrics"));
    }
}
