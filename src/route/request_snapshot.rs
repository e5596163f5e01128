//! What conditions and sticky choices go by, kept apart from the session it came with.
//!
//! Not what is remembered of earlier choices (`state::sticky`), and not the choosing (`plan`).

use super::compiled::{Node, TargetGroup};
use super::facts::RequestFacts;
use super::pick;
use crate::api::body::Body;
use crate::config::balance::Sticky;
use crate::state::snapshot::SettingsSnapshot;
use http::HeaderMap;
use std::sync::Arc;

/// See the module.
pub struct RequestSnapshot {
    pub headers: HeaderMap,
    /// The text of a JSON object.
    pub metadata: Option<String>,
    pub pathname: String,
    pub body: Option<Body>,
    pub snapshot: Arc<SettingsSnapshot>,
}

impl RequestSnapshot {
    pub fn facts(&self) -> RequestFacts<'_> {
        let prefixes = &self.snapshot.settings.header_prefixes;
        RequestFacts::new(
            self.body.as_ref(),
            &self.headers,
            prefixes,
            self.metadata.as_deref(),
            &self.pathname,
        )
    }

    /// Who the caller is to this group. `name`: that of its service key.
    pub fn sticky_key(&self, name: Option<&str>, group: &TargetGroup, sticky: &Sticky) -> [u8; 32] {
        let first = group.members.first().map(|child| &child.node);
        let config = first.and_then(|branch| match branch {
            Node::Target(target) => Some(target.id.hash),
            Node::Group(_) => None,
        });
        // The same fields under another config, or in another group of it, are another choice.
        let owner = format!("{}|{}|{config:?}", name.unwrap_or_default(), group.path);
        pick::sticky_key(&owner, &sticky.hash_fields, &self.facts())
    }
}
