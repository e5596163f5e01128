//! Reads what model servers have to do (`engine` of a stored provider).
//!
//! How they are read is `state::engine_loads`'s.

use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;

/// Reads each of them in its own interval.
pub struct EngineReader(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for EngineReader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = self.0.engine_loads.keep_fresh(&self.0) => {}
            _ = shutdown.changed() => {}
        }
    }
}
