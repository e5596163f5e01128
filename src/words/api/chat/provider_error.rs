//! A failure reported by a provider: read from any known error format.
//!
//! How it is written in the client's dialect is in `api::error_body`. Not [`Error`], which is a failure of the gateway itself. [`ProviderError::from`] converts such an error
//! so that it can be written into a stream.

use crate::api::Dialect;
use crate::api::error_body::ErrorView;
use crate::error::{Error, Kind};
use crate::json::Json;
use http::HeaderMap;
use serde::Deserialize;

/// Longest message passed on to the client, in bytes.
const MAX_MESSAGE: usize = 8 << 10;

/// A failure reported by a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// HTTP status: the provider's, or the one that matches its error when the error came with a 200.
    pub status: u16,
    pub message: String,
    /// The provider's error type, in its own spelling: `overloaded_error`, `RESOURCE_EXHAUSTED`.
    pub kind: Option<String>,
    pub code: Option<String>,
    pub param: Option<String>,
    /// Set if it was the gateway that failed, or could not read the response: then the words are the gateway's.
    pub gateway: Option<Kind>,
}

impl ProviderError {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), kind: None, code: None, param: None, gateway: None }
    }

    pub fn with_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// The error for a response that cannot be decoded: 502.
    pub fn unreadable(what: &str) -> Self {
        // `what` may end with a quoted sentence; avoid a double full stop.
        let what = what.trim_end_matches('.');
        let message = format!("The provider's answer cannot be read: {what}.");
        let row = Kind::InvalidResponse.row();
        Self {
            code: Some(row.code.to_owned()),
            gateway: Some(Kind::InvalidResponse),
            ..Self::new(row.status, message)
        }
        .with_kind(row.openai_type)
    }

    /// Reads the body of an error response in any of the formats providers use: `{"error":{..}}`,
    /// `{"error":".."}`, `{"message":..}`, `{"detail":..}`, a list of one of these, an HTML page, plain
    /// text, or nothing.
    pub fn read(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut error = Self::new(status, "");
        match Json::parse(text.trim()) {
            Some(json) => error.take(&json),
            None => error.message = strip_tags(&text),
        }
        if error.message.is_empty() {
            error.message = format!("The provider answered with status {status} and said no more.");
        }
        shorten(&mut error.message);
        error
    }

    /// Fills in the fields from the JSON of an error.
    fn take(&mut self, json: &Json<'_>) {
        if let Some(list) = json.read::<Vec<Json<'_>>>() {
            if let Some(first) = list.first() {
                self.take(first);
            }
            return;
        }
        if let Some(text) = json.text() {
            self.message = text.into_owned();
            return;
        }
        let Some(fields) = json.read::<ErrorFields<'_>>() else { return };
        if let Some(inner) = &fields.error {
            self.take(inner);
        }
        let candidates =
            [&fields.message, &fields.message_upper, &fields.detail, &fields.msg, &fields.errors];
        if self.message.is_empty()
            && let Some(value) = candidates.into_iter().flatten().next()
        {
            match value.text() {
                Some(text) => self.message = text.into_owned(),
                None if !value.is_null() => self.message = value.get().to_owned(),
                None => {}
            }
        }
        // Cloudflare sends a list of errors, each with a message.
        if let Some(errors) = fields.errors.as_ref().filter(|errors| self.message == errors.get()) {
            self.take_listed(errors);
        }
        let scalar = |json: &Option<Json<'_>>| json.as_ref().and_then(scalar_text);
        let kind = scalar(&fields.kind).filter(|kind| kind != "error");
        self.kind = self.kind.take().or(scalar(&fields.status).filter(|_| fields.error.is_none())).or(kind);
        let aws = scalar(&fields.aws_type).map(|kind| kind.rsplit('#').next().unwrap_or(&kind).to_owned());
        self.kind = self.kind.take().or(aws);
        self.code = self.code.take().or(scalar(&fields.provider_code)).or(scalar(&fields.code));
        self.param = self.param.take().or(scalar(&fields.param));
        // OpenRouter's own message is only "Provider returned error"; the useful one, from its upstream, is
        // in `raw`.
        if let Some(raw) = fields.metadata.as_ref().and_then(|metadata| metadata.read::<Metadata<'_>>())
            && let Some(raw) = raw.raw.as_ref().and_then(Json::text)
        {
            self.message = format!("{}: {}", self.message, raw.trim());
        }
    }

    /// Uses the first of several errors if it has a message.
    fn take_listed(&mut self, errors: &Json<'_>) {
        let mut first = Self::new(self.status, "");
        if errors.read::<Vec<Json<'_>>>().is_some() {
            first.take(errors);
        }
        if !first.message.is_empty() {
            *self = first;
        }
    }

    /// The type that a response's headers name: AWS sends it there, and not in the body.
    pub fn type_header(headers: &HeaderMap) -> Option<&str> {
        // `ValidationException:http://internal.amazon.com/...`
        let kind = headers.get("x-amzn-errortype")?.to_str().ok()?.split(':').next();
        kind.filter(|kind| !kind.is_empty())
    }

    /// Adds the type that the headers name, where the body has none.
    #[must_use]
    pub fn or_kind(mut self, kind: Option<&str>) -> Self {
        self.kind = self.kind.or_else(|| kind.map(str::to_owned));
        self
    }

    /// The JSON error body in the client's dialect.
    pub fn body(&self, dialect: Dialect, provider: Option<&str>, request_id: Option<&str>) -> Vec<u8> {
        ErrorView { provider, request_id, ..ErrorView::from(self) }.body(dialect)
    }

    /// Writes the event that ends a broken stream. `events` is the number of events already sent to the
    /// client, because the Responses API numbers them from 0.
    pub fn event(&self, dialect: Dialect, provider: Option<&str>, events: u64, out: &mut Vec<u8>) {
        ErrorView::from(self).with_provider(provider).event(dialect, events, out);
    }

    /// Writes the error event of the Responses API alone; a `response.failed` follows it.
    pub(crate) fn responses_error(&self, events: u64, out: &mut Vec<u8>) {
        ErrorView::from(self).responses_error(events, out);
    }

    /// Writes the `response.failed` of a response that passed through and whose error event was sent.
    pub fn responses_failed(&self, events: u64, out: &mut Vec<u8>) {
        ErrorView::from(self).responses_failed(events, out);
    }

    /// The error's code in a response of the Responses API that failed.
    pub(crate) fn responses_code(&self) -> &str {
        ErrorView::from(self).responses_code()
    }
}

impl From<&Error> for ProviderError {
    fn from(error: &Error) -> Self {
        let row = error.kind.row();
        Self {
            status: row.status,
            message: error.message.clone(),
            kind: Some(row.openai_type.to_owned()),
            code: Some(row.code.to_owned()),
            param: error.param.clone(),
            gateway: Some(error.kind),
        }
    }
}

/// The members of an error object, over all providers' formats.
#[derive(Deserialize)]
struct ErrorFields<'a> {
    #[serde(borrow)]
    error: Option<Json<'a>>,
    message: Option<Json<'a>>,
    /// Sent by Bedrock in some cases.
    #[serde(rename = "Message")]
    message_upper: Option<Json<'a>>,
    detail: Option<Json<'a>>,
    msg: Option<Json<'a>>,
    errors: Option<Json<'a>>,
    #[serde(rename = "type")]
    kind: Option<Json<'a>>,
    /// Google's name for the type.
    status: Option<Json<'a>>,
    code: Option<Json<'a>>,
    /// The vendor's own code, where another gateway like this one has put OpenAI's in its place.
    provider_code: Option<Json<'a>>,
    /// AWS's type: `com.amazon.coral.service#UnrecognizedClientException`.
    #[serde(rename = "__type")]
    aws_type: Option<Json<'a>>,
    param: Option<Json<'a>>,
    metadata: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    raw: Option<Json<'a>>,
}

/// A non-empty JSON string, or a number, as text; `None` for anything else.
fn scalar_text(json: &Json<'_>) -> Option<String> {
    match json.text() {
        Some(text) => Some(text.into_owned()).filter(|text| !text.is_empty()),
        None => {
            Some(json.get().to_owned()).filter(|text| text.starts_with(|first: char| first.is_ascii_digit()))
        }
    }
}

/// The text of an HTML page or plain text, without tags and with white space collapsed.
fn strip_tags(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for char in text.chars() {
        match char {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            _ if !inside => out.push(char),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shorten(message: &mut String) {
    if message.len() > MAX_MESSAGE {
        let cut = (0..=MAX_MESSAGE).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        message.truncate(cut);
        message.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_of_all_providers_are_read() {
        let cases: [(&str, &str, Option<&str>, Option<&str>); 11] = [
            (
                r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"x"}}"#,
                "no",
                Some("invalid_request_error"),
                Some("x"),
            ),
            (r#"{"error":"no"}"#, "no", None, None),
            (r#"{"message":"no"}"#, "no", None, None),
            (
                r#"{"object":"error","message":"no","type":"invalid_model","code":"1500"}"#,
                "no",
                Some("invalid_model"),
                Some("1500"),
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"no"},"request_id":"r"}"#,
                "no",
                Some("overloaded_error"),
                None,
            ),
            (
                r#"{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}"#,
                "no",
                Some("RESOURCE_EXHAUSTED"),
                Some("429"),
            ),
            (
                r#"[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]"#,
                "no",
                Some("INVALID_ARGUMENT"),
                Some("400"),
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"try later\n"}}}"#,
                "Provider returned error: try later",
                None,
                Some("429"),
            ),
            (r#"{"detail":[{"loc":["body"],"msg":"bad"}]}"#, r#"[{"loc":["body"],"msg":"bad"}]"#, None, None),
            ("<html><h1>502 Bad Gateway</h1>\n<p>nginx</p></html>", "502 Bad Gateway nginx", None, None),
            ("", "The provider answered with status 418 and said no more.", None, None),
        ];
        for (body, message, kind, code) in cases {
            let error = ProviderError::read(418, body.as_bytes());
            assert_eq!(
                (error.message.as_str(), error.kind.as_deref(), error.code.as_deref()),
                (message, kind, code),
                "{body}"
            );
        }
    }
}
