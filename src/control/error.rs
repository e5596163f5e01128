//! Errors of control routes: the error body of the data plane, in OpenAI's shape unless [`super::dialect`] replaces it.
//!
//! A handler returns `Result<_, Error>`, and this file turns the error into a response. Handlers decide which error.

use crate::api::Dialect;
use crate::api::error_body::ErrorView;
use crate::error::Error;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode, Uri};

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = body(&self, Dialect::OpenAi);
        let mut response = (status, [(CONTENT_TYPE, "application/json")], body).into_response();
        if self.is_final() {
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The body of an error.
pub(super) fn body(error: &Error, dialect: Dialect) -> Vec<u8> {
    ErrorView::from(error).body(dialect)
}

/// 405 for a path that has a route, but not for this method; 204 for OPTIONS. The router adds `Allow` to both.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Response {
    match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => Error::method_not_allowed(format!("{} does not take {method}.", uri.path())).into_response(),
    }
}
