//! What this process is called among the gateways of its store, and since when it runs.
//!
//! Made once, at the start. What it says of itself now is `NodeReport`, made by [`Shared::node_report`].

use super::Shared;
use crate::store::{NodeReport, NodeState};
use jiff::Timestamp;
use uuid::Uuid;
use words::settings::{NodeRole, Settings};

/// Characters of a host name that are kept.
const MAX_NAME: usize = 128;

/// This process as one of several gateways.
#[derive(Debug, Clone)]
pub struct Node {
    /// Of this process: another start has another one.
    pub id: Uuid,
    /// `server.node`, or the name of the host.
    pub name: String,
    /// Of the control port.
    pub address: String,
    pub role: NodeRole,
    pub started_at: Timestamp,
}

impl Node {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            id: Uuid::now_v7(),
            name: settings.server.node.clone().unwrap_or_else(host_name),
            address: settings.listen.control.address.to_string(),
            role: settings.control.role,
            started_at: Timestamp::now(),
        }
    }
}

fn host_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.chars().filter(|char| !char.is_control()).take(MAX_NAME).collect()
}

impl Shared {
    /// What this gateway says of itself at this moment.
    pub fn node_report(&self) -> NodeReport {
        let snapshot = self.settings();
        let since = snapshot.stored.revision_since();
        let status = match (self.lifecycle.is_draining(), self.lifecycle.is_ready()) {
            (true, _) => "draining",
            (_, true) => "serving",
            _ => "starting",
        };
        let state = NodeState {
            role: self.node.role.as_str().to_owned(),
            status: status.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings_hash: snapshot.settings.hash.clone(),
            revision: snapshot.stored.revision(),
            revision_since: since.map(|since| format!("{since:.3}")).unwrap_or_default(),
            started_at: format!("{:.3}", self.node.started_at),
        };
        NodeReport {
            id: self.node.id,
            name: self.node.name.clone(),
            address: self.node.address.clone(),
            clock: Timestamp::now(),
            state,
        }
    }
}
