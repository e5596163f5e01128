//! Sends a response as its script says: latency, status, faults, then the body.
//!
//! The one place where a [`Reply`] becomes an HTTP response.

use super::bedrock_stream;
use super::bill::Bill;
use super::body::{Body, Disconnect};
use super::playback::Playback;
use super::published::PublishedError;
use super::reply::{Content, Dialect, Event, Part, Reply};
use super::request_guard::{Ended, RequestGuard};
use super::script::{Cuts, Fault, ReportedUsage, Script};
use super::socket::ConnectionAbort;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

/// The HTTP response; an error if the connection is to be dropped.
pub(super) async fn into_response(
    reply: Reply,
    mut guard: RequestGuard,
) -> Result<Response<Body>, Disconnect> {
    if !reply.script.latency.is_zero() {
        tokio::time::sleep(reply.script.latency).await;
    }
    guard = before_headers(&reply.script, guard).await?;
    let Reply { status, content_type, content, dialect, script, bill } = apply_script(reply);
    // An error costs only what it reports.
    if let Some(bill) = bill.filter(|_| status.is_success() || script.usage == ReportedUsage::InErrors) {
        guard.bill(bill);
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(4);
    headers.insert(header::CONTENT_TYPE, content_type);
    let name = match dialect {
        Dialect::OpenAi | Dialect::Gemini | Dialect::Cohere => HeaderName::from_static("x-request-id"),
        Dialect::Bedrock => HeaderName::from_static("x-amzn-requestid"),
        Dialect::Anthropic => HeaderName::from_static("request-id"),
    };
    if let Ok(id) = HeaderValue::try_from(guard.state().id("req_", 24)) {
        headers.insert(name, id);
    }
    if dialect == Dialect::Bedrock && (status.is_client_error() || status.is_server_error()) {
        let kind = HeaderValue::from_static(Dialect::exception(status));
        headers.insert(HeaderName::from_static("x-amzn-errortype"), kind);
    }
    script_headers(headers, &script);
    let body = match content {
        Content::Whole(bytes) => Body::whole(bytes, Some(guard)),
        Content::Events(events, length) => {
            Body::played(Playback::new(events, length, &script, error_event(dialect)), guard)
        }
    };
    Ok(response.map(|()| body))
}

/// Applies faults that replace the response. Returns the guard if there is none.
pub(super) async fn before_headers(script: &Script, guard: RequestGuard) -> Result<RequestGuard, Disconnect> {
    match script.fault {
        Some(Fault::Hang) => std::future::pending::<()>().await,
        Some(Fault::Reset) => guard.connection().abort_with(ConnectionAbort::Reset),
        Some(Fault::Garbage) => guard.connection().abort_with(ConnectionAbort::Garbage),
        Some(Fault::HalfHead) => guard.connection().abort_with(ConnectionAbort::HalfHead),
        Some(Fault::Eof) => {}
        _ => return Ok(guard),
    }
    guard.end(Ended::Fault);
    Err(Disconnect)
}

/// Applies the script's status and the faults that change the whole body.
fn apply_script(mut reply: Reply) -> Reply {
    if let Some(published) = reply.script.error {
        reply = with_published_error(reply, published);
    }
    if let Some(status) = reply.script.status {
        if status.is_client_error() || status.is_server_error() {
            reply.content_type = HeaderValue::from_static("application/json");
            let body = error_body(reply.dialect, status);
            let reported = reply.bill.filter(|_| reply.script.usage == ReportedUsage::InErrors);
            reply.content = Content::Whole(match reported {
                Some(bill) => with_usage(&body, bill),
                None => body,
            });
        }
        reply.status = status;
    }
    match reply.script.fault {
        Some(Fault::Html) => {
            reply.content_type = HeaderValue::from_static("text/html; charset=utf-8");
            reply.content = Content::Whole(Bytes::from_static(
                b"<!doctype html><title>Welcome</title><p>The quick brown fox sells web space.</p>",
            ));
        }
        Some(Fault::Empty) => {
            reply.content = match reply.content {
                Content::Whole(_) => Content::Whole(Bytes::new()),
                Content::Events(..) => Content::Events(Box::new(std::iter::empty()), None),
            };
        }
        _ => {}
    }
    reply.content = match reply.content {
        Content::Whole(bytes) => scripted_body(bytes, reply.dialect, &mut reply.script),
        events @ Content::Events(..) => events,
    };
    reply
}

/// Replaces the response with a vendor's error; as an event, if a stream is answered with status 200.
fn with_published_error(mut reply: Reply, published: PublishedError) -> Reply {
    let (status, body) = published.status_and_body(reply.dialect);
    reply.status = status;
    reply.content = match reply.content {
        Content::Events(..) if status.is_success() => {
            Content::Events(Box::new(std::iter::once(Event::data(Part::Content, body))), None)
        }
        _ => {
            reply.content_type = HeaderValue::from_static("application/json");
            Content::Whole(body.to_string().into())
        }
    };
    reply
}

/// A whole body as it is sent: at once, or split if the script acts within it.
fn scripted_body(bytes: Bytes, dialect: Dialect, script: &mut Script) -> Content {
    let length = bytes.len() as u64;
    let half = bytes.len() / 2;
    match script.fault {
        Some(Fault::Malformed) => return Content::Whole(bytes.slice(..half)),
        Some(Fault::ErrorEvent) => {
            return Content::Whole(error_body(dialect, StatusCode::INTERNAL_SERVER_ERROR));
        }
        Some(Fault::Cut | Fault::Truncate | Fault::Stall) if script.cuts.is_none() => {
            script.after = Some(1);
            let halves = [bytes.slice(..half), bytes.slice(half..)].map(Event::raw);
            return Content::Events(Box::new(halves.into_iter()), Some(length));
        }
        _ => {}
    }
    if script.ttft.is_zero() && script.cuts.is_none() {
        return Content::Whole(bytes);
    }
    Content::Events(Box::new(std::iter::once(Event::raw(bytes))), Some(length))
}

fn script_headers(headers: &mut HeaderMap, script: &Script) {
    if let Some(seconds) = script.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(ms) = script.retry_after_ms {
        headers.insert(HeaderName::from_static("retry-after-ms"), ms.into());
    }
    if let Some(location) = &script.location {
        headers.insert(header::LOCATION, location.clone());
    }
}

pub(super) fn error_body(dialect: Dialect, status: StatusCode) -> Bytes {
    let message = format!("The emulator was told to answer {}.", status.as_u16());
    let code = match status.as_u16() {
        401 => Some("invalid_api_key"),
        429 => Some("rate_limit_exceeded"),
        _ => None,
    };
    dialect.error(status, &message, None, code).to_string().into()
}

/// An error body that says what the failed request used.
fn with_usage(body: &[u8], bill: Bill) -> Bytes {
    let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
    let Bill { input, output, .. } = bill;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    if let Some(members) = body.as_object_mut() {
        members.insert("usage".to_owned(), usage);
    }
    body.to_string().into()
}

fn error_event(dialect: Dialect) -> Bytes {
    let message = "The emulator was told to fail here.";
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let error = dialect.error(status, message, None, None);
    match dialect {
        Dialect::OpenAi | Dialect::Gemini => format!("data: {error}\n\n").into(),
        Dialect::Cohere => format!("event: error\ndata: {error}\n\n").into(),
        Dialect::Bedrock => bedrock_stream::exception("internalServerException", error.to_string()),
        Dialect::Anthropic => format!("event: error\ndata: {error}\n\n").into(),
    }
}

/// The cuts requested by `x-replay-chunk` and `x-replay-cuts`.
pub(super) fn replay_cuts(headers: &HeaderMap) -> Option<Cuts> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let every = number("x-replay-chunk").map(|size| Cuts::Every(size.max(1) as usize));
    every.or_else(|| number("x-replay-cuts").map(Cuts::Seeded))
}
