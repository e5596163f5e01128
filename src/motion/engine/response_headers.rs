//! The header of the response the client gets: the provider's with the gateway's headers added, or the gateway's own.
//!
//! Also the body of a response that is not validated ([`response_filter`] and [`response_body_filter`]): of requests
//! that Pingora proxies natively, and of providers' errors. All other bodies go through `response_body`.

use super::content_kind::is_media;
use super::cors;
use super::cost;
use super::header_edit::{self, HeaderCase};
use super::request_context::RequestContext;
use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use judgment::route::request_mode::RequestMode;
use knowledge::provider;
use knowledge::provider::rewriter::{ErrorResponseTranslation, Rewriter};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::time::Instant;
use words::api::chat::ProviderError;
use words::api::operation::ResponseKind;
use words::api::tap::{NO_REASON, Tap};
use words::api::{Dialect, request_id};
use words::error::Error;
use words::json::JsonStr;
use words::json::splice::append_member;

/// As many headers as are added to most responses.
const MAX_ADDED: usize = 15;

/// Adds the gateway's headers to a provider's final response, and prepares to observe its body.
pub fn response_filter(response: &mut ResponseHeader, ctx: &mut RequestContext) {
    if response.status.is_informational() && response.status != http::StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let media = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A compressed body cannot be read, and text of ours inside it would corrupt it.
    let readable = !response.headers.contains_key(CONTENT_ENCODING);
    let streamed = readable && is_media(media, "text/event-stream");
    let json = readable && is_media(media, "application/json");
    let length = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    ctx.record.streamed = streamed;
    ctx.observers.rewriter = if readable { rewriter(response, ctx, streamed, length) } else { None };
    ctx.observers.tap = match response.status {
        // Each turn of a realtime session has a record of its own (`realtime`).
        http::StatusCode::SWITCHING_PROTOCOLS => None,
        _ if readable => Some(Tap::new(ctx.api.operation, streamed, json, length)),
        _ => Some(Tap::of_compressed()),
    };
    let response_status = response.status;
    let attempt = ctx.facts.attempt.as_ref().filter(|_| response_status.is_success());
    ctx.facts.is_unpriced = attempt.is_some_and(|attempt| {
        let response = ctx.observers.tap.as_ref().map(Tap::summary);
        cost::is_unknown(&ctx.prices, attempt, response, false)
    });
    header_edit::edit_response_headers(response, HeaderCase::for_response(ctx, response), |headers| {
        if ctx.observers.rewriter.is_some() {
            headers.remove(CONTENT_LENGTH);
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if response_status == http::StatusCode::NOT_IMPLEMENTED
            && !headers.contains_key(header_edit::SHOULD_RETRY)
        {
            headers.insert(header_edit::SHOULD_RETRY, header_edit::NEVER);
        }
        add_gateway_headers(headers, ctx);
    });
}

/// The rewriter of a response that is not translated as a whole: it translates an error body into the client's dialect,
/// or patches the provider's quirks. `None` if the body passes unchanged.
fn rewriter(
    response: &ResponseHeader,
    ctx: &RequestContext,
    streamed: bool,
    length: Option<usize>,
) -> Option<Rewriter> {
    let attempt = ctx.facts.attempt.as_ref()?;
    let status = response.status.as_u16();
    if status >= 400 {
        let is_socket = ctx.api.operation.response_kind() == ResponseKind::Socket;
        let printable = ctx.api.mode == RequestMode::Api && !is_socket;
        let translates = printable && length != Some(0) && !streamed;
        let error_response = ErrorResponseTranslation {
            status,
            dialect: ctx.api.dialect,
            provider: attempt.target.provider.id(),
            request_id: request_id(&response.headers, ctx),
            kind: ProviderError::type_header(&response.headers).map(str::to_owned),
        };
        return translates.then(|| Rewriter::error_response(error_response));
    }
    let translation = attempt.translation.as_ref().filter(|translation| translation.is_patch())?;
    Some(translation.rewriter(streamed, &ctx.span.trace_id, 0))
}

/// Adds the gateway's headers to a response.
pub(crate) fn add_gateway_headers(headers: &mut HeaderMap, ctx: &RequestContext) {
    // Once for all, instead of twice on the way.
    headers.reserve(MAX_ADDED);
    if let Some(attempt) = &ctx.facts.attempt {
        headers.insert(header_edit::PROVIDER, HeaderValue::from_static(attempt.target.provider.id()));
        headers.insert(header_edit::OPTION_INDEX, attempt.target.index_header());
        headers.insert(header_edit::RETRIES, ctx.record.retries_text());
        headers.insert(header_edit::CACHE_STATUS, HeaderValue::from_static(ctx.facts.cache.status.as_str()));
        if let Some(age) = ctx.facts.cache.age {
            headers.insert(AGE, age.into());
        }
        if ctx.facts.is_unpriced {
            headers.insert(header_edit::COST_STATUS, HeaderValue::from_static("unknown"));
        }
        if ctx.record.shows_attempts() {
            header_edit::insert_str(headers, header_edit::ATTEMPTS, &ctx.record.attempts_text());
            if let Some(reason) = ctx.record.reason_text() {
                headers.insert(header_edit::REASON, HeaderValue::from_static(reason));
            }
        }
        ctx.limits.add_headers(headers);
        let late = ctx.facts.lacks_reason.then_some(NO_REASON);
        if late.is_some() || !attempt.warnings.is_empty() {
            let all = attempt.warnings.iter().map(String::as_str).chain(late);
            header_edit::insert_str(headers, header_edit::WARNINGS, &warnings(all));
        }
    }
    add_basic_headers(headers, ctx);
    if ctx.reply.is_http10 {
        headers.remove(TRANSFER_ENCODING);
    }
}

/// An empty header of the gateway's own.
pub fn new_header(status: http::StatusCode) -> Result<ResponseHeader, Error> {
    ResponseHeader::build_no_case(status, Some(8)).map_err(|error| Error::internal(error.to_string()))
}

/// The header of a stream that begins before the provider has responded.
pub fn early_header(ctx: &RequestContext) -> Result<ResponseHeader, Error> {
    let mut response = new_header(http::StatusCode::OK)?;
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if !ctx.reply.is_http10 {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        add_basic_headers(headers, ctx);
    });
    Ok(response)
}

/// The response for a provider's error that came with a successful status: sent with the status that fits the error.
pub fn provider_error(
    mut response: Box<ResponseHeader>,
    provider_error: &ProviderError,
    ctx: &mut RequestContext,
) -> Vec<HttpTask> {
    let provider = ctx.facts.attempt.as_ref().map(|attempt| attempt.target.provider.id());
    let request_id = request_id(&response.headers, ctx);
    let body = Bytes::from(provider_error.body(ctx.api.dialect, provider, Some(&request_id)));
    let status = http::StatusCode::from_u16(provider_error.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
    // Cannot fail: the status is valid.
    let _ = response.set_status(status);
    header_edit::edit_response_headers(&mut response, HeaderCase::Lower, |headers| {
        for name in [CONTENT_ENCODING, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, body.len().into());
        add_gateway_headers(headers, ctx);
    });
    let mut tap = Tap::new(ctx.api.operation, false, true, Some(body.len()));
    tap.push(&body);
    ctx.observers.tap = Some(tap);
    vec![HttpTask::Header(response, false), HttpTask::Body(Some(body), true)]
}

/// Warnings as one header value: plain ASCII, at most 2 KiB.
pub fn warnings<'m>(messages: impl Iterator<Item = &'m str>) -> String {
    let printable = |char: char| if char.is_ascii() && !char.is_ascii_control() { char } else { '?' };
    messages.collect::<Vec<_>>().join("; ").chars().take(2048).map(printable).collect()
}

/// Adds the headers that every response has, the gateway's own errors included: the trace id, the request's id under the
/// name that the client's SDK reads, and which pages may read it. Repeats the gateway's headers under the prefixes that the client used, so it is
/// called last.
pub fn add_basic_headers(headers: &mut HeaderMap, ctx: &RequestContext) {
    cors::write(headers, ctx.snapshot.settings.cors.as_ref(), ctx.reply.allowed_origin.as_ref());
    let trace_id = HeaderValue::from_str(&ctx.span.trace_id).ok().filter(|id| !id.is_empty());
    let name = request_id::header_of(ctx.api.dialect);
    if !headers.contains_key(&name)
        && let Some(id) = provider_request_id(headers, ctx).cloned().or_else(|| trace_id.clone())
    {
        headers.insert(name, id);
    }
    if let Some(trace_id) = trace_id {
        headers.insert(header_edit::TRACE_ID, trace_id);
    }
    ctx.snapshot.reply_headers.repeat(ctx.reply.used_prefixes, headers);
}

/// The id that the provider gave the request.
fn provider_request_id<'h>(headers: &'h HeaderMap, ctx: &RequestContext) -> Option<&'h HeaderValue> {
    provider::request_id::read(ctx.facts.attempt.as_ref()?.target.provider.id(), headers)
}

/// The id of the request as [`add_basic_headers`] writes it, for a body that names it too.
fn request_id(headers: &HeaderMap, ctx: &RequestContext) -> String {
    let id = headers.get(request_id::header_of(ctx.api.dialect));
    let id = id.or_else(|| provider_request_id(headers, ctx)).and_then(|id| id.to_str().ok());
    id.unwrap_or(&ctx.span.trace_id).to_owned()
}

/// Copies the request's id from an error body to the header, where a provider that speaks Anthropic's dialect sends it only
/// in the body: the two must agree.
pub(crate) fn adopt_request_id(response: &mut ResponseHeader, body: &[u8], ctx: &RequestContext) {
    #[derive(serde::Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        request_id: Option<JsonStr<'a>>,
    }
    let headers = &response.headers;
    let is_anthropic = ctx.api.dialect == Dialect::Anthropic;
    if !is_anthropic
        || provider_request_id(headers, ctx).is_some()
        || headers.contains_key(&request_id::ANTHROPIC)
    {
        return;
    }
    let named = serde_json::from_slice::<Named<'_>>(body).ok().and_then(|body| body.request_id);
    if let Some(id) = named.and_then(|id| HeaderValue::from_str(&id).ok()).filter(|id| !id.is_empty()) {
        let edit = |headers: &mut HeaderMap| drop(headers.insert(request_id::ANTHROPIC, id));
        header_edit::edit_response_headers(response, HeaderCase::for_response(ctx, response), edit);
    }
}

/// Patches a chunk of the body if it needs that, and observes it on its way to the client.
pub fn response_body_filter(chunk: &mut Option<Bytes>, end: bool, ctx: &mut RequestContext) {
    if let Some(rewriter) = &mut ctx.observers.rewriter {
        let mut out = Vec::new();
        ctx.record.original_received(chunk.as_deref().unwrap_or_default());
        rewriter.push(chunk.as_deref().unwrap_or_default(), &mut out);
        if end {
            rewriter.finish(&mut out);
        }
        *chunk = Some(Bytes::from(out));
    }
    let Some(chunk) = chunk.as_deref().filter(|chunk| !chunk.is_empty()) else { return };
    ctx.record.body_sent(chunk);
    if ctx.record.traffic.first_byte.is_none() {
        ctx.record.traffic.first_byte = Some(Instant::now());
    }
    if let Some(tap) = &mut ctx.observers.tap {
        let first_token = tap.push(chunk) && !tap.summary().is_unread;
        if first_token && ctx.record.traffic.first_token.is_none() {
            ctx.record.traffic.first_token = Some(Instant::now());
        }
    }
}

/// Adds what hooks found on the request to the body of a provider's error, if that is a JSON object.
pub(crate) fn add_hook_results(
    response: &mut ResponseHeader,
    body: &mut Option<Bytes>,
    ctx: &RequestContext,
) {
    let Some(results) = ctx.reply.hook_results.as_deref() else { return };
    let added = body.as_ref().and_then(|body| append_member(body, "hook_results", results));
    let Some(added) = added else { return };
    if response.headers.contains_key(CONTENT_LENGTH) {
        // A number is always a valid header value.
        let _ = response.insert_header(CONTENT_LENGTH, added.len());
    }
    *body = Some(Bytes::from(added));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_compared_without_its_parameters() {
        for value in ["text/plain", "TEXT/Plain", " text/plain ;charset=utf-8", "text/plain;", "text/plain "]
        {
            assert!(is_media(value, "text/plain"), "{value:?}");
        }
        for value in [
            "",
            "text/plai",
            "text/plainx",
            "text/plain x",
            "text/plain,a",
            "a;text/plain",
            "\u{e9}text/plain",
        ] {
            assert!(!is_media(value, "text/plain"), "{value:?}");
        }
    }
}
