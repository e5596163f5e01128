//! What the caller gets: the provider's answer with the gateway's headers on it, watched as it passes.
//!
//! Bytes are changed only where an answer in the caller's shape has an accent, or an error has a shape of its
//! own; whole translations are `translate`'s. What comes of the watching is read by `record`.

use super::header_edit::{self, HeaderCase};
use super::request_context::{AttemptHandle, RequestContext};
use crate::api::chat::ProviderError;
use crate::api::operation::ResponseKind;
use crate::api::tap::Tap;
use crate::provider::rewriter::{ErrorResponseTranslation, Rewriter};
use crate::route::request_mode::RequestMode;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use pingora::http::ResponseHeader;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::time::Instant;

/// Puts the gateway's headers on the final answer and starts watching its body.
pub(crate) fn response_filter(response: &mut ResponseHeader, ctx: &mut RequestContext) {
    if response.status.is_informational() && response.status != http::StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let media = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A compressed answer tells nothing, and an event of ours inside it would only spoil it.
    let readable = !response.headers.contains_key(CONTENT_ENCODING);
    let streamed = readable && is_media(media, "text/event-stream");
    let json = readable && is_media(media, "application/json");
    let length = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    ctx.record.streamed = streamed;
    ctx.rewriter = if readable { rewriter(response, ctx, streamed, length) } else { None };
    ctx.tap = (streamed || json).then(|| Tap::new(ctx.operation, streamed, json, length));
    header_edit::edit_response_headers(response, HeaderCase::for_response(ctx, response), |headers| {
        if ctx.rewriter.is_some() {
            headers.remove(CONTENT_LENGTH);
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        add_gateway_headers(headers, ctx);
    });
}

/// What an answer that keeps the provider's shape needs all the same: an error in a shape the caller does
/// not know is put into one it does, and an accent is put right.
fn rewriter(
    response: &ResponseHeader,
    ctx: &RequestContext,
    streamed: bool,
    length: Option<usize>,
) -> Option<Rewriter> {
    let attempt = &ctx.attempt_handle.as_ref()?.attempt;
    let status = response.status.as_u16();
    if status >= 400 {
        let is_socket = ctx.operation.response_kind() == ResponseKind::Socket;
        let printable = ctx.mode == RequestMode::Api && !is_socket;
        let translates = printable && length != Some(0) && !streamed;
        let error_response = ErrorResponseTranslation {
            status,
            dialect: ctx.operation.dialect(),
            provider: attempt.target.provider.id(),
            trace_id: ctx.trace_id.clone(),
        };
        return translates.then(|| Rewriter::error_response(error_response));
    }
    let translation = attempt.translation.as_ref().filter(|translation| translation.is_patch())?;
    Some(translation.rewriter(streamed, &ctx.trace_id, 0))
}

/// The gateway's headers on an answer.
pub(crate) fn add_gateway_headers(headers: &mut HeaderMap, ctx: &RequestContext) {
    if let Some(AttemptHandle { attempt, .. }) = &ctx.attempt_handle {
        headers.insert(header_edit::PROVIDER, HeaderValue::from_static(attempt.target.provider.id()));
        header_edit::insert_str(headers, header_edit::OPTION_INDEX, &attempt.target.path);
        headers.insert(header_edit::RETRIES, ctx.record.retries_text());
        headers.insert(header_edit::CACHE_STATUS, HeaderValue::from_static("DISABLED"));
        if ctx.record.shows_attempts() {
            header_edit::insert_str(headers, header_edit::ATTEMPTS, &ctx.record.attempts_text());
        }
        if !attempt.warnings.is_empty() {
            header_edit::insert_str(headers, header_edit::WARNINGS, &warnings(&attempt.warnings));
        }
    }
    add_trace_id(headers, ctx);
    if ctx.is_http10 {
        headers.remove(TRANSFER_ENCODING);
    }
}

/// Answers with what the gateway knows by itself.
pub(crate) async fn send_local(session: &mut Session, ctx: &mut RequestContext) -> Result<()> {
    let Some(body) = ctx.attempt_handle.as_ref().and_then(|handle| handle.attempt.local_response.clone())
    else {
        return Ok(());
    };
    let mut response = ResponseHeader::build_no_case(http::StatusCode::OK, Some(8))?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        add_gateway_headers(headers, ctx);
    });
    ctx.record.bytes_out = body.len() as u64;
    ctx.record.first_byte = Some(Instant::now());
    session.write_response_header(Box::new(response), false).await?;
    session.write_response_body(Some(body), true).await
}

/// The head of a stream that is begun before it is known what it will be.
pub(crate) fn early_header(ctx: &RequestContext) -> Result<ResponseHeader> {
    let mut response = ResponseHeader::build_no_case(http::StatusCode::OK, Some(6))?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !ctx.is_http10 {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        add_trace_id(headers, ctx);
    });
    Ok(response)
}

/// A provider's error that came with a good status: told with the status its words mean.
pub(crate) fn provider_error(
    mut response: Box<ResponseHeader>,
    provider_error: &ProviderError,
    ctx: &mut RequestContext,
) -> Result<Vec<HttpTask>> {
    let provider = ctx.attempt_handle.as_ref().map(|handle| handle.attempt.target.provider.id());
    let body = Bytes::from(provider_error.body(ctx.operation.dialect(), provider, Some(&ctx.trace_id)));
    response.set_status(
        http::StatusCode::from_u16(provider_error.status).unwrap_or(http::StatusCode::BAD_GATEWAY),
    )?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        for name in [CONTENT_ENCODING, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        add_gateway_headers(headers, ctx);
    });
    let mut tap = Tap::new(ctx.operation, false, true, Some(body.len()));
    tap.push(&body);
    ctx.tap = Some(tap);
    Ok(vec![HttpTask::Header(response, false), HttpTask::Body(Some(body), true)])
}

/// Warnings as one header value: plain ASCII, at most 2 KiB.
fn warnings(messages: &[String]) -> String {
    let printable = |char: char| if char.is_ascii() && !char.is_ascii_control() { char } else { '?' };
    messages.join("; ").chars().take(2048).map(printable).collect()
}

/// The one header every answer has, the gateway's own failures among them.
pub(crate) fn add_trace_id(headers: &mut HeaderMap, ctx: &RequestContext) {
    if !ctx.trace_id.is_empty() {
        header_edit::insert_str(headers, header_edit::TRACE_ID, &ctx.trace_id);
    }
}

/// Puts a piece of the body right where that is needed, and watches it on its way to the caller.
pub(crate) fn response_body_filter(chunk: &mut Option<Bytes>, end: bool, ctx: &mut RequestContext) {
    if let Some(rewriter) = &mut ctx.rewriter {
        let mut out = Vec::new();
        rewriter.push(chunk.as_deref().unwrap_or_default(), &mut out);
        if end {
            rewriter.finish(&mut out);
        }
        *chunk = Some(Bytes::from(out));
    }
    let Some(chunk) = chunk.as_deref().filter(|chunk| !chunk.is_empty()) else { return };
    ctx.record.bytes_out += chunk.len() as u64;
    if ctx.record.first_byte.is_none() {
        ctx.record.first_byte = Some(Instant::now());
    }
    if let Some(tap) = &mut ctx.tap {
        let first_token = tap.push(chunk);
        if first_token && ctx.record.first_token.is_none() {
            ctx.record.first_token = Some(Instant::now());
        }
    }
}

pub(crate) fn is_media(value: &str, wanted: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}
