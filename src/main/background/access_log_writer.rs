//! Writes the queued access lines in the background.
//!
//! The queue and the output belong to `state::access_log`.

use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How long an access line may wait in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Flushes the access log every 50 ms.
pub struct AccessLogWriter(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for AccessLogWriter {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(FLUSH_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        let mut stopping = false;
        loop {
            // Continues after the shutdown began: draining requests still write lines.
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed(), if !stopping => stopping = true,
            }
            // An idle process does not wake a thread twenty times a second.
            if !self.0.access_log.is_waiting() {
                continue;
            }
            let shared = Arc::clone(&self.0);
            let written = tokio::task::spawn_blocking(move || shared.access_log.flush()).await;
            // With nothing to write it is unknown whether writing works: keep the last state.
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
