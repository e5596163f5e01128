//! How a request came to a control route: under which address the client knows the gateway, and what it can read.
//!
//! Only for what is sent back to that client; nothing is decided by it.

use http::header::{ACCEPT, ACCEPT_ENCODING, HOST};
use http::{HeaderMap, Uri};

/// The longest name of a host (RFC 1035) with a port.
const MAX_HOST: usize = 262;

/// What a client's request says of its way here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The beginning of absolute links, `https://gateway.example.com`; empty where the request does not tell.
    pub base: String,
    pub is_at_control_port: bool,
    pub accepts_gzip: bool,
    /// It reads OpenMetrics, and likes it no less than plain text.
    pub prefers_open_metrics: bool,
}

impl Arrival {
    /// `has_tls`: whether clients of this port connect with TLS.
    pub fn of(headers: &HeaderMap, uri: &Uri, has_tls: bool) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST.as_str()).or_else(|| uri.authority().map(http::uri::Authority::as_str));
        let is_host = |host: &&str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
            !host.is_empty() && host.len() <= MAX_HOST && host.bytes().all(is_part)
        };
        // A proxy before the gateway ends TLS and says so.
        let forwarded = text("x-forwarded-proto").and_then(|all| all.split(',').next()).map(str::trim);
        let scheme = match forwarded {
            Some("https") => "https",
            Some("http") => "http",
            _ if has_tls => "https",
            _ => "http",
        };
        let encodings = text(ACCEPT_ENCODING.as_str()).unwrap_or_default();
        Self {
            base: host.filter(is_host).map(|host| format!("{scheme}://{host}")).unwrap_or_default(),
            prefers_open_metrics: prefers_open_metrics(text(ACCEPT.as_str()).unwrap_or_default()),
            accepts_gzip: encodings.split(',').any(is_gzip),
            is_at_control_port: false,
        }
    }
}

/// Whether `Accept` lists OpenMetrics with no less weight than plain text.
fn prefers_open_metrics(accept: &str) -> bool {
    let weight = |wanted: &str| {
        let items = accept.split(',').map(|item| item.split(';').map(str::trim));
        let weights = items.filter_map(|mut parts| {
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
            is_it.then_some(weight.unwrap_or(1.0))
        });
        weights.fold(0.0, f64::max)
    };
    let open_metrics = weight("application/openmetrics-text");
    open_metrics > 0.0 && open_metrics >= weight("text/plain")
}

/// Whether an item of `Accept-Encoding` is gzip, and not refused.
fn is_gzip(item: &str) -> bool {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let is_refused = parts.any(|part| {
        part.strip_prefix("q=")
            .and_then(|weight| weight.parse::<f64>().ok())
            .is_some_and(|weight| weight <= 0.0)
    });
    name.eq_ignore_ascii_case("gzip") && !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(pairs: &[(&'static str, &str)], has_tls: bool) -> Arrival {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        Arrival::of(&headers, &Uri::from_static("/v1/logs"), has_tls)
    }

    #[test]
    fn links_begin_as_the_client_wrote_the_address() {
        for (pairs, has_tls, base) in [
            (&[("host", "gateway.example.com:8787")][..], false, "http://gateway.example.com:8787"),
            (&[("host", "[::1]:8787")], true, "https://[::1]:8787"),
            (&[("host", "a.example"), ("x-forwarded-proto", "https, http")], false, "https://a.example"),
            (&[("host", "a.example"), ("x-forwarded-proto", "ftp")], false, "http://a.example"),
            (&[("host", "a.example/x?y=")], false, ""),
            (&[], true, ""),
        ] {
            assert_eq!(arrival(pairs, has_tls).base, base, "{pairs:?}");
        }
    }

    #[test]
    fn open_metrics_are_sent_to_scrapers_that_prefer_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, wanted) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("text/plain, application/openmetrics-text;q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(arrival(&[("accept", accept)], false).prefers_open_metrics, wanted, "{accept}");
        }
    }

    #[test]
    fn gzip_is_sent_to_those_who_read_it() {
        for (encodings, wanted) in
            [("gzip", true), ("br, GZIP;q=0.5", true), ("gzip;q=0", false), ("br", false), ("", false)]
        {
            assert_eq!(arrival(&[("accept-encoding", encodings)], false).accepts_gzip, wanted, "{encodings}");
        }
    }
}
