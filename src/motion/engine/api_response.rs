//! The response of an API that is called as a tool: whatever its status is, it becomes the result of the tool.
//!
//! From here on it is what an MCP server would send; the exchange keeps the status of the API.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use judgment::route::attempt::Attempt;
use knowledge::provider::translation::Translation;
use pingora::http::ResponseHeader;
use words::api::openapi::answer::ApiHead;

/// How the response is read, with the header that it has from here on. `None`: it is of no API, and its header stays as it is.
pub(super) fn translation(attempt: &Attempt, header: &mut ResponseHeader) -> Option<Translation> {
    attempt.target.api.as_ref()?;
    let text = |name: HeaderName| header.headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = text(CONTENT_ENCODING).is_none_or(|value| value.is_empty() || value == "identity");
    let head = ApiHead {
        status: header.status.as_u16(),
        media: text(CONTENT_TYPE).unwrap_or_default().to_owned(),
        is_encoded: header.headers.contains_key(CONTENT_ENCODING) && !is_plain,
    };
    let translation = attempt.translation.as_ref()?.of_api(head);
    // Its other headers are between the API and the gateway.
    let others: Vec<HeaderName> =
        header.headers.keys().filter(|name| *name != RETRY_AFTER).cloned().collect();
    for name in others {
        header.remove_header(&name);
    }
    // Both are valid, so that they are always taken.
    let _ = header.set_status(StatusCode::OK);
    let _ = header.insert_header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(translation)
}
