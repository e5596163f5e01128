//! One request and its response between a Pingora session and a router.
//!
//! Does not manage the connection: keep-alive and the next request are up to the owner of the session.

use super::BridgeOutcome;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use pingora::http::ResponseHeader;
use pingora_core::ErrorType::{InternalError, ReadTimedout};
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error as PingoraError, Result};
use std::time::Duration;
use tower::ServiceExt;
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::error::Error;

/// Hop-by-hop headers (RFC 9110, 7.6.1); the session writes its own.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TRAILER,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Reads the request body, calls the router and writes its response, with `extra_headers` added.
///
/// # Errors
/// The client left or stopped reading.
pub(super) async fn serve(
    session: &mut ServerSession,
    router: &Router,
    extra_headers: HeaderMap,
    max_body: usize,
    body_timeout: Duration,
) -> Result<BridgeOutcome> {
    let mut response = match read_body(session, max_body, body_timeout).await? {
        Ok(body) => {
            let Ok(response) = router.clone().oneshot(request(session, body)).await;
            response
        }
        Err(error) => {
            // The rest of the body would be parsed as the next request.
            session.set_keepalive(None);
            error_response(&error)
        }
    };
    response.headers_mut().extend(extra_headers);
    send(session, response).await
}

fn request(session: &ServerSession, body: Bytes) -> Request<Body> {
    let header = session.req_header();
    let mut request = Request::new(Body::from(body));
    request.method_mut().clone_from(&header.method);
    request.uri_mut().clone_from(&header.uri);
    *request.version_mut() = header.version;
    request.headers_mut().clone_from(&header.headers);
    if let Some(address) = session.client_addr().and_then(|address| address.as_inet()) {
        request.extensions_mut().insert(ConnectInfo(*address));
    }
    request
}

/// The whole body, or the error to respond with.
async fn read_body(
    session: &mut ServerSession,
    max_body: usize,
    timeout: Duration,
) -> Result<std::result::Result<Bytes, Error>> {
    let too_large = || Error::body_too_large(max_body as u64);
    let announced =
        session.get_header(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > max_body as u64) {
        return Ok(Err(too_large()));
    }
    if session.is_body_empty() {
        return Ok(Ok(Bytes::new()));
    }
    if session
        .get_header(header::EXPECT)
        .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        session.write_continue_response().await?;
    }
    match tokio::time::timeout(timeout, read_whole(session, max_body)).await {
        Ok(Ok(Some(body))) => Ok(Ok(body)),
        Ok(Ok(None)) => Ok(Err(too_large())),
        Ok(Err(error)) if *error.etype() != ReadTimedout => Err(error),
        _ => Ok(Err(Error::slow_client("The request body did not arrive in time."))),
    }
}

/// `None` when the body is larger than `max_body` bytes.
async fn read_whole(session: &mut ServerSession, max_body: usize) -> Result<Option<Bytes>> {
    let mut body = BytesMut::new();
    while let Some(chunk) = session.read_request_body().await? {
        if body.len() + chunk.len() > max_body {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.freeze()))
}

/// An error response of the bridge itself, in OpenAI's shape like all errors of the control plane.
fn error_response(error: &Error) -> Response<Body> {
    let mut response = Response::new(Body::from(ErrorView::from(error).body(Dialect::OpenAi)));
    *response.status_mut() = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if error.is_final() {
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    }
    response
}

async fn send(session: &mut ServerSession, response: Response<Body>) -> Result<BridgeOutcome> {
    let (parts, body) = response.into_parts();
    let status = parts.status;
    // These must not carry a content-length at all (RFC 9110, 8.6), though axum writes one.
    let unbounded = status.is_informational() || status == StatusCode::NO_CONTENT;
    let no_body =
        unbounded || status == StatusCode::NOT_MODIFIED || session.req_header().method == Method::HEAD;
    let mut header = ResponseHeader::build(status, Some(parts.headers.len() + 2))?;
    for (name, value) in &parts.headers {
        let dropped = HOP_BY_HOP.contains(name) || (unbounded && name == header::CONTENT_LENGTH);
        if !dropped {
            header.append_header(name.clone(), value.clone())?;
        }
    }
    if !no_body && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        match body.size_hint().exact() {
            Some(length) => header.insert_header(header::CONTENT_LENGTH, length.to_string())?,
            None if session.req_header().version == Version::HTTP_11 => {
                header.insert_header(header::TRANSFER_ENCODING, "chunked")?;
            }
            // HTTP/1.0 marks the end of the body by closing the connection, HTTP/2 by its frames.
            None => session.set_keepalive(None),
        }
    }
    session.write_response_header(Box::new(header)).await?;
    let body_bytes = if no_body { 0 } else { send_body(session, body).await? };
    session.write_response_body(Bytes::new(), true).await?;
    Ok(BridgeOutcome { status: status.as_u16(), body_bytes })
}

/// Writes the body chunk by chunk and notices between two chunks when the client leaves.
async fn send_body(session: &mut ServerSession, body: Body) -> Result<u64> {
    let mut chunks = body.into_data_stream();
    let mut sent = 0;
    let mut watch = true;
    loop {
        let chunk = tokio::select! {
            biased;
            chunk = chunks.next() => chunk,
            idle = session.read_body_or_idle(true), if watch => {
                idle?;
                watch = false;
                continue;
            }
        };
        let Some(chunk) = chunk else { return Ok(sent) };
        let chunk = chunk
            .map_err(|error| PingoraError::because(InternalError, "the response body broke off", error))?;
        sent += chunk.len() as u64;
        session.write_response_body(chunk, false).await?;
    }
}
