//! Errors of control routes: one body that both families of client libraries read, unless [`super::dialect`] replaces it.
//!
//! `{"success":false,"data":{"message","errorCode"},"error":{"message","type","param","code","details"}}`: the first part is
//! Portkey's, the second OpenAI's. A handler returns `Result<_, Error>`, and `dispatch` has the error turned into a response here.

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::error::Error;

/// The response that reports this error.
pub(super) fn response(error: Error) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(CONTENT_TYPE, "application/json")], body(&error)).into_response();
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if error.is_final() {
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    }
    response.extensions_mut().insert(error);
    response
}

/// The body of the 400 for a request head that the control port cannot read.
pub fn invalid_head() -> Bytes {
    body(&Error::malformed_http("a head that the parser refuses")).into()
}

/// The body for every client but Anthropic's.
fn body(error: &Error) -> Vec<u8> {
    let mut whole: Value =
        serde_json::from_slice(&ErrorView::from(error).body(Dialect::OpenAi)).unwrap_or_default();
    if let Some(members) = whole.get_mut("error").and_then(Value::as_object_mut) {
        let detail =
            |problem: &words::error::Problem| json!({"path": problem.path, "message": problem.message});
        let details: Vec<Value> = match (&*error.problems, &error.param) {
            ([], Some(param)) => vec![json!({"path": param, "message": error.message})],
            (problems, _) => problems.iter().map(detail).collect(),
        };
        members.insert("details".to_owned(), details.into());
    }
    if let Some(members) = whole.as_object_mut() {
        members.insert("success".to_owned(), false.into());
        members
            .insert("data".to_owned(), json!({"message": error.message, "errorCode": reference_code(error)}));
    }
    whole.to_string().into_bytes()
}

/// The body for a client of this dialect.
pub(super) fn body_in(error: &Error, dialect: Dialect) -> Vec<u8> {
    ErrorView::from(error).body(dialect)
}

/// Portkey's code for a status.
fn reference_code(error: &Error) -> &'static str {
    match error.status() {
        400 | 413 | 431 => "AB01",
        401 => "AB05",
        403 => "AB03",
        404 if error.message.contains("control route") => "AB02",
        404 => "AB08",
        405 | 501 => "AB02",
        409 => "AB07",
        429 => "AB06",
        _ => "AB04",
    }
}

/// 405 for a path that has a route, but not for this method; 204 for OPTIONS. The router adds `Allow` to both.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Response {
    match method {
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => response(Error::method_not_allowed(format!("{} does not take {method}.", uri.path()))),
    }
}
