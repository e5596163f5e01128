//! Puts in force what changes in the store: by the control plane of this process, by other processes, and by the clock.
//!
//! The store reads the changes itself (`Store::follow`); what they mean for requests is compiled in `state`.

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use turnpike::state::Shared;
use turnpike::store::Store;

/// How often it looks for what has expired.
const INTERVAL: Duration = Duration::from_secs(1);

/// Follows the store to the end of the process.
pub struct StoreFollower(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for StoreFollower {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(store) = self.0.store() else { return };
        // `follow` writes the last snapshot when it is stopped, so it is not dropped.
        let stopped = async { drop(shutdown.changed().await) };
        let follow = Arc::clone(store).follow(stopped);
        tokio::pin!(follow);
        tokio::select! {
            () = &mut follow => {}
            () = self.install(store) => follow.await,
        }
    }
}

impl StoreFollower {
    async fn install(&self, store: &Arc<Store>) {
        let mut updated = store.updated();
        let mut tick = interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = updated.changed() => if changed.is_err() { return },
                // What has expired.
                _ = tick.tick() => {}
            }
            self.0.install_stored(store.catalog().position);
        }
    }
}
