//! What the provider is sent: the peer, the request head with the provider's auth headers, the body.
//!
//! The one place where a provider's peer is chosen and the one where its auth headers are written, for
//! requests that go direct and for attempts alike.

use super::Gateway;
use super::ctx::{Ctx, Errand};
use super::head::{self, Names, edit_request};
use super::{authorize, failure};
use crate::api::operation::BodyKind;
use crate::config::headers::is_gateway_header;
use crate::error::Error;
use crate::net::peer::{Dial, Protocol};
use crate::state::Shared;
use crate::state::live::Live;
use crate::state::who;
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
const STOPPED: [&str; 13] = [
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

/// Headers that no caller may have taken off by naming them in `Connection`.
const KEPT: [&str; 4] = ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Headers of one hop: between the caller and us, or between us and the provider.
const ONE_HOP: [&str; 10] = [
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
pub(super) async fn peer(
    shared: &Shared,
    errand: &Errand,
    live: &Live,
    is_upgrade: bool,
) -> std::result::Result<Box<HttpPeer>, Error> {
    let leaf = &errand.attempt.leaf;
    if errand.marks.read(|noted| noted.addresses.is_empty()) {
        errand.marks.note(|noted| {
            noted.begun.get_or_insert_with(Instant::now);
        });
        match shared.dns.addresses(&leaf.origin, &live.hosts).await {
            Ok(found) => errand.marks.note(|noted| noted.addresses = found.iter().collect()),
            Err(why) => return Err(failure::no_address(leaf, why)),
        }
    }
    let limits = &live.settings.limits;
    let connect = match leaf.time_limits.connect {
        Some(ms) if ms > 0 => Duration::from_millis(ms),
        _ => limits.connect_timeout,
    };
    let fresh = errand.marks.read(|noted| noted.fresh);
    let dial = Dial {
        // Nothing is pooled under this key: the connection is a new one.
        tenant: u64::from(fresh),
        protocol: if is_upgrade { Protocol::H1 } else { Protocol::H2H1 },
        connect,
        total_connect: connect * 2,
        read: Some(limits.upstream_read_timeout),
        write: Some(limits.write_timeout),
        idle: if fresh { Duration::ZERO } else { limits.upstream_idle_timeout },
        ..Dial::default()
    };
    let address = errand.marks.take_address().ok_or_else(|| Error::internal("no address to connect to"))?;
    Ok(Box::new(shared.peers.peer(&leaf.origin, address, &dial, Instant::now())))
}

/// Of a request that goes direct.
pub(super) async fn direct_peer(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut Ctx,
) -> Result<Box<HttpPeer>> {
    let (Some(errand), Some(live)) = (&ctx.errand, &ctx.live) else {
        return Err(failure::of_ours(ctx, Error::internal("no attempt to make")));
    };
    let found = peer(&gateway.shared, errand, live, session.is_upgrade_req()).await;
    found.map_err(|error| failure::of_ours(ctx, error))
}

/// Of a request that goes direct: Pingora has copied the caller's head, and taken off what stops at each hop.
pub(super) fn direct_head(session: &Session, request: &mut RequestHeader, ctx: &mut Ctx) -> Result<()> {
    let (Some(errand), Some(live)) = (&ctx.errand, &ctx.live) else {
        return Err(failure::of_ours(ctx, Error::internal("no attempt to make")));
    };
    let is_upgrade = session.is_upgrade_req();
    let names = Names::of_request(ctx, &errand.attempt.leaf, is_upgrade);
    let counts_tokens = ctx.operation.body_kind() == BodyKind::Json && !is_upgrade;
    let framed = match &errand.attempt.body {
        Some(body) if errand.attempt.body_changed => Framed::By(body.len()),
        _ => Framed::AsItCame,
    };
    let rewriting = Rewriting { errand, live, names, framed, counts_tokens };
    rewriting.apply(request).map_err(|error| failure::of_ours(ctx, error))
}

/// The head of an attempt, from the caller's. `is_live`: its body is the caller's, as it comes in.
///
/// # Errors
/// A path that is none at the provider; what the provider says about the account.
pub(super) fn attempt_head(
    caller: &RequestHeader,
    ctx: &Ctx,
    errand: &Errand,
    live: &Live,
    is_live: bool,
) -> std::result::Result<RequestHeader, Error> {
    let names = Names::of_request(ctx, &errand.attempt.leaf, false);
    let mut head = copy(caller, names);
    let gone = stopping_here(&head.headers);
    if !gone.is_empty() {
        edit_request(&mut head, names, |headers| {
            for name in &gone {
                headers.remove(name);
            }
        });
    }
    let counts_tokens = ctx.operation.body_kind() == BodyKind::Json;
    let framed = match &errand.attempt.body {
        Some(body) => Framed::By(body.len()),
        None if is_live && !caller.headers.contains_key(header::CONTENT_LENGTH) => Framed::InChunks,
        None => Framed::AsItCame,
    };
    Rewriting { errand, live, names, framed, counts_tokens }.apply(&mut head)?;
    Ok(head)
}

/// The caller's head, to be edited.
fn copy(caller: &RequestHeader, names: Names) -> RequestHeader {
    if names == Names::Spelled {
        return caller.clone();
    }
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method = caller.method.clone();
    parts.headers = caller.headers.clone();
    RequestHeader::from(parts)
}

/// The headers of one hop (RFC 9110, 7.6.1): the known ones, and those the caller's `Connection` names.
fn stopping_here(headers: &HeaderMap) -> Vec<HeaderName> {
    let known = headers.keys().filter(|name| ONE_HOP.contains(&name.as_str())).cloned();
    known.chain(named(headers).filter_map(|name| HeaderName::from_bytes(name).ok())).collect()
}

/// Whether `Connection` names only what headers can be called, and nothing that must not be taken off.
///
/// # Errors
/// 400 with the name.
pub(super) fn check_hop(headers: &HeaderMap) -> std::result::Result<(), Error> {
    let is_proper =
        |name: &&[u8]| HeaderName::from_bytes(name).is_ok_and(|name| !KEPT.contains(&name.as_str()));
    match named(headers).find(|name| !is_proper(name)) {
        Some(name) => {
            Err(Error::malformed_http(format!("Connection names {:?}", name.escape_ascii().to_string())))
        }
        None => Ok(()),
    }
}

fn named(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(header::CONNECTION).into_iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

/// How the end of a body is told.
enum Framed {
    AsItCame,
    /// By its length, bytes.
    By(usize),
    InChunks,
}

/// How a caller's head becomes the provider's.
struct Rewriting<'a> {
    errand: &'a Errand,
    live: &'a Live,
    names: Names,
    framed: Framed,
    /// Tokens are counted as the answer passes; they cannot be read through a compression.
    counts_tokens: bool,
}

impl Rewriting<'_> {
    /// Path, host, keys: ours come off, theirs go on.
    fn apply(&self, request: &mut RequestHeader) -> std::result::Result<(), Error> {
        let attempt = &self.errand.attempt;
        let leaf = &attempt.leaf;
        let Ok(uri) = http::Uri::try_from(attempt.path.as_str()) else {
            return Err(Error::bad_request(format!("{:?} is no valid path at the provider.", attempt.path)));
        };
        request.set_uri(uri);
        let method = request.method.clone();
        let mut signed = Ok(());
        edit_request(request, self.names, |headers| {
            strip(headers, &leaf.forward_headers, self.live);
            head::put(headers, header::HOST, leaf.origin.authority());
            // Before the provider's defaults are in: what counts is what the caller sent.
            let asked = attempt.asked.over(headers);
            for (name, value) in attempt.auth.iter() {
                // A key is the gateway's to write; a version the caller asked for is its own.
                if value.is_sensitive() || !headers.contains_key(name) {
                    headers.insert(name, value.clone());
                }
            }
            headers.extend(asked);
            match self.framed {
                Framed::AsItCame => {}
                Framed::By(length) => {
                    headers.remove(header::TRANSFER_ENCODING);
                    headers.insert(header::CONTENT_LENGTH, length.into());
                }
                Framed::InChunks => {
                    headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                }
            }
            let uncompressed = self.counts_tokens || attempt.translation.is_some();
            if uncompressed && headers.contains_key(header::ACCEPT_ENCODING) {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            headers.remove(header::EXPECT);
            signed = authorize::sign(&method, headers, self.errand);
        });
        signed
    }
}

/// Takes off what is ours and what stops here.
fn strip(headers: &mut HeaderMap, forwarded: &[HeaderName], live: &Live) {
    let gone: Vec<HeaderName> =
        headers.keys().filter(|name| stops(headers, name, forwarded, live)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

/// Whether a header goes no further. The names of what forwards under its own name do, unless they hold a
/// service key: that goes to nobody.
fn stops(headers: &HeaderMap, name: &HeaderName, forwarded: &[HeaderName], live: &Live) -> bool {
    if is_gateway_header(name, &live.settings.header_prefixes) {
        return true;
    }
    let shows_key = || headers.get_all(name).iter().any(|value| who::key_in(value, live).is_some());
    STOPPED.contains(&name.as_str()) && (!forwarded.contains(name) || shows_key())
}

/// Replaces the caller's body by the attempt's, when the two differ (direct requests replay what was read).
pub(super) fn request_body(body: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) {
    let Some(errand) = &ctx.errand else { return };
    match &errand.attempt.body {
        Some(ours) if errand.attempt.body_changed => *body = end.then(|| ours.clone()),
        Some(_) => {}
        None => ctx.record.bytes_in += body.as_ref().map_or(0, |chunk| chunk.len() as u64),
    }
}

/// Notes that the answer began.
pub(super) fn answer_head(answer: &ResponseHeader, errand: &Errand) {
    errand.marks.note(|marks| {
        marks.head = Some(Instant::now());
        marks.status = Some(answer.status.as_u16());
    });
}

/// Notes that the answer is all there.
pub(super) fn answer_body(errand: &Errand) {
    errand.marks.note(|marks| marks.ended = Some(Instant::now()));
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
    fn what_connection_names_stops_here() {
        let gone = stopping_here(&headers(&["close, X-Own", "keep-alive"]));
        for name in ["te", "connection", "x-own", "keep-alive"] {
            assert!(gone.iter().any(|gone| gone == name), "{name}");
        }
        assert!(!gone.iter().any(|gone| gone == "x-kept"));
    }

    #[test]
    fn connection_cannot_name_everything() {
        for proper in [&[][..], &["close"], &["keep-alive, x-own,", ""], &["Upgrade"]] {
            assert!(check_hop(&headers(proper)).is_ok(), "{proper:?}");
        }
        for improper in ["host", "close, X-Forwarded-For", "a b", ":authority", "\"x\""] {
            assert_eq!(check_hop(&headers(&[improper])).unwrap_err().status(), 400, "{improper}");
        }
    }
}
