//! The answer for control paths that have no route: 501 for those the spec has and this version has not,
//! 404 for the rest.
//!
//! Not a stub of those routes: it only says that they are not there.

use super::SEGMENTS;
use super::error::error_response;
use crate::error::Error;
use axum::response::Response;
use http::{HeaderMap, Method, Uri};

pub(super) async fn respond(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let first = path.strip_prefix("/v1/").and_then(|below| below.split('/').next()).unwrap_or_default();
    let error = match SEGMENTS.contains(&first) {
        true => Error::not_implemented(format!(
            "{method} {path} belongs to the control plane and is not available in this version of the gateway."
        )),
        false => Error::not_found(format!("There is no control route at {path}.")),
    };
    error_response(&error, &headers)
}
