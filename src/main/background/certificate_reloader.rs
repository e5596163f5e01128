//! Reloads certificates whose files changed.
//!
//! Reading and comparing the files is `certificate`'s.

use crate::certificate::Certificate;
use async_trait::async_trait;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Checks the files of all listeners' certificates every 2 s.
pub struct CertificateReloader(pub Vec<Arc<Certificate>>);

#[async_trait]
impl BackgroundService for CertificateReloader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(CERTIFICATE_CHECK_INTERVAL);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            for certificate in &self.0 {
                match certificate.reload() {
                    Ok(true) => log::info!(target: "turnpike", "certificate reloaded"),
                    Ok(false) => {}
                    Err(why) => {
                        log::error!(target: "turnpike", "certificate not reloaded, the previous one stays in use: {why}");
                    }
                }
            }
        }
    }
}
