//! How the control plane says no: the error body of the data plane, in OpenAI's shape.
//!
//! Which error it is, the route decides.

use crate::api::{Dialect, error_body};
use crate::error::Error;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};

/// `error` as an answer to the request with these headers.
pub(super) fn error_response(error: &Error, headers: &HeaderMap) -> Response {
    let trace_id = headers.get("x-gateway-trace-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::NOT_FOUND);
    let body = error_body::error_body(error, Dialect::OpenAi, trace_id);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// 405 for a path that has a route, but not with this method.
pub(super) async fn wrong_method(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    error_response(&Error::method_not_allowed(format!("{} does not take {method}.", uri.path())), &headers)
}
