//! What must be fetched before a call can be authorized: described here, carried out elsewhere.
//!
//! A token exchange is a value: which requests to make one after the other, and what to make of the answers.
//! It opens no socket and reads no clock; `state` keeps what it yields and fetches anew ahead of expiry.

use crate::config::secret::Secret;
use http::{HeaderMap, Method};
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

/// What a call is authorized with once it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    Bearer(Secret),
    Aws { access_key_id: Secret, secret_access_key: Secret, session_token: Option<Secret> },
}

/// One request on the way to a grant.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    pub method: Method,
    /// `https://...`, or `http://` for a cloud's metadata server. With `is_metadata` also `env:NAME`, whose
    /// answer is the environment variable's value, and `file:/path`, whose answer is the file's content (404
    /// where there is none): that is where a workload's own identity begins.
    pub url: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// It asks the machine for an identity of its own: a cloud's metadata server (link-local or loopback),
    /// the environment, a file. Refused unless the operator wrote the account.
    pub is_metadata: bool,
}

/// What an errand brought back.
#[derive(Debug, Clone)]
pub struct TokenResponse {
    pub status: u16,
    pub body: Vec<u8>,
}

/// What comes next.
#[derive(Debug)]
pub enum Step {
    Request(TokenRequest),
    /// It is there, and good for so long.
    Done(Credentials, Duration),
}

/// A way to get a token or temporary credentials.
pub trait TokenExchange: Send + Sync + Debug {
    /// What it is remembered by: two grants with the same key are the same. Every word that decides what is
    /// granted is in it, secrets as a digest: whoever names the account without its secret must not be
    /// handed what another one fetched.
    fn key(&self) -> String;

    /// Who grants, for messages: `the sign-in at Entra ID`.
    fn description(&self) -> &'static str {
        "the sign-in for this account"
    }

    /// The next request, given all answers so far; none at the start.
    ///
    /// # Errors
    /// Why it cannot be had, in words for the caller without secrets.
    fn next_step(&self, responses: &[TokenResponse], now: SystemTime) -> Result<Step, String>;
}
