//! Sends the alerts of limits (`alerts`).
//!
//! What is sent, and to whom, is `control::alerts`'s.

use async_trait::async_trait;
use control::alerts::AlertSender;
use memory::limits::Limits;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;

/// Sends an alert for each event of the limits.
pub struct AlertTask {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
}

#[async_trait]
impl BackgroundService for AlertTask {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        // This is the only one that takes them.
        let Some(events) = self.limits.events() else { return };
        let sender = Arc::new(AlertSender::new(Arc::clone(&self.shared)));
        tokio::select! {
            () = sender.run(events) => {}
            _ = shutdown.changed() => {}
        }
    }
}
