//! Runs the built-in provider inside this process.
//!
//! The provider itself is `emulator`.

use async_trait::async_trait;
use emulator::Emulator;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Serves the emulator on its own address.
pub struct EmulatorService {
    pub emulator: Emulator,
    pub listen: SocketAddr,
}

#[async_trait]
impl BackgroundService for EmulatorService {
    async fn start(&self, _shutdown: ShutdownWatch) {
        let mut warned = false;
        loop {
            match TcpListener::bind(self.listen).await {
                // It serves until the process ends: draining requests still need their provider.
                Ok(listener) => return self.emulator.serve(listener, std::future::pending()).await,
                Err(error) if !warned => {
                    log::warn!(target: "turnpike", "the emulator cannot listen on {}: {error}", self.listen);
                }
                Err(_) => {}
            }
            // After a hand-over the old process holds the address until its last request has ended.
            warned = true;
            sleep(BIND_RETRY_INTERVAL).await;
        }
    }
}
