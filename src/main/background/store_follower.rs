//! Puts in force what changes in the store: by the control plane of this process, by other processes, and by the clock. Writes down
//! when keys were last used.
//!
//! The store reads the changes itself (`Store::follow`); what they mean for requests is compiled in `state`.

use async_trait::async_trait;
use memory::auth::key_records::used;
use memory::state::Shared;
use memory::store::{Change, Kind, Store};
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often it looks for what has expired.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often the last uses of keys are written down. Those of the last such time are lost with the process.
const LAST_USES_INTERVAL: Duration = Duration::from_secs(60);
/// Keys written at a time.
const LAST_USES: usize = 500;

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
            () = self.write_last_uses(store) => {}
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
            self.0.install_stored();
        }
    }

    async fn write_last_uses(&self, store: &Arc<Store>) {
        if store.reads_only() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LAST_USES_INTERVAL).await;
            let settings = self.0.settings();
            let stored = settings.service_keys.stored();
            let uses = stored.take_last_uses();
            for uses in uses.chunks(LAST_USES) {
                let catalog = store.catalog();
                let used = uses.iter().filter_map(|(id, at)| {
                    used(catalog.get(Kind::ApiKey, *id)?, *at, &stored.own_hashes(*id))
                });
                let changes: Vec<Change> = used.map(|record| Change::Put(Arc::new(record))).collect();
                // One that was changed meanwhile is noted again with its next use.
                if let Err(why) = store.commit(changes, Vec::new()).await {
                    log::debug!(target: "turnpike", "the last uses of keys are not written: {why}");
                }
            }
        }
    }
}
