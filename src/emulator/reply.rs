//! A dialect's response before a script changes it: a whole body or a sequence of events.
//!
//! It is sent by [`super::respond`].

use super::bill::Bill;
use super::script::Script;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use std::fmt;

/// The API whose response shapes a client expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Anthropic,
    Gemini,
    Bedrock,
    Cohere,
}

impl Dialect {
    /// Amazon's name for an error, which it sends in a header.
    pub(super) fn exception(status: StatusCode) -> &'static str {
        match status.as_u16() {
            401 => "UnrecognizedClientException",
            403 => "AccessDeniedException",
            404 => "ResourceNotFoundException",
            429 => "ThrottlingException",
            503 => "ServiceUnavailableException",
            500.. => "InternalServerException",
            _ => "ValidationException",
        }
    }

    /// The dialect's error object. `param` and `code` are OpenAI's.
    pub(super) fn error(
        self,
        status: StatusCode,
        message: &str,
        param: Option<&str>,
        code: Option<&str>,
    ) -> Value {
        match self {
            Dialect::OpenAi => {
                let kind = match status.as_u16() {
                    401 => "authentication_error",
                    403 => "permission_error",
                    429 => "rate_limit_error",
                    500.. => "server_error",
                    _ => "invalid_request_error",
                };
                json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
            }
            Dialect::Anthropic => {
                let kind = match status.as_u16() {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    500.. => "api_error",
                    _ => "invalid_request_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Dialect::Gemini => {
                let kind = match status.as_u16() {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    503 => "UNAVAILABLE",
                    504 => "DEADLINE_EXCEEDED",
                    500.. => "INTERNAL",
                    _ => "INVALID_ARGUMENT",
                };
                json!({"error": {"code": status.as_u16(), "message": message, "status": kind}})
            }
            Dialect::Bedrock | Dialect::Cohere => json!({"message": message}),
        }
    }
}

/// The role of an event in its stream; scripts can leave some out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Content,
    /// Has the finish reason.
    Finish,
    /// Marks the end of the stream.
    Done,
}

/// One write of a streamed body.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) part: Part,
    pub(super) bytes: Bytes,
}

impl Event {
    /// A server-sent event without a name.
    pub(super) fn data(part: Part, json: impl fmt::Display) -> Self {
        Self { part, bytes: format!("data: {json}\n\n").into() }
    }

    /// A server-sent event with a name.
    pub(super) fn named(part: Part, name: &str, json: impl fmt::Display) -> Self {
        Self { part, bytes: format!("event: {name}\ndata: {json}\n\n").into() }
    }

    /// OpenAI's end marker.
    pub(super) fn done() -> Self {
        Self { part: Part::Done, bytes: Bytes::from_static(b"data: [DONE]\n\n") }
    }

    pub(super) fn raw(bytes: Bytes) -> Self {
        Self { part: Part::Content, bytes }
    }
}

/// Events, created lazily one by one.
pub(super) type Events = Box<dyn Iterator<Item = Event> + Send>;

/// The body of a response.
pub(super) enum Content {
    Whole(Bytes),
    /// With the Content-Length, if one is sent.
    Events(Events, Option<u64>),
}

/// A response and the script to apply to it.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: HeaderValue,
    pub(super) content: Content,
    pub(super) dialect: Dialect,
    pub(super) script: Script,
    /// What a client pays for it.
    pub(super) bill: Option<Bill>,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const SSE: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

impl Reply {
    /// 200 with JSON text.
    pub(super) fn json(text: impl Into<Bytes>) -> Self {
        Self::whole(JSON, text.into())
    }

    /// 200 with a JSON value.
    pub(super) fn value(value: &Value) -> Self {
        Self::json(value.to_string())
    }

    /// 200 with a whole body of any type.
    pub(super) fn whole(content_type: HeaderValue, body: Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            content: Content::Whole(body),
            dialect: Dialect::OpenAi,
            script: Script::default(),
            bill: None,
        }
    }

    /// 200 with server-sent events.
    pub(super) fn events(events: impl Iterator<Item = Event> + Send + 'static) -> Self {
        Self { content: Content::Events(Box::new(events), None), ..Self::whole(SSE, Bytes::new()) }
    }

    /// 200 with `length` bytes, generated while they are sent.
    pub(super) fn download(length: u64) -> Self {
        const BLOCK: &[u8; 4096] = &[b'.'; 4096];
        const SIXTEEN: [&[u8]; 16] = [BLOCK; 16];
        let block = Bytes::from(SIXTEEN.concat());
        let mut left = length;
        let blocks = std::iter::from_fn(move || {
            let size = left.min(block.len() as u64);
            left -= size;
            (size > 0).then(|| Event::raw(block.slice(..size as usize)))
        });
        let kind = HeaderValue::from_static("application/octet-stream");
        Self { content: Content::Events(Box::new(blocks), Some(length)), ..Self::whole(kind, Bytes::new()) }
    }

    #[must_use]
    pub(super) fn billed(self, bill: Bill) -> Self {
        Self { bill: Some(bill), ..self }
    }

    #[must_use]
    pub(super) fn scripted(self, script: Script) -> Self {
        Self { script, ..self }
    }

    #[must_use]
    pub(super) fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }
}

/// An error response to an invalid request.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    dialect: Dialect,
    message: String,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, dialect: Dialect::OpenAi, message: message.into(), param: None, code: None }
    }

    /// 400: a required field is missing.
    pub(super) fn missing(param: &'static str) -> Self {
        let message = format!("Missing required parameter: '{param}'.");
        let code = Some("missing_required_parameter");
        Self { param: Some(param), code, ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// 400: a field has an invalid value.
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// 400, without a field to name.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: no such object.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 404: no such model, with the dialect's message.
    pub(super) fn no_model(model: &str, dialect: Dialect) -> Self {
        let message = match dialect {
            Dialect::OpenAi => format!("The model `{model}` does not exist or you do not have access to it."),
            Dialect::Anthropic => format!("model: {model}"),
            Dialect::Gemini => {
                format!("models/{model} is not found for API version v1beta, or is not supported for it.")
            }
            Dialect::Bedrock => "The provided model identifier is invalid.".to_owned(),
            Dialect::Cohere => format!("model '{model}' not found, make sure the correct model ID was used."),
        };
        Self { code: Some("model_not_found"), dialect, ..Self::not_found(message) }
    }

    /// 413: larger than what the emulator buffers.
    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("The request body is over {limit} bytes."))
    }

    #[must_use]
    pub(super) fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }
}

impl From<ApiError> for Reply {
    fn from(refusal: ApiError) -> Self {
        let ApiError { status, dialect, message, param, code } = refusal;
        let body = dialect.error(status, &message, param, code);
        Reply { status, ..Reply::value(&body).in_dialect(dialect) }
    }
}
