//! Background tasks, one file each: the access log writer, settings and certificate reloads, systemd notifications, the
//! emulator, batches.
//!
//! Each is a loop around a function of another room and makes no decisions itself.

mod access_log_writer;
mod alert_task;
mod batch_worker;
mod certificate_reloader;
mod emulator_service;
mod engine_reader;
mod host_finder;
mod key_set_refresher;
mod log_expirer;
mod log_writer;
mod memory_returner;
mod node_reporter;
mod price_refresher;
mod readiness_notifier;
mod rollup_merger;
mod settings_reloader;
mod store_follower;

pub use access_log_writer::AccessLogWriter;
pub use alert_task::AlertTask;
pub use batch_worker::BatchWorker;
pub use certificate_reloader::CertificateReloader;
pub use emulator_service::EmulatorService;
pub use engine_reader::EngineReader;
pub use host_finder::HostFinder;
pub use key_set_refresher::KeySetRefresher;
pub use log_expirer::LogExpirer;
pub use log_writer::LogWriter;
pub use memory_returner::MemoryReturner;
pub use node_reporter::NodeReporter;
pub use price_refresher::PriceRefresher;
pub use readiness_notifier::ReadinessNotifier;
pub use rollup_merger::RollupMerger;
pub use settings_reloader::SettingsReloader;
pub use store_follower::StoreFollower;

use crate::hand_over::Predecessor;
use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use tokio::sync::watch;

/// A task.
pub type Task = Box<dyn BackgroundService + Send + Sync>;

/// Runs all tasks on one thread, because each mostly waits.
pub struct BackgroundTasks {
    /// They end when the process stops.
    pub tasks: Vec<Task>,
    /// What requests need that continue after a hand-over, perhaps for days: the keys as they are now, and alerts. They
    /// end when the process stops, but go on where another one serves in its place.
    pub kept_for_requests: Vec<Task>,
    pub predecessor: Arc<Predecessor>,
}

#[async_trait]
impl BackgroundService for BackgroundTasks {
    async fn start(&self, shutdown: ShutdownWatch) {
        let (stop, stopped) = watch::channel(false);
        let mut stops = shutdown.clone();
        let pass_on = async {
            let _ = stops.wait_for(|stops| *stops).await;
            if self.predecessor.has_handed_over() {
                std::future::pending::<()>().await;
            }
            let _ = stop.send(true);
        };
        let tasks = self.tasks.iter().map(|task| task.start(shutdown.clone()));
        let kept = self.kept_for_requests.iter().map(|task| task.start(stopped.clone()));
        tokio::join!(pass_on, join_all(tasks), join_all(kept));
    }
}
