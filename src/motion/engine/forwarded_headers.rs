//! Which of the client's headers a provider gets: not the gateway's own, nor hop-by-hop headers, credentials, and values with a service key.
//!
//! What is added to them is `upstream_headers`'s; the cache's key has what is sent.

use http::header;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use memory::auth::KeySearch;
use memory::state::snapshot::SettingsSnapshot;
use words::api::connection_header;
use words::config::headers::is_gateway_header;

/// Client headers that are not forwarded unless `forward_headers` names them: credentials, cookies, and what a proxy in
/// front of us wrote about the client: where it is, under the names that vendors of proxies give that.
pub(super) const STRIPPED: [&str; 27] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-amz-security-token",
    "x-amz-date",
    "x-amz-content-sha256",
    "cookie",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
    "x-azure-clientip",
    "x-envoy-external-address",
    "x-appengine-user-ip",
    "cloudfront-viewer-address",
];

/// Hop-by-hop headers: they concern only the connection between the client and us, or between us and the provider.
pub(super) const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Calls `each` with the client's headers that a provider gets. `named`: those of `forward_headers`.
pub(super) fn each_forwarded<'h>(
    client: &'h HeaderMap,
    uri: &Uri,
    named: &[HeaderName],
    snapshot: &SettingsSnapshot,
    mut each: impl FnMut(&'h HeaderName, &'h HeaderValue),
) {
    let has_connection = client.contains_key(header::CONNECTION);
    let search = KeySearch::new(client, uri, &snapshot.service_keys);
    let mut last = None;
    for (name, value) in client {
        // The map yields all values of one name in a row.
        let (passes, is_credential) = match last {
            Some((before, judged)) if before == name => judged,
            _ => {
                let ends_here = HOP_BY_HOP.contains(&name.as_str())
                    || has_connection && is_named_by_connection(client, name);
                let is_credential = STRIPPED.contains(&name.as_str());
                let is_forwarded = !is_gateway_header(name, &snapshot.settings.header_prefixes)
                    && (!is_credential || named.contains(name));
                (!ends_here && is_forwarded, is_credential)
            }
        };
        last = Some((name, (passes, is_credential)));
        if passes && !holds_key(value, is_credential, &search) {
            each(name, value);
        }
    }
}

fn is_named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    connection_header::names(headers).any(|named| named.eq_ignore_ascii_case(name.as_str().as_bytes()))
}

/// Whether a value contains a service key. Such a value is not forwarded, whether `forward_headers` names it or not.
pub(super) fn holds_key(value: &HeaderValue, is_credential: bool, search: &KeySearch<'_>) -> bool {
    if is_credential { search.is_in_credentials(value) } else { search.is_in(value) }
}
