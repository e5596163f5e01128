//! Looks for the hosts of providers that come and go (`discover`).
//!
//! How they are found is `state::discovered_hosts`'s.

use async_trait::async_trait;
use memory::state::{Shared, discovered_hosts};
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;

/// Looks for those of each provider in its own interval.
pub struct HostFinder(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for HostFinder {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        tokio::select! {
            () = discovered_hosts::keep_fresh(&self.0) => {}
            _ = shutdown.changed() => {}
        }
    }
}
