//! Subjects for the tests of checks, and the way they are run: as the runner does it, without its results.

use crate::guard::check::{CheckKind, Prepared};
use crate::guard::finding::Finding;
use crate::guard::outside::{Outside, OutsideCall, OutsideError, OutsideResponse};
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use words::api::operation::Operation;
use words::config::pattern::PatternBudget;

/// Parameters that every check has.
const COMMON: [&str; 3] = ["failOnError", "fail_on_error", "timeout"];

/// A chat whose one message has this text.
pub fn request(text: &str) -> Subject {
    request_with(&json!({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}))
}

/// A chat with this body.
pub(crate) fn request_with(body: &Value) -> Subject {
    of_operation(Operation::ChatCompletions, body)
}

pub fn of_operation(operation: Operation, body: &Value) -> Subject {
    let model = body.get("model").and_then(Value::as_str).map(Arc::from);
    Subject { model, provider: "openai", ..Subject::of_request(operation, &body.to_string()) }
}

/// The response to a chat, with this text.
pub fn response(text: &str) -> Subject {
    let message = json!({"role": "assistant", "content": text});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    request("a").with_response(&body.to_string())
}

pub(crate) fn with_metadata(subject: Subject, metadata: Value) -> Subject {
    Subject { metadata: Arc::new(object(metadata)), ..subject }
}

/// A check with parameters of the right types.
#[track_caller]
pub fn prepare(kind: &CheckKind, parameters: Value) -> Result<Prepared, Unusable> {
    let members = object(parameters);
    for (name, value) in &members {
        if COMMON.contains(&name.as_str()) {
            continue;
        }
        let Some(parameter) = kind.parameters.iter().find(|parameter| parameter.name == name) else {
            panic!("{} has no parameter {name}", kind.id);
        };
        assert_eq!(parameter.kind.problem(value), None, "{}: {name}", kind.id);
    }
    (kind.prepare)(&Parameters { members: &members, patterns: &PatternBudget::default() })
}

/// The finding of a check; that of unusable parameters as in a config that is sent with a request.
#[track_caller]
pub fn run(kind: &CheckKind, parameters: Value, subject: &Subject) -> Finding {
    match prepare(kind, parameters) {
        Ok(Prepared::Local(check)) => check.run(subject),
        Ok(Prepared::Remote(_)) => panic!("{} calls another server", kind.id),
        Err(unusable) => finding_of(unusable),
    }
}

/// The same for a check that calls another server.
#[track_caller]
pub(crate) fn run_remote(
    kind: &CheckKind,
    parameters: Value,
    subject: &Subject,
    outside: &dyn Outside,
) -> Finding {
    match prepare(kind, parameters) {
        Ok(Prepared::Remote(check)) => futures_util::FutureExt::now_or_never(check.run(subject, outside))
            .expect("nothing of a test's outside waits"),
        Ok(Prepared::Local(_)) => panic!("{} calls no other server", kind.id),
        Err(unusable) => finding_of(unusable),
    }
}

/// The error's message of a finding.
#[track_caller]
pub fn error(finding: &Finding) -> &str {
    finding.error.as_ref().map(|error| error.message.as_str()).expect("the check failed")
}

/// The finding's data, without an error.
#[track_caller]
pub fn data(finding: &Finding) -> &Value {
    assert_eq!(finding.error, None);
    finding.data.as_ref().expect("data")
}

fn finding_of(unusable: Unusable) -> Finding {
    let Unusable { error, data, verdict, .. } = unusable;
    Finding { verdict, data, error: Some(error), ..Finding::default() }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

/// What a test's outside responds to a call.
type Responder = dyn Fn(&OutsideCall<'_>) -> Result<OutsideResponse, OutsideError> + Send + Sync;

/// An outside that responds at once, and keeps what it was called with.
pub(crate) struct TestOutside {
    responder: Box<Responder>,
    calls: Mutex<Vec<TestCall>>,
}

/// A call that was made.
#[derive(Debug, Clone)]
pub(crate) struct TestCall {
    pub method: Method,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub timeout: Duration,
}

impl TestOutside {
    pub fn new(
        responder: impl Fn(&OutsideCall<'_>) -> Result<OutsideResponse, OutsideError> + Send + Sync + 'static,
    ) -> Self {
        Self { responder: Box::new(responder), calls: Mutex::default() }
    }

    /// One that always responds with this status and body.
    pub(crate) fn responding(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::new(move |_| Ok(outside_response(status, &[], body.clone())))
    }

    pub fn calls(&self) -> Vec<TestCall> {
        self.calls.lock().clone()
    }
}

pub(crate) fn outside_response(
    status: u16,
    headers: &[(&'static str, &str)],
    body: impl Into<Bytes>,
) -> OutsideResponse {
    let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
    OutsideResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.collect(),
        body: body.into(),
    }
}

impl Outside for TestOutside {
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        let outcome = (self.responder)(&call);
        let OutsideCall { method, url, headers, body, timeout, .. } = call;
        self.calls.lock().push(TestCall { method, url: url.to_owned(), headers, body, timeout });
        Box::pin(std::future::ready(outcome))
    }

    fn chat<'a>(&'a self, _: &'a Value, _: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        panic!("no check of this room's own calls a model")
    }
}
