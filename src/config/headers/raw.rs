//! The headers of ours that a request carries, each in its place, unread.
//!
//! Which name goes where, under which prefix, and what happens when one comes twice. What the values mean
//! is read one floor up.

use crate::error::Error;
use http::{HeaderName, HeaderValue};
use serde::de::IgnoredAny;

mod account;

pub(super) use account::RawAccountHeaders;

/// A header that was sent, and the position of its prefix in the list.
#[derive(Clone, Copy)]
pub(super) struct RawHeader<'a> {
    pub(super) name: &'a HeaderName,
    pub(super) value: &'a HeaderValue,
    pub(super) rank: usize,
}

/// Where a header goes.
pub(super) type HeaderSlot<'a> = Option<RawHeader<'a>>;

/// The headers of ours that were sent, unread.
#[derive(Default)]
pub(super) struct RawGatewayHeaders<'a> {
    pub(super) service_key: HeaderSlot<'a>,
    pub(super) config: HeaderSlot<'a>,
    pub(super) provider: HeaderSlot<'a>,
    pub(super) virtual_key: HeaderSlot<'a>,
    pub(super) custom_host: HeaderSlot<'a>,
    pub(super) request_timeout: HeaderSlot<'a>,
    pub(super) forward_headers: HeaderSlot<'a>,
    pub(super) trace_id: HeaderSlot<'a>,
    pub(super) span_id: HeaderSlot<'a>,
    pub(super) parent_span_id: HeaderSlot<'a>,
    pub(super) span_name: HeaderSlot<'a>,
    pub(super) metadata: HeaderSlot<'a>,
    pub(super) cache_namespace: HeaderSlot<'a>,
    pub(super) cache_force_refresh: HeaderSlot<'a>,
    pub(super) strict: HeaderSlot<'a>,
    pub(super) account: RawAccountHeaders<'a>,
}

impl<'a> RawGatewayHeaders<'a> {
    /// Keeps the header called `word` after its prefix; `false` when it is none of ours.
    pub(super) fn take(&mut self, suffix: &'a str, header: RawHeader<'a>) -> Result<bool, Error> {
        match self.slot(suffix) {
            Some(slot) => put(slot, header).map(|()| true),
            None => Ok(self.account.take(suffix, header)),
        }
    }

    fn slot(&mut self, suffix: &str) -> Option<&mut HeaderSlot<'a>> {
        Some(match suffix {
            "api-key" => &mut self.service_key,
            "config" => &mut self.config,
            "provider" => &mut self.provider,
            "virtual-key" => &mut self.virtual_key,
            "custom-host" => &mut self.custom_host,
            "request-timeout" => &mut self.request_timeout,
            "forward-headers" => &mut self.forward_headers,
            "trace-id" => &mut self.trace_id,
            "span-id" => &mut self.span_id,
            "parent-span-id" => &mut self.parent_span_id,
            "span-name" => &mut self.span_name,
            "metadata" => &mut self.metadata,
            "cache-namespace" => &mut self.cache_namespace,
            "cache-force-refresh" => &mut self.cache_force_refresh,
            "strict-std-compliance" | "strict-open-ai-compliance" => &mut self.strict,
            _ => return None,
        })
    }
}

/// Puts a header in its place, unless one under an earlier prefix is there.
fn put<'a>(slot: &mut HeaderSlot<'a>, header: RawHeader<'a>) -> Result<(), Error> {
    match slot {
        Some(current) if current.rank < header.rank => {}
        Some(current) if current.rank > header.rank => *current = header,
        // A list may come in several lines; they are joined when it is read.
        Some(current)
            if current.name == header.name && current.name.as_str().ends_with("-forward-headers") => {}
        // Which of two would count is a guess an attacker could use.
        Some(_) => return Err(header.error("is sent more than once, or under two of its names")),
        None => *slot = Some(header),
    }
    Ok(())
}

impl<'a> RawHeader<'a> {
    /// Visible ASCII and blanks.
    pub(super) fn text(self) -> Result<&'a str, Error> {
        self.value.to_str().map_err(|_| self.error("must be plain ASCII text"))
    }

    pub(super) fn utf8(self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.value.as_bytes()).map_err(|_| self.error("must be UTF-8 text"))
    }

    /// The text of a JSON object, checked but not built.
    pub(super) fn json_object(self) -> Result<&'a str, Error> {
        let text = self.utf8()?.trim();
        if text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return Ok(text);
        }
        Err(self.error("must be a JSON object"))
    }

    pub(super) fn error(self, what: &str) -> Error {
        Error::invalid_request(self.name.as_str(), format!("The header {} {what}.", self.name))
    }
}
