//! Writes access lines out in the background.
//!
//! The queue and the file are `state::access_log`'s.

use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use turnpike::state::Shared;

/// How long an access line may wait in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Writes access lines out.
pub struct AccessLogWriter(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for AccessLogWriter {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(FLUSH_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        let mut stopping = false;
        loop {
            // It goes on after the shutdown began: lines of draining requests are still to come.
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed(), if !stopping => stopping = true,
            }
            let shared = Arc::clone(&self.0);
            let written = tokio::task::spawn_blocking(move || shared.access_log.flush()).await;
            // Where there was nothing to write, nobody knows whether it would have gone.
            let failed = match written {
                Ok(Ok(false)) => failing,
                Ok(Ok(true)) => false,
                _ => true,
            };
            if failed && !failing {
                log::error!(target: "turnpike", "access lines cannot be written: {written:?}");
            }
            failing = failed;
        }
    }
}
