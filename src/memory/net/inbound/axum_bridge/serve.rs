//! One request and its response between a Pingora session and a router.
//!
//! Does not manage the connection: keep-alive and the next request are up to the owner of the session.

use super::super::client_certificate::ClientCertificate;
use super::BridgeOutcome;
use super::request_body::{BodyReader, Questions};
use crate::net::inbound::unread_bodies::{DRAIN_TIMEOUT, UnreadBodies};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use pingora::http::ResponseHeader;
use pingora_core::ErrorType::{ConnectError, InternalError};
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error as PingoraError, Result};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
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

/// How much of an unread body is read and dropped after the response.
const DRAIN_BYTES: usize = 1 << 20;

/// Whether the client of a request is still there, for who works for it.
#[derive(Debug, Clone)]
pub struct Departure(watch::Receiver<bool>);

impl Departure {
    /// Waits until the client has left; for ever where it stays.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|has_left| *has_left).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Calls the router, reads the body as far as it wants it, and writes its response, with `extra_headers` added.
///
/// # Errors
/// The client left or stopped reading.
pub(super) async fn serve(
    session: &mut ServerSession,
    router: &Router,
    extra_headers: HeaderMap,
    max_body: usize,
    body_timeout: Duration,
    unread: &UnreadBodies,
) -> Result<BridgeOutcome> {
    let mut reader = BodyReader::new(max_body, body_timeout);
    let mut response = respond(session, router, &mut reader).await?;
    if let Some(error) = &reader.failure {
        response = error_response(error);
    }
    let is_unread = !session.is_body_done();
    if is_unread {
        // The rest of the body would be parsed as the next request.
        session.set_keepalive(None);
    }
    response.headers_mut().extend(extra_headers);
    let sent = send(session, response).await?;
    if is_unread {
        drain(session, unread, sent.status).await;
    }
    Ok(sent)
}

/// The router's response. While it is made, pieces of the body are read when they are asked for, and where there is nothing left to read,
/// the client's leaving is noticed.
async fn respond(
    session: &mut ServerSession,
    router: &Router,
    reader: &mut BodyReader,
) -> Result<Response<Body>> {
    let (mut questions, body) = Questions::new();
    let (leave, left) = watch::channel(false);
    let body = if session.is_body_empty() { Body::empty() } else { body };
    let mut request = request(session, body);
    request.extensions_mut().insert(Departure(left));
    let mut responding = pin!(router.clone().oneshot(request));
    let mut watches = true;
    loop {
        let is_read = session.is_body_done();
        tokio::select! {
            biased;
            Ok(response) = &mut responding => return Ok(response),
            question = questions.next() => reader.answer(question, session).await?,
            idle = session.read_body_or_idle(true), if is_read && watches => {
                watches = false;
                match idle {
                    // The beginning of another request, which is lost.
                    Err(error) if *error.etype() == ConnectError => session.set_keepalive(None),
                    Err(_) => {
                        let _ = leave.send(true);
                    }
                    Ok(_) => {}
                }
            }
        }
    }
}

/// Reads what is left of a body, and drops it.
async fn drain(session: &mut ServerSession, bodies: &UnreadBodies, status: u16) {
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, async {
        let reading = bodies.enter(status, DRAIN_BYTES).await;
        let mut left = reading.bytes;
        while let Ok(Some(piece)) = session.read_request_body().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    })
    .await;
}

fn request(session: &ServerSession, body: Body) -> Request<Body> {
    let header = session.req_header();
    let mut request = Request::new(body);
    request.method_mut().clone_from(&header.method);
    request.uri_mut().clone_from(&header.uri);
    *request.version_mut() = header.version;
    request.headers_mut().clone_from(&header.headers);
    if let Some(address) = session.client_addr().and_then(|address| address.as_inet()) {
        request.extensions_mut().insert(ConnectInfo(*address));
    }
    if let Some(certificate) = ClientCertificate::of(session) {
        request.extensions_mut().insert(certificate.clone());
    }
    request
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
