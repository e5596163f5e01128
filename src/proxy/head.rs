//! Heads as plain maps: Pingora's own keep how every name was spelled, which costs a parse and two allocations for
//! each name put in. HTTP does not care for the spelling, and over HTTP/2 there is none; it is kept where all
//! passes as it is, where a header was asked for under its own name, and where protocols are switched.
//!
//! Only how a head is edited; what stands in it is decided by `answer` and `upstream`.

use super::ctx::Ctx;
use crate::route::leaf::Leaf;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request, response};
use pingora::http::{RequestHeader, ResponseHeader};

pub(super) const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");
pub(super) const OPTION_INDEX: HeaderName = HeaderName::from_static("x-gateway-last-used-option-index");
pub(super) const RETRIES: HeaderName = HeaderName::from_static("x-gateway-retry-attempt-count");
pub(super) const CACHE_STATUS: HeaderName = HeaderName::from_static("x-gateway-cache-status");
pub(super) const ATTEMPTS: HeaderName = HeaderName::from_static("x-gateway-attempts");
pub(super) const WARNINGS: HeaderName = HeaderName::from_static("x-gateway-warnings");
pub(super) const TRACE_ID: HeaderName = HeaderName::from_static("x-gateway-trace-id");

/// What becomes of the names in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// They stay as they were spelled.
    Spelled,
    /// They are in lower case, but for those Pingora writes in capitals.
    Lower,
}

impl Names {
    /// Of a request to this target.
    pub fn of_request(ctx: &Ctx, leaf: &Leaf, is_upgrade: bool) -> Self {
        match ctx.passes_all() || is_upgrade || !leaf.forward_headers.is_empty() {
            true => Self::Spelled,
            false => Self::Lower,
        }
    }

    /// Of an answer; where protocols are switched, some clients look for a spelling.
    pub fn of_answer(ctx: &Ctx, answer: &ResponseHeader) -> Self {
        let switches = answer.status == StatusCode::SWITCHING_PROTOCOLS;
        if ctx.passes_all() || switches { Self::Spelled } else { Self::Lower }
    }
}

/// Edits an answer's headers.
pub(super) fn edit_answer(answer: &mut ResponseHeader, names: Names, change: impl FnOnce(&mut HeaderMap)) {
    if names == Names::Spelled {
        let mut headers = answer.headers.clone();
        change(&mut headers);
        for name in changed(&answer.headers, &headers) {
            answer.remove_header(&name);
            for value in headers.get_all(&name) {
                // It stands in a header map: it can stand in this one.
                let _ = answer.append_header(&name, value.clone());
            }
        }
        return;
    }
    // A reason phrase of the provider's own.
    let reason = answer.get_reason_phrase();
    let reason = reason.filter(|_| reason != answer.status.canonical_reason()).map(str::to_owned);
    let (nothing, ()) = http::Response::new(()).into_parts();
    let mut parts = response::Parts::from(std::mem::replace(answer, ResponseHeader::from(nothing)));
    change(&mut parts.headers);
    *answer = ResponseHeader::from(parts);
    if reason.is_some() {
        let _ = answer.set_reason_phrase(reason.as_deref());
    }
}

/// Edits a request's headers. Its target must be its URI by now: one that was written as a whole address is kept
/// apart by Pingora, and lost here.
pub(super) fn edit_request(head: &mut RequestHeader, names: Names, change: impl FnOnce(&mut HeaderMap)) {
    if names == Names::Spelled {
        let mut headers = head.headers.clone();
        change(&mut headers);
        for name in changed(&head.headers, &headers) {
            head.remove_header(&name);
            for value in headers.get_all(&name) {
                let _ = head.append_header(&name, value.clone());
            }
        }
        return;
    }
    let (nothing, ()) = http::Request::new(()).into_parts();
    let mut parts = request::Parts::from(std::mem::replace(head, RequestHeader::from(nothing)));
    change(&mut parts.headers);
    *head = RequestHeader::from(parts);
}

/// The names whose values differ.
fn changed(before: &HeaderMap, after: &HeaderMap) -> Vec<HeaderName> {
    let same = |name: &HeaderName| before.get_all(name) == after.get_all(name);
    before.keys().chain(after.keys()).filter(|name| !same(name)).cloned().collect()
}

/// Puts in a text that may hold what no header can: it is left out then.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
