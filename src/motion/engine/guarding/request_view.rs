//! What hooks see of a request, and whether that is enough for those that decide over it.
//!
//! Not here: the hooks, and where texts are in a body (`guard`).

use http::HeaderMap;
use judgment::guard::{HookSet, Needs, Subject};
use judgment::route::admission::{is_sent_with_body, meant};
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use serde_json::value::RawValue;
use std::sync::Arc;
use words::api::operation::Operation;
use words::error::Error;

/// A request that hooks of a target look at.
pub(super) struct RequestView<'a> {
    pub operation: Operation,
    /// With what the target adds to it.
    pub request: &'a Request,
    pub target: &'a Target,
    /// The client's, a JSON object.
    pub metadata: Option<&'a RawValue>,
    pub headers: &'a HeaderMap,
    /// The client's body, or the rest of it, is still to be read from its connection.
    pub has_unread_body: bool,
}

/// Refuses a path that some servers read as one of the gateway's operations, and the gateway does not: hooks would judge another operation
/// than the provider carries out.
///
/// # Errors
/// 400.
pub(super) fn check_path(request: &Request) -> Result<(), Error> {
    if request.operation != Operation::Passthrough {
        return Ok(());
    }
    let path = request.uri.path();
    match meant::plain_path(&request.method, path) {
        Some(plain) => Err(Error::bad_request(format!(
            "The guardrails of the config cannot check {path}: servers may take it for {plain}. Write it so."
        ))),
        None => Ok(()),
    }
}

impl RequestView<'_> {
    /// The body that was read, if it is an object.
    fn body(&self) -> Option<&str> {
        let body = self.request.body.as_ref().filter(|body| body.is_object())?;
        std::str::from_utf8(body.bytes()).ok()
    }

    /// Whether the client sends more than its header: a body that was read, or one that is to be streamed. The header alone does not show
    /// it: a body of HTTP/2 needs neither `Content-Length` nor `Transfer-Encoding`.
    fn is_sent_with_body(&self) -> bool {
        let was_read = || self.request.body.as_ref().is_some_and(|body| !body.bytes().is_empty());
        self.has_unread_body || is_sent_with_body(self.headers) || was_read()
    }

    pub fn bytes(&self) -> usize {
        self.body().map_or(0, str::len)
    }

    /// What the request names as its model.
    fn model(&self) -> Option<String> {
        let fixed = self.target.model().map(str::to_owned);
        let is_elsewhere = matches!(self.operation, Operation::Passthrough | Operation::Realtime);
        let elsewhere = || meant::model(&self.request.uri).filter(|_| is_elsewhere);
        fixed.or_else(|| self.request.model.clone()).or_else(elsewhere)
    }

    pub fn subject(&self) -> Subject {
        let body = self.body();
        let model = self.model();
        let visible = match (body, &model) {
            (Some(_), _) => Needs::Text,
            (None, Some(_)) => Needs::Model,
            (None, None) => Needs::Nothing,
        };
        let meant = match self.operation {
            Operation::Passthrough => meant::operation(&self.request.method, self.request.uri.path()),
            _ => None,
        };
        let metadata = self.metadata.and_then(|json| serde_json::from_str(json.get()).ok());
        Subject {
            provider: self.target.provider.id(),
            model: model.map(Arc::from),
            metadata: Arc::new(metadata.unwrap_or_default()),
            headers: Arc::new(self.headers.clone()),
            available: Needs::met_by(self.operation).min(visible),
            ..Subject::of_path(self.operation, meant, body.unwrap_or_default())
        }
    }

    /// Whether the hooks that decide can see what they decide over.
    ///
    /// # Errors
    /// 501 where the body was not read; 400 where it can be read in two ways, or names two models.
    pub fn check(&self, subject: &Subject, hooks: &HookSet) -> Result<(), Error> {
        let has = Needs::met_by(self.operation);
        let blind = hooks.first_blind(subject.available, has);
        let has_more = match self.operation {
            Operation::Realtime => true,
            // What is said on a socket is read by nobody.
            Operation::Passthrough if self.request.switches_protocols => true,
            _ => self.is_sent_with_body(),
        };
        if let Some(hook) = blind.filter(|_| has_more) {
            return Err(Error::not_implemented(format!(
                "The guardrail {} cannot check this request: its body is not a JSON object that the gateway reads. Send JSON without \
                 Content-Encoding, in UTF-8 and without a byte order mark, that is not longer than limits.max_body_bytes.",
                hook.id
            )));
        }
        if !hooks.decides() {
            return Ok(());
        }
        if let Some(why) = &subject.ambiguous {
            return Err(Error::bad_request(format!(
                "The guardrails of the config cannot check the request body: {why}."
            )));
        }
        let is_passed = self.operation == Operation::Passthrough;
        let in_path = if is_passed { meant::model(&self.request.uri) } else { None };
        let is_same = |in_path: &str| self.request.requested_model().as_deref() == Some(in_path);
        match (in_path, &self.request.model) {
            (Some(in_path), Some(in_body)) if in_path != *in_body && !is_same(&in_path) => {
                Err(Error::bad_request(format!(
                    "The guardrails of the config cannot check a request with two models: {in_path:?} in its path and {in_body:?} in its body."
                )))
            }
            _ => Ok(()),
        }
    }
}
