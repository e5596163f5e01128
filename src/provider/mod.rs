//! What each vendor wants: where its API is, how it is asked, how the key is shown.
//!
//! Pure: a provider only *describes*. It opens no socket, reads no clock and knows no session. What a
//! vendor's shapes look like will live beside it when it speaks another shape than ours.

use crate::api::operation::Operation;
use crate::config::account::Account;
use crate::error::Error;
use http::{HeaderMap, Method};
use std::borrow::Cow;

pub mod openai_compatible;

/// What a provider may know of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub operation: Operation,
    pub method: &'a Method,
    /// As the caller wrote it, relative to the version segment and without a leading slash:
    /// `chat/completions`.
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// The model the upstream will be asked for, when the call names one.
    pub model: Option<&'a str>,
}

/// One vendor.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The plain identifier callers use (`openai`, `groq`), as in reference 12.1.
    fn id(&self) -> &'static str;

    /// The base URL calls are appended to when the account has no custom host. Ends without a slash.
    ///
    /// # Errors
    /// 400 when the account lacks what the address is made of; the message names the config key.
    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error>;

    /// Path and query below the base URL, with a leading slash.
    ///
    /// # Errors
    /// 400 when the call lacks what the path is made of (a model in the path, say).
    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error>;

    /// Writes the provider's auth headers (and other headers it always wants) over what the caller sent.
    ///
    /// # Errors
    /// 400 when the key cannot stand in a header.
    fn authorize(&self, account: &Account, headers: &mut HeaderMap) -> Result<(), Error>;
}

/// Finds a provider by its plain identifier or one of its other names.
pub fn find(id: &str) -> Option<&'static dyn Provider> {
    openai_compatible::find(id).map(|row| row as &'static dyn Provider)
}

/// Every provider id, for problem texts and docs.
pub fn ids() -> impl Iterator<Item = &'static str> {
    openai_compatible::ROWS.iter().map(|row| row.id)
}
