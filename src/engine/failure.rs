//! What went wrong, in the caller's words: Pingora's errors turned into ours, and ours into answers.
//!
//! The one place that writes a failure to a caller. It is logged once, by the access line.

use super::header_edit::{self, HeaderCase};
use super::request_context::{AttemptHandle, RequestContext};
use super::response;
use crate::api::error_body::ErrorView;
use crate::error::{Error, Kind};
use crate::net::outbound::dns::ResolveError;
use crate::route::target::Target;
use crate::state::Shared;
use bytes::Bytes;
use http::{HeaderValue, header};
use pingora::http::ResponseHeader;
use pingora_core::{Error as PingoraError, ErrorSource, ErrorType};
use pingora_proxy::{FailToProxy, Session};
use std::time::Duration;

/// Pingora's name for "one of our hooks refused": the error itself waits in the context.
const GATEWAY_ERROR: ErrorType = ErrorType::new("GatewayError");
/// How much of an unread body is taken in so that the caller reads our answer before it sees a reset.
const DRAIN_BYTES: usize = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Notes an error of ours and gives Pingora one to stop at.
pub(crate) fn fail_request(ctx: &mut RequestContext, error: Error) -> Box<PingoraError> {
    ctx.failure = Some(error);
    PingoraError::explain(GATEWAY_ERROR, "see the access line")
}

/// Notes an error of ours that ends an attempt only.
pub(crate) fn fail_attempt(handle: &AttemptHandle, error: Error) -> Box<PingoraError> {
    handle.state.update(|state| state.failure = Some(error));
    PingoraError::explain(GATEWAY_ERROR, "see the errand")
}

/// The provider's host has no address we may connect to.
pub(crate) fn dns_error(target: &Target, why: ResolveError) -> Error {
    let provider = target.display_name();
    let error = match why {
        ResolveError::Refused(why) => Error::bad_request(why).with_param("x-gateway-custom-host"),
        ResolveError::NotFound => Error::unreachable(
            format!(
                "The host of provider {provider} does not exist (DNS). Check the provider or custom host."
            ),
            "dns: no such name",
        ),
        ResolveError::Failed(cause) => Error::unreachable(
            format!("The host of provider {provider} could not be looked up (DNS). Try again."),
            format!("dns: {cause}"),
        ),
    };
    error.with_provider(target.provider.id())
}

/// A connection could not be made: other addresses are tried first. Not where TLS failed: that is no matter
/// of the address, and the failure of a further one would hide the reason.
pub(crate) fn fail_to_connect(
    shared: &Shared,
    mut error: Box<PingoraError>,
    handle: Option<&AttemptHandle>,
) -> Box<PingoraError> {
    if let Some(handle) = handle
        && let Some(address) = handle.state.last_address()
    {
        // Later requests begin with another address.
        shared.dns.connect_failed(&handle.attempt.target.origin, address);
    }
    let more =
        handle.is_some_and(|handle| handle.state.read(|state| state.addresses_tried < state.addresses.len()));
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
pub(crate) fn error_while_proxy(
    mut error: Box<PingoraError>,
    handle: Option<&AttemptHandle>,
    reused: bool,
    may_repeat: bool,
) -> Box<PingoraError> {
    let is_unanswered = handle
        .is_some_and(|handle| handle.state.read(|state| state.header_at.is_none() && !state.bypass_pool));
    let broken = matches!(
        error.etype(),
        ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError | ErrorType::H2Error
    );
    let from_upstream = *error.esource() == ErrorSource::Upstream;
    let retry = reused && is_unanswered && broken && from_upstream && may_repeat;
    if let (Some(handle), true) = (handle, retry) {
        handle.state.update(|state| state.bypass_pool = true);
    }
    error.set_retry(retry);
    error
}

/// Our error for one of Pingora's. `target` is `None` while nothing was sent to a provider.
pub(crate) fn translate(error: &PingoraError, target: Option<&Target>) -> Error {
    if *error.esource() == ErrorSource::Downstream {
        return translate_downstream(error);
    }
    let Some(target) = target else { return Error::internal(error.to_string()) };
    translate_upstream(error, &target.display_name()).with_provider(target.provider.id())
}

/// Errors of the client's connection.
fn translate_downstream(error: &PingoraError) -> Error {
    match error.etype() {
        ErrorType::ReadTimedout => Error::slow_client(
            "The request body stopped arriving. Send it faster, or ask the operator to raise \
             limits.body_timeout_ms.",
        ),
        // A Connection header that names what it may not, a chunk without a size: the client is still there to
        // read the response.
        ErrorType::InvalidHTTPHeader
        | ErrorType::H1Error
        | ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => Error::malformed_http(error.to_string()),
        _ => Error::client_closed(),
    }
}

/// Errors of the provider's connection.
fn translate_upstream(error: &PingoraError, provider: &str) -> Error {
    let cause = error.to_string();
    match error.etype() {
        ErrorType::ConnectTimedout => Error::unreachable(
            format!(
                "The provider {provider} did not accept a connection in time. Try again or another provider."
            ),
            cause,
        ),
        ErrorType::ConnectRefused | ErrorType::ConnectNoRoute | ErrorType::ConnectError => {
            Error::unreachable(
                format!("The provider {provider} refuses connections. Check its address, or that it runs."),
                cause,
            )
        }
        kind if is_tls(kind) => Error::unreachable(
            format!(
                "No trusted TLS connection to the provider {provider}. Check its certificate and host name."
            ),
            cause,
        ),
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => Error::upstream_timeout(
            format!(
                "The provider {provider} went silent. Try again or another provider; the operator bounds the \
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
                "The provider {provider} answered something that is no HTTP answer. Try again or another provider."
            ),
            cause,
        ),
        _ => Error::unreachable(
            format!(
                "The connection to the provider {provider} broke before the answer was complete. Try again."
            ),
            cause,
        ),
    }
}

/// The last word on a request that failed: answers the caller while there is nothing sent yet.
pub(crate) async fn fail_to_proxy(
    session: &mut Session,
    error: &PingoraError,
    ctx: &mut RequestContext,
) -> FailToProxy {
    let attempt_failure = ctx
        .attempt_handle
        .as_ref()
        .and_then(|handle| handle.state.read(|attempt_failure| attempt_failure.failure.clone()));
    let noted_failure = ctx.failure.take().or(attempt_failure);
    let reported = noted_failure.unwrap_or_else(|| {
        let target = ctx.attempt_handle.as_ref().map(|handle| handle.attempt.target.as_ref());
        translate(error, target)
    });
    let status = reported.status();
    let reuse = write(session, &reported, ctx).await;
    ctx.failure = Some(reported);
    FailToProxy { error_code: status, can_reuse_downstream: reuse }
}

/// Writes an error in the caller's dialect. Returns whether the connection may carry another request.
pub(crate) async fn write(session: &mut Session, error: &Error, ctx: &mut RequestContext) -> bool {
    if error.kind == Kind::ClientClosed || session.response_written().is_some() {
        session.set_keepalive(None);
        return false;
    }
    let body = ErrorView::from(error).with_trace_id(&ctx.trace_id).body(ctx.operation.dialect());
    let body = Bytes::from(body);
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

async fn respond(
    session: &mut Session,
    error: &Error,
    ctx: &RequestContext,
    body: Bytes,
) -> pingora_core::Result<()> {
    let mut response = ResponseHeader::build_no_case(error.status(), Some(8))?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        response::add_trace_id(headers, ctx);
        if let Some(handle) = &ctx.attempt_handle {
            let target = &handle.attempt.target;
            header_edit::insert_str(headers, header_edit::PROVIDER, target.provider.id());
            header_edit::insert_str(headers, header_edit::OPTION_INDEX, &target.path);
            headers.insert(header_edit::RETRIES, ctx.record.retries_text());
            if ctx.record.shows_attempts() {
                header_edit::insert_str(headers, header_edit::ATTEMPTS, &ctx.record.attempts_text());
            }
        }
    });
    session.write_response_header(Box::new(response), false).await?;
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
