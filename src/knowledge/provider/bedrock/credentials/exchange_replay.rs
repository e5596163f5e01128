//! Runs a token exchange as straight-line code, from its start after every response.
//!
//! Example: fetching from an instance takes a token, a role name and the credentials. With no responses yet,
//! the first `exchange` stops with [`Stop::Request`] (the token request). With one response, the first
//! `exchange` returns it and the second stops; with three responses the code runs to its end.

use crate::provider::token_exchange::{TokenRequest, TokenResponse};
use http::{HeaderMap, Method};
use words::error::Error;

/// The responses received so far, in order.
#[derive(Debug)]
pub(crate) struct ExchangeReplay<'a> {
    responses: std::slice::Iter<'a, TokenResponse>,
}

/// Why the exchange cannot run to its end yet.
#[derive(Debug)]
pub enum Stop {
    Request(Box<TokenRequest>),
    /// It failed. The message goes to the client and holds no secrets.
    Failed(String),
}

pub(crate) type Replayed<T> = Result<T, Stop>;

impl Stop {
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// A request that was refused. At most 500 characters of the refusal are quoted: they name roles and
    /// policies, no secrets.
    pub fn refused(what: &str, status: u16, detail: Option<&str>) -> Self {
        let detail: String =
            detail.unwrap_or_default().chars().filter(|char| !char.is_control()).take(500).collect();
        let colon = if detail.is_empty() { "" } else { ": " };
        Self::Failed(format!("{what} answered with status {status}{colon}{detail}"))
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.message)
    }
}

impl<'a> ExchangeReplay<'a> {
    pub fn new(responses: &'a [TokenResponse]) -> Self {
        Self { responses: responses.iter() }
    }

    /// The response to the next request.
    ///
    /// # Errors
    /// [`Stop::Request`] with the request, when it has no response yet.
    pub fn exchange(
        &mut self,
        request: impl FnOnce() -> Replayed<TokenRequest>,
    ) -> Replayed<&'a TokenResponse> {
        match self.responses.next() {
            Some(response) => Ok(response),
            None => Err(Stop::Request(Box::new(request()?))),
        }
    }

    /// A request to one of the machine's own servers.
    ///
    /// # Errors
    /// As [`ExchangeReplay::exchange`].
    pub fn metadata(
        &mut self,
        method: Method,
        url: String,
        headers: HeaderMap,
    ) -> Replayed<&'a TokenResponse> {
        self.exchange(|| Ok(TokenRequest { method, url, headers, body: Vec::new(), is_metadata: true }))
    }

    /// The value of an environment variable or the content of a file, by URL; `None` when missing or empty.
    ///
    /// # Errors
    /// As [`ExchangeReplay::exchange`].
    pub fn local(&mut self, url: String) -> Replayed<Option<String>> {
        let response = self.metadata(Method::GET, url, HeaderMap::new())?;
        let text = String::from_utf8_lossy(&response.body).trim().to_owned();
        Ok(Some(text).filter(|text| response.status == 200 && !text.is_empty()))
    }

    /// The value of an environment variable.
    ///
    /// # Errors
    /// As [`ExchangeReplay::exchange`].
    pub fn env(&mut self, name: &str) -> Replayed<Option<String>> {
        self.local(format!("env:{name}"))
    }
}
