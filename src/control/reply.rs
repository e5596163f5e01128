//! The response of a control route, before it is written.

use crate::engine::header_edit::WARNINGS;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

/// Status and body.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
    /// What of the request was not used.
    warnings: Vec<String>,
}

impl Reply {
    /// `{}`: what the reference responds to most changes.
    pub fn empty() -> Self {
        Self::from(json!({}))
    }

    /// `{"success":true,"data":{…}}` with the members of `data` beside it: the reference's document has the one, its client
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
        Self { status: StatusCode::OK, content_type, body: body.into(), warnings: Vec::new() }
    }

    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
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
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
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
