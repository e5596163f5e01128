//! Heads as plain maps: Pingora's own keep how every name was spelled, which costs a parse and two allocations for
//! each name put in. HTTP does not care for the spelling, and over HTTP/2 there is none; it is kept where all
//! passes as it is, where a header was asked for under its own name, and where protocols are switched.
//!
//! Only how a head is edited; what stands in it is decided by `answer` and `upstream`.

use super::request_context::RequestContext;
use crate::route::request_mode::RequestMode;
use crate::route::target::Target;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request, response};
use pingora::http::{RequestHeader, ResponseHeader};

pub const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");
pub const OPTION_INDEX: HeaderName = HeaderName::from_static("x-gateway-last-used-option-index");
pub const RETRIES: HeaderName = HeaderName::from_static("x-gateway-retry-attempt-count");
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("x-gateway-cache-status");
pub const ATTEMPTS: HeaderName = HeaderName::from_static("x-gateway-attempts");
pub const WARNINGS: HeaderName = HeaderName::from_static("x-gateway-warnings");
pub const TRACE_ID: HeaderName = HeaderName::from_static("x-gateway-trace-id");

/// What becomes of the names in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderCase {
    /// They stay as they were spelled.
    Preserved,
    /// They are in lower case, but for those Pingora writes in capitals.
    Lower,
}

impl HeaderCase {
    /// Of a request to this target.
    pub fn for_request(ctx: &RequestContext, target: &Target, is_upgrade: bool) -> Self {
        match ctx.mode == RequestMode::Passthrough
            || is_upgrade
            || !target.policies.forward_headers().is_empty()
        {
            true => Self::Preserved,
            false => Self::Lower,
        }
    }

    /// Of an answer; where protocols are switched, some clients look for a spelling.
    pub fn for_response(ctx: &RequestContext, response: &ResponseHeader) -> Self {
        let switches = response.status == StatusCode::SWITCHING_PROTOCOLS;
        if ctx.mode == RequestMode::Passthrough || switches { Self::Preserved } else { Self::Lower }
    }
}

/// Edits an answer's headers.
pub fn edit_response_headers(
    response: &mut ResponseHeader,
    case: HeaderCase,
    change: impl FnOnce(&mut HeaderMap),
) {
    if case == HeaderCase::Preserved {
        let mut headers = response.headers.clone();
        change(&mut headers);
        for name in changed(&response.headers, &headers) {
            response.remove_header(&name);
            for value in headers.get_all(&name) {
                // It stands in a header map: it can stand in this one.
                let _ = response.append_header(&name, value.clone());
            }
        }
        return;
    }
    // A reason phrase of the provider's own.
    let reason = response.get_reason_phrase();
    let reason = reason.filter(|_| reason != response.status.canonical_reason()).map(str::to_owned);
    let (empty, ()) = http::Response::new(()).into_parts();
    let mut parts = response::Parts::from(std::mem::replace(response, ResponseHeader::from(empty)));
    change(&mut parts.headers);
    *response = ResponseHeader::from(parts);
    if reason.is_some() {
        let _ = response.set_reason_phrase(reason.as_deref());
    }
}

/// Edits a request's headers. Its target must be its URI by now: one that was written as a whole address is kept
/// apart by Pingora, and lost here.
pub fn edit_request_headers(
    request: &mut RequestHeader,
    case: HeaderCase,
    change: impl FnOnce(&mut HeaderMap),
) {
    if case == HeaderCase::Preserved {
        let mut headers = request.headers.clone();
        change(&mut headers);
        for name in changed(&request.headers, &headers) {
            request.remove_header(&name);
            for value in headers.get_all(&name) {
                let _ = request.append_header(&name, value.clone());
            }
        }
        return;
    }
    let (empty, ()) = http::Request::new(()).into_parts();
    let mut parts = request::Parts::from(std::mem::replace(request, RequestHeader::from(empty)));
    change(&mut parts.headers);
    *request = RequestHeader::from(parts);
}

/// The names whose values differ.
fn changed(before: &HeaderMap, after: &HeaderMap) -> Vec<HeaderName> {
    let same = |name: &HeaderName| before.get_all(name) == after.get_all(name);
    before.keys().chain(after.keys()).filter(|name| !same(name)).cloned().collect()
}

/// Puts in a text that may hold what no header can: it is left out then.
pub fn insert_str(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
