//! The errors that the gateway itself reports to clients: one type, one table.
//!
//! Not here: how an error is written (`api::error_body`, in the client's dialect) and when it is logged (once,
//! with the request's record). Constructors are named as outcomes and never log.

mod hook_results;
mod limit_details;
mod of_models;
mod of_stores;
mod of_upstreams;

pub use hook_results::HookResults;
pub use limit_details::{Amounts, LimitDetails, LimitView};

use std::borrow::Cow;
use std::fmt;

/// One mistake in a config, a settings file or a request, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Dotted path from the root, `targets[1].retry.attempts`; empty for the root itself.
    pub path: String,
    /// What is wrong and what would be right, without the path.
    pub message: String,
    /// Line and column, both from 1, when the text came from a file.
    pub place: Option<(u64, u64)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// The kind of failure: decides status, `type`, `code` and the metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    InvalidRequest,
    InvalidConfig,
    InlineBlocked(Inline),
    MalformedHttp,
    Unauthorized,
    KeyExpired,
    Forbidden,
    /// A change at a gateway that only reads the store.
    EdgeNode,
    ModelNotAllowed,
    /// Of the model itself, not of an integration.
    ModelForbidden,
    ModelNotFound,
    /// The earlier response that a request goes on from.
    PreviousResponseNotFound,
    NotFound,
    MethodNotAllowed,
    Conflict,
    RequestTimeout,
    /// A usage limit is spent.
    LimitSpent,
    /// A guardrail denies the request or the response.
    HooksFailed,
    BodyTooLarge,
    /// The rest of a usage limit is reserved for requests in flight.
    LimitReserved,
    /// A rate limit is reached.
    LimitRate,
    HeadersTooLarge,
    ClientClosed,
    NotImplemented,
    Unreachable,
    /// The outbound proxy refused the connection.
    ProxyRefused,
    /// The outbound proxy could not be reached, or gave no usable answer.
    ProxyUnreachable,
    InvalidResponse,
    CredentialsUnavailable,
    /// A tool, or its MCP server, reports in a complete response that it failed.
    ToolFailed,
    Draining,
    TooManyConnections,
    MemoryLimit,
    TargetBusy,
    StoreUnavailable,
    StoreFull,
    LimitsUnavailable,
    UpstreamTimeout,
    Internal,
}

/// What a request brings with it and `auth.saved_only` forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inline {
    Config,
    Provider,
    CustomHost,
    /// An account, and with it an address, in headers of the cloud providers.
    ProviderUrl,
    ForwardHeaders,
}

impl Inline {
    /// The code, the header if it is one, and what it is.
    const fn row(self) -> (&'static str, Option<&'static str>, &'static str) {
        match self {
            Self::Config => ("inline_config_blocked", Some("x-gateway-config"), "a config of its own"),
            Self::Provider => {
                ("inline_provider_blocked", Some("x-gateway-provider"), "a provider that is not stored")
            }
            Self::CustomHost => ("inline_custom_host_blocked", Some("x-gateway-custom-host"), "a host"),
            Self::ProviderUrl => {
                ("inline_provider_url_blocked", None, "an account or address of a cloud provider")
            }
            Self::ForwardHeaders => (
                "inline_forward_headers_blocked",
                Some("x-gateway-forward-headers"),
                "headers to be forwarded",
            ),
        }
    }
}

/// One row of the table that every error is made from.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub status: u16,
    /// `error.type` in OpenAI's dialect.
    pub openai_type: &'static str,
    /// `error.type` in Anthropic's dialect (its published list of error types).
    pub anthropic_type: &'static str,
    /// `error.code`, the access line's `error_code` and the metric label.
    pub code: &'static str,
}

impl Kind {
    /// The whole table (`docs/errors.md`).
    pub const fn row(self) -> Row {
        const fn row(
            status: u16,
            openai_type: &'static str,
            anthropic_type: &'static str,
            code: &'static str,
        ) -> Row {
            Row { status, openai_type, anthropic_type, code }
        }
        const BAD: &str = "invalid_request_error";
        match self {
            Kind::InvalidRequest => row(400, BAD, BAD, "invalid_request"),
            Kind::InvalidConfig => row(400, BAD, BAD, "invalid_config"),
            Kind::InlineBlocked(inline) => row(400, BAD, BAD, inline.row().0),
            // The same code as other bad requests. A kind of its own because its connection must be closed.
            Kind::MalformedHttp => row(400, BAD, BAD, "invalid_request"),
            Kind::Unauthorized => row(401, BAD, "authentication_error", "invalid_api_key"),
            Kind::KeyExpired => row(401, BAD, "authentication_error", "expired_api_key"),
            Kind::Forbidden => row(403, BAD, "permission_error", "forbidden"),
            Kind::EdgeNode => row(403, BAD, "permission_error", "edge_node"),
            Kind::ModelNotAllowed => {
                row(412, "model_not_allowed_error", "permission_error", "model_not_allowed")
            }
            Kind::ModelForbidden => row(403, BAD, "permission_error", "model_forbidden"),
            Kind::ModelNotFound => row(404, BAD, "not_found_error", "model_not_found"),
            // OpenAI's own code, which clients of websockets read: they send the whole conversation again.
            Kind::PreviousResponseNotFound => row(400, BAD, BAD, "previous_response_not_found"),
            Kind::NotFound => row(404, BAD, "not_found_error", "not_found"),
            Kind::MethodNotAllowed => row(405, BAD, BAD, "method_not_allowed"),
            Kind::Conflict => row(409, BAD, BAD, "conflict"),
            Kind::RequestTimeout => row(408, "timeout_error", "timeout_error", "request_timeout"),
            Kind::LimitSpent => row(412, "usage_limits_exhaust_error", "billing_error", "usage_limit"),
            Kind::BodyTooLarge => row(413, BAD, "request_too_large", "body_too_large"),
            Kind::LimitReserved => {
                row(429, "budget_reserved_error", "rate_limit_error", "usage_limit_reserved")
            }
            Kind::LimitRate => row(429, "rate_limits_exhaust_error", "rate_limit_error", "rate_limit"),
            Kind::HeadersTooLarge => row(431, BAD, BAD, "head_too_large"),
            Kind::ClientClosed => row(499, BAD, BAD, "caller_left"),
            Kind::HooksFailed => row(446, "hooks_failed", BAD, "hooks_failed"),
            Kind::Internal => row(500, "server_error", "api_error", "internal_error"),
            Kind::NotImplemented => row(501, BAD, BAD, "not_implemented"),
            Kind::Unreachable => row(502, "upstream_error", "api_error", "upstream_unreachable"),
            Kind::ProxyRefused => row(502, "upstream_error", "api_error", "proxy_refused"),
            Kind::ProxyUnreachable => row(502, "upstream_error", "api_error", "proxy_unreachable"),
            Kind::InvalidResponse => row(502, "upstream_error", "api_error", "upstream_invalid_answer"),
            Kind::CredentialsUnavailable => row(502, "upstream_error", "api_error", "upstream_grant_failed"),
            Kind::ToolFailed => row(502, "upstream_error", "api_error", "tool_failed"),
            Kind::TooManyConnections => row(503, "server_error", "overloaded_error", "too_many_connections"),
            Kind::MemoryLimit => row(503, "server_error", "overloaded_error", "memory_limit"),
            Kind::TargetBusy => row(503, "server_error", "overloaded_error", "target_busy"),
            Kind::StoreUnavailable => row(503, "server_error", "api_error", "store_unavailable"),
            Kind::StoreFull => row(507, "server_error", "api_error", "store_full"),
            Kind::LimitsUnavailable => row(503, "server_error", "api_error", "limits_unavailable"),
            Kind::UpstreamTimeout => row(504, "upstream_error", "timeout_error", "upstream_timeout"),
            Kind::Draining => row(503, "server_error", "overloaded_error", "draining"),
        }
    }
}

/// A failure reported by the gateway: `message` is for the client, `cause` for the log; they never mix.
#[derive(Debug, Clone)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    /// The body field, header or config path that is wrong.
    pub param: Option<String>,
    /// All config problems, when the kind is `InvalidConfig`.
    pub problems: Box<[Problem]>,
    /// The provider the attempt went to, when there was one.
    pub provider: Option<&'static str>,
    /// Details for the operator only.
    pub cause: Option<Box<str>>,
    /// Where in `message` a name is that the client made up, from byte to byte. It may be a key in the wrong header, so
    /// logs have its beginning only.
    pub unknown_name: (u16, u16),
    /// The limit that refused the request. Boxed because few errors have one.
    pub limit: Option<Box<LimitDetails>>,
    /// What hooks found, where they denied the request or response: the JSON of the body's `hook_results`.
    pub hook_results: Option<Box<HookResults>>,
}

/// How much of a name that the client made up is logged, characters.
const LOGGED_CHARACTERS: usize = 8;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            param: None,
            problems: Box::default(),
            provider: None,
            cause: None,
            unknown_name: (0, 0),
            limit: None,
            hook_results: None,
        }
    }

    /// 400: a field of the request is wrong; `param` names it as OpenAI does (`messages`, `tools[0].type`).
    pub fn invalid_request(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(Kind::InvalidRequest, message) }
    }

    /// 400: the HTTP framing of the request is broken, not its content.
    pub fn malformed_http(cause: impl Into<String>) -> Self {
        let message = "The request is not proper HTTP: its first line, its headers or the marks of its chunked body cannot \
                       be read, or its path and query are over 64 KiB. Look at what made it.";
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::MalformedHttp, message) }
    }

    /// 400: a header that frames the request is missing or ambiguous; the text says which.
    pub fn bad_framing(message: impl Into<String>) -> Self {
        Self::new(Kind::MalformedHttp, message)
    }

    /// 400: something is wrong with the request that belongs to no single field.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidRequest, message)
    }

    /// 400: the config object is invalid; carries every problem with its path.
    pub fn invalid_config(param: impl Into<String>, problems: Vec<Problem>) -> Self {
        let listed: Vec<String> = problems.iter().map(Problem::to_string).collect();
        let count = problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        let message = format!("Invalid config passed ({count} {noun}): {}", listed.join("; "));
        Self {
            param: Some(param.into()),
            problems: problems.into(),
            ..Self::new(Kind::InvalidConfig, message)
        }
    }

    /// 400: `auth.saved_only` forbids it.
    pub fn inline_blocked(inline: Inline) -> Self {
        let (_, header, what) = inline.row();
        let message = format!(
            "The request names {what}, and this gateway takes only stored providers and saved configs. Name one of those, \
             or ask the operator (auth.saved_only)."
        );
        Self { param: header.map(str::to_owned), ..Self::new(Kind::InlineBlocked(inline), message) }
    }

    /// 400: the body of a control request is invalid; carries every problem with its path.
    pub fn invalid_body(problems: Vec<Problem>) -> Self {
        let listed: Vec<String> = problems.iter().map(Problem::to_string).collect();
        let count = problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        let message = format!("Invalid request ({count} {noun}): {}", listed.join("; "));
        let param = problems.first().map(|problem| problem.path.clone());
        Self { param, problems: problems.into(), ..Self::new(Kind::InvalidRequest, message) }
    }

    /// 403: the key is good, but has not this right.
    pub fn missing_scope(scope: &str) -> Self {
        let message =
            format!("The service key lacks the scope {scope}. Ask the operator for a key that has it.");
        Self::new(Kind::Forbidden, message)
    }

    /// 401: the service key was good until `since`.
    pub fn key_expired(since: &str) -> Self {
        let message =
            format!("The service key expired at {since}. Ask the operator for another one. Error Code: 01");
        Self::new(Kind::KeyExpired, message)
    }

    /// 401: the token was good and its time is over. `code` is for the log.
    pub fn token_expired(code: &str) -> Self {
        let message = "The token has expired. Fetch a new one.";
        Self { cause: Some(code.into()), ..Self::new(Kind::KeyExpired, message) }
    }

    /// 401: the token does not count; why is for the log.
    pub fn bad_token(code: &str) -> Self {
        let message =
            "The token is not valid here. Send one that your identity provider has made for this gateway.";
        Self { cause: Some(code.into()), ..Self::new(Kind::Unauthorized, message) }
    }

    /// 401: no service key, or an unknown one.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(Kind::Unauthorized, message)
    }

    /// 403: the request comes from a page or for a host that this port does not serve.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message)
    }

    /// 404: no such path, config id or slug.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// 405: the path exists, the method does not.
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(Kind::MethodNotAllowed, message)
    }

    /// 408, with Portkey's message. `limit_ms` is the limit that was exceeded.
    pub fn request_timed_out(limit_ms: u64) -> Self {
        let message = format!("Request exceeded the timeout sent in the request: {limit_ms}ms");
        Self::new(Kind::RequestTimeout, message)
    }

    /// 408: a limit of `time_limits` was exceeded; the text names it.
    pub fn deadline_exceeded(message: impl Into<String>) -> Self {
        Self::new(Kind::RequestTimeout, message)
    }

    /// 408: the client was too slow to send its request.
    pub fn slow_client(message: impl Into<String>) -> Self {
        Self::new(Kind::RequestTimeout, message)
    }

    /// 413: the body is over `limit` bytes.
    pub fn body_too_large(limit: u64) -> Self {
        let message = format!(
            "The request body is over {limit} bytes, the most this gateway reads. \
             Send less, or ask the operator to raise limits.max_body_bytes."
        );
        Self::new(Kind::BodyTooLarge, message)
    }

    /// 431: the request line and headers are over `limit` bytes.
    pub fn headers_too_large(limit: u64) -> Self {
        let message = format!(
            "The request head is over {limit} bytes. Send shorter headers (a long config can be saved and \
             named by its id), or ask the operator to raise limits.max_header_bytes."
        );
        Self::new(Kind::HeadersTooLarge, message)
    }

    /// 431: the request has more than `limit` headers.
    pub fn too_many_headers(limit: usize) -> Self {
        let message =
            format!("The request has more than {limit} headers, the most this gateway reads. Send fewer.");
        Self::new(Kind::HeadersTooLarge, message)
    }

    /// 499: the client has closed the connection, so this is only for the log and the metrics.
    pub fn client_closed() -> Self {
        Self::new(Kind::ClientClosed, "The caller closed the connection before the answer was complete.")
    }

    /// 501: valid, but not implemented.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(Kind::NotImplemented, message)
    }

    /// 503: more connections than the operator allows.
    pub fn too_many_connections(max: usize) -> Self {
        let message = format!(
            "This gateway has {max} connections open, the most it takes. Reuse connections, try again later, \
             or ask the operator to raise limits.max_connections."
        );
        Self::new(Kind::TooManyConnections, message)
    }

    /// 503: the bodies and responses of all requests together would take more than `limit` bytes of memory.
    pub fn memory_limit(limit: usize) -> Self {
        let message = format!(
            "This gateway holds as much as it may of other requests and responses ({limit} bytes). Try again in a \
             moment, send less, or ask the operator to raise limits.max_held_bytes."
        );
        Self::new(Kind::MemoryLimit, message)
    }

    /// 504: the provider sent nothing for longer than the operator lets a connection idle.
    pub fn upstream_timeout(message: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::UpstreamTimeout, message) }
    }

    /// 503: the process is shutting down.
    pub fn draining() -> Self {
        Self::new(Kind::Draining, "This gateway is shutting down. Send the request again to another one.")
    }

    /// 446: a guardrail denies the request or the response. `message`: the guardrail's own; `results`: the JSON of `hook_results`.
    pub fn hooks_failed(message: Option<&str>, results: Option<String>) -> Self {
        let default = "The guardrail checks defined in the config failed. You can find more information in the `hook_results` object.";
        let error = Self::new(Kind::HooksFailed, message.unwrap_or(default));
        Self { hook_results: results.map(|json| Box::new(HookResults { json })), ..error }
    }

    /// 409: it exists already, is still in use, or was changed at the same time.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// 412 or 429: a limit refused the request; `kind` says why.
    pub fn limited(kind: Kind, message: impl Into<String>, limit: LimitDetails) -> Self {
        Self { limit: Some(Box::new(limit)), ..Self::new(kind, message) }
    }

    /// 503: the store of the limits does not answer, and the operator has requests refused then.
    pub fn limits_unavailable(what: &str) -> Self {
        Self::new(Kind::LimitsUnavailable, format!("{what} Try again in a moment."))
    }

    /// 500: a defect of the gateway. The client learns only that, the cause is for the log.
    pub fn internal(cause: impl Into<String>) -> Self {
        let message = "The gateway failed to handle this request. Quote the trace id to the operator.";
        Self { cause: Some(cause.into().into()), ..Self::new(Kind::Internal, message) }
    }

    /// Names the field, header or path that is wrong.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds details for the operator.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into().into());
        self
    }

    /// Marks a name in the message as one that the client made up.
    #[must_use]
    pub fn with_unknown_name(mut self, name: &str) -> Self {
        // Or as `{:?}` writes it.
        let escaped = name.escape_debug().to_string();
        let found =
            [name, &escaped].into_iter().find_map(|name| Some((self.message.find(name)?, name.len())));
        let (at, len) = found.unwrap_or_default();
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        self.unknown_name = (place(at), place(at + len));
        self
    }

    /// The message as it may be logged.
    fn logged_message(&self) -> Cow<'_, str> {
        let (start, end) = self.unknown_name;
        let start = usize::from(start);
        // A name that does not fit is cut with all that follows.
        let end = if end == u16::MAX { self.message.len() } else { usize::from(end) };
        let name = self.message.get(start..end).unwrap_or_default();
        match (name.char_indices().nth(LOGGED_CHARACTERS), self.message.get(end..)) {
            (Some((kept, _)), Some(rest)) => {
                let begin = self.message.get(..start + kept).unwrap_or_default();
                Cow::Owned(format!("{begin}...{rest}"))
            }
            _ => Cow::Borrowed(&self.message),
        }
    }

    /// Names the provider the attempt went to.
    #[must_use]
    pub const fn with_provider(mut self, provider: &'static str) -> Self {
        self.provider = Some(provider);
        self
    }

    /// When the same request may succeed, in seconds, for `Retry-After`; `None` where waiting does not help.
    pub fn retry_after(&self) -> Option<u32> {
        match self.kind {
            Kind::TooManyConnections
            | Kind::MemoryLimit
            | Kind::TargetBusy
            | Kind::StoreUnavailable
            | Kind::LimitsUnavailable
            | Kind::Draining => Some(1),
            _ => self.limit.as_ref()?.retry_after,
        }
    }

    /// Whether the same request would fail again, so that clients must not repeat it (`x-should-retry: false`).
    pub const fn is_final(&self) -> bool {
        match self.kind {
            Kind::InvalidRequest
            | Kind::InvalidConfig
            | Kind::InlineBlocked(_)
            | Kind::MalformedHttp
            | Kind::Unauthorized
            | Kind::KeyExpired
            | Kind::Forbidden
            | Kind::EdgeNode
            | Kind::ModelNotAllowed
            | Kind::ModelForbidden
            | Kind::ModelNotFound
            | Kind::PreviousResponseNotFound
            | Kind::NotFound
            | Kind::MethodNotAllowed
            | Kind::Conflict
            | Kind::LimitSpent
            | Kind::BodyTooLarge
            | Kind::HeadersTooLarge
            | Kind::NotImplemented => true,
            Kind::RequestTimeout
            | Kind::LimitReserved
            | Kind::LimitRate
            | Kind::LimitsUnavailable
            | Kind::HooksFailed
            | Kind::ClientClosed
            | Kind::Internal
            | Kind::Unreachable
            | Kind::ProxyRefused
            | Kind::ProxyUnreachable
            | Kind::InvalidResponse
            | Kind::CredentialsUnavailable
            | Kind::ToolFailed
            | Kind::TooManyConnections
            | Kind::MemoryLimit
            | Kind::TargetBusy
            | Kind::StoreUnavailable
            | Kind::StoreFull
            | Kind::UpstreamTimeout
            | Kind::Draining => false,
        }
    }

    /// HTTP status of this error.
    pub const fn status(&self) -> u16 {
        self.kind.row().status
    }
}

/// For logs, not for the client.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.logged_message())?;
        match &self.cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_unknown_name_the_log_has_the_beginning() {
        for (name, logged) in [
            ("short", "no short here."),
            ("12345678", "no 12345678 here."),
            ("sk-proj-0123456789", "no sk-proj-... here."),
            ("äöüäöüäöü", "no äöüäöüäö... here."),
        ] {
            let error = Error::bad_request(format!("no {name} here.")).with_unknown_name(name);
            assert_eq!((error.message.as_str(), &*error.to_string()), (&*format!("no {name} here."), logged));
        }
        let name = "a\"b-0123456789";
        let error = Error::bad_request(format!("no {name:?} here.")).with_unknown_name(name);
        assert_eq!(error.to_string(), r#"no "a\"b-012..." here."#);
        let long = "x".repeat(100_000);
        let error = Error::bad_request(format!("no {long} here.")).with_unknown_name(&long);
        assert_eq!(error.to_string(), "no xxxxxxxx...");
        assert_eq!(Error::bad_request("plain").to_string(), "plain");
    }
}
