//! `POST /v1/explain` and the question of `turnpike explain`: a request in JSON, and what would become of it.
//!
//! Reads the question as the data port would read the request; what it comes to is `route::explain`'s to say.
//! Nobody is called, and nothing is remembered.

use super::read_only_env::ReadOnlyEnv;
use super::routes::control_paths;
use crate::api::body::Body;
use crate::api::operation::{BodyKind, Operation};
use crate::auth::{self, ClientIdentity};
use crate::config::headers::GatewayHeaders;
use crate::error::Error;
use crate::route::attempt::Request;
use crate::route::compile::Sources;
use crate::route::explain::{Explanation, Rejection, explain};
use crate::route::request_snapshot::RequestSnapshot;
use crate::state::Shared;
use crate::state::snapshot::SettingsSnapshot;
use crate::state::sticky_sessions::StickySessions;
use crate::state::targets::TargetRegistry;
use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// What is asked: a request to the data port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    #[serde(default = "post")]
    method: String,
    #[serde(default = "chat")]
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    body: Option<Box<RawValue>>,
}

fn post() -> String {
    "POST".to_owned()
}

fn chat() -> String {
    "/v1/chat/completions".to_owned()
}

/// What is answered.
#[derive(Debug, Serialize)]
pub struct ExplainResponse {
    /// The name of the service key shown.
    caller: Option<Arc<str>>,
    /// What was assumed to go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    explained: Explanation,
}

impl ExplainResponse {
    /// Whether the request would be refused.
    pub fn has_problems(&self) -> bool {
        !self.explained.problems.is_empty()
    }
}

/// `POST /v1/explain`.
pub(super) async fn route(
    State(shared): State<Arc<Shared>>,
    body: axum::body::Bytes,
) -> Result<Json<ExplainResponse>, Error> {
    let context = ExplainContext {
        snapshot: &shared.settings_arc(),
        targets: &shared.targets,
        sticky: &shared.sticky_sessions,
        now: Instant::now(),
    };
    context.explain(&body).map(Json)
}

/// What an explanation may look at.
#[derive(Debug)]
pub struct ExplainContext<'a> {
    pub snapshot: &'a Arc<SettingsSnapshot>,
    pub targets: &'a TargetRegistry,
    pub sticky: &'a StickySessions,
    pub now: Instant,
}

/// The question, read.
struct ParsedRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl ExplainContext<'_> {
    /// Answers the question in `text`.
    ///
    /// # Errors
    /// 400 when it is no question; what is wrong with the request it asks about is in the answer.
    pub fn explain(&self, text: &[u8]) -> Result<ExplainResponse, Error> {
        let parsed = ParsedRequest::read(text)?;
        let (identity, notes) = match auth::authenticate(&parsed.headers, &self.snapshot.service_keys) {
            Ok(identity) => (identity, Vec::new()),
            Err(error) => {
                let note = format!("the data port would answer {}: {}", error.status(), error.message);
                (ClientIdentity::default(), vec![note])
            }
        };
        let client = identity.name.clone();
        let destination = Destination::new(&parsed.method, parsed.uri.path());
        let explained = self.explained(parsed, identity, &destination).unwrap_or_else(|error| Explanation {
            problems: Rejection::from_error(&error),
            ..Explanation::empty(destination.operation)
        });
        Ok(ExplainResponse { caller: client, notes, explained })
    }

    /// `Err`: the request would be refused before its config is read.
    fn explained(
        &self,
        parsed: ParsedRequest,
        identity: ClientIdentity,
        destination: &Destination,
    ) -> Result<Explanation, Error> {
        let ParsedRequest { method, uri, headers, body } = parsed;
        let Destination { operation, path_offset, is_proxied } = *destination;
        destination.check(&method, uri.path())?;
        let pathname = uri.path().to_owned();
        let settings = &self.snapshot.settings;
        let body = read(operation, is_proxied, body, settings.limits.max_body_bytes)?;
        let mut request = Request::new(operation, method, uri, path_offset, body.clone());
        request.is_proxied = is_proxied;
        let gateway_headers = GatewayHeaders::read(&headers, &settings.header_prefixes)?;
        let sources = Sources {
            settings,
            hosts: &self.snapshot.hosts,
            gateway_headers: &gateway_headers,
            bearer: gateway_headers.bearer.filter(|_| !identity.by_bearer),
            model_slug: request.slug.as_deref(),
        };
        let request_snapshot = RequestSnapshot {
            headers: headers.clone(),
            metadata: gateway_headers.metadata.map(str::to_owned),
            pathname,
            body,
            snapshot: Arc::clone(self.snapshot),
        };
        let env = ReadOnlyEnv {
            targets: self.targets,
            sticky: self.sticky,
            request: request_snapshot,
            key_name: identity.name.clone(),
            now: self.now,
        };
        Ok(explain(&sources, &request, &env, self.now))
    }
}

impl ParsedRequest {
    fn read(text: &[u8]) -> Result<Self, Error> {
        let explain_request: ExplainRequest =
            serde_json::from_slice(text).map_err(|why| parse_error(&why))?;
        let wrong = |param: &str, what: &str| Error::invalid_request(param, format!("{param} {what}"));
        let method = Method::from_bytes(explain_request.method.as_bytes());
        let method = method.map_err(|_| wrong("method", "must be an HTTP method, such as POST."))?;
        let uri = Some(explain_request.path).filter(|path| path.starts_with('/'));
        let uri = uri.and_then(|path| Uri::try_from(path).ok()).ok_or_else(|| {
            wrong("path", "must be a path with a leading slash, such as /v1/chat/completions.")
        })?;
        let mut headers = HeaderMap::new();
        for (name, value) in explain_request.headers {
            let param = format!("headers.{name}");
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong(&param, "is no name of a header."))?;
            for line in lines(value).ok_or_else(|| wrong(&param, HEADER_VALUE_RULE))? {
                let value = HeaderValue::from_bytes(line.as_bytes());
                headers.append(&name, value.map_err(|_| wrong(&param, "cannot stand in a header."))?);
            }
        }
        let body = explain_request.body.filter(|body| body.get() != "null");
        Ok(Self { method, uri, headers, body: body.map(|body| Bytes::from(body.get().to_owned())) })
    }
}

/// The text is no question. What serde says of a value of the wrong type quotes the value, which may be a key.
fn parse_error(why: &serde_json::Error) -> Error {
    let detail = why.to_string();
    let detail = match detail.starts_with("invalid ") {
        true => format!("a value of the wrong type at line {} column {}", why.line(), why.column()),
        false => detail,
    };
    Error::bad_request(format!(
        "The body must be a JSON object with `method`, `path`, `headers` and `body`, all optional: {detail}"
    ))
}

const HEADER_VALUE_RULE: &str =
    "must be a text, a list of texts (a line each), or an object (a config, metadata).";

/// The lines of one header.
fn lines(value: Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => {
            items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()
        }
        // What is JSON in a header may be written as JSON.
        Value::Object(_) | Value::Number(_) | Value::Bool(_) => Some(vec![value.to_string()]),
        Value::Null => None,
    }
}

/// What the path is for.
struct Destination {
    operation: Operation,
    /// Where the path below the version segment, and below `proxy/`, begins.
    path_offset: usize,
    is_proxied: bool,
}

impl Destination {
    fn new(method: &Method, path: &str) -> Self {
        let relative_path = path.strip_prefix("/v1/").unwrap_or_default();
        let proxied = relative_path.strip_prefix("proxy/");
        let relative = proxied.unwrap_or(relative_path);
        Self {
            operation: Operation::find(method, relative),
            path_offset: path.len() - relative.len(),
            is_proxied: proxied.is_some(),
        }
    }

    /// Whether the data port would take it to a provider.
    fn check(&self, method: &Method, path: &str) -> Result<(), Error> {
        let handed_over = control_paths();
        let relative = path.strip_prefix("/v1/").unwrap_or_default();
        if handed_over.owns_path(path) || handed_over.owns_relative(relative) {
            let message = format!("{path} is answered by the control plane; no provider is asked.");
            return Err(Error::not_found(message));
        }
        if self.path_offset == path.len() {
            let message = format!(
                "There is nothing at {path}. The API is below /v1, for example /v1/chat/completions."
            );
            return Err(Error::not_found(message));
        }
        if !matches!(method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
            let message = format!("{method} is not passed on. Use POST, GET, PUT or DELETE.");
            return Err(Error::method_not_allowed(message));
        }
        Ok(())
    }
}

/// The body as the data port would have it.
fn read(
    operation: Operation,
    is_proxied: bool,
    body: Option<Bytes>,
    limit: usize,
) -> Result<Option<Body>, Error> {
    let is_passthrough = is_proxied || operation == Operation::Passthrough;
    match body {
        // What is only passed on streams by when it is too long.
        Some(bytes) if bytes.len() > limit && is_passthrough => Ok(None),
        Some(bytes) if bytes.len() > limit => Err(Error::body_too_large(limit as u64)),
        Some(bytes) if is_passthrough => {
            Ok(Some(Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes))))
        }
        _ if is_passthrough || operation.body_kind() != BodyKind::Json => Ok(None),
        None => Err(Error::bad_request("The request body must be a JSON object, and it is empty.")),
        Some(bytes) => Body::parse(bytes)
            .map(Some)
            .map_err(|why| Error::bad_request(format!("The request body must be a JSON object: {why}."))),
    }
}
