//! What the headers of a request ask for: the gateway's own, under each accepted prefix, and the bearer.
//!
//! One pass sorts the headers that are there into places, then each place is read. Nothing is copied but
//! credentials and header names. Not here: who wins when config and headers both speak (`route`), and
//! whether the service key is one of ours.

mod sent;

use super::account::{Account, DeploymentType};
use super::policy::LONGEST_MS;
use super::secret::Secret;
use crate::error::Error;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use sent::{Header, Place, Sent, SentAccount, put};
use serde::de::IgnoredAny;
use std::fmt;

/// Bytes of an id or name we log and echo.
const LONGEST_ID: usize = 256;

/// What the headers ask for. Empty values count as absent.
#[derive(Clone, Default, PartialEq)]
pub struct Asked<'a> {
    pub service_key: Option<&'a str>,
    /// Inline JSON or the id of a saved config; UTF-8, otherwise unread.
    pub config: Option<&'a str>,
    /// A plain id or `@slug`.
    pub provider: Option<&'a str>,
    pub virtual_key: Option<&'a str>,
    /// Not judged yet.
    pub custom_host: Option<&'a str>,
    /// Milliseconds, at least 1.
    pub request_timeout: Option<u64>,
    pub forward_headers: Option<Vec<HeaderName>>,
    /// At most 256 visible ASCII characters, as the span ids are: it is echoed.
    pub trace_id: Option<&'a str>,
    pub span_id: Option<&'a str>,
    pub parent_span_id: Option<&'a str>,
    pub span_name: Option<&'a str>,
    /// The text of a JSON object.
    pub metadata: Option<&'a str>,
    pub cache_namespace: Option<&'a str>,
    pub cache_force_refresh: bool,
    pub strict_std_compliance: Option<bool>,
    /// The credential in `Authorization`, without the word `Bearer`. `None` for other schemes.
    pub bearer: Option<&'a str>,
    /// Cloud credentials and addressing, when any header of that sort is there. Without `api_key` and
    /// `custom_host`, which have their own fields.
    pub account: Option<Box<Account>>,
}

impl<'a> Asked<'a> {
    /// Reads `headers`. `prefixes` are lower-case and end in `-`; where two of them carry the same header
    /// the first in the list counts.
    ///
    /// # Errors
    /// 400 whose `param` is the header that cannot be read. No text repeats a value.
    pub fn read(headers: &'a HeaderMap, prefixes: &[impl AsRef<str>]) -> Result<Self, Error> {
        let mut sent = Sent::default();
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            for (rank, prefix) in prefixes.iter().enumerate() {
                let word = name.as_str().strip_prefix(prefix.as_ref());
                if let Some(place) = word.and_then(|word| sent.place(word)) {
                    put(place, Header { name, value, rank })?;
                    break;
                }
            }
        }
        Ok(Self {
            service_key: text(sent.service_key)?,
            config: utf8(sent.config)?,
            provider: text(sent.provider)?,
            virtual_key: text(sent.virtual_key)?,
            custom_host: text(sent.custom_host)?,
            request_timeout: sent.request_timeout.map(milliseconds).transpose()?,
            forward_headers: sent.forward_headers.map(|header| names(header, headers)).transpose()?,
            trace_id: id(sent.trace_id)?,
            span_id: id(sent.span_id)?,
            parent_span_id: id(sent.parent_span_id)?,
            span_name: id(sent.span_name)?,
            metadata: sent.metadata.map(json_object).transpose()?,
            cache_namespace: text(sent.cache_namespace)?,
            cache_force_refresh: text(sent.cache_force_refresh)?
                .is_some_and(|text| text.eq_ignore_ascii_case("true")),
            strict_std_compliance: sent.strict.map(flag).transpose()?,
            bearer: bearer(headers)?,
            account: sent.has_account.then(|| account(&sent.account)).transpose()?,
        })
    }
}

/// Whether a header is the gateway's own, under any of `prefixes`, and so never reaches a provider.
pub fn is_ours(name: &HeaderName, prefixes: &[impl AsRef<str>]) -> bool {
    prefixes.iter().any(|prefix| name.as_str().starts_with(prefix.as_ref()))
}

/// A name that may stand in `forward_headers`.
///
/// # Errors
/// What is wrong with it, without repeating it.
pub fn forwardable(name: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "must be a header name")?;
    // Whatever the prefix: the list would be asked to carry itself.
    if name.as_str().ends_with("-forward-headers") {
        return Err("must not be the header that lists the headers to forward");
    }
    Ok(name)
}

/// Reads the cloud headers.
fn account(sent: &SentAccount<'_>) -> Result<Box<Account>, Error> {
    let mut account = Box::<Account>::default();
    account.organization = owned(sent.organization)?;
    account.project = owned(sent.project)?;
    account.resource_name = owned(sent.resource_name)?;
    account.deployment_id = owned(sent.deployment_id)?;
    // One header for both dialects of cloud C: resources know api_version, deployments cloud_c_api_version.
    account.api_version = owned(sent.c_api_version)?;
    account.cloud_a.access_key_id = text(sent.a_access_key_id)?.map(Secret::new);
    account.cloud_a.secret_access_key = text(sent.a_secret_access_key)?.map(Secret::new);
    account.cloud_a.session_token = text(sent.a_session_token)?.map(Secret::new);
    account.cloud_a.region = owned(sent.a_region)?;
    account.cloud_b.project_id = owned(sent.b_project_id)?;
    account.cloud_b.region = owned(sent.b_region)?;
    let service_account = sent.b_service_account.map(json_object).transpose()?;
    account.cloud_b.service_account_json = service_account.map(Secret::new);
    account.cloud_c.region = owned(sent.c_region)?;
    account.cloud_c.deployment_name = owned(sent.c_deployment_name)?;
    account.cloud_c.deployment_type = sent.c_deployment_type.map(deployment_type).transpose()?;
    account.cloud_c.endpoint_name = owned(sent.c_endpoint_name)?;
    account.cloud_c.api_version = owned(sent.c_api_version)?;
    account.cloud_c.entra_scope = owned(sent.c_entra_scope)?;
    account.cloud_c.model_name = owned(sent.c_model_name)?;
    Ok(account)
}

fn text(header: Place<'_>) -> Result<Option<&str>, Error> {
    header.map(Header::text).transpose()
}

fn owned(header: Place<'_>) -> Result<Option<String>, Error> {
    Ok(text(header)?.map(str::to_owned))
}

fn utf8(header: Place<'_>) -> Result<Option<&str>, Error> {
    header.map(Header::utf8).transpose()
}

/// An id we log and echo: bounded, without tabs.
fn id(header: Place<'_>) -> Result<Option<&str>, Error> {
    let Some(header) = header else { return Ok(None) };
    let text = header.text()?;
    if text.len() > LONGEST_ID || text.contains('\t') {
        return Err(header.error(&format!("must be at most {LONGEST_ID} visible ASCII characters")));
    }
    Ok(Some(text))
}

fn milliseconds(header: Header<'_>) -> Result<u64, Error> {
    let ms: Option<u64> = header.text()?.trim().parse().ok();
    match ms.filter(|ms| *ms > 0) {
        Some(ms) => Ok(ms.min(LONGEST_MS)),
        None => Err(header.error("must be a whole number of milliseconds, at least 1")),
    }
}

fn flag(header: Header<'_>) -> Result<bool, Error> {
    match header.text()? {
        text if text.eq_ignore_ascii_case("true") => Ok(true),
        text if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(header.error("must be true or false")),
    }
}

fn deployment_type(header: Header<'_>) -> Result<DeploymentType, Error> {
    let text = header.text()?;
    let found = DeploymentType::WORDS.iter().find(|(word, _)| *word == text);
    found.map(|(_, kind)| *kind).ok_or_else(|| header.error("must be serverless or managed"))
}

/// The text of a JSON object, checked but not built.
fn json_object(header: Header<'_>) -> Result<&str, Error> {
    let text = header.utf8()?.trim();
    if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return Ok(text);
    }
    Err(header.error("must be a JSON object"))
}

/// A comma-separated list, in one line or several.
fn names(header: Header<'_>, headers: &HeaderMap) -> Result<Vec<HeaderName>, Error> {
    let mut names = Vec::new();
    for value in headers.get_all(header.name) {
        let text = Header { value, ..header }.text()?;
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let name =
                forwardable(name).map_err(|what| header.error(&format!("names a header that {what}")))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// The credential in `Authorization`: after `Bearer`, or the whole value where no scheme is named, as clients
/// of the reference send it.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let header = Header { name: &AUTHORIZATION, value, rank: 0 };
    let text = header.text()?.trim();
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return Ok(None),
        None if text.eq_ignore_ascii_case("bearer") => return Ok(None),
        None => text,
    };
    Ok(Some(token).filter(|token| !token.is_empty()))
}

/// Nothing that may hold a credential.
impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("provider", &self.provider)
            .field("trace_id", &self.trace_id)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
