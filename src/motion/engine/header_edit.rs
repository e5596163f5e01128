//! Edits headers as plain maps. Pingora's header types keep the case of every name, which costs a parse and two
//! allocations for each name inserted. Names are case-insensitive in HTTP and always lower case in HTTP/2; the case is
//! preserved for passthrough requests, for targets with `forward_headers`, and for upgrades.
//!
//! Only how headers are edited; `response_headers` and `upstream_headers` decide what they contain.

use super::request_context::RequestContext;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request, response};
use judgment::route::request_mode::RequestMode;
use judgment::route::target::Target;
use knowledge::provider::credential_mask::CredentialMask;
use pingora::http::{RequestHeader, ResponseHeader};

pub const PROVIDER: HeaderName = HeaderName::from_static("x-gateway-provider");
pub(crate) const OPTION_INDEX: HeaderName = HeaderName::from_static("x-gateway-last-used-option-index");
pub(crate) const RETRIES: HeaderName = HeaderName::from_static("x-gateway-retry-attempt-count");
pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("x-gateway-cache-status");
pub(crate) const COST_STATUS: HeaderName = HeaderName::from_static("x-gateway-cost-status");
pub(crate) const ATTEMPTS: HeaderName = HeaderName::from_static("x-gateway-attempts");
pub(crate) const REASON: HeaderName = HeaderName::from_static("x-gateway-target-reason");
pub const WARNINGS: HeaderName = HeaderName::from_static("x-gateway-warnings");
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-gateway-trace-id");

/// The id of the limit that refused a request, and when its bucket starts anew.
pub const LIMIT: HeaderName = HeaderName::from_static("x-gateway-limit");
pub(crate) const LIMIT_RESET: HeaderName = HeaderName::from_static("x-gateway-limit-reset");

/// Read by the clients of OpenAI and Anthropic before they repeat a request.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
pub const NEVER: HeaderValue = HeaderValue::from_static("false");

/// How header names are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderCase {
    /// As the sender spelled them.
    Preserved,
    /// In lower case, except for names that Pingora capitalizes.
    Lower,
}

impl HeaderCase {
    /// The case for a request to this target.
    pub fn for_request(ctx: &RequestContext, target: &Target, is_upgrade: bool) -> Self {
        if ctx.api.mode == RequestMode::Passthrough
            || is_upgrade
            || !target.policies.forward_headers().is_empty()
        {
            Self::Preserved
        } else {
            Self::Lower
        }
    }

    /// The case for a response. Some clients of an upgrade compare the names case-sensitively.
    pub(crate) fn for_response(ctx: &RequestContext, response: &ResponseHeader) -> Self {
        let switches = response.status == StatusCode::SWITCHING_PROTOCOLS;
        if ctx.api.mode == RequestMode::Passthrough || switches { Self::Preserved } else { Self::Lower }
    }
}

/// Edits a response's headers.
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
                // Name and value come from a header map, so they are valid here.
                let _ = response.append_header(&name, value.clone());
            }
        }
        return;
    }
    // Keeps a reason phrase that is not the standard one.
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

/// Edits a request's headers. The request-target must be in the URI already: Pingora stores an absolute one
/// separately, and with [`HeaderCase::Lower`] it is lost here.
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

/// Removes headers of a failing response that echo the gateway's credentials.
pub fn mask_headers(response: &mut ResponseHeader, mask: &CredentialMask) {
    let mut headers = response.headers.clone();
    mask.headers(&mut headers);
    for name in changed(&response.headers, &headers) {
        response.remove_header(&name);
    }
}

/// The body to send in place of a failing response's that is compressed and may echo the gateway's credentials.
pub fn withheld(response: &mut ResponseHeader, mask: &CredentialMask) -> Option<Bytes> {
    let mut headers = response.headers.clone();
    let body = mask.withheld(&mut headers)?;
    for name in changed(&response.headers, &headers) {
        response.remove_header(&name);
        if let Some(value) = headers.get(&name) {
            // Name and value are valid.
            let _ = response.insert_header(name, value.clone());
        }
    }
    Some(body)
}

/// Inserts a text as a header; does nothing if it contains characters that no header value may have.
pub fn insert_str(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}
