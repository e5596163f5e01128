//! What the provider is sent: the peer, the request head with the provider's auth headers, the body.
//!
//! The one place where a provider's peer is chosen and the one where its auth headers are written, for
//! requests that go direct and for attempts alike.

use super::Gateway;
use super::ctx::{Ctx, Errand};
use super::head::{self, Names, edit_request};
use super::{authorize, failure};
use crate::api::operation::{BodyKind, Operation};
use crate::config::headers::is_ours;
use crate::error::Error;
use crate::net::peer::{Dial, Protocol};
use crate::state::live::Live;
use crate::state::who;
use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::Result;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::Session;
use std::sync::Arc;
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

/// On a subrequest's session: takes over the errand it was made for.
pub(super) fn take_errand(session: &mut Session, ctx: &mut Ctx) {
    let Some(parent) = session.subrequest_ctx.as_mut().and_then(|parent| parent.user_ctx_mut()) else {
        return;
    };
    let Some(passed) = parent.downcast_mut::<Passed>() else { return };
    ctx.is_attempt = true;
    ctx.operation = passed.operation;
    ctx.is_proxied = passed.is_proxied;
    ctx.live = passed.live.take();
    if let Some(body) = &passed.errand.attempt.body {
        // The body was read and perhaps edited: the head must say how long it is now.
        let names = Names::of_request(ctx, &passed.errand.attempt.leaf, false);
        let head = session.downstream_session.req_header_mut();
        edit_request(head, names, |headers| frame(headers, body.len()));
    }
    ctx.errand = Some(passed.errand.clone());
}

/// What a caller's session hands to the subrequest of an attempt.
pub(super) struct Passed {
    pub errand: Errand,
    pub operation: Operation,
    pub is_proxied: bool,
    pub live: Option<Arc<Live>>,
}

fn frame(headers: &mut HeaderMap, length: usize) {
    headers.remove(header::TRANSFER_ENCODING);
    headers.insert(header::CONTENT_LENGTH, length.into());
}

/// The peer of the next try: the first checked address, then the others.
pub(super) async fn peer(gateway: &Gateway, session: &Session, ctx: &mut Ctx) -> Result<Box<HttpPeer>> {
    let (Some(errand), Some(live)) = (&ctx.errand, &ctx.live) else {
        return Err(failure::of_ours(ctx, Error::internal("no attempt to make")));
    };
    let leaf = &errand.attempt.leaf;
    if errand.marks.read(|noted| noted.addresses.is_empty()) {
        errand.marks.note(|noted| {
            noted.begun.get_or_insert_with(Instant::now);
        });
        match gateway.shared.dns.addresses(&leaf.origin, &live.hosts).await {
            Ok(found) => errand.marks.note(|noted| noted.addresses = found.iter().collect()),
            Err(why) => {
                let error = failure::no_address(leaf, why);
                return Err(failure::of_ours(ctx, error));
            }
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
        protocol: if session.is_upgrade_req() { Protocol::H1 } else { Protocol::H2H1 },
        connect,
        total_connect: connect * 2,
        read: Some(limits.upstream_read_timeout),
        write: Some(limits.write_timeout),
        idle: if fresh { Duration::ZERO } else { limits.upstream_idle_timeout },
        ..Dial::default()
    };
    let address = errand.marks.take_address();
    let Some(address) = address else {
        return Err(failure::of_ours(ctx, Error::internal("no address to connect to")));
    };
    Ok(Box::new(gateway.shared.peers.peer(&leaf.origin, address, &dial, Instant::now())))
}

/// Rewrites the caller's head into the provider's: path, host, keys; ours come off, theirs go on.
pub(super) fn request_head(session: &Session, request: &mut RequestHeader, ctx: &mut Ctx) -> Result<()> {
    let (Some(errand), Some(live)) = (&ctx.errand, &ctx.live) else {
        return Err(failure::of_ours(ctx, Error::internal("no attempt to make")));
    };
    let attempt = &errand.attempt;
    let leaf = &attempt.leaf;
    let Ok(uri) = http::Uri::try_from(attempt.path.as_str()) else {
        let error = Error::bad_request(format!("{:?} is no valid path at the provider.", attempt.path));
        return Err(failure::of_ours(ctx, error));
    };
    request.set_uri(uri);
    let counts_tokens = ctx.operation.body() == BodyKind::Json && !session.is_upgrade_req();
    let method = request.method.clone();
    let mut signed = Ok(());
    edit_request(request, Names::of_request(ctx, leaf, session.is_upgrade_req()), |headers| {
        strip(headers, &leaf.forward_headers, live);
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
        if let (Some(body), true) = (&attempt.body, attempt.body_changed || ctx.is_attempt) {
            frame(headers, body.len());
        }
        if (counts_tokens || attempt.translation.is_some()) && headers.contains_key(header::ACCEPT_ENCODING) {
            // Tokens are counted as the answer passes; they cannot be read through a compression.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        headers.remove(header::EXPECT);
        signed = authorize::sign(&method, headers, errand);
    });
    signed.map_err(|error| failure::of_ours(ctx, error))
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
    if is_ours(name, &live.settings.header_prefixes) {
        return true;
    }
    let shows_key = || headers.get_all(name).iter().any(|value| who::key_in(value, live).is_some());
    STOPPED.contains(&name.as_str()) && (!forwarded.contains(name) || shows_key())
}

/// Replaces the caller's body by the attempt's, when the two differ (direct requests replay what was read).
pub(super) fn request_body(body: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) {
    let Some(errand) = &ctx.errand else { return };
    if ctx.is_attempt {
        return;
    }
    match &errand.attempt.body {
        Some(ours) if errand.attempt.body_changed => *body = end.then(|| ours.clone()),
        Some(_) => {}
        None => ctx.record.bytes_in += body.as_ref().map_or(0, |chunk| chunk.len() as u64),
    }
}

pub(super) fn answer_head(answer: &ResponseHeader, ctx: &Ctx) {
    if let Some(errand) = &ctx.errand {
        errand.marks.note(|marks| {
            marks.head = Some(Instant::now());
            marks.status = Some(answer.status.as_u16());
        });
    }
}

pub(super) fn answer_body(end: bool, ctx: &Ctx) {
    if let (Some(errand), true) = (&ctx.errand, end) {
        errand.marks.note(|marks| marks.ended = Some(Instant::now()));
    }
}
