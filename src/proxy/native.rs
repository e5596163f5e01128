//! The hooks for requests that Pingora proxies natively: those whose body need not be read, and upgrades.
//!
//! Peer and header are chosen by the same functions as for the engine's attempts; nothing about providers is decided
//! here.

use super::downstream::PingoraDownstream;
use bytes::Bytes;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, StatusCode};
use judgment::route::admission::is_sent_with_body;
use knowledge::provider::credential_mask::MaskedBody;
use memory::auth::KEY_PROTOCOL;
use motion::engine::body_pace::UploadPace;
use motion::engine::credentials;
use motion::engine::header_edit::{HeaderCase, edit_request_headers, mask_headers, withheld};
use motion::engine::limit_holds::HeldAttempt;
use motion::engine::peer_selection::PeerSelection;
use motion::engine::request_context::RequestContext;
use motion::engine::upstream_headers::UpstreamHeaders;
use motion::engine::{Engine, error_response, failure, response_headers};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use pingora_proxy::{FailToProxy, Session};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;
use words::api::operation::Operation;
use words::error::Error;

/// The type of the Pingora error that our hooks return; the real error is in the context.
const GATEWAY_ERROR: ErrorType = ErrorType::new("GatewayError");

/// The subprotocol of OpenAI's realtime API.
const REALTIME_PROTOCOL: &str = "realtime";

/// The context of one request in Pingora's phases.
pub struct Ctx {
    pub(super) request: RequestContext,
    peers: PeerSelection,
    /// Masks the gateway's credentials in a failing response.
    masked: Option<Box<MaskedBody>>,
    /// Of the client's body, once a part of it has arrived, and when the last one was sent on.
    upload: Option<(UploadPace, Instant)>,
    /// What a realtime session is set to by the token that opens it.
    pub(super) preset: Option<Map<String, Value>>,
}

impl Ctx {
    pub(super) fn new(engine: &Engine) -> Self {
        let request = RequestContext::new(&engine.shared);
        Self { request, peers: PeerSelection::default(), masked: None, upload: None, preset: None }
    }
}

/// Notes an error in the context, and returns one that makes Pingora stop.
pub(super) fn fail_request(ctx: &mut RequestContext, error: Error) -> Box<PingoraError> {
    ctx.failure = Some(error);
    stopped()
}

/// An error that makes Pingora stop; the reason is in the context.
pub(super) fn stopped() -> Box<PingoraError> {
    PingoraError::explain(GATEWAY_ERROR, "see the access line")
}

/// Prepares Pingora to proxy an attempt.
///
/// # Errors
/// Its credentials are not available.
pub(super) async fn start(
    engine: &Engine,
    session: &mut Session,
    ctx: &mut Ctx,
    held: HeldAttempt,
) -> std::result::Result<(), Error> {
    let mut attempt = held.into_native();
    let is_upgrade = session.is_upgrade_req();
    let request = &mut ctx.request;
    attempt.trace_parent = request.span.of_attempt(&engine.shared);
    let case = HeaderCase::for_request(request, &attempt.target, is_upgrade);
    // Pingora copies the client's header. An absolute request-target must stay as it is, and an edit would lose it.
    if case == HeaderCase::Lower && session.req_header().raw_path().starts_with(b"/") {
        edit_request_headers(session.req_header_mut(), case, |_| {});
    }
    // Only for upgrades: any other attempt that needs credentials goes through the engine.
    let has_body = is_sent_with_body(&session.req_header().headers);
    let authorized = credentials::authorize_upgrade(&engine.shared, request, &mut attempt, has_body).await;
    request.facts.attempt = Some(Arc::from(attempt));
    authorized
}

pub(super) async fn upstream_peer(
    engine: &Engine,
    session: &Session,
    ctx: &mut Ctx,
) -> Result<Box<HttpPeer>> {
    let request = &mut ctx.request;
    let Some(attempt) = &request.facts.attempt else {
        return Err(fail_request(request, Error::internal("no attempt to make")));
    };
    request.facts.state.sent_at.get_or_insert_with(Instant::now);
    let is_upgrade = session.is_upgrade_req();
    ctx.peers.other_origin.clone_from(&attempt.other_origin);
    let found = ctx.peers.next(&engine.shared, &attempt.target, &request.snapshot, is_upgrade).await;
    found.map_err(|error| fail_request(request, error))
}

/// Turns Pingora's copy of the client's header into the provider's. Pingora has removed the hop-by-hop headers.
pub(super) fn upstream_request_filter(
    session: &Session,
    header: &mut RequestHeader,
    ctx: &mut Ctx,
) -> Result<()> {
    let request = &mut ctx.request;
    let Some(attempt) = request.facts.attempt.clone() else {
        return Err(fail_request(request, Error::internal("no attempt to make")));
    };
    let headers =
        UpstreamHeaders::native(request, &attempt, attempt.fetched.as_deref(), session.is_upgrade_req());
    headers.apply(header).map_err(|error| fail_request(request, error))?;
    ctx.peers.proxied().map_or(Ok(()), |proxied| proxied.apply(header))
}

/// Observes a chunk of the client's body on its way to the provider. The time since the last one counts as the client's, with what
/// the provider took to take that: Pingora reads ahead by one chunk at most. What a socket sends is no upload: it may be silent.
pub(super) fn request_body_filter(is_socket: bool, chunk: Option<&Bytes>, ctx: &mut Ctx) -> Result<()> {
    let size = chunk.map_or(0, Bytes::len);
    let request = &mut ctx.request;
    request.record.traffic.bytes_in += size as u64;
    if is_socket {
        return Ok(());
    }
    let now = Instant::now();
    let limits = &request.snapshot.settings.limits;
    let (pace, last) = ctx.upload.get_or_insert_with(|| (UploadPace::new(limits), now));
    let waited = now.saturating_duration_since(*last);
    *last = now;
    pace.arrived(size, waited).map_err(|error| fail_request(request, error))
}

/// Adds the gateway's headers to the provider's response.
pub(super) fn response_filter(client: &RequestHeader, response: &mut ResponseHeader, ctx: &mut Ctx) {
    if response.status == StatusCode::SWITCHING_PROTOCOLS && ctx.request.api.operation == Operation::Realtime
    {
        complete_negotiation(&client.headers, response);
    }
    let failed = response.status.as_u16() >= 400;
    if let Some(attempt) = &ctx.request.facts.attempt {
        let mask = attempt.credential_mask();
        mask_headers(response, &mask);
        if failed {
            let withheld = withheld(response, &mask);
            ctx.masked = Some(Box::new(MaskedBody::new(mask, withheld)));
        }
    }
    response_headers::response_filter(response, &mut ctx.request);
}

/// Names the subprotocol that the client speaks, where it offered several to send its key and the provider, which did not
/// get that entry, names none: browsers close a websocket whose handshake names none of those they offered.
fn complete_negotiation(client: &HeaderMap, response: &mut ResponseHeader) {
    if response.headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
        return;
    }
    let offers = client.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offers: Vec<&str> = offers.flat_map(|value| value.split(',')).map(str::trim).collect();
    if offers.contains(&REALTIME_PROTOCOL) && offers.iter().any(|offer| offer.starts_with(KEY_PROTOCOL)) {
        // Name and value are valid.
        let _ = response.insert_header(SEC_WEBSOCKET_PROTOCOL, REALTIME_PROTOCOL);
    }
}

/// Observes a chunk of the response on its way to the client.
pub(super) fn response_body_filter(chunk: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) {
    if let Some(masked) = &mut ctx.masked {
        *chunk = Some(masked.push(chunk.as_deref().unwrap_or_default(), end));
    }
    response_headers::response_body_filter(chunk, end, &mut ctx.request);
}

/// Observes the provider's response header; a proxy may have refused the request in its place.
pub(super) fn upstream_response_filter(response: &ResponseHeader, ctx: &mut Ctx) -> Result<()> {
    let status = response.status.as_u16();
    if let Some(failure) = ctx.peers.proxied().and_then(|proxied| proxied.refusal(status))
        && let Some(attempt) = &ctx.request.facts.attempt
    {
        let error = failure::refused_by_proxy(&failure, &attempt.target);
        return Err(fail_request(&mut ctx.request, error));
    }
    ctx.request.facts.state.header_read(status);
    Ok(())
}

/// A connection broke: a dead one from Pingora's pool is replaced.
pub(super) fn error_while_proxy(
    mut error: Box<PingoraError>,
    session: &Session,
    ctx: &mut Ctx,
    reused: bool,
) -> Box<PingoraError> {
    let may_repeat = !session.as_ref().retry_buffer_truncated();
    let state = &ctx.request.facts.state;
    let retry = may_repeat && failure::is_stale_connection(&error, state, &ctx.peers, reused);
    ctx.peers.bypass_pool |= retry;
    error.set_retry(retry);
    error
}

pub(super) fn fail_to_connect(
    engine: &Engine,
    mut error: Box<PingoraError>,
    ctx: &mut Ctx,
) -> Box<PingoraError> {
    let retry = ctx.request.facts.attempt.as_ref().is_some_and(|attempt| {
        failure::may_try_next_address(&engine.shared, &error, &attempt.target, &ctx.peers)
    });
    error.set_retry(retry);
    error
}

/// The request failed: sends the client an error, unless a response was begun.
pub(super) async fn fail_to_proxy(session: &mut Session, error: &PingoraError, ctx: &mut Ctx) -> FailToProxy {
    let request = &mut ctx.request;
    let reported = request.failure.take().unwrap_or_else(|| {
        failure::translate(error, request.facts.attempt.as_ref().map(|attempt| attempt.target.as_ref()))
    });
    let status = reported.status();
    let sent = error_response::send(&mut PingoraDownstream::new(session), request, reported).await;
    FailToProxy { error_code: status, can_reuse_downstream: sent.is_ok() }
}
