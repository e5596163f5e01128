//! Keeps the catalogue of prices fresh (`prices`).
//!
//! How it is read is `state::price_feed`'s.

use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;

/// Reads the catalogue at the start, after each reload and every `prices.refresh_hours`.
pub struct PriceRefresher(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for PriceRefresher {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.0.price_feed.keep_fresh(&self.0) => {}
            _ = shutdown.changed() => {}
        }
    }
}
