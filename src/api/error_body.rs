//! Our own failures in the caller's words: an error body, or the event that ends a stream which broke.
//!
//! Words only: status and headers are the door's, logging is the record's. A provider's own error body is
//! not made here; it passes as it came.

use super::Dialect;
use super::sse::write_event;
use crate::error::{Error, Problem};
use serde::Serialize;

#[derive(Serialize)]
struct OpenAiBody<'a> {
    error: OpenAiError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<OpenAiProblem<'a>>,
}

#[derive(Serialize)]
struct OpenAiProblem<'a> {
    path: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct AnthropicBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
}

/// `ResponseErrorEvent` of OpenAI's schemas, and once more in `error`: OpenAI's API sends it so, and its SDKs
/// only raise an error for that (to the flat one the Node SDK's stream helper answers with a finished response).
#[derive(Serialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'static str,
    message: &'a str,
    param: Option<&'a str>,
    sequence_number: u64,
    error: OpenAiError<'a>,
}

impl<'a> OpenAiBody<'a> {
    fn new(error: &'a Error) -> Self {
        let row = error.kind.row();
        let problem = |problem: &'a Problem| OpenAiProblem { path: &problem.path, message: &problem.message };
        Self {
            error: OpenAiError {
                message: &error.message,
                kind: row.openai_type,
                param: error.param.as_deref(),
                code: row.code,
                problems: error.problems.iter().map(problem).collect(),
            },
            provider: error.provider,
        }
    }
}

impl<'a> AnthropicBody<'a> {
    fn new(error: &'a Error, trace_id: Option<&'a str>) -> Self {
        let kind = error.kind.row().anthropic_type;
        let error = AnthropicError { kind, message: &error.message };
        Self { kind: "error", error, request_id: trace_id }
    }
}

/// The JSON body of a failure. Config problems are listed in OpenAI's shape; Anthropic's has no room for
/// them, there the message names them all.
pub fn error_body(error: &Error, dialect: Dialect, trace_id: &str) -> Vec<u8> {
    match dialect {
        Dialect::OpenAi | Dialect::Responses => json(&OpenAiBody::new(error)),
        Dialect::Anthropic => json(&AnthropicBody::new(error, Some(trace_id))),
    }
}

/// The event that tells of a failure after the stream began. It is the last one: no `[DONE]` follows, or
/// the answer would look finished. `events` is how many the caller has been sent (`Learned::events`): the
/// Responses API numbers its events from 0.
pub fn error_event(error: &Error, dialect: Dialect, events: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    match dialect {
        Dialect::OpenAi => write_event(&mut out, None, &json(&OpenAiBody::new(error))),
        Dialect::Anthropic => write_event(&mut out, Some("error"), &json(&AnthropicBody::new(error, None))),
        Dialect::Responses => {
            let event = ResponsesEvent {
                kind: "error",
                code: error.kind.row().code,
                message: &error.message,
                param: error.param.as_deref(),
                sequence_number: events,
                error: OpenAiBody::new(error).error,
            };
            write_event(&mut out, Some("error"), &json(&event));
        }
    }
    out
}

fn json<T: Serialize>(body: &T) -> Vec<u8> {
    // Strings and numbers always serialize; an empty body would be the worst that could happen.
    serde_json::to_vec(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn bodies_follow_the_client_dialect() {
        let error = Error::invalid_request("messages[0].role", "say \"user\"\n").with_provider("openai");
        let openai = r#"{"error":{"message":"say \"user\"\n","type":"invalid_request_error","param":"messages[0].role","code":"invalid_request"},"provider":"openai"}"#;
        assert_eq!(text(error_body(&error, Dialect::OpenAi, "t-1")), openai);
        assert_eq!(text(error_body(&error, Dialect::Responses, "t-1")), openai);
        assert_eq!(
            text(error_body(&error, Dialect::Anthropic, "t-1")),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"say \"user\"\n"},"request_id":"t-1"}"#,
        );
    }

    #[test]
    fn config_problems_are_listed_and_causes_are_hidden() {
        let problem =
            Problem { path: "retry.attempts".into(), message: "must be an integer".into(), place: None };
        let error = Error::invalid_config("x-gateway-config", vec![problem]);
        assert_eq!(
            text(error_body(&error, Dialect::OpenAi, "t")),
            r#"{"error":{"message":"Invalid config passed (1 problem): retry.attempts: must be an integer","type":"invalid_request_error","param":"x-gateway-config","code":"invalid_config","problems":[{"path":"retry.attempts","message":"must be an integer"}]}}"#,
        );
        let error = Error::unreachable("no way through", "10.0.0.7 refused");
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses] {
            assert!(!text(error_body(&error, dialect, "t")).contains("10.0.0.7"));
            assert!(!text(error_event(&error, dialect, 0)).contains("10.0.0.7"));
        }
    }

    #[test]
    fn events_follow_the_client_dialect_and_end_the_stream() {
        let error = Error::invalid_response("cut \"short\"", "eof");
        let cases = [
            (
                Dialect::OpenAi,
                "data: {\"error\":{\"message\":\"cut \\\"short\\\"\",\"type\":\"upstream_error\",\"param\":null,\"code\":\"upstream_invalid_answer\"}}\n\n",
            ),
            (
                Dialect::Anthropic,
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"cut \\\"short\\\"\"}}\n\n",
            ),
            (
                Dialect::Responses,
                "event: error\ndata: {\"type\":\"error\",\"code\":\"upstream_invalid_answer\",\"message\":\"cut \\\"short\\\"\",\"param\":null,\"sequence_number\":7,\"error\":{\"message\":\"cut \\\"short\\\"\",\"type\":\"upstream_error\",\"param\":null,\"code\":\"upstream_invalid_answer\"}}\n\n",
            ),
        ];
        for (dialect, wanted) in cases {
            assert_eq!(text(error_event(&error, dialect, 7)), wanted);
        }
    }
}
