//! Reloads certificates whose files changed (those that `acme` has written, too), and shows in the metrics when they expire.
//!
//! Reading and comparing the files is `certificate`'s.

use crate::certificate::Certificate;
use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::interval;

const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Checks the files of all listeners' certificates every 2 s.
pub struct CertificateReloader {
    pub shared: Arc<Shared>,
    pub certificates: Vec<Arc<Certificate>>,
}

impl CertificateReloader {
    fn show_expiry(&self, certificate: &Certificate) {
        if let Some(validity) = certificate.validity() {
            self.shared
                .metrics
                .certificates()
                .set_expiry(&certificate.file().to_string_lossy(), validity.until);
        }
    }
}

#[async_trait]
impl BackgroundService for CertificateReloader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        self.certificates.iter().for_each(|certificate| self.show_expiry(certificate));
        let mut tick = interval(CERTIFICATE_CHECK_INTERVAL);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            for certificate in &self.certificates {
                match certificate.reload() {
                    Ok(true) => {
                        self.show_expiry(certificate);
                        log::info!(target: "turnpike", "reloaded the files of certificate {}", certificate.file().display());
                    }
                    Ok(false) => {}
                    Err(why) => {
                        log::error!(target: "turnpike", "certificate not reloaded, its files of before stay in use (client_ca and client_crl, too): {why}");
                    }
                }
            }
        }
    }
}
