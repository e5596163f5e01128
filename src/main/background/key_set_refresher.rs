//! Keeps the public keys of the identity provider fresh (`auth.jwt`).
//!
//! How they are fetched is `state::jwks`'s.

use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;

/// Fetches the keys at the start, every ten minutes and after each reload.
pub struct KeySetRefresher(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for KeySetRefresher {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.0.jwks.keep_fresh(&self.0) => {}
            _ = shutdown.changed() => {}
        }
    }
}
