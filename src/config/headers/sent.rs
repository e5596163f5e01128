//! The headers of ours that a request carries, each in its place, unread.
//!
//! Which name goes where, under which prefix, and what happens when one comes twice. What the values mean
//! is read one floor up.

use crate::error::Error;
use http::{HeaderName, HeaderValue};
use serde::de::IgnoredAny;

mod account;

pub(super) use account::SentAccount;

/// A header that was sent, and the position of its prefix in the list.
#[derive(Clone, Copy)]
pub(super) struct Header<'a> {
    pub(super) name: &'a HeaderName,
    pub(super) value: &'a HeaderValue,
    pub(super) rank: usize,
}

/// Where a header goes.
pub(super) type Place<'a> = Option<Header<'a>>;

/// The headers of ours that were sent, unread.
#[derive(Default)]
pub(super) struct Sent<'a> {
    pub(super) service_key: Place<'a>,
    pub(super) config: Place<'a>,
    pub(super) provider: Place<'a>,
    pub(super) virtual_key: Place<'a>,
    pub(super) custom_host: Place<'a>,
    pub(super) request_timeout: Place<'a>,
    pub(super) forward_headers: Place<'a>,
    pub(super) trace_id: Place<'a>,
    pub(super) span_id: Place<'a>,
    pub(super) parent_span_id: Place<'a>,
    pub(super) span_name: Place<'a>,
    pub(super) metadata: Place<'a>,
    pub(super) cache_namespace: Place<'a>,
    pub(super) cache_force_refresh: Place<'a>,
    pub(super) strict: Place<'a>,
    pub(super) account: SentAccount<'a>,
}

impl<'a> Sent<'a> {
    /// Keeps the header called `word` after its prefix; `false` when it is none of ours.
    pub(super) fn take(&mut self, word: &'a str, header: Header<'a>) -> Result<bool, Error> {
        match self.place(word) {
            Some(place) => put(place, header).map(|()| true),
            None => Ok(self.account.take(word, header)),
        }
    }

    fn place(&mut self, word: &str) -> Option<&mut Place<'a>> {
        Some(match word {
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
fn put<'a>(place: &mut Place<'a>, header: Header<'a>) -> Result<(), Error> {
    match place {
        Some(there) if there.rank < header.rank => {}
        Some(there) if there.rank > header.rank => *there = header,
        // A list may come in several lines; they are joined when it is read.
        Some(there) if there.name == header.name && there.name.as_str().ends_with("-forward-headers") => {}
        // Which of two would count is a guess an attacker could use.
        Some(_) => return Err(header.error("is sent more than once, or under two of its names")),
        None => *place = Some(header),
    }
    Ok(())
}

impl<'a> Header<'a> {
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
