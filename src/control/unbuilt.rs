//! The answer for control paths that have no route: 501 for those the spec has and this version has not,
//! 404 for the rest.
//!
//! Not a stub of those routes: it only says that they are not there.

use super::SEGMENTS;
use crate::api::{Dialect, reply};
use crate::error::Error;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode, Uri};

pub(super) async fn answer(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let first = path.strip_prefix("/v1/").and_then(|below| below.split('/').next()).unwrap_or_default();
    let error = match SEGMENTS.contains(&first) {
        true => Error::not_implemented(format!(
            "{method} {path} belongs to the control plane and is not available in this version of the gateway."
        )),
        false => Error::not_found(format!("There is no control route at {path}.")),
    };
    let trace_id = headers.get("x-gateway-trace-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::NOT_FOUND);
    let body = reply::error_body(&error, Dialect::OpenAi, trace_id);
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
