//! Sends an error to the client, in its dialect. The one place that does: for the engine, for refusals at admission and
//! for requests that Pingora proxies natively.
//!
//! Not the error events that end a stream (`forward`). Logs nothing: the access line has the error.

use super::downstream::{Aborted, Downstream};
use super::header_edit::{self, HeaderCase};
use super::request_context::RequestContext;
use super::response_headers;
use super::turn::Turn;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use judgment::route::admission::allowed_methods;
use judgment::route::request_mode::RequestMode;
use memory::net::inbound::unread_bodies::{DRAIN_TIMEOUT, UnreadBodies};
use pingora_core::protocols::http::HttpTask;
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::api::mcp::{envelope, protected_resource};
use words::api::operation::Operation;
use words::error::{Error, Kind};
use words::json::splice::append_member;
use words::settings::scopes::Scope;

/// How much of an unread body is read and dropped.
const DRAIN_BYTES: usize = 32 << 20;

/// Sends `error`, unless a response was begun, and notes it in the context.
///
/// # Errors
/// The connection can carry no other request: a response had begun, the client has disconnected, or its body was not
/// read.
pub async fn send<D: Downstream>(
    downstream: &mut D,
    ctx: &mut RequestContext,
    error: Error,
) -> Result<(), Aborted> {
    if error.kind == Kind::ClientClosed || downstream.sent_status().is_some() {
        downstream.close_after_response();
        ctx.failure = Some(error);
        return Err(Aborted);
    }
    let is_prompt = ctx.api.operation == Operation::PromptCompletions && ctx.api.mode == RequestMode::Api;
    let view = ErrorView::from(&error).with_request_id(&ctx.span.trace_id).with_failure_status(is_prompt);
    let body = view.body(ctx.api.dialect);
    let body = match ctx.reply.message_id.as_deref().filter(|_| ctx.api.dialect == Dialect::Mcp) {
        Some(id) => envelope::with_id(body, id),
        None => body,
    };
    let results = error.hook_results.as_ref().map(|results| results.json.as_str());
    // JSON-RPC has no place for them.
    let results = results.filter(|_| ctx.api.dialect != Dialect::Mcp);
    let with_results = results.and_then(|results| append_member(&body, "hook_results", results));
    let body = Bytes::from(with_results.unwrap_or(body));
    let unread = !downstream.body_is_complete();
    if unread {
        downstream.close_after_response();
    }
    ctx.record.body_sent(&body);
    let allow = match error.kind {
        Kind::MethodNotAllowed => Some(allowed_methods(downstream.request().uri.path())),
        _ => None,
    };
    let status = error.status();
    let challenge = challenge(&error, ctx, downstream.request().uri.path());
    let parts = parts(&error, ctx, body, allow, challenge);
    ctx.failure = Some(error);
    let sent = match parts {
        Ok(parts) => downstream.send(parts).await.is_ok(),
        Err(_) => false,
    };
    if unread {
        // What was read of it is dropped.
        let _ = ctx.load.held.set(0);
        drain(downstream, ctx.load.held.unread_bodies(), status).await;
    }
    if sent && !unread { Ok(()) } else { Err(Aborted) }
}

/// How an MCP client is to authenticate, where it is refused for that.
fn challenge(error: &Error, ctx: &RequestContext, path: &str) -> Option<String> {
    let lacks_scope = error.kind == Kind::Forbidden
        && ctx.record.client.as_ref().is_some_and(|client| !client.scopes.contains(Scope::McpInvoke));
    let is_challenged = lacks_scope || matches!(error.kind, Kind::Unauthorized | Kind::KeyExpired);
    let public_url = ctx.snapshot.settings.server.public_url.as_deref();
    (ctx.api.dialect == Dialect::Mcp && is_challenged)
        .then(|| protected_resource::challenge(public_url, path, lacks_scope))
}

/// `allow`: the methods of a path that does not take this one.
fn parts(
    error: &Error,
    ctx: &RequestContext,
    body: Bytes,
    allow: Option<String>,
    challenge: Option<String>,
) -> Result<Vec<HttpTask>, Error> {
    let status = match StatusCode::from_u16(error.status()) {
        _ if ctx.reply.hides_status => StatusCode::OK,
        Ok(status) => status,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = response_headers::new_header(status)?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        if let Some(challenge) = &challenge {
            header_edit::insert_str(headers, header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(allow) = allow {
            header_edit::insert_str(headers, header::ALLOW, &allow);
        }
        if let Some(seconds) = error.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if error.is_final() {
            headers.insert(header_edit::SHOULD_RETRY, header_edit::NEVER);
        }
        ctx.limits.add_refusal_headers(headers);
        if let Some(limit) = &error.limit {
            header_edit::insert_str(headers, header_edit::LIMIT, &limit.id);
            if let Some(reset_at) = &limit.reset_at {
                header_edit::insert_str(headers, header_edit::LIMIT_RESET, reset_at);
            }
        }
        if let Some(attempt) = &ctx.facts.attempt {
            headers.insert(header_edit::PROVIDER, HeaderValue::from_static(attempt.target.provider.id()));
            headers.insert(header_edit::OPTION_INDEX, attempt.target.index_header());
            headers.insert(header_edit::RETRIES, ctx.record.retries_text());
        }
        // Also where the last target was refused before it was called: those before it may have been.
        if ctx.record.shows_attempts() && ctx.record.attempt_count() > 0 {
            header_edit::insert_str(headers, header_edit::ATTEMPTS, &ctx.record.attempts_text());
        }
        response_headers::add_basic_headers(headers, ctx);
    });
    Ok(vec![HttpTask::Header(Box::new(response), false), HttpTask::Body(Some(body), true)])
}

async fn drain<D: Downstream>(downstream: &mut D, bodies: &UnreadBodies, status: u16) {
    let mut turn = Turn::default();
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, async {
        let reading = bodies.enter(status, DRAIN_BYTES).await;
        let mut left = reading.bytes;
        while let Ok(Some(chunk)) = downstream.next_chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
            turn.count(chunk.len());
            turn.give_up().await;
        }
    })
    .await;
}
