//! Calls that checks make to other servers, as a trait: who may be called, how long and how much is read is decided where
//! it is implemented (`engine`), by the same rules of addresses as for custom hosts.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// The outside as checks see it.
pub trait Outside: Send + Sync {
    /// Sends a request and reads the whole response, whatever its status. No redirects are followed.
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>>;

    /// Has a model of the gateway's providers answer a chat (`{model, messages, …}`), under the given config, through the engine,
    /// as a request of its own with its own record. `Ok`: the chat's response body.
    fn chat<'a>(&'a self, config: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>>;
}

/// A request of a check.
#[derive(Debug)]
pub struct OutsideCall<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Maximum bytes of the response; what is longer is an error.
    pub max_bytes: usize,
    /// For all of it, from the name's look-up to the last byte.
    pub timeout: Duration,
}

/// What came back.
#[derive(Debug)]
pub struct OutsideResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why nothing came back, worded for the client: no addresses inside the network, no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutsideError {
    /// The URL is none, or may not be called.
    Refused(String),
    TimedOut,
    Failed(String),
}

impl OutsideResponse {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}
