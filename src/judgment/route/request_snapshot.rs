//! The parts of a request that conditions and sticky choices read, independent of its session.
//!
//! Not here: the memory of earlier choices (`state::sticky_sessions`), and the choosing itself (`plan`).

use super::compiled::{Node, TargetGroup};
use super::facts::RequestFacts;
use super::pick;
use http::HeaderMap;
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use words::api::body::Body;
use words::config::balance::Sticky;

/// The parts of a request that conditions and sticky choices read.
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

    /// Identifies the client to this group. `name`: the name of its service key.
    pub fn sticky_key(&self, name: Option<&str>, group: &TargetGroup, sticky: &Sticky) -> [u8; 32] {
        let first = group.members.first().map(|child| &child.node);
        let config = first.and_then(|branch| match branch {
            Node::Target(target) => Some(target.id.hash),
            Node::Group(_) => None,
        });
        // The same fields under another config, or in another group, give another key.
        let owner = format!("{}|{}|{config:?}", name.unwrap_or_default(), group.path);
        pick::sticky_key(&owner, &sticky.hash_fields, &self.facts())
    }
}
