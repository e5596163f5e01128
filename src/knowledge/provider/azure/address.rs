//! Parts of URLs: API versions, the path of a custom host, queries.

use super::super::spec::{SEGMENT, has_dot_segment};
use percent_encoding::utf8_percent_encode;
use std::borrow::Cow;
use words::error::Error;

/// An API version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version<'a> {
    /// The version without a date. It adds nothing to the query, or `preview`.
    Undated(Option<&'static str>),
    /// A date such as `2024-10-21`, written into the query.
    Dated(&'a str),
}

impl<'a> Version<'a> {
    /// `None` and `v1` are the version without a date.
    pub fn new(version: Option<&'a str>) -> Self {
        match version.map(str::trim) {
            None | Some("" | "v1") => Self::Undated(None),
            Some("preview" | "latest") => Self::Undated(Some("preview")),
            Some(dated) => Self::Dated(dated),
        }
    }
}

/// The path of a URL, without trailing slashes; empty when it has none.
pub(super) fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

/// The URL without its path.
pub(super) fn origin_of(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(path_of(url)).unwrap_or(url)
}

/// A path and its query: the pairs of the client's query plus those that the provider requires.
pub(super) struct PathAndQuery<'a> {
    path: String,
    query: Vec<Cow<'a, str>>,
}

impl<'a> PathAndQuery<'a> {
    pub fn new(path: String, query: Option<&'a str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self { path, query: pairs.map(Cow::Borrowed).collect() }
    }

    fn has(&self, name: &str) -> bool {
        self.query.iter().any(|pair| pair.split('=').next() == Some(name))
    }

    /// Adds `name=value` unless the client's query already has `name`.
    pub(crate) fn set_default(&mut self, name: &str, value: &str) {
        if !self.has(name) {
            self.query.push(format!("{name}={}", utf8_percent_encode(value, SEGMENT)).into());
        }
    }

    /// Adds `name=value` and removes the client's value of `name`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.set_default(name, value);
    }

    pub fn remove(&mut self, name: &str) {
        self.query.retain(|pair| pair.split('=').next() != Some(name));
    }

    pub fn write(self) -> String {
        let mut out = self.path;
        for (index, pair) in self.query.iter().enumerate() {
            out.push(if index == 0 { '?' } else { '&' });
            out.push_str(pair);
        }
        out
    }
}

/// A value percent-encoded as one segment of a path.
///
/// # Errors
/// 400 when it is a `.` or `..` segment.
pub(super) fn segment<'a>(
    param: &str,
    value: &'a str,
    provider: &'static str,
) -> Result<Cow<'a, str>, Error> {
    if has_dot_segment(value) {
        let message = format!("{param} must not contain '.' or '..' as a path segment.");
        return Err(Error::invalid_request(param, message).with_provider(provider));
    }
    Ok(utf8_percent_encode(value, SEGMENT).into())
}

/// # Errors
/// 400 for a path with a `.` or `..` segment.
pub(super) fn check_path(path: &str, provider: &'static str) -> Result<(), Error> {
    if has_dot_segment(path) {
        let message = "The path must not contain '.' or '..' as a segment.";
        return Err(Error::bad_request(message).with_provider(provider));
    }
    Ok(())
}

/// Whether a query has an `api-version`.
pub(super) fn has_version(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| pair.starts_with("api-version="))
}
