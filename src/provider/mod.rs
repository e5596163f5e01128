//! What each vendor wants: where its API is, how it is asked, how the key is shown.
//!
//! Pure: a provider only *describes*. It opens no socket, reads no clock and knows no session. What a
//! vendor's shapes look like will live beside it when it speaks another shape than ours.

use crate::api::operation::Operation;
use crate::config::account::Account;
use crate::config::read::nearest;
use crate::error::Error;
use http::{HeaderMap, Method};
use std::borrow::Cow;

pub mod anthropic;
pub mod key;
pub mod openai_compatible;
pub mod row;

/// What a provider may know of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub operation: Operation,
    pub method: &'a Method,
    /// As the caller wrote it (still percent-encoded), relative to the version segment and without a
    /// leading slash: `chat/completions`.
    pub path: &'a str,
    /// As the caller wrote it, without the `?`.
    pub query: Option<&'a str>,
    /// The model the upstream will be asked for, when the call names one.
    pub model: Option<&'a str>,
}

/// One vendor.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The plain identifier callers use (`openai`, `groq`), as in reference 12.1.
    fn id(&self) -> &'static str;

    /// Scheme and host, perhaps with a path, that calls are appended to when the account has no custom
    /// host. Ends without a slash.
    ///
    /// # Errors
    /// 400 when the account lacks what the address is made of; `param` names the config key.
    fn base_url(&self, account: &Account) -> Result<Cow<'static, str>, Error>;

    /// Path and query, with a leading slash: what is appended to [`Provider::base_url`], or to the
    /// account's custom host (path included, trailing slashes taken off) when it has one. The caller's
    /// query is part of it: nobody else appends it.
    ///
    /// # Errors
    /// 400 when the call lacks what the path is made of (a model in the path, say), or would climb out of
    /// the base with `..`.
    fn path(&self, call: &Call<'_>, account: &Account) -> Result<String, Error>;

    /// Writes the provider's auth headers (and other headers it always wants) over what the caller sent,
    /// and takes out any other credential header there, so that nobody's key travels to a stranger. To be
    /// called before `forward_headers` are written: what is forwarded on purpose is not stale.
    ///
    /// The call is an argument because one vendor may want its key shown differently on different paths.
    ///
    /// # Errors
    /// 401 when the key is missing and the vendor's own host would refuse us anyway; 400 when the key
    /// cannot stand in a header.
    fn authorize(&self, call: &Call<'_>, account: &Account, headers: &mut HeaderMap) -> Result<(), Error>;
}

/// Finds a provider by its plain identifier or one of its other names. A linear search: meant for when a
/// config is compiled, not for every request.
pub fn find(id: &str) -> Option<&'static dyn Provider> {
    if id == anthropic::ROW.id {
        return Some(&anthropic::Anthropic);
    }
    openai_compatible::find(id).map(|row| row as &'static dyn Provider)
}

/// Every provider id, for problem texts and docs.
pub fn ids() -> impl Iterator<Item = &'static str> {
    std::iter::once(anthropic::ROW.id).chain(openai_compatible::ROWS.iter().map(|row| row.id))
}

/// What to tell whoever named a provider we do not know.
pub fn unknown(name: &str) -> String {
    let known: Vec<&str> = ids().collect();
    match nearest(&known, name) {
        Some(near) => format!("is not a provider this gateway knows; did you mean {near}?"),
        None => "is not a provider this gateway knows; docs/providers.md lists them.".to_owned(),
    }
}

/// The whole URL of a call: custom host or base URL, path, query. Whether a custom host may be reached is
/// not judged here.
///
/// # Errors
/// As [`Provider::base_url`] and [`Provider::path`].
pub fn url(provider: &dyn Provider, call: &Call<'_>, account: &Account) -> Result<String, Error> {
    let base = match &account.custom_host {
        Some(host) => Cow::Borrowed(host.trim_end_matches('/')),
        None => provider.base_url(account)?,
    };
    Ok(format!("{base}{}", provider.path(call, account)?))
}

#[cfg(test)]
mod tests;
