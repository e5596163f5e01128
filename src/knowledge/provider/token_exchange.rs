//! What must be fetched before a call can be authorized: described here, carried out elsewhere.
//!
//! A token exchange is a value: which requests to send in which order, and how to read the responses. It
//! opens no socket and reads no clock; `state` caches the credentials and refreshes them before they expire.

use http::{HeaderMap, Method};
use std::fmt::Debug;
use std::time::{Duration, SystemTime};
use words::config::secret::Secret;

/// Fetched credentials that authorize calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    Bearer(Secret),
    Aws { access_key_id: Secret, secret_access_key: Secret, session_token: Option<Secret> },
}

/// One request of a token exchange.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    pub method: Method,
    /// `https://...`, or `http://` for a cloud's metadata server. With `is_metadata` also `env:NAME`, whose
    /// response is the value of the environment variable, and `file:/path`, whose response is the content of
    /// the file (404 if there is none): a workload's own identity starts there.
    pub url: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The request reads an identity of the machine: from a cloud's metadata server (link-local or loopback),
    /// the environment or a file. Refused unless the account was written by the operator.
    pub is_metadata: bool,
}

/// The response to a [`TokenRequest`].
#[derive(Debug, Clone)]
pub struct TokenResponse {
    pub status: u16,
    pub body: Vec<u8>,
}

/// What to do next in a token exchange.
#[derive(Debug)]
pub enum Step {
    Request(TokenRequest),
    /// The credentials, and how long they are valid.
    Done(Credentials, Duration),
}

/// A way to get a token or temporary credentials.
pub trait TokenExchange: Send + Sync + Debug {
    /// The cache key: exchanges with the same key yield the same credentials. It covers every setting that
    /// decides what is issued, secrets as a digest: an account that names the same identity without its
    /// secret must not get credentials that another account fetched.
    fn key(&self) -> String;

    /// Whether what it yields is for one person alone, of whom there are many.
    fn is_of_person(&self) -> bool {
        false
    }

    /// The issuer, for messages: `the sign-in at Entra ID`.
    fn description(&self) -> &'static str {
        "the sign-in for this account"
    }

    /// The next step, given all responses so far (none at the start).
    ///
    /// # Errors
    /// Why no credentials can be obtained, in a message for the client without secrets.
    fn next_step(&self, responses: &[TokenResponse], now: SystemTime) -> Result<Step, String>;
}
