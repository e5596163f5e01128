//! Writes errors of control routes in the client's dialect: a client library of Anthropic's reads no other error body.
//!
//! All other responses are the same in each dialect.

use super::error::body_in;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use words::api::Dialect;
use words::error::Error;

/// Every request of Anthropic's libraries has it, and no other library sends it.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// Replaces the body of an error for a client of Anthropic's API.
pub(super) async fn write(request: Request, next: Next) -> Response {
    let is_anthropic = request.headers().contains_key(ANTHROPIC_VERSION);
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<Error>().filter(|_| is_anthropic) {
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(body_in(&error, Dialect::Anthropic));
    }
    response
}
