//! The way to a grant, walked from its start each time: what was asked before has its answer, and the first
//! thing that has none is what to ask next.

use crate::error::Error;
use crate::provider::token_exchange::{TokenRequest, TokenResponse};
use http::{HeaderMap, Method};

/// The answers so far, in order.
#[derive(Debug)]
pub struct ExchangeReplay<'a> {
    responses: std::slice::Iter<'a, TokenResponse>,
}

/// Why the way does not go on.
#[derive(Debug)]
pub enum Stop {
    Request(Box<TokenRequest>),
    /// In words for the caller, without secrets.
    Failed(String),
}

pub type Replayed<T> = Result<T, Stop>;

impl Stop {
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }

    /// An errand that failed. Of what was answered a short text: it names roles and policies, no secrets.
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

    /// # Errors
    /// The errand, when it was not run yet.
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
    /// As [`Trail::ask`].
    pub fn metadata(
        &mut self,
        method: Method,
        url: String,
        headers: HeaderMap,
    ) -> Replayed<&'a TokenResponse> {
        self.exchange(|| Ok(TokenRequest { method, url, headers, body: Vec::new(), is_metadata: true }))
    }

    /// An environment variable, or a file's content, where there is one.
    ///
    /// # Errors
    /// As [`Trail::ask`].
    pub fn local(&mut self, url: String) -> Replayed<Option<String>> {
        let response = self.metadata(Method::GET, url, HeaderMap::new())?;
        let text = String::from_utf8_lossy(&response.body).trim().to_owned();
        Ok(Some(text).filter(|text| response.status == 200 && !text.is_empty()))
    }

    /// # Errors
    /// As [`Trail::ask`].
    pub fn env(&mut self, name: &str) -> Replayed<Option<String>> {
        self.local(format!("env:{name}"))
    }
}
