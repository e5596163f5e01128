//! Writes the process's log in the background, sums up its repeated lines, and reports how many were dropped.
//!
//! The queue is `log_queue`'s.

use crate::log_queue::LogQueue;
use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the writer's thread, then reports once a second.
pub struct LogWriter {
    pub queue: Arc<LogQueue>,
    pub shared: Arc<Shared>,
}

#[async_trait]
impl BackgroundService for LogWriter {
    async fn start(&self, _shutdown: ShutdownWatch) {
        if let Err(error) = self.queue.start_writer() {
            log::error!(target: "turnpike", "failed to start the log's thread: {error}");
        }
        // Continues after the shutdown began: the drain logs too, and ends the process.
        loop {
            log::logger().flush();
            self.shared.metrics.record_dropped_process_log_lines(self.queue.take_dropped());
            sleep(REPORT_INTERVAL).await;
        }
    }
}
