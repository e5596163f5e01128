//! The emulator's own routes under `/_emulator/`: the request log, the bill and the counters.
//!
//! These requests are neither logged nor counted.

use super::body::Body;
use super::call::query;
use super::serve::HttpResponse;
use super::state::State;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::json;
use std::time::Duration;

/// The longest `wait` a log reader may set.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Responds to `route`, the path after `/_emulator/`.
pub(super) async fn respond(state: &State, parts: &Parts, route: &str) -> HttpResponse {
    let tag = query(parts, "tag");
    let tag = tag.as_deref();
    let (status, body) = match (&parts.method, route) {
        (&Method::GET, "requests") => {
            if let Some(ms) = query(parts, "wait").and_then(|ms| ms.parse().ok()) {
                state.journal.settled(tag, Duration::from_millis(ms).min(MAX_WAIT)).await;
            }
            (StatusCode::OK, state.journal.json(tag))
        }
        (&Method::DELETE, "requests") => {
            state.journal.clear(tag);
            (StatusCode::OK, json!({"cleared": true}))
        }
        (&Method::GET, "bill") => (StatusCode::OK, state.charges.json()),
        (&Method::GET, "stats") => (StatusCode::OK, state.stats.json()),
        _ => {
            let routes = ["GET requests", "DELETE requests", "GET bill", "GET stats"];
            (StatusCode::NOT_FOUND, json!({"error": {"message": "No such route.", "routes": routes}}))
        }
    };
    let mut response = Response::new(Body::whole(Bytes::from(body.to_string()), None));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
