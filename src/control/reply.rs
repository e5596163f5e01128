//! The response of a control route, before it is written.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use motion::engine::header_edit::WARNINGS;
use serde_json::{Value, json};

/// Status and body.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    body: Body,
    /// With the content type.
    headers: HeaderMap,
    /// What of the request was not used.
    warnings: Vec<String>,
}

impl Reply {
    /// `{}`: what Portkey responds to most changes.
    pub fn empty() -> Self {
        Self::from(json!({}))
    }

    /// `{"success":true,"data":{…}}` with the members of `data` beside it: Portkey's document has the one, its client
    /// libraries read the other.
    pub fn data(data: Value) -> Self {
        let mut body = data.clone();
        if let Value::Object(members) = &mut body {
            members.insert("success".to_owned(), true.into());
            members.insert("data".to_owned(), data);
        }
        Self::from(body)
    }

    pub fn text(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::of(content_type, Body::from(body.into()))
    }

    /// A body that is made while it is sent. Where it fails, the connection is cut, so that no client takes a part for the whole.
    pub fn streamed(
        content_type: &'static str,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Self {
        Self::of(content_type, Body::from_stream(pieces))
    }

    fn of(content_type: &'static str, body: Body) -> Self {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Self { status: StatusCode::OK, body, headers, warnings: Vec::new() }
    }

    /// Adds a header; one with a value that no header can have is left out.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds headers, which count in place of those that are there: also a content type.
    #[must_use]
    pub(crate) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    #[must_use]
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

impl From<Value> for Reply {
    fn from(body: Value) -> Self {
        Self::text("application/json", body.to_string())
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if let Some(warnings) = warnings_header(&self.warnings) {
            response.headers_mut().insert(WARNINGS, warnings);
        }
        response
    }
}

/// As the data plane writes them.
fn warnings_header(warnings: &[String]) -> Option<HeaderValue> {
    (!warnings.is_empty()).then(|| HeaderValue::from_str(&warnings.join("; ")).ok())?
}
