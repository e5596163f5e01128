//! The inherited keys that a request gives in headers, and their part of the key under which its compiled config is cached.
//!
//! Both come from one loop: a key sees only the lines that are written into the cache key, so two requests whose headers
//! differ never share a compiled config. Not here: which headers there are (the table of keys), and the rest of the cache key
//! (`route::compile`).

use super::{KEYS, Policies};
use crate::config::headers::raw::RawHeader;
use crate::error::{Error, Inline};
use http::HeaderMap;
use std::fmt::Write;

/// The request header of an inherited key.
#[derive(Clone, Copy)]
pub(super) struct PolicyHeader {
    /// Its names after the prefix, aliases included.
    pub(super) names: &'static [&'static str],
    /// Reads its lines: one, unless it is a list.
    pub(super) read: fn(&mut Policies, &[RawHeader<'_>]) -> Result<(), Error>,
    /// Whether it may be sent in several lines.
    pub(super) is_list: bool,
    /// As what `auth.saved_only` forbids it, if it does.
    pub(super) inline: Option<Inline>,
}

/// What a request's headers say of the inherited keys; they take precedence over every level of a config.
#[derive(Clone, PartialEq)]
pub struct HeaderPolicies {
    policies: Policies,
    /// The headers as sent; `None` for policies that are from no headers.
    cache_key: Option<String>,
    inline: Option<Inline>,
}

impl HeaderPolicies {
    /// Those that the headers give. `None`: no header does.
    pub(in crate::config) fn read(
        raw: RawPolicyHeaders<'_>,
        headers: &HeaderMap,
    ) -> Result<Option<Box<Self>>, Error> {
        let sent = raw.0.into_iter().filter_map(|(place, header)| Some((place, header?)));
        let mut sent: Vec<(usize, RawHeader<'_>)> = sent.collect();
        sent.sort_unstable_by_key(|(place, _)| *place);
        let mut policies = Policies::default();
        let mut cache_key = String::new();
        let mut inline = None;
        for (place, header) in &sent {
            let Some(row) = KEYS.get(*place).and_then(|key| key.header) else { continue };
            let values = headers.get_all(header.name).iter();
            let lines: Vec<RawHeader<'_>> = if row.is_list {
                values.map(|value| RawHeader { value, ..*header }).collect()
            } else {
                vec![*header]
            };
            (row.read)(&mut policies, &lines)?;
            for line in lines {
                // Escaped: a value has no line feed then, and no two values the same text. Writing into a String cannot fail.
                let _ = writeln!(cache_key, "{place}:{}", line.value.as_bytes().escape_ascii());
            }
            inline = inline.or(row.inline);
        }
        let found = Self { policies, cache_key: Some(cache_key), inline };
        Ok((!sent.is_empty()).then(|| Box::new(found)))
    }

    /// The values.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The headers as sent, for the cache key of the compiled config: lines that begin with a digit. `None`: policies that are
    /// from no headers; no config that is compiled with them may be cached.
    pub fn cache_key(&self) -> Option<&str> {
        self.cache_key.as_deref()
    }

    /// What of it `auth.saved_only` forbids.
    pub fn inline(&self) -> Option<Inline> {
        self.inline
    }
}

/// Policies of the gateway's own requests, in place of headers.
impl From<Policies> for HeaderPolicies {
    fn from(policies: Policies) -> Self {
        Self { policies, cache_key: None, inline: None }
    }
}

impl Policies {
    /// The names of the headers, after the prefix.
    pub fn header_names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().filter_map(|key| key.header).flat_map(|header| header.names.iter().copied())
    }
}

/// The headers of inherited keys as sent, with the place of each key in the table.
#[derive(Default)]
pub(in crate::config) struct RawPolicyHeaders<'a>(Vec<(usize, Option<RawHeader<'a>>)>);

impl<'a> RawPolicyHeaders<'a> {
    /// The slot of the header whose name after the prefix is `suffix`, and whether it may be sent in several lines.
    pub(in crate::config) fn slot(&mut self, suffix: &str) -> Option<(&mut Option<RawHeader<'a>>, bool)> {
        let mut headers = KEYS.iter().enumerate().filter_map(|(place, key)| Some((place, key.header?)));
        let (place, header) = headers.find(|(_, header)| header.names.contains(&suffix))?;
        let existing = self.0.iter().position(|(other, _)| *other == place);
        let index = existing.unwrap_or_else(|| {
            self.0.push((place, None));
            self.0.len() - 1
        });
        self.0.get_mut(index).map(|(_, slot)| (slot, header.is_list))
    }
}
