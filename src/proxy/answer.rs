//! What the caller gets: the provider's answer with the gateway's headers on it, watched as it passes.
//!
//! Bytes are changed only where an answer in the caller's shape has an accent, or an error has a shape of its
//! own; whole translations are `translate`'s. What comes of the watching is read by `record`.

use super::ctx::{Ctx, Errand};
use super::head::{self, Names};
use crate::api::chat::ProviderError;
use crate::api::operation::Operation;
use crate::api::tap::Tap;
use crate::provider::rewriter::{ErrorResponseTranslation, Rewriter};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use pingora::http::ResponseHeader;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::time::Instant;

/// Puts the gateway's headers on the final answer and starts watching its body.
pub(super) fn head(answer: &mut ResponseHeader, ctx: &mut Ctx) {
    if answer.status.is_informational() && answer.status != http::StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A compressed answer tells nothing, and an event of ours inside it would only spoil it.
    let readable = !answer.headers.contains_key(CONTENT_ENCODING);
    let streamed = readable && is_media(media, "text/event-stream");
    let json = readable && is_media(media, "application/json");
    let length = answer.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    ctx.record.streamed = streamed;
    ctx.rewriter = if readable { rewriter(answer, ctx, streamed, length) } else { None };
    ctx.tap = (streamed || json).then(|| Tap::new(ctx.operation, streamed, json, length));
    head::edit_answer(answer, Names::of_answer(ctx, answer), |headers| {
        if ctx.rewriter.is_some() {
            headers.remove(CONTENT_LENGTH);
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        label(headers, ctx);
    });
}

/// What an answer that keeps the provider's shape needs all the same: an error in a shape the caller does
/// not know is put into one it does, and an accent is put right.
fn rewriter(answer: &ResponseHeader, ctx: &Ctx, streamed: bool, length: Option<usize>) -> Option<Rewriter> {
    let attempt = &ctx.errand.as_ref()?.attempt;
    let status = answer.status.as_u16();
    if status >= 400 {
        let plain = ctx.operation.is_unified() && ctx.operation != Operation::Realtime && !ctx.is_proxied;
        let told = plain && length != Some(0) && !streamed;
        let refusal = ErrorResponseTranslation {
            status,
            dialect: ctx.operation.dialect(),
            provider: attempt.leaf.provider.id(),
            trace_id: ctx.trace_id.clone(),
        };
        return told.then(|| Rewriter::error_response(refusal));
    }
    let translation = attempt.translation.as_ref().filter(|translation| translation.is_patch())?;
    Some(translation.rewriter(streamed, &ctx.trace_id, 0))
}

/// The gateway's headers on an answer.
pub(super) fn label(headers: &mut HeaderMap, ctx: &Ctx) {
    if let Some(Errand { attempt, .. }) = &ctx.errand {
        headers.insert(head::PROVIDER, HeaderValue::from_static(attempt.leaf.provider.id()));
        head::put(headers, head::OPTION_INDEX, &attempt.leaf.index);
        headers.insert(head::RETRIES, ctx.record.retries_text());
        headers.insert(head::CACHE_STATUS, HeaderValue::from_static("DISABLED"));
        if ctx.record.is_a_story() {
            head::put(headers, head::ATTEMPTS, &ctx.record.attempts_text());
        }
        if !attempt.warnings.is_empty() {
            head::put(headers, head::WARNINGS, &warnings(&attempt.warnings));
        }
    }
    trace(headers, ctx);
    if ctx.is_http10 {
        headers.remove(TRANSFER_ENCODING);
    }
}

/// Answers with what the gateway knows by itself.
pub(super) async fn local(session: &mut Session, ctx: &mut Ctx) -> Result<()> {
    let Some(body) = ctx.errand.as_ref().and_then(|errand| errand.attempt.local.clone()) else {
        return Ok(());
    };
    let mut head = ResponseHeader::build_no_case(http::StatusCode::OK, Some(8))?;
    head::edit_answer(&mut head, Names::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        label(headers, ctx);
    });
    ctx.record.bytes_out = body.len() as u64;
    ctx.record.first_byte = Some(Instant::now());
    session.write_response_header(Box::new(head), false).await?;
    session.write_response_body(Some(body), true).await
}

/// The head of a stream that is begun before it is known what it will be.
pub(super) fn early_head(ctx: &Ctx) -> Result<ResponseHeader> {
    let mut head = ResponseHeader::build_no_case(http::StatusCode::OK, Some(6))?;
    head::edit_answer(&mut head, Names::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !ctx.is_http10 {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        trace(headers, ctx);
    });
    Ok(head)
}

/// A provider's error that came with a good status: told with the status its words mean.
pub(super) fn refusal(
    mut head: Box<ResponseHeader>,
    fault: &ProviderError,
    ctx: &mut Ctx,
) -> Result<Vec<HttpTask>> {
    let provider = ctx.errand.as_ref().map(|errand| errand.attempt.leaf.provider.id());
    let body = Bytes::from(fault.body(ctx.operation.dialect(), provider, Some(&ctx.trace_id)));
    head.set_status(http::StatusCode::from_u16(fault.status).unwrap_or(http::StatusCode::BAD_GATEWAY))?;
    head::edit_answer(&mut head, Names::Lower, |headers| {
        for name in [CONTENT_ENCODING, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        label(headers, ctx);
    });
    let mut tap = Tap::new(ctx.operation, false, true, Some(body.len()));
    tap.push(&body);
    ctx.tap = Some(tap);
    Ok(vec![HttpTask::Header(head, false), HttpTask::Body(Some(body), true)])
}

/// Warnings as one header value: plain ASCII, at most 2 KiB.
fn warnings(told: &[String]) -> String {
    let plain = |char: char| if char.is_ascii() && !char.is_ascii_control() { char } else { '?' };
    told.join("; ").chars().take(2048).map(plain).collect()
}

/// The one header every answer has, the gateway's own failures among them.
pub(super) fn trace(headers: &mut HeaderMap, ctx: &Ctx) {
    if !ctx.trace_id.is_empty() {
        head::put(headers, head::TRACE_ID, &ctx.trace_id);
    }
}

/// Puts a piece of the body right where that is needed, and watches it on its way to the caller.
pub(super) fn body(chunk: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) {
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

pub(super) fn is_media(value: &str, wanted: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}
