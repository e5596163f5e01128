//! What went wrong, in the caller's words: Pingora's errors turned into ours, and ours into answers.
//!
//! The one place that writes a failure to a caller. It is logged once, by the access line.

use super::answer;
use super::ctx::{Ctx, Errand};
use super::head::{self, Names};
use crate::api::reply;
use crate::error::{Error, Kind};
use crate::net::dns::NetError;
use crate::route::leaf::Leaf;
use crate::state::Shared;
use bytes::Bytes;
use http::{HeaderValue, header};
use pingora::http::ResponseHeader;
use pingora_core::{Error as PingoraError, ErrorSource, ErrorType};
use pingora_proxy::{FailToProxy, Session};
use std::time::Duration;

/// Pingora's name for "one of our hooks refused": the error itself waits in the context.
const OURS: ErrorType = ErrorType::new("GatewayError");
/// How much of an unread body is taken in so that the caller reads our answer before it sees a reset.
const DRAIN_BYTES: usize = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Notes an error of ours and gives Pingora one to stop at.
pub(super) fn of_ours(ctx: &mut Ctx, error: Error) -> Box<PingoraError> {
    ctx.failure = Some(error);
    PingoraError::explain(OURS, "see the access line")
}

/// Notes an error of ours that ends an attempt only.
pub(super) fn of_attempt(errand: &Errand, error: Error) -> Box<PingoraError> {
    errand.marks.note(|marks| marks.failure = Some(error));
    PingoraError::explain(OURS, "see the errand")
}

/// The provider's host has no address we may connect to.
pub(super) fn no_address(leaf: &Leaf, why: NetError) -> Error {
    let who = leaf.spoken();
    let error = match why {
        NetError::Refused(why) => Error::bad_request(why).with_param("x-gateway-custom-host"),
        NetError::NotFound => Error::unreachable(
            format!("The host of provider {who} does not exist (DNS). Check the provider or custom host."),
            "dns: no such name",
        ),
        NetError::Failed(cause) => Error::unreachable(
            format!("The host of provider {who} could not be looked up (DNS). Try again."),
            format!("dns: {cause}"),
        ),
    };
    error.with_provider(leaf.provider.id())
}

/// A connection could not be made: other addresses are tried first. Not where TLS failed: that is no matter
/// of the address, and the failure of a further one would hide the reason.
pub(super) fn connecting(
    shared: &Shared,
    mut error: Box<PingoraError>,
    errand: Option<&Errand>,
) -> Box<PingoraError> {
    if let Some(errand) = errand
        && let Some(address) = errand.marks.last_address()
    {
        // Later requests begin with another address.
        shared.dns.failed(&errand.attempt.leaf.origin, address);
    }
    let more = errand.is_some_and(|errand| errand.marks.read(|noted| noted.tried < noted.addresses.len()));
    error.set_retry(more && !is_tls(error.etype()));
    error
}

fn is_tls(error: &ErrorType) -> bool {
    matches!(
        error,
        ErrorType::TLSHandshakeFailure
            | ErrorType::TLSHandshakeTimedout
            | ErrorType::TLSWantX509Lookup
            | ErrorType::InvalidCert
    )
}

/// A connection broke. One from the pool that turns out dead is replaced free of charge, whatever the method:
/// in practice the provider had closed it before our request came. (One that reads a request and closes
/// without a byte sees that request twice.) Once, and with a new connection: the pool may be full of dead
/// ones. `repeats`: the request can be sent once more.
pub(super) fn while_proxying(
    mut error: Box<PingoraError>,
    errand: Option<&Errand>,
    reused: bool,
    repeats: bool,
) -> Box<PingoraError> {
    let untouched =
        errand.is_some_and(|errand| errand.marks.read(|noted| noted.head.is_none() && !noted.fresh));
    let broken = matches!(
        error.etype(),
        ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError | ErrorType::H2Error
    );
    let from_upstream = *error.esource() == ErrorSource::Upstream;
    let again = reused && untouched && broken && from_upstream && repeats;
    if let (Some(errand), true) = (errand, again) {
        errand.marks.note(|noted| noted.fresh = true);
    }
    error.set_retry(again);
    error
}

/// Ours for what Pingora says. `None` for the leaf when nothing was sent yet.
pub(super) fn translate(error: &PingoraError, leaf: Option<&Leaf>) -> Error {
    if *error.esource() == ErrorSource::Downstream {
        return match error.etype() {
            ErrorType::ReadTimedout => Error::slow_client(
                "The request body stopped arriving. Send it faster, or ask the operator to raise \
                 limits.body_timeout_ms.",
            ),
            // A Connection header that names what it may not, a chunk without a size: the caller is still
            // there to be told.
            ErrorType::InvalidHTTPHeader
            | ErrorType::H1Error
            | ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => {
                Error::malformed_http(error.to_string())
            }
            _ => Error::client_closed(),
        };
    }
    let Some(leaf) = leaf else { return Error::internal(error.to_string()) };
    let who = leaf.spoken();
    let cause = error.to_string();
    let said = match error.etype() {
        ErrorType::ConnectTimedout => Error::unreachable(
            format!("The provider {who} did not accept a connection in time. Try again or another provider."),
            cause,
        ),
        ErrorType::ConnectRefused | ErrorType::ConnectNoRoute | ErrorType::ConnectError => {
            Error::unreachable(
                format!("The provider {who} refuses connections. Check its address, or that it runs."),
                cause,
            )
        }
        kind if is_tls(kind) => Error::unreachable(
            format!("No trusted TLS connection to the provider {who}. Check its certificate and host name."),
            cause,
        ),
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => Error::upstream_timeout(
            format!(
                "The provider {who} went silent. Try again or another provider; the operator bounds the \
                 silence with limits.upstream_read_timeout_ms."
            ),
            cause,
        ),
        ErrorType::InvalidHTTPHeader
        | ErrorType::H1Error
        | ErrorType::InvalidH2
        | ErrorType::H2Error
        | ErrorType::H2Downgrade => Error::invalid_response(
            format!(
                "The provider {who} answered something that is no HTTP answer. Try again or another provider."
            ),
            cause,
        ),
        _ => Error::unreachable(
            format!("The connection to the provider {who} broke before the answer was complete. Try again."),
            cause,
        ),
    };
    said.with_provider(leaf.provider.id())
}

/// The last word on a request that failed: answers the caller while there is nothing sent yet.
pub(super) async fn at_last(session: &mut Session, error: &PingoraError, ctx: &mut Ctx) -> FailToProxy {
    let noted = ctx.errand.as_ref().and_then(|errand| errand.marks.read(|noted| noted.failure.clone()));
    let hooks = ctx.failure.take().or(noted);
    let told = hooks.unwrap_or_else(|| {
        let leaf = ctx.errand.as_ref().map(|errand| errand.attempt.leaf.as_ref());
        translate(error, leaf)
    });
    let status = told.status();
    let reuse = write(session, &told, ctx).await;
    ctx.failure = Some(told);
    FailToProxy { error_code: status, can_reuse_downstream: reuse }
}

/// Writes an error in the caller's dialect. Returns whether the connection may carry another request.
pub(super) async fn write(session: &mut Session, error: &Error, ctx: &mut Ctx) -> bool {
    if error.kind == Kind::ClientClosed || session.response_written().is_some() {
        session.set_keepalive(None);
        return false;
    }
    let body = Bytes::from(reply::error_body(error, ctx.operation.dialect(), &ctx.trace_id));
    let unread = !session.is_body_done();
    if unread {
        session.set_keepalive(None);
    }
    ctx.record.bytes_out = body.len() as u64;
    let sent = respond(session, error, ctx, body).await;
    if unread {
        drain(session).await;
    }
    matches!(sent, Ok(())) && !unread
}

async fn respond(session: &mut Session, error: &Error, ctx: &Ctx, body: Bytes) -> pingora_core::Result<()> {
    let mut answer = ResponseHeader::build_no_case(error.status(), Some(8))?;
    head::edit_answer(&mut answer, Names::Lower, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        answer::trace(headers, ctx);
        if let Some(errand) = &ctx.errand {
            let leaf = &errand.attempt.leaf;
            head::put(headers, head::PROVIDER, leaf.provider.id());
            head::put(headers, head::OPTION_INDEX, &leaf.index);
            headers.insert(head::RETRIES, ctx.record.retries_text());
            if ctx.record.is_a_story() {
                head::put(headers, head::ATTEMPTS, &ctx.record.attempts_text());
            }
        }
    });
    session.write_response_header(Box::new(answer), false).await?;
    session.write_response_body(Some(body), true).await
}

async fn drain(session: &mut Session) {
    let mut left = DRAIN_BYTES;
    let _ = tokio::time::timeout(DRAIN_TIME, async {
        while let Ok(Some(chunk)) = session.downstream_session.read_request_body().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    })
    .await;
}
