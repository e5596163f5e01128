//! The gateway's own headers of a request, sorted into slots but not parsed.
//!
//! Decides which name belongs to which slot, which prefix wins, and what happens when a header is sent twice.
//! Not here: parsing the values (`headers`), and which headers inherited keys have (`policies`).

use crate::config::policies::RawPolicyHeaders;
use crate::config::values::MAX_MS;
use crate::error::Error;
use http::{HeaderName, HeaderValue};
use serde::de::IgnoredAny;

mod account;

pub(super) use account::RawAccountHeaders;

/// A header as sent. `rank` is the position of its prefix in the list of prefixes.
#[derive(Clone, Copy)]
pub(in crate::config) struct RawHeader<'a> {
    pub(in crate::config) name: &'a HeaderName,
    pub(in crate::config) value: &'a HeaderValue,
    pub(in crate::config) rank: usize,
}

/// The gateway's own headers as sent, not parsed.
#[derive(Default)]
pub(super) struct RawGatewayHeaders<'a> {
    pub(super) service_key: Option<RawHeader<'a>>,
    pub(super) config: Option<RawHeader<'a>>,
    pub(super) provider: Option<RawHeader<'a>>,
    pub(super) virtual_key: Option<RawHeader<'a>>,
    pub(super) custom_host: Option<RawHeader<'a>>,
    pub(super) trace_id: Option<RawHeader<'a>>,
    pub(super) span_id: Option<RawHeader<'a>>,
    pub(super) parent_span_id: Option<RawHeader<'a>>,
    pub(super) span_name: Option<RawHeader<'a>>,
    pub(super) metadata: Option<RawHeader<'a>>,
    pub(super) debug: Option<RawHeader<'a>>,
    pub(super) ignore_service_log: Option<RawHeader<'a>>,
    pub(super) cache_namespace: Option<RawHeader<'a>>,
    pub(super) cache_force_refresh: Option<RawHeader<'a>>,
    pub(super) policies: RawPolicyHeaders<'a>,
    pub(super) account: RawAccountHeaders<'a>,
}

impl<'a> RawGatewayHeaders<'a> {
    /// Stores the header whose name after the prefix is `suffix`. Returns `false` when the gateway has no
    /// such header.
    pub(super) fn take(&mut self, suffix: &'a str, header: RawHeader<'a>) -> Result<bool, Error> {
        if let Some(slot) = self.slot(suffix) {
            return put(slot, header, false).map(|()| true);
        }
        match self.policies.slot(suffix) {
            Some((slot, is_list)) => put(slot, header, is_list).map(|()| true),
            None => Ok(self.account.take(suffix, header)),
        }
    }

    fn slot(&mut self, suffix: &str) -> Option<&mut Option<RawHeader<'a>>> {
        Some(match suffix {
            "api-key" => &mut self.service_key,
            "config" => &mut self.config,
            "provider" => &mut self.provider,
            "virtual-key" => &mut self.virtual_key,
            "custom-host" => &mut self.custom_host,
            "trace-id" => &mut self.trace_id,
            "span-id" => &mut self.span_id,
            "parent-span-id" => &mut self.parent_span_id,
            "span-name" => &mut self.span_name,
            "metadata" => &mut self.metadata,
            "debug" => &mut self.debug,
            "ignore-service-log" => &mut self.ignore_service_log,
            "cache-namespace" => &mut self.cache_namespace,
            "cache-force-refresh" => &mut self.cache_force_refresh,
            _ => return None,
        })
    }
}

/// Stores a header in its slot, unless one under an earlier prefix is there. `is_list`: it may be sent in several lines.
fn put<'a>(slot: &mut Option<RawHeader<'a>>, header: RawHeader<'a>, is_list: bool) -> Result<(), Error> {
    match slot {
        Some(current) if current.rank < header.rank => {}
        Some(current) if current.rank > header.rank => *current = header,
        // The lines of a list are joined when it is parsed.
        Some(current) if is_list && current.name == header.name => {}
        // Refused because choosing one of the two would be a guess that an attacker could exploit.
        Some(_) => return Err(header.error("is sent more than once, or under two of its names")),
        None => *slot = Some(header),
    }
    Ok(())
}

impl<'a> RawHeader<'a> {
    /// The value as text of visible ASCII characters, spaces and tabs.
    pub(in crate::config) fn text(self) -> Result<&'a str, Error> {
        self.value.to_str().map_err(|_| self.error("must be plain ASCII text"))
    }

    pub(super) fn utf8(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.value.as_bytes()).map_err(|_| self.error("must be UTF-8 text"))
    }

    /// The value as the text of a JSON object, validated without building it.
    pub(super) fn json_object(self) -> Result<&'a str, Error> {
        let text = self.utf8()?.trim();
        if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return Ok(text);
        }
        Err(self.error("must be a JSON object"))
    }

    pub(in crate::config) fn flag(self) -> Result<bool, Error> {
        match self.text()? {
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.error("must be true or false")),
        }
    }

    /// Milliseconds, at least 1. Values above [`MAX_MS`] are reduced to it.
    pub(in crate::config) fn milliseconds(self) -> Result<u64, Error> {
        let ms: Option<u64> = self.text()?.trim().parse().ok();
        match ms.filter(|ms| *ms > 0) {
            Some(ms) => Ok(ms.min(MAX_MS)),
            None => Err(self.error("must be a whole number of milliseconds, at least 1")),
        }
    }

    pub(in crate::config) fn error(self, what: &str) -> Error {
        Error::invalid_request(self.name.as_str(), format!("The header {} {what}.", self.name))
    }
}
