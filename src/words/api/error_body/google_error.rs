//! Google's shape of an error: `google.rpc.Status` as its JSON APIs write it.
//!
//! Example: `{"error":{"code":400,"message":"..","status":"INVALID_ARGUMENT","details":[..]}}`. The details have the gateway's own
//! code, the member it is about, the provider and the trace id in an `ErrorInfo`, and problems of a config in a `BadRequest`.
//! Source: <https://google.aip.dev/193>.

use super::{ErrorView, json};
use serde::Serialize;

/// Google's status words with their HTTP status, the first of each status for errors of others.
const STATUSES: [(&str, u16); 16] = [
    ("INVALID_ARGUMENT", 400),
    ("FAILED_PRECONDITION", 400),
    ("OUT_OF_RANGE", 400),
    ("UNAUTHENTICATED", 401),
    ("PERMISSION_DENIED", 403),
    ("NOT_FOUND", 404),
    ("ABORTED", 409),
    ("ALREADY_EXISTS", 409),
    ("RESOURCE_EXHAUSTED", 429),
    ("CANCELLED", 499),
    ("INTERNAL", 500),
    ("UNKNOWN", 500),
    ("DATA_LOSS", 500),
    ("UNIMPLEMENTED", 501),
    ("UNAVAILABLE", 503),
    ("DEADLINE_EXCEEDED", 504),
];

/// `error.status`: the provider's own word if it is one of Google's, else the one of the HTTP status.
fn status_word(view: &ErrorView<'_>) -> &'static str {
    let own = STATUSES.iter().find(|(word, _)| view.provider_code == Some(*word));
    let by_status = || STATUSES.iter().find(|(_, status)| *status == view.status);
    own.or_else(by_status).map_or_else(
        || match view.status {
            405 => "UNIMPLEMENTED",
            412 => "FAILED_PRECONDITION",
            408 => "DEADLINE_EXCEEDED",
            502 | 529 => "UNAVAILABLE",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        },
        |(word, _)| *word,
    )
}

#[derive(Serialize)]
struct Body<'a> {
    error: Status<'a>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    message: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "@type")]
enum Detail<'a> {
    #[serde(rename = "type.googleapis.com/google.rpc.ErrorInfo")]
    ErrorInfo { reason: String, domain: &'static str, metadata: Metadata<'a> },
    #[serde(rename = "type.googleapis.com/google.rpc.BadRequest", rename_all = "camelCase")]
    BadRequest { field_violations: Vec<Violation<'a>> },
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Violation<'a> {
    field: &'a str,
    description: &'a str,
}

/// The JSON error body.
pub(super) fn body(view: &ErrorView<'_>) -> Vec<u8> {
    let mut details = Vec::new();
    let metadata = Metadata { param: view.param, provider: view.provider, request_id: view.request_id };
    if let Some(code) = view.code {
        let reason = code.to_ascii_uppercase();
        details.push(Detail::ErrorInfo { reason, domain: "turnpike", metadata });
    }
    if !view.problems.is_empty() {
        let field_violations = view.problems.iter();
        let field_violations =
            field_violations.map(|problem| Violation { field: &problem.path, description: &problem.message });
        details.push(Detail::BadRequest { field_violations: field_violations.collect() });
    }
    let code = view.status;
    let message = view.message;
    let status = status_word(view);
    json(&Body { error: Status { code, message, status, details } })
}

#[cfg(test)]
mod tests {
    use crate::api::Dialect;
    use crate::api::chat::ProviderError;
    use crate::api::error_body::ErrorView;
    use crate::error::{Error, Problem};

    fn text(view: ErrorView<'_>) -> String {
        String::from_utf8(view.body(Dialect::Google)).unwrap()
    }

    #[test]
    fn errors_of_the_gateway_have_googles_statuses() {
        let error = Error::invalid_request("contents", "contents is missing.").with_provider("openai");
        assert_eq!(
            text(ErrorView::from(&error).with_request_id("t")),
            r#"{"error":{"code":400,"message":"contents is missing.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_REQUEST","domain":"turnpike","metadata":{"param":"contents","provider":"openai","request_id":"t"}}]}}"#
        );
        let problem = Problem { path: "retry".into(), message: "must be an object".into(), place: None };
        let error = Error::invalid_config("x-gateway-config", vec![problem]);
        let body = text(ErrorView::from(&error));
        assert!(
            body.contains(
                r#"BadRequest","fieldViolations":[{"field":"retry","description":"must be an object"}]"#
            ),
            "{body}"
        );
    }

    #[test]
    fn every_status_has_a_word() {
        for (status, kind, word) in [
            (400, None, "INVALID_ARGUMENT"),
            (400, Some("FAILED_PRECONDITION"), "FAILED_PRECONDITION"),
            (401, Some("authentication_error"), "UNAUTHENTICATED"),
            (402, None, "INVALID_ARGUMENT"),
            (403, None, "PERMISSION_DENIED"),
            (404, None, "NOT_FOUND"),
            (408, None, "DEADLINE_EXCEEDED"),
            (413, None, "INVALID_ARGUMENT"),
            (429, Some("rate_limit_error"), "RESOURCE_EXHAUSTED"),
            (500, None, "INTERNAL"),
            (502, None, "UNAVAILABLE"),
            (503, None, "UNAVAILABLE"),
            (504, None, "DEADLINE_EXCEEDED"),
            (529, Some("overloaded_error"), "UNAVAILABLE"),
            (599, None, "INTERNAL"),
        ] {
            let mut error = ProviderError::new(status, "no");
            error.kind = kind.map(str::to_owned);
            let wanted = format!(r#"{{"error":{{"code":{status},"message":"no","status":"{word}""#);
            let body = text(ErrorView::from(&error));
            assert!(body.starts_with(&wanted), "{body}");
        }
    }
}
