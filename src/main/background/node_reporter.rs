//! Writes a row about this gateway into the store every few seconds (with SQLite every minute), and at a change of what is in force: for `turnpike nodes`.
//!
//! A store that is away loses the row of that moment, and nothing else. What the row says is `state::node`'s.

use async_trait::async_trait;
use memory::state::Shared;
use memory::store::Store;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Between two rows at least, so that many changes at a time cost little.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// From a change in the store until it is most likely in force.
const SETTLE: Duration = Duration::from_millis(100);
/// Of deleting the row at a stop, which waits for it.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reports this gateway to the end of the process.
pub struct NodeReporter(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for NodeReporter {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(store) = self.0.store() else { return };
        tokio::select! {
            _ = shutdown.changed() => {}
            () = self.report(store) => {}
        }
        // It is known to have stopped, and not to have fallen silent.
        let removed = timeout(REMOVE_TIMEOUT, store.remove_node(self.0.node.id)).await;
        if let Ok(Err(why)) = removed {
            log::debug!(target: "turnpike", "nodes: the row of this gateway stays: {why}");
        }
    }
}

impl NodeReporter {
    async fn report(&self, store: &Arc<Store>) {
        let mut updated = store.updated();
        let mut was_refused = false;
        loop {
            // Before the row is made: what changes from here on is seen below.
            updated.mark_unchanged();
            let report = self.0.node_report();
            let reported = (report.state.revision, report.state.status.clone());
            let written = store.report_node(report).await;
            // That the store is away is in the log already. Once: this would be there every few seconds.
            if let Err(why) = &written
                && !was_refused
                && store.health().available
            {
                log::warn!(target: "turnpike", "nodes: this gateway is not shown in `turnpike nodes`: {why}");
            }
            was_refused = written.is_err() && store.health().available;
            sleep(MIN_INTERVAL).await;
            let now = self.0.node_report().state;
            if reported != (now.revision, now.status) {
                continue;
            }
            tokio::select! {
                changed = updated.changed() => if changed.is_err() { return },
                () = self.0.lifecycle.drained(), if !self.0.lifecycle.is_draining() => {}
                () = sleep(store.node_interval().saturating_sub(MIN_INTERVAL)) => {}
            }
            sleep(SETTLE).await;
        }
    }
}
