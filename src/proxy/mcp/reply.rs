//! Sends a response to an MCP client: a message of JSON-RPC, or nothing but a status.

use crate::proxy::downstream::PingoraDownstream;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{self, HeaderCase, edit_response_headers};
use motion::engine::request_context::RequestContext;
use motion::engine::response_headers;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::time::Instant;
use words::api::mcp::envelope::response;
use words::api::mcp::era::SESSION_HEADER;
use words::api::mcp::notification::event;
use words::api::mcp::reply::McpReply;
use words::error::Error;

/// What a client gets.
pub(super) struct Outgoing {
    status: StatusCode,
    body: Bytes,
    /// Of the call to a server, with the gateway's headers.
    header: Option<ResponseHeader>,
    /// It ends a stream, of which so many bytes were sent.
    after: Option<u64>,
    /// The id of the session that it begins.
    session_id: Option<String>,
}

impl Outgoing {
    /// A response. `id`: JSON text.
    pub fn of(id: &str, reply: McpReply) -> Self {
        Self::error(id, StatusCode::OK, reply)
    }

    /// The same with a status.
    pub fn error(id: &str, status: StatusCode, reply: McpReply) -> Self {
        Self { status, body: Bytes::from(response(id, &reply)), header: None, after: None, session_id: None }
    }

    /// For what has no response.
    pub const fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, body: Bytes::new(), header: None, after: None, session_id: None }
    }

    /// The message that ends a stream, of which so many bytes were sent.
    pub fn last_event(message: &[u8], bytes: u64) -> Self {
        let body = Bytes::from(event(message));
        Self { status: StatusCode::OK, body, header: None, after: Some(bytes), session_id: None }
    }

    /// It begins a session with this id.
    pub fn with_session(self, session_id: Option<String>) -> Self {
        Self { session_id, ..self }
    }

    /// With the headers of a call, and its status where it is not hidden.
    pub fn with_header(self, mut header: ResponseHeader, hides_status: bool) -> Self {
        if hides_status {
            // 200 is a status, so that it is always taken.
            let _ = header.set_status(StatusCode::OK);
        }
        Self { status: header.status, header: Some(header), ..self }
    }
}

/// # Errors
/// The client has left.
pub(super) async fn send(
    session: &mut Session,
    ctx: &mut RequestContext,
    outgoing: Outgoing,
) -> Result<(), Error> {
    let Outgoing { status, body, header, after, session_id } = outgoing;
    if let Some(bytes) = after {
        ctx.record.traffic.bytes_out = bytes + body.len() as u64;
        return PingoraDownstream::new(session).send(vec![HttpTask::Body(Some(body), true)]).await;
    }
    let is_call = header.is_some();
    let mut header = header.map_or_else(|| response_headers::new_header(status), Ok)?;
    ctx.record.traffic.bytes_out = body.len() as u64;
    ctx.record.traffic.first_byte.get_or_insert_with(Instant::now);
    edit_response_headers(&mut header, HeaderCase::Lower, |headers| {
        if is_call {
            // The server's own affairs, some of which a browser would obey for the gateway's host.
            let is_kept = |name: &HeaderName| name.as_str().starts_with("x-gateway-") || name == RETRY_AFTER;
            let others: Vec<HeaderName> = headers.keys().filter(|name| !is_kept(name)).cloned().collect();
            others.iter().for_each(|name| drop(headers.remove(name)));
        }
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(CONTENT_LENGTH, body.len().into());
        if let Some(id) = &session_id {
            header_edit::insert_str(headers, HeaderName::from_static(SESSION_HEADER), id);
        }
        if !ctx.reply.warnings.is_empty() {
            let warnings = response_headers::warnings(ctx.reply.warnings.iter().map(String::as_str));
            header_edit::insert_str(headers, header_edit::WARNINGS, &warnings);
        }
        response_headers::add_basic_headers(headers, ctx);
    });
    let mut parts = vec![HttpTask::Header(Box::new(header), body.is_empty())];
    if !body.is_empty() {
        parts.push(HttpTask::Body(Some(body), true));
    }
    PingoraDownstream::new(session).send(parts).await
}
