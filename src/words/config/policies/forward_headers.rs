//! `forward_headers`: names of request headers to forward to the provider unchanged.
//!
//! A level's list replaces that of the level above.

use super::from_headers::PolicyHeader;
use super::{Policies, PolicyKey, inherit_value};
use crate::config::headers::raw::RawHeader;
use crate::config::members::{Form, MemberTable, form, list};
use crate::error::{Error, Inline};
use crate::json::JsonStr;
use crate::json::schema::pattern;
use http::HeaderName;
use std::borrow::Cow;

pub(super) const KEY: PolicyKey = PolicyKey {
    enough: &["forward_headers"],
    members,
    in_provider: Some(members),
    header: Some(PolicyHeader {
        names: &["forward-headers"],
        read: |policies, lines| {
            policies.forward_headers = Some(names(lines)?);
            Ok(())
        },
        is_list: true,
        inline: Some(Inline::ForwardHeaders),
    }),
    inherit: |policies, above| inherit_value(&mut policies.forward_headers, &above.forward_headers),
    ..PolicyKey::NONE
};

impl Policies {
    /// Names of the request headers to forward unchanged.
    pub fn forward_headers(&self) -> &[HeaderName] {
        self.forward_headers.as_deref().unwrap_or_default()
    }
}

const HEADER: Form<HeaderName> = form(
    |at| forwardable(at.text()?).map_err(|message| at.problem(message)).ok(),
    |doc| pattern(doc, "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", &["x-forwarded-for"]),
);

fn members(policies: &mut Policies, table: &mut MemberTable<'_>) {
    let doc = "Request headers to forward to the provider unchanged.";
    policies.forward_headers = table.get("forward_headers", list(HEADER, "A header name."), doc);
}

/// A list of header names, separated by commas or as a JSON array of texts, in one or several header lines.
fn names(lines: &[RawHeader<'_>]) -> Result<Vec<HeaderName>, Error> {
    let mut names = Vec::new();
    for line in lines {
        let text = line.text()?.trim();
        let listed: Vec<Cow<'_, str>> = if text.starts_with('[') {
            let list: Result<Vec<JsonStr<'_>>, _> = serde_json::from_str(text);
            let list = list.map_err(|_| line.error("must be header names, or a JSON array of them"))?;
            list.into_iter().map(|name| name.0).collect()
        } else {
            text.split(',').map(Cow::Borrowed).collect()
        };
        for name in listed.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let name =
                forwardable(name).map_err(|what| line.error(&format!("names a header that {what}")))?;
            names.push(name);
        }
    }
    Ok(names)
}

/// The name of a header that the list may have; what is wrong with it otherwise, without repeating it.
fn forwardable(name: &str) -> Result<HeaderName, &'static str> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "must be a header name")?;
    // Under any prefix: the list must not forward itself.
    if name.as_str().ends_with("-forward-headers") {
        return Err("must not be the header that lists the headers to forward");
    }
    Ok(name)
}
