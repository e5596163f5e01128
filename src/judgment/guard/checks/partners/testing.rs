//! The outside as tests need it: it answers with what a test wrote down, and keeps what it was called with.

use crate::guard::check::{Prepared, RemoteCheck};
use crate::guard::check_kind;
use crate::guard::outside::{Outside, OutsideCall, OutsideError, OutsideResponse};
use crate::guard::parameters::{Parameters, Unusable};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use std::sync::Mutex;
use words::api::operation::Operation;
use words::config::pattern::PatternBudget;

/// One call: its URL, headers and body.
pub type Sent = (String, HeaderMap, Value);

pub(crate) struct Fake {
    answer: Result<(StatusCode, Bytes), OutsideError>,
    chat: Option<Value>,
    pub calls: Mutex<Vec<Sent>>,
    /// (config, body)
    pub chats: Mutex<Vec<(Value, Value)>>,
}

impl Fake {
    pub fn new(status: u16, body: &str) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self::with(Ok((status, Bytes::copy_from_slice(body.as_bytes()))), None)
    }

    pub fn failing(error: &OutsideError) -> Self {
        Self::with(Err(error.clone()), None)
    }

    pub fn chat(response: &Value) -> Self {
        Self::with(Err(OutsideError::Failed("no call was expected".to_owned())), Some(response.clone()))
    }

    fn with(answer: Result<(StatusCode, Bytes), OutsideError>, chat: Option<Value>) -> Self {
        Self { answer, chat, calls: Mutex::default(), chats: Mutex::default() }
    }
}

impl Outside for Fake {
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        let body = serde_json::from_slice(&call.body).unwrap();
        self.calls.lock().unwrap().push((call.url.to_owned(), call.headers, body));
        let answer = self.answer.clone();
        async move { answer.map(|(status, body)| OutsideResponse { status, headers: HeaderMap::new(), body }) }.boxed()
    }

    fn chat<'a>(&'a self, config: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        self.chats.lock().unwrap().push((config.clone(), body.clone()));
        let answer = match (&self.chat, &self.answer) {
            (Some(chat), _) => Ok(chat.clone()),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(_)) => Err(OutsideError::Failed("no chat was expected".to_owned())),
        };
        async move { answer }.boxed()
    }
}

/// A check that calls, with these parameters.
pub fn remote(id: &str, parameters: &Value) -> Result<Box<dyn RemoteCheck>, Unusable> {
    let patterns = PatternBudget::default();
    let parameters = Parameters { members: parameters.as_object().unwrap(), patterns: &patterns };
    match (check_kind(id).unwrap().prepare)(&parameters)? {
        Prepared::Remote(check) => Ok(check),
        Prepared::Local(_) => panic!("{id} calls nobody"),
    }
}

pub fn request(text: &str) -> Subject {
    let body = json!({"model": "gpt-5", "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": text}]},
    ]});
    let subject = Subject::of_request(Operation::ChatCompletions, &body.to_string());
    // Partners get whatever is judged; here that is the user's text alone.
    Subject { text: Some(text.into()), ..subject }
}

pub fn response(prompt: &str, text: &str) -> Subject {
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]});
    request(prompt).with_response(&body.to_string())
}
