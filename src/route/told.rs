//! What conditions and sticky choices go by, kept apart from the session it came with.
//!
//! Not what is remembered of earlier choices (`state::sticky`), and not the choosing (`plan`).

use super::facts::RequestFacts;
use super::pick;
use super::tree::{Branch, Group};
use crate::api::body::Body;
use crate::config::balance::Sticky;
use crate::state::live::Live;
use http::HeaderMap;
use std::sync::Arc;

/// See the module.
pub struct Told {
    pub headers: HeaderMap,
    /// The text of a JSON object.
    pub metadata: Option<String>,
    pub pathname: String,
    pub body: Option<Body>,
    pub live: Arc<Live>,
}

impl Told {
    pub fn facts(&self) -> RequestFacts<'_> {
        let prefixes = &self.live.settings.header_prefixes;
        RequestFacts::new(
            self.body.as_ref(),
            &self.headers,
            prefixes,
            self.metadata.as_deref(),
            &self.pathname,
        )
    }

    /// Who the caller is to this group. `name`: that of its service key.
    pub fn sticky_key(&self, name: Option<&str>, group: &Group, sticky: &Sticky) -> [u8; 32] {
        let first = group.children.first().map(|child| &child.branch);
        let config = first.and_then(|branch| match branch {
            Branch::Leaf(leaf) => Some(leaf.identity.hash),
            Branch::Group(_) => None,
        });
        // The same fields under another config, or in another group of it, are another choice.
        let whose = format!("{}|{}|{config:?}", name.unwrap_or_default(), group.index);
        pick::sticky_key(&whose, &sticky.hash_fields, &self.facts())
    }
}
