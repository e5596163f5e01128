//! `POST /v1/explain` and the question of `turnpike explain`: a request in JSON, and what would become of it.
//!
//! Reads the question as the data port would read the request; what it comes to is `route::explain`'s to say.
//! Nobody is called, and nothing is remembered.

use super::failure::refused;
use super::world::Seen;
use super::{PATHS, SEGMENTS};
use crate::api::body::Body;
use crate::api::operation::{BodyKind, Operation};
use crate::config::headers::GatewayHeaders;
use crate::error::Error;
use crate::route::attempt::Request;
use crate::route::compile::Sources;
use crate::route::explain::{Explained, Flaw, explain};
use crate::route::told::Told;
use crate::state::Shared;
use crate::state::live::Live;
use crate::state::sticky::Sticky;
use crate::state::targets::Targets;
use crate::state::who::{self, Who};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
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
struct Question {
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
pub struct Answer {
    /// The name of the service key shown.
    caller: Option<Arc<str>>,
    /// What was assumed to go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    explained: Explained,
}

impl Answer {
    /// Whether the request would be refused.
    pub fn has_problems(&self) -> bool {
        !self.explained.problems.is_empty()
    }
}

/// `POST /v1/explain`.
pub(super) async fn route(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Response {
    let memory = Memory {
        live: &shared.live_arc(),
        targets: &shared.targets,
        sticky: &shared.sticky,
        now: Instant::now(),
    };
    match memory.answer(&body) {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => refused(&error, &headers),
    }
}

/// What an explanation may look at.
#[derive(Debug)]
pub struct Memory<'a> {
    pub live: &'a Arc<Live>,
    pub targets: &'a Targets,
    pub sticky: &'a Sticky,
    pub now: Instant,
}

/// The question, read.
struct Asking {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl Memory<'_> {
    /// Answers the question in `text`.
    ///
    /// # Errors
    /// 400 when it is no question; what is wrong with the request it asks about is in the answer.
    pub fn answer(&self, text: &[u8]) -> Result<Answer, Error> {
        let asking = Asking::read(text)?;
        let (who, notes) = match who::find(&asking.headers, self.live) {
            Ok(who) => (who, Vec::new()),
            Err(error) => {
                let note = format!("the data port would answer {}: {}", error.status(), error.message);
                (Who::default(), vec![note])
            }
        };
        let caller = who.name.clone();
        let place = Place::of(&asking.method, asking.uri.path());
        let explained = self.explained(asking, who, &place).unwrap_or_else(|error| Explained {
            problems: Flaw::of(&error),
            ..Explained::nothing(place.operation)
        });
        Ok(Answer { caller, notes, explained })
    }

    /// `Err`: the request would be refused before its config is read.
    fn explained(&self, asking: Asking, who: Who, place: &Place) -> Result<Explained, Error> {
        let Asking { method, uri, headers, body } = asking;
        let Place { operation, below, is_proxied } = *place;
        place.check(&method, uri.path())?;
        let pathname = uri.path().to_owned();
        let settings = &self.live.settings;
        let body = read(operation, is_proxied, body, settings.limits.max_body_bytes)?;
        let mut request = Request::new(operation, method, uri, below, body.clone());
        request.is_proxied = is_proxied;
        let asked = GatewayHeaders::read(&headers, &settings.header_prefixes)?;
        let sources = Sources {
            settings,
            hosts: &self.live.hosts,
            asked: &asked,
            bearer: asked.bearer.filter(|_| !who.by_bearer),
            model_slug: request.slug.as_deref(),
        };
        let told = Told {
            headers: headers.clone(),
            metadata: asked.metadata.map(str::to_owned),
            pathname,
            body,
            live: Arc::clone(self.live),
        };
        let seen =
            Seen { targets: self.targets, sticky: self.sticky, told, key: who.name.clone(), now: self.now };
        Ok(explain(&sources, &request, &seen, self.now))
    }
}

impl Asking {
    fn read(text: &[u8]) -> Result<Self, Error> {
        let question: Question = serde_json::from_slice(text).map_err(|why| unread(&why))?;
        let wrong = |param: &str, what: &str| Error::invalid_request(param, format!("{param} {what}"));
        let method = Method::from_bytes(question.method.as_bytes());
        let method = method.map_err(|_| wrong("method", "must be an HTTP method, such as POST."))?;
        let uri = Some(question.path).filter(|path| path.starts_with('/'));
        let uri = uri.and_then(|path| Uri::try_from(path).ok()).ok_or_else(|| {
            wrong("path", "must be a path with a leading slash, such as /v1/chat/completions.")
        })?;
        let mut headers = HeaderMap::new();
        for (name, value) in question.headers {
            let param = format!("headers.{name}");
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong(&param, "is no name of a header."))?;
            for line in lines(value).ok_or_else(|| wrong(&param, LINES))? {
                let value = HeaderValue::from_bytes(line.as_bytes());
                headers.append(&name, value.map_err(|_| wrong(&param, "cannot stand in a header."))?);
            }
        }
        let body = question.body.filter(|body| body.get() != "null");
        Ok(Self { method, uri, headers, body: body.map(|body| Bytes::from(body.get().to_owned())) })
    }
}

/// The text is no question. What serde says of a value of the wrong type quotes the value, which may be a key.
fn unread(why: &serde_json::Error) -> Error {
    let told = why.to_string();
    let told = match told.starts_with("invalid ") {
        true => format!("a value of the wrong type at line {} column {}", why.line(), why.column()),
        false => told,
    };
    Error::bad_request(format!(
        "The body must be a JSON object with `method`, `path`, `headers` and `body`, all optional: {told}"
    ))
}

const LINES: &str = "must be a text, a list of texts (a line each), or an object (a config, metadata).";

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
struct Place {
    operation: Operation,
    /// Where the path below the version segment, and below `proxy/`, begins.
    below: usize,
    is_proxied: bool,
}

impl Place {
    fn of(method: &Method, path: &str) -> Self {
        let below = path.strip_prefix("/v1/").unwrap_or_default();
        let proxied = below.strip_prefix("proxy/");
        let relative = proxied.unwrap_or(below);
        Self {
            operation: Operation::find(method, relative),
            below: path.len() - relative.len(),
            is_proxied: proxied.is_some(),
        }
    }

    /// Whether the data port would take it to a provider.
    fn check(&self, method: &Method, path: &str) -> Result<(), Error> {
        let segment = path.strip_prefix("/v1/").and_then(|below| below.split('/').next()).unwrap_or_default();
        if PATHS.contains(&path) || SEGMENTS.contains(&segment) {
            let message = format!("{path} is answered by the control plane; no provider is asked.");
            return Err(Error::not_found(message));
        }
        if self.below == path.len() {
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
    let passed_on = is_proxied || operation == Operation::Passthrough;
    match body {
        // What is only passed on streams by when it is too long.
        Some(bytes) if bytes.len() > limit && passed_on => Ok(None),
        Some(bytes) if bytes.len() > limit => Err(Error::body_too_large(limit as u64)),
        Some(bytes) if passed_on => {
            Ok(Some(Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes))))
        }
        _ if passed_on || operation.body_kind() != BodyKind::Json => Ok(None),
        None => Err(Error::bad_request("The request body must be a JSON object, and it is empty.")),
        Some(bytes) => Body::parse(bytes)
            .map(Some)
            .map_err(|why| Error::bad_request(format!("The request body must be a JSON object: {why}."))),
    }
}
