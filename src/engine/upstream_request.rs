//! What the provider is sent: the peer, the request head with the provider's auth headers, the body.
//!
//! The one place where a provider's peer is chosen and the one where its auth headers are written, for
//! requests that go direct and for attempts alike.

use super::Engine;
use super::header_edit::{self, HeaderCase, edit_request_headers};
use super::request_context::{AttemptHandle, RequestContext};
use super::{credentials, failure};
use crate::api::connection_header;
use crate::api::operation::BodyKind;
use crate::config::headers::is_gateway_header;
use crate::error::Error;
use crate::net::outbound::peer::{PeerOptions, Protocol};
use crate::state::Shared;
use crate::state::snapshot::SettingsSnapshot;
use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::Result;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::Session;
use std::time::{Duration, Instant};

/// Caller headers that stop here unless `forward_headers` names them: credentials of other shapes, cookies,
/// and what a proxy before us said about the caller.
const STRIPPED: [&str; 13] = [
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
    "x-real-ip",
];

/// Headers of one hop: between the caller and us, or between us and the provider.
const HOP_BY_HOP: [&str; 10] = [
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

/// The peer of the next try: the first checked address, then the others. `is_upgrade`: protocols are switched.
///
/// # Errors
/// No address may be connected to.
pub(crate) async fn peer(
    shared: &Shared,
    handle: &AttemptHandle,
    snapshot: &SettingsSnapshot,
    is_upgrade: bool,
) -> std::result::Result<Box<HttpPeer>, Error> {
    let target = &handle.attempt.target;
    if handle.state.read(|state| state.addresses.is_empty()) {
        handle.state.update(|state| {
            state.sent_at.get_or_insert_with(Instant::now);
        });
        match shared.dns.addresses(&target.origin, &snapshot.hosts).await {
            Ok(found) => handle.state.update(|state| state.addresses = found.iter().collect()),
            Err(why) => return Err(failure::dns_error(target, why)),
        }
    }
    let limits = &snapshot.settings.limits;
    let connect = match target.time_limits.connect {
        Some(ms) if ms > 0 => Duration::from_millis(ms),
        _ => limits.connect_timeout,
    };
    let bypass_pool = handle.state.read(|state| state.bypass_pool);
    let peer_options = PeerOptions {
        // Nothing is pooled under this key: the connection is a new one.
        tenant: u64::from(bypass_pool),
        protocol: if is_upgrade { Protocol::H1 } else { Protocol::H2H1 },
        connect_timeout: connect,
        total_connect_timeout: connect * 2,
        read_timeout: Some(limits.upstream_read_timeout),
        write_timeout: Some(limits.write_timeout),
        idle_timeout: if bypass_pool { Duration::ZERO } else { limits.upstream_idle_timeout },
        ..PeerOptions::default()
    };
    let address = handle.state.take_address().ok_or_else(|| Error::internal("no address to connect to"))?;
    Ok(Box::new(shared.peer_limit.peer(&target.origin, address, &peer_options, Instant::now())))
}

/// Of a request that goes direct.
pub(crate) async fn direct_peer(
    engine: &Engine,
    session: &Session,
    ctx: &mut RequestContext,
) -> Result<Box<HttpPeer>> {
    let (Some(handle), Some(snapshot)) = (&ctx.attempt_handle, &ctx.snapshot) else {
        return Err(failure::fail_request(ctx, Error::internal("no attempt to make")));
    };
    let found = peer(&engine.shared, handle, snapshot, session.is_upgrade_req()).await;
    found.map_err(|error| failure::fail_request(ctx, error))
}

/// Of a request that goes direct: Pingora has copied the caller's head, and taken off what stops at each hop.
pub(crate) fn direct_header(
    session: &Session,
    request: &mut RequestHeader,
    ctx: &mut RequestContext,
) -> Result<()> {
    let (Some(handle), Some(snapshot)) = (&ctx.attempt_handle, &ctx.snapshot) else {
        return Err(failure::fail_request(ctx, Error::internal("no attempt to make")));
    };
    let is_upgrade = session.is_upgrade_req();
    let case = HeaderCase::for_request(ctx, &handle.attempt.target, is_upgrade);
    let counts_tokens = ctx.operation.body_kind() == BodyKind::Json && !is_upgrade;
    let framing = match &handle.attempt.body {
        Some(body) if handle.attempt.body_changed => Framing::Length(body.len()),
        _ => Framing::Preserved,
    };
    let upstream_headers = UpstreamHeaders { handle, snapshot, case, framing, counts_tokens };
    upstream_headers.apply(request).map_err(|error| failure::fail_request(ctx, error))
}

/// The head of an attempt, from the caller's. `is_live`: its body is the caller's, as it comes in.
///
/// # Errors
/// A path that is none at the provider; what the provider says about the account.
pub(crate) fn attempt_header(
    client_header: &RequestHeader,
    ctx: &RequestContext,
    handle: &AttemptHandle,
    snapshot: &SettingsSnapshot,
    streams_body: bool,
) -> std::result::Result<RequestHeader, Error> {
    let case = HeaderCase::for_request(ctx, &handle.attempt.target, false);
    let mut header = copy_header(client_header, case);
    let removed = hop_by_hop_names(&header.headers);
    if !removed.is_empty() {
        edit_request_headers(&mut header, case, |headers| {
            for name in &removed {
                headers.remove(name);
            }
        });
    }
    let counts_tokens = ctx.operation.body_kind() == BodyKind::Json;
    let framing = match &handle.attempt.body {
        Some(body) => Framing::Length(body.len()),
        None if streams_body && !client_header.headers.contains_key(header::CONTENT_LENGTH) => {
            Framing::Chunked
        }
        None => Framing::Preserved,
    };
    UpstreamHeaders { handle, snapshot, case, framing, counts_tokens }.apply(&mut header)?;
    Ok(header)
}

/// The caller's head, to be edited.
fn copy_header(client_header: &RequestHeader, case: HeaderCase) -> RequestHeader {
    if case == HeaderCase::Preserved {
        return client_header.clone();
    }
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = client_header.method.clone();
    parts.headers = client_header.headers.clone();
    RequestHeader::from(parts)
}

/// The headers of one hop (RFC 9110, 7.6.1): the known ones, and those the caller's `Connection` names.
fn hop_by_hop_names(headers: &HeaderMap) -> Vec<HeaderName> {
    let hop_by_hop = headers.keys().filter(|name| HOP_BY_HOP.contains(&name.as_str())).cloned();
    hop_by_hop
        .chain(connection_header::names(headers).filter_map(|name| HeaderName::from_bytes(name).ok()))
        .collect()
}

/// How the end of a body is told.
enum Framing {
    Preserved,
    /// By its length, bytes.
    Length(usize),
    Chunked,
}

/// How a caller's head becomes the provider's.
struct UpstreamHeaders<'a> {
    handle: &'a AttemptHandle,
    snapshot: &'a SettingsSnapshot,
    case: HeaderCase,
    framing: Framing,
    /// Tokens are counted as the answer passes; they cannot be read through a compression.
    counts_tokens: bool,
}

impl UpstreamHeaders<'_> {
    /// Path, host, keys: ours come off, theirs go on.
    fn apply(&self, request: &mut RequestHeader) -> std::result::Result<(), Error> {
        let attempt = &self.handle.attempt;
        let target = &attempt.target;
        let Ok(uri) = http::Uri::try_from(attempt.path.as_str()) else {
            return Err(Error::bad_request(format!("{:?} is no valid path at the provider.", attempt.path)));
        };
        request.set_uri(uri);
        let method = request.method.clone();
        let mut signed = Ok(());
        edit_request_headers(request, self.case, |headers| {
            strip(headers, &target.forward_headers, self.snapshot);
            header_edit::insert_str(headers, header::HOST, target.origin.authority());
            // Before the provider's defaults are in: what counts is what the caller sent.
            let vendor_headers = attempt.vendor_headers.merge_over(headers);
            for (name, value) in attempt.auth.iter() {
                // A key is the gateway's to write; a version the caller asked for is its own.
                if value.is_sensitive() || !headers.contains_key(name) {
                    headers.insert(name, value.clone());
                }
            }
            headers.extend(vendor_headers);
            match self.framing {
                Framing::Preserved => {}
                Framing::Length(length) => {
                    headers.remove(header::TRANSFER_ENCODING);
                    headers.insert(header::CONTENT_LENGTH, length.into());
                }
                Framing::Chunked => {
                    headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                }
            }
            let uncompressed = self.counts_tokens || attempt.translation.is_some();
            if uncompressed && headers.contains_key(header::ACCEPT_ENCODING) {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            headers.remove(header::EXPECT);
            signed = credentials::sign(&method, headers, self.handle);
        });
        signed
    }
}

/// Takes off what is ours and what stops here.
fn strip(headers: &mut HeaderMap, forwarded: &[HeaderName], snapshot: &SettingsSnapshot) {
    let removed: Vec<HeaderName> =
        headers.keys().filter(|name| is_stripped(headers, name, forwarded, snapshot)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Whether a header goes no further. The names of what forwards under its own name do, unless they hold a
/// service key: that goes to nobody.
fn is_stripped(
    headers: &HeaderMap,
    name: &HeaderName,
    forwarded: &[HeaderName],
    snapshot: &SettingsSnapshot,
) -> bool {
    if is_gateway_header(name, &snapshot.settings.header_prefixes) {
        return true;
    }
    let shows_key =
        || headers.get_all(name).iter().any(|value| snapshot.service_keys.name_in(value).is_some());
    STRIPPED.contains(&name.as_str()) && (!forwarded.contains(name) || shows_key())
}

/// Replaces the caller's body by the attempt's, when the two differ (direct requests replay what was read).
pub(crate) fn request_body(body: &mut Option<Bytes>, end: bool, ctx: &mut RequestContext) {
    let Some(handle) = &ctx.attempt_handle else { return };
    match &handle.attempt.body {
        Some(attempt_body) if handle.attempt.body_changed => *body = end.then(|| attempt_body.clone()),
        Some(_) => {}
        None => ctx.record.bytes_in += body.as_ref().map_or(0, |chunk| chunk.len() as u64),
    }
}

/// Notes that the answer began.
pub(crate) fn mark_response_header(response: &ResponseHeader, handle: &AttemptHandle) {
    handle.state.update(|state| {
        state.header_at = Some(Instant::now());
        state.status = Some(response.status.as_u16());
    });
}

/// Notes that the answer is all there.
pub(crate) fn mark_response_end(handle: &AttemptHandle) {
    handle.state.update(|state| state.ended_at = Some(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(connection: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-kept", HeaderValue::from_static("1"));
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        for value in connection {
            headers.append(header::CONNECTION, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_named_by_connection_are_removed() {
        let removed = hop_by_hop_names(&headers(&["close, X-Own", "keep-alive"]));
        for name in ["te", "connection", "x-own", "keep-alive"] {
            assert!(removed.iter().any(|removed| removed == name), "{name}");
        }
        assert!(!removed.iter().any(|removed| removed == "x-kept"));
    }
}
