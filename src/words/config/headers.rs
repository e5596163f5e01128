//! Reads the gateway's own request headers, under each accepted prefix.
//!
//! One pass sorts the headers into slots, then each slot is read. Only credentials and header names are
//! copied. Not here: which value wins when config and headers both give one (`route`), and keys (`auth`).
//!
//! Example, with the prefixes `x-gateway-` and `x-other-`: `x-gateway-provider: a` and `x-other-provider: b`
//! both belong to the slot `provider`; `a` is used, because its prefix is earlier in the list. Sending
//! `x-gateway-provider` twice is an error.

mod metadata;
pub(super) mod raw;

use super::account::names::CUSTOM_HOST;
use super::account::{Account, AccountSource};
use super::policies::HeaderPolicies;
use crate::error::{Error, Inline};
use http::{HeaderMap, HeaderName};
use raw::{RawAccountHeaders, RawGatewayHeaders, RawHeader};
use std::fmt;

/// Maximum bytes of an id or name that is logged and echoed.
const MAX_ID_LEN: usize = 256;

/// The gateway's own request headers, parsed. Empty values count as absent.
#[derive(Clone, Default, PartialEq)]
pub struct GatewayHeaders<'a> {
    pub service_key: Option<&'a str>,
    /// Inline JSON or the id of a saved config; checked to be UTF-8, not parsed.
    pub config: Option<&'a str>,
    /// A plain id or `@slug`.
    pub provider: Option<&'a str>,
    pub virtual_key: Option<&'a str>,
    /// Not checked yet.
    pub custom_host: Option<&'a str>,
    /// At most 256 visible ASCII characters, as for the span ids, because it is echoed.
    pub trace_id: Option<&'a str>,
    pub span_id: Option<&'a str>,
    pub parent_span_id: Option<&'a str>,
    pub span_name: Option<&'a str>,
    /// The text of a JSON object within the limits of metadata.
    pub metadata: Option<&'a str>,
    /// `false`: no body is kept with the log of the request.
    pub debug: Option<bool>,
    /// Whether no log is kept of the request.
    pub ignore_service_log: bool,
    pub cache_namespace: Option<&'a str>,
    pub cache_force_refresh: bool,
    /// Inherited keys; `None` without any such header.
    pub policies: Option<Box<HeaderPolicies>>,
    /// Cloud credentials and addressing; `None` without any such header. `api_key` is never set: `auth` finds
    /// the client's keys. `custom_host` is set only from a vendor's own header.
    pub account: Option<Box<Account>>,
}

impl<'a> GatewayHeaders<'a> {
    /// Reads `headers`. `prefixes` are lower-case and end in `-`; if a header is sent under two of them, the
    /// earlier prefix in the list counts.
    ///
    /// # Errors
    /// A 400 whose `param` is the header that cannot be read. The message never repeats a value.
    pub fn read(headers: &'a HeaderMap, prefixes: &[impl AsRef<str>]) -> Result<Self, Error> {
        let mut raw = RawGatewayHeaders::default();
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            for (rank, prefix) in prefixes.iter().enumerate() {
                let suffix = name.as_str().strip_prefix(prefix.as_ref());
                if let Some(suffix) = suffix
                    && raw.take(suffix, RawHeader { name, value, rank })?
                {
                    break;
                }
            }
        }
        let provider = text(raw.provider)?;
        Ok(Self {
            service_key: text(raw.service_key)?,
            config: utf8(raw.config)?,
            provider,
            virtual_key: text(raw.virtual_key)?,
            custom_host: text(raw.custom_host)?,
            trace_id: id(raw.trace_id)?,
            span_id: id(raw.span_id)?,
            parent_span_id: id(raw.parent_span_id)?,
            span_name: id(raw.span_name)?,
            metadata: raw.metadata.map(metadata::read).transpose()?,
            debug: raw.debug.map(RawHeader::flag).transpose()?,
            ignore_service_log: raw.ignore_service_log.map(RawHeader::flag).transpose()?.unwrap_or_default(),
            cache_namespace: text(raw.cache_namespace)?,
            cache_force_refresh: text(raw.cache_force_refresh)?
                .is_some_and(|text| text.eq_ignore_ascii_case("true")),
            policies: HeaderPolicies::read(raw.policies, headers)?,
            account: (!raw.account.is_empty()).then(|| account(raw.account, provider)).transpose()?,
        })
    }

    /// What `auth.saved_only` forbids of the inherited keys.
    pub fn inline_policy(&self) -> Option<Inline> {
        self.policies.as_ref().and_then(|policies| policies.inline())
    }
}

/// Whether a header is the gateway's own, under any of `prefixes`. Such headers are never sent upstream.
pub fn is_gateway_header(name: &HeaderName, prefixes: &[impl AsRef<str>]) -> bool {
    prefixes.iter().any(|prefix| name.as_str().starts_with(prefix.as_ref()))
}

/// The gateway's own prefix. The settings may add others.
const OWN_PREFIX: &str = "x-gateway-";

/// Headers that carry credentials, in lower case.
const CREDENTIALS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-amz-security-token",
    "ocp-apim-subscription-key",
];

/// Whether a header carries a credential; `name` in lower case.
pub fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name)
}

/// The name of a header that conditions and sticky balancing may read, in lower case.
///
/// # Errors
/// What is wrong with the name, without repeating it.
pub(crate) fn observable(name: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "must be a header name after headers.")?;
    if is_credential(name.as_str()) || name.as_str().starts_with(OWN_PREFIX) {
        return Err("is a credential or a header of the gateway's own; routing does not see those");
    }
    Ok(name)
}

/// Reads the account headers. `provider` is the one named in the request's provider header.
fn account(mut raw: RawAccountHeaders<'_>, provider: Option<&str>) -> Result<Box<Account>, Error> {
    raw.provider = provider.unwrap_or_default().to_owned();
    let mut account = Box::new(Account::from_source(&mut raw));
    account.custom_host = raw.text(CUSTOM_HOST, "");
    // One header sets both fields of cloud C: resources use api_version, deployments cloud_c_api_version.
    account.api_version.clone_from(&account.cloud_c.api_version);
    raw.first_error.map_or(Ok(account), Err)
}

fn text(header: Option<RawHeader<'_>>) -> Result<Option<&str>, Error> {
    header.map(RawHeader::text).transpose()
}

fn utf8(header: Option<RawHeader<'_>>) -> Result<Option<&str>, Error> {
    header.map(RawHeader::utf8).transpose()
}

/// An id that is logged and echoed: bounded and without tabs.
fn id(header: Option<RawHeader<'_>>) -> Result<Option<&str>, Error> {
    let Some(header) = header else { return Ok(None) };
    let text = header.text()?;
    if text.len() > MAX_ID_LEN || text.contains('\t') {
        return Err(header.error(&format!("must be at most {MAX_ID_LEN} visible ASCII characters")));
    }
    Ok(Some(text))
}

/// Shows nothing that may hold a credential.
impl fmt::Debug for GatewayHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayHeaders")
            .field("provider", &self.provider)
            .field("trace_id", &self.trace_id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
