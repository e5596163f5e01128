//! Merges the ledger's rollups: hours to days, days to blocks. What is merged when is decided in `ledger::rollup::merging`.

use async_trait::async_trait;
use jiff::Timestamp;
use memory::ledger::log_store::LogError;
use memory::ledger::{Ledger, Question};
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks for something to merge.
const INTERVAL: Duration = Duration::from_secs(20);
/// Between two steps, for rows to be written.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one step may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Merges rollups to the end of the process.
pub struct RollupMerger(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for RollupMerger {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(ledger) = self.0.ledger() else { return };
        loop {
            tokio::select! {
                _ = shutdown.changed() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            if let Err(why) = merge(ledger).await {
                // It is repeated; an outage of the log store is reported by its writer.
                log::debug!(target: "turnpike", "rollups are not merged: {why}");
            }
        }
    }
}

async fn merge(ledger: &Ledger) -> Result<(), LogError> {
    let now = Timestamp::now().as_millisecond();
    while ledger.run(Question::Upkeep, TIMEOUT, move |store, _| store.merge_rollups(now)).await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
