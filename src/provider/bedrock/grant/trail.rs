//! The way to a grant, walked from its start each time: what was asked before has its answer, and the first
//! thing that has none is what to ask next.

use crate::error::Error;
use crate::provider::grant::{Brought, Errand};
use http::{HeaderMap, Method};

/// The answers so far, in order.
#[derive(Debug)]
pub struct Trail<'a> {
    answers: std::slice::Iter<'a, Brought>,
}

/// Why the way does not go on.
#[derive(Debug)]
pub enum Stop {
    Ask(Box<Errand>),
    /// In words for the caller, without secrets.
    Failed(String),
}

pub type Had<T> = Result<T, Stop>;

impl Stop {
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    /// An errand that failed. Of what was answered a short text: it names roles and policies, no secrets.
    pub fn refused(what: &str, status: u16, said: Option<&str>) -> Self {
        let said: String =
            said.unwrap_or_default().chars().filter(|char| !char.is_control()).take(500).collect();
        let colon = if said.is_empty() { "" } else { ": " };
        Self::Failed(format!("{what} answered with status {status}{colon}{said}"))
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.message)
    }
}

impl<'a> Trail<'a> {
    pub fn new(answers: &'a [Brought]) -> Self {
        Self { answers: answers.iter() }
    }

    /// # Errors
    /// The errand, when it was not run yet.
    pub fn ask(&mut self, errand: impl FnOnce() -> Had<Errand>) -> Had<&'a Brought> {
        match self.answers.next() {
            Some(answer) => Ok(answer),
            None => Err(Stop::Ask(Box::new(errand()?))),
        }
    }

    /// A request to one of the machine's own servers.
    ///
    /// # Errors
    /// As [`Trail::ask`].
    pub fn metadata(&mut self, method: Method, url: String, headers: HeaderMap) -> Had<&'a Brought> {
        self.ask(|| Ok(Errand { method, url, headers, body: Vec::new(), is_metadata: true }))
    }

    /// An environment variable, or a file's content, where there is one.
    ///
    /// # Errors
    /// As [`Trail::ask`].
    pub fn local(&mut self, url: String) -> Had<Option<String>> {
        let answer = self.metadata(Method::GET, url, HeaderMap::new())?;
        let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
        Ok(Some(text).filter(|text| answer.status == 200 && !text.is_empty()))
    }

    /// # Errors
    /// As [`Trail::ask`].
    pub fn env(&mut self, name: &str) -> Had<Option<String>> {
        self.local(format!("env:{name}"))
    }
}
