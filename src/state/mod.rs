//! The state of the running process: one struct, built in `main` and passed as `Arc`.
//!
//! Each part is a small type with a few methods; its lock is private and never held across an await. No
//! statics. Nothing here outlives the process.

pub mod access_log;
pub mod credentials;
pub mod hedge_budget;
pub mod label_limit;
pub mod lifecycle;
pub mod metrics;
mod process;
pub mod snapshot;
pub mod sticky_sessions;
pub mod targets;

use crate::net::outbound::dns::Dns;
use crate::net::outbound::peer_limit::PeerLimit;
use access_log::AccessLog;
use arc_swap::{ArcSwap, Guard};
use credentials::CredentialCache;
use hedge_budget::HedgeBudget;
use lifecycle::Lifecycle;
use metrics::Metrics;
use snapshot::SettingsSnapshot;
use std::sync::Arc;
use sticky_sessions::StickySessions;
use targets::TargetRegistry;

/// The state that the data plane, the control plane and the background tasks share.
pub struct Shared {
    snapshot: ArcSwap<SettingsSnapshot>,
    pub metrics: Metrics,
    pub access_log: AccessLog,
    pub lifecycle: Lifecycle,
    pub dns: Dns,
    pub peer_limit: PeerLimit,
    pub credentials: CredentialCache,
    pub targets: TargetRegistry,
    pub sticky_sessions: StickySessions,
    pub hedge_budget: HedgeBudget,
}

impl Shared {
    pub fn new(snapshot: SettingsSnapshot, metrics: Metrics, access_log: AccessLog) -> Self {
        metrics.settings_loaded(&snapshot.settings.hash);
        let targets = TargetRegistry::with_counter(metrics.breaker_transitions());
        let credentials = CredentialCache::new(snapshot.settings.tls.ca_file.clone());
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            metrics,
            access_log,
            lifecycle: Lifecycle::default(),
            dns: Dns::system(),
            peer_limit: PeerLimit::default(),
            credentials,
            targets,
            sticky_sessions: StickySessions::default(),
            hedge_budget: HedgeBudget::default(),
        }
    }

    /// The settings in force. Load them once per request: a reload replaces them as a whole.
    pub fn settings(&self) -> Guard<Arc<SettingsSnapshot>> {
        self.snapshot.load()
    }

    /// The settings in force, for use across awaits.
    pub fn settings_arc(&self) -> Arc<SettingsSnapshot> {
        self.snapshot.load_full()
    }

    /// Puts new settings in force.
    pub fn install(&self, snapshot: SettingsSnapshot) {
        self.metrics.settings_loaded(&snapshot.settings.hash);
        self.snapshot.store(Arc::new(snapshot));
    }
}
