//! What the process remembers while it runs: one struct, built in `main`, passed as `Arc`.
//!
//! Each part is a small type with a few verbs; its lock is private and never held across an await. No
//! statics. What outlives the process is not here (`store`).

pub mod access_log;
pub mod grants;
pub mod hedges;
pub mod labels;
pub mod live;
pub mod metrics;
pub mod phase;
mod process;
pub mod sticky;
pub mod targets;
pub mod who;

use crate::net::dns::Dns;
use crate::net::peer_book::PeerBook;
use access_log::AccessLog;
use arc_swap::{ArcSwap, Guard};
use grants::Grants;
use hedges::Hedges;
use live::Live;
use metrics::Metrics;
use phase::Phase;
use std::sync::Arc;
use sticky::Sticky;
use targets::Targets;

/// Everything the doors share.
pub struct Shared {
    live: ArcSwap<Live>,
    pub metrics: Metrics,
    pub access_log: AccessLog,
    pub phase: Phase,
    pub dns: Dns,
    pub peers: PeerBook,
    pub grants: Grants,
    pub targets: Targets,
    pub sticky: Sticky,
    pub hedges: Hedges,
}

impl Shared {
    pub fn new(live: Live, metrics: Metrics, access_log: AccessLog) -> Self {
        metrics.settings_loaded(&live.settings.hash);
        let targets = Targets::counted(metrics.breaker_turns());
        let grants = Grants::new(live.settings.tls.ca_file.clone());
        Self {
            live: ArcSwap::from_pointee(live),
            metrics,
            access_log,
            phase: Phase::default(),
            dns: Dns::system(),
            peers: PeerBook::default(),
            grants,
            targets,
            sticky: Sticky::default(),
            hedges: Hedges::default(),
        }
    }

    /// The settings in force. Take it once per request: a reload replaces it as a whole.
    pub fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// The settings in force, to be held across awaits.
    pub fn live_arc(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Puts new settings in force.
    pub fn replace(&self, live: Live) {
        self.metrics.settings_loaded(&live.settings.hash);
        self.live.store(Arc::new(live));
    }
}
