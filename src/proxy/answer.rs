//! What the caller gets: the provider's answer with the gateway's headers on it, watched as it passes.
//!
//! Bytes are not changed here. What comes of the watching is read by `record`.

use super::ctx::{Ctx, Errand};
use crate::api::tap::Tap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora_core::Result;
use std::time::Instant;

/// Puts the gateway's headers on the final answer and starts watching its body.
pub(super) fn head(answer: &mut ResponseHeader, ctx: &mut Ctx) -> Result<()> {
    if answer.status.is_informational() && answer.status != http::StatusCode::SWITCHING_PROTOCOLS {
        return Ok(());
    }
    if let Some(Errand { attempt, .. }) = &ctx.errand {
        answer.insert_header("x-gateway-provider", attempt.leaf.provider.id())?;
        answer.insert_header("x-gateway-last-used-option-index", attempt.leaf.index.as_str())?;
        answer.insert_header("x-gateway-retry-attempt-count", ctx.record.retries_text())?;
        answer.insert_header("x-gateway-cache-status", "DISABLED")?;
    }
    trace(answer, ctx)?;
    if ctx.is_http10 {
        answer.remove_header(&TRANSFER_ENCODING);
    }
    let media = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A compressed answer tells nothing, and an event of ours inside it would only spoil it.
    let readable = !answer.headers.contains_key(CONTENT_ENCODING);
    let streamed = readable && is_media(media, "text/event-stream");
    let json = readable && is_media(media, "application/json");
    let length = answer.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    ctx.record.streamed = streamed;
    ctx.tap = (streamed || json).then(|| Tap::new(ctx.operation, streamed, json, length));
    Ok(())
}

/// The one header every answer has, the gateway's own failures among them.
pub(super) fn trace(answer: &mut ResponseHeader, ctx: &Ctx) -> Result<()> {
    if !ctx.trace_id.is_empty() {
        answer.insert_header("x-gateway-trace-id", ctx.trace_id.as_str())?;
    }
    Ok(())
}

/// Watches a piece of the body on its way to the caller.
pub(super) fn body(chunk: Option<&[u8]>, ctx: &mut Ctx) {
    let Some(chunk) = chunk.filter(|chunk| !chunk.is_empty()) else { return };
    if ctx.is_attempt {
        return;
    }
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

fn is_media(value: &str, wanted: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}
