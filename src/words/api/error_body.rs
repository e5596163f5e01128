//! How an error looks to a client: the JSON error body, and the event that ends a broken stream, in each dialect.
//!
//! One shape per dialect, whoever failed: the gateway ([`Error`]) or a provider ([`ProviderError`]). Not the status or
//! the headers of the response, and not the log. A provider's error body that is in the client's dialect already is
//! not made here; it passes unchanged.

mod google_error;
mod mcp_error;

use super::Dialect;
use super::chat::ProviderError;
use super::error_names::{ErrorNames, provider_code};
use super::sse::write_event;
use crate::error::{Error, Kind, LimitDetails, LimitView, Problem};
use serde::{Serialize, Serializer};

/// What the error bodies of all dialects are made from.
#[derive(Debug, Clone, Copy)]
pub struct ErrorView<'a> {
    pub message: &'a str,
    /// The HTTP status, which Google's shape repeats.
    pub status: u16,
    /// `error.type` in OpenAI's dialects.
    pub openai_type: &'a str,
    /// `error.type` in Anthropic's dialect, a value of its published list.
    pub anthropic_type: &'a str,
    pub param: Option<&'a str>,
    pub code: Option<&'a str>,
    /// The provider's own word, where `code` and `type` are other words.
    pub provider_code: Option<&'a str>,
    /// Config problems. Only OpenAI's shape has a place for them; the message names them all.
    pub problems: &'a [Problem],
    /// The provider of the attempt. Not in Anthropic's shape.
    pub provider: Option<&'a str>,
    /// `request_id` of Anthropic's bodies, as in the response's header; the other shapes have no place for it.
    pub request_id: Option<&'a str>,
    /// Whether the body has `status` and `message` beside OpenAI's `error`, as clients of stored prompts read them.
    pub has_failure_status: bool,
    /// The limit that refused the request, in OpenAI's shape.
    pub limit: Option<&'a LimitDetails>,
}

impl<'a> From<&'a Error> for ErrorView<'a> {
    fn from(error: &'a Error) -> Self {
        let row = error.kind.row();
        let limit = error.limit.as_deref();
        Self {
            message: &error.message,
            status: row.status,
            openai_type: limit.map_or(row.openai_type, |limit| limit.error_type),
            anthropic_type: row.anthropic_type,
            param: error.param.as_deref(),
            // Portkey has none for hooks.
            code: (error.kind != Kind::HooksFailed).then(|| limit.map_or(row.code, |limit| limit.code)),
            provider_code: None,
            problems: &error.problems,
            provider: error.provider,
            request_id: None,
            has_failure_status: limit.is_some(),
            limit,
        }
    }
}

impl<'a> From<&'a ProviderError> for ErrorView<'a> {
    fn from(error: &'a ProviderError) -> Self {
        let names = ErrorNames::of(error);
        Self {
            message: &error.message,
            status: error.status,
            openai_type: names.openai_type,
            anthropic_type: names.anthropic_type,
            param: error.param.as_deref(),
            code: names.openai_code,
            provider_code: provider_code(error),
            problems: &[],
            provider: None,
            request_id: None,
            has_failure_status: false,
            limit: None,
        }
    }
}

impl<'a> ErrorView<'a> {
    /// Names the provider of the attempt, where there was one.
    #[must_use]
    pub const fn with_provider(mut self, provider: Option<&'a str>) -> Self {
        self.provider = provider;
        self
    }

    #[must_use]
    pub const fn with_request_id(mut self, request_id: &'a str) -> Self {
        self.request_id = Some(request_id);
        self
    }

    #[must_use]
    pub const fn with_failure_status(mut self, has_failure_status: bool) -> Self {
        self.has_failure_status |= has_failure_status;
        self
    }

    /// The JSON error body.
    pub fn body(&self, dialect: Dialect) -> Vec<u8> {
        match dialect {
            Dialect::OpenAi | Dialect::Responses => {
                let failure =
                    self.has_failure_status.then_some(Failure { status: "failure", message: self.message });
                json(&OpenAiBody { failure, error: self.openai_error(self.code), provider: self.provider })
            }
            Dialect::Anthropic => self.anthropic_body(self.request_id),
            Dialect::Google => google_error::body(self),
            Dialect::Mcp => mcp_error::body(self),
        }
    }

    /// Writes the event that reports a failure after the stream began. It is the last one: no `[DONE]` follows, or
    /// the response would look finished. `events` is the number of events already sent to the client, because the
    /// Responses API numbers them from 0.
    pub fn event(&self, dialect: Dialect, events: u64, out: &mut Vec<u8>) {
        match dialect {
            Dialect::OpenAi | Dialect::Google | Dialect::Mcp => write_event(out, None, &self.body(dialect)),
            Dialect::Anthropic => write_event(out, Some("error"), &self.anthropic_body(None)),
            Dialect::Responses => {
                self.responses_error(events, out);
                self.responses_failed(events + 1, out);
            }
        }
    }

    /// Writes the error event of the Responses API.
    pub(super) fn responses_error(&self, events: u64, out: &mut Vec<u8>) {
        let code = self.responses_code();
        let event = ResponsesEvent {
            kind: "error",
            code,
            message: self.message,
            param: self.param,
            sequence_number: events,
            error: self.openai_error(Some(code)),
        };
        write_event(out, Some("error"), &json(&event));
    }

    /// Writes the last event of a response that failed and passed through.
    pub(super) fn responses_failed(&self, events: u64, out: &mut Vec<u8>) {
        let failed = FailedEvent {
            kind: "response.failed",
            sequence_number: events,
            response: FailedResponse::new(self.responses_code(), self.message),
        };
        write_event(out, Some(failed.kind), &json(&failed));
    }

    pub(super) const fn responses_code(&self) -> &'a str {
        match self.code {
            Some(code) => code,
            None => self.openai_type,
        }
    }

    fn openai_error(&self, code: Option<&'a str>) -> OpenAiError<'a> {
        let Self { message, openai_type: kind, param, problems, limit, .. } = *self;
        let provider_code = self.provider_code.filter(|word| *word != kind && self.code != Some(*word));
        OpenAiError { message, kind, param, code, provider_code, problems, limit: limit.map(LimitView::from) }
    }

    fn anthropic_body(&self, request_id: Option<&str>) -> Vec<u8> {
        let provider_code = self.provider_code.filter(|word| *word != self.anthropic_type);
        let error = AnthropicError { kind: self.anthropic_type, message: self.message, provider_code };
        json(&AnthropicBody { kind: "error", error, request_id })
    }
}

#[derive(Serialize)]
struct OpenAiBody<'a> {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure<'a>>,
    error: OpenAiError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
}

/// Portkey's own shape.
#[derive(Serialize)]
struct Failure<'a> {
    status: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_code: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Problem]>::is_empty", serialize_with = "write_problems")]
    problems: &'a [Problem],
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<LimitView<'a>>,
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
    kind: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_code: Option<&'a str>,
}

/// `ResponseErrorEvent` of OpenAI's schemas, and once more in `error`: OpenAI's API sends it so, and its SDKs
/// only raise an error for that (for the flat form, the stream helper of the Node SDK reports a finished response).
#[derive(Serialize)]
struct ResponsesEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
    sequence_number: u64,
    error: OpenAiError<'a>,
}

/// The last event of a stream that failed. Agents such as Codex read no other error event.
#[derive(Serialize)]
struct FailedEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    response: FailedResponse<'a>,
}

/// A response of which no more than its failure is known: it passed through. The members are those that OpenAI's schema requires.
#[derive(Serialize)]
struct FailedResponse<'a> {
    id: &'static str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: FailedError<'a>,
    incomplete_details: Option<()>,
    instructions: Option<()>,
    metadata: Option<()>,
    model: &'static str,
    output: [(); 0],
    parallel_tool_calls: bool,
    temperature: Option<f64>,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<f64>,
}

#[derive(Serialize)]
struct FailedError<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> FailedResponse<'a> {
    const fn new(code: &'a str, message: &'a str) -> Self {
        Self {
            id: "",
            object: "response",
            created_at: 0,
            status: "failed",
            error: FailedError { code, message },
            incomplete_details: None,
            instructions: None,
            metadata: None,
            model: "",
            output: [],
            parallel_tool_calls: true,
            temperature: None,
            tool_choice: "auto",
            tools: [],
            top_p: None,
        }
    }
}

fn write_problems<S: Serializer>(problems: &[Problem], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        problems.iter().map(|problem| OpenAiProblem { path: &problem.path, message: &problem.message }),
    )
}

fn json<T: Serialize>(body: &T) -> Vec<u8> {
    // Strings and numbers always serialize; an empty body would be the worst outcome.
    serde_json::to_vec(body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECTS: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses, Dialect::Google];

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn body(error: &Error, dialect: Dialect, trace_id: &str) -> String {
        text(ErrorView::from(error).with_request_id(trace_id).body(dialect))
    }

    fn event(view: &ErrorView<'_>, dialect: Dialect, events: u64) -> String {
        let mut out = Vec::new();
        view.event(dialect, events, &mut out);
        text(out)
    }

    #[test]
    fn bodies_follow_the_client_dialect() {
        let error = Error::invalid_request("messages[0].role", "say \"user\"\n").with_provider("openai");
        let openai = r#"{"error":{"message":"say \"user\"\n","type":"invalid_request_error","param":"messages[0].role","code":"invalid_request"},"provider":"openai"}"#;
        assert_eq!(body(&error, Dialect::OpenAi, "t-1"), openai);
        assert_eq!(body(&error, Dialect::Responses, "t-1"), openai);
        assert_eq!(
            body(&error, Dialect::Anthropic, "t-1"),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"say \"user\"\n"},"request_id":"t-1"}"#,
        );
    }

    #[test]
    fn config_problems_are_listed_and_causes_are_hidden() {
        let problem =
            Problem { path: "retry.attempts".into(), message: "must be an integer".into(), place: None };
        let error = Error::invalid_config("x-gateway-config", vec![problem]);
        assert_eq!(
            body(&error, Dialect::OpenAi, "t"),
            r#"{"error":{"message":"Invalid config passed (1 problem): retry.attempts: must be an integer","type":"invalid_request_error","param":"x-gateway-config","code":"invalid_config","problems":[{"path":"retry.attempts","message":"must be an integer"}]}}"#,
        );
        let error = Error::unreachable("no way through", "10.0.0.7 refused");
        for dialect in DIALECTS {
            assert!(!body(&error, dialect, "t").contains("10.0.0.7"));
            assert!(!event(&ErrorView::from(&error), dialect, 0).contains("10.0.0.7"));
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
                "event: error\ndata: {\"type\":\"error\",\"code\":\"upstream_invalid_answer\",\"message\":\"cut \\\"short\\\"\",\"param\":null,\"sequence_number\":7,\"error\":{\"message\":\"cut \\\"short\\\"\",\"type\":\"upstream_error\",\"param\":null,\"code\":\"upstream_invalid_answer\"}}\n\n\
                 event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":8,\"response\":{\"id\":\"\",\"object\":\"response\",\"created_at\":0,\"status\":\"failed\",\"error\":{\"code\":\"upstream_invalid_answer\",\"message\":\"cut \\\"short\\\"\"},\"incomplete_details\":null,\"instructions\":null,\"metadata\":null,\"model\":\"\",\"output\":[],\"parallel_tool_calls\":true,\"temperature\":null,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null}}\n\n",
            ),
        ];
        for (dialect, wanted) in cases {
            let view = ErrorView::from(&error).with_request_id("t");
            assert_eq!(event(&view, dialect, 7), wanted);
            assert_eq!(event(&ErrorView::from(&ProviderError::from(&error)), dialect, 7), wanted);
        }
    }

    #[test]
    fn an_error_without_a_code_has_its_type_as_code_in_responses_events() {
        let error = ProviderError::new(500, "no");
        let view = ErrorView::from(&error).with_provider(Some("x"));
        assert_eq!(
            text(view.body(Dialect::Responses)),
            r#"{"error":{"message":"no","type":"server_error","param":null,"code":null},"provider":"x"}"#,
        );
        assert_eq!(
            event(&view, Dialect::Responses, 3),
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\",\"param\":null,\"sequence_number\":3,\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":null,\"code\":\"server_error\"}}\n\n\
            event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":4,\"response\":{\"id\":\"\",\"object\":\"response\",\"created_at\":0,\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"},\"incomplete_details\":null,\"instructions\":null,\"metadata\":null,\"model\":\"\",\"output\":[],\"parallel_tool_calls\":true,\"temperature\":null,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null}}\n\n",
        );
        assert!(!text(view.with_request_id("t").body(Dialect::Anthropic)).contains("provider"));
    }

    /// A gateway error that ends a stream is converted to a [`ProviderError`], and keeps the words of its kind.
    #[test]
    fn gateway_errors_of_every_kind_keep_their_anthropic_type_inside_a_stream() {
        const BAD: &str = "invalid_request_error";
        let kinds = [
            (Kind::InvalidRequest, BAD),
            (Kind::InvalidConfig, BAD),
            (Kind::Unauthorized, "authentication_error"),
            (Kind::NotFound, "not_found_error"),
            (Kind::MethodNotAllowed, BAD),
            (Kind::RequestTimeout, "timeout_error"),
            (Kind::BodyTooLarge, "request_too_large"),
            (Kind::HeadersTooLarge, BAD),
            (Kind::ClientClosed, BAD),
            (Kind::NotImplemented, BAD),
            (Kind::Unreachable, "api_error"),
            (Kind::InvalidResponse, "api_error"),
            (Kind::CredentialsUnavailable, "api_error"),
            (Kind::Draining, "overloaded_error"),
            (Kind::TooManyConnections, "overloaded_error"),
            (Kind::UpstreamTimeout, "timeout_error"),
            (Kind::Internal, "api_error"),
        ];
        for (kind, wanted) in kinds {
            let error = Error { kind, ..Error::internal("cause") };
            let error = ProviderError::from(&error);
            let view = ErrorView::from(&error);
            let row = kind.row();
            assert_eq!(view.anthropic_type, wanted, "{kind:?}");
            assert_eq!((view.openai_type, view.code), (row.openai_type, Some(row.code)), "{kind:?}");
        }
    }
}
