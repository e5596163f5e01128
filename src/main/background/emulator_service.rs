//! Runs the built-in provider inside this process.
//!
//! The provider itself is `emulator`.

use async_trait::async_trait;
use emulator::Emulator;
use parking_lot::Mutex;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Serves the emulator on its own address.
pub struct EmulatorService {
    emulator: Emulator,
    listen: SocketAddr,
    /// Taken before any other listener, so that the first request finds its provider. `None`: the address is in use.
    early: Mutex<Option<std::net::TcpListener>>,
}

impl EmulatorService {
    /// Takes the address if it is free.
    pub fn new(emulator: Emulator, listen: SocketAddr) -> Self {
        let early = std::net::TcpListener::bind(listen).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        Self { emulator, listen, early: Mutex::new(early.ok()) }
    }

    async fn listener(&self) -> std::io::Result<TcpListener> {
        let early = self.early.lock().take();
        match early {
            Some(early) => TcpListener::from_std(early),
            None => TcpListener::bind(self.listen).await,
        }
    }
}

#[async_trait]
impl BackgroundService for EmulatorService {
    async fn start(&self, _shutdown: ShutdownWatch) {
        let mut warned = false;
        loop {
            match self.listener().await {
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
