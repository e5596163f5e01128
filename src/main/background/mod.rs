//! Background tasks, one file each: the access log writer, settings and certificate reloads, systemd notifications, the
//! emulator, batches.
//!
//! Each is a loop around a function of another room and makes no decisions itself.

mod access_log_writer;
mod alert_task;
mod batch_worker;
mod certificate_reloader;
mod emulator_service;
mod key_set_refresher;
mod log_expirer;
mod log_writer;
mod memory_returner;
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
pub use key_set_refresher::KeySetRefresher;
pub use log_expirer::LogExpirer;
pub use log_writer::LogWriter;
pub use memory_returner::MemoryReturner;
pub use price_refresher::PriceRefresher;
pub use readiness_notifier::ReadinessNotifier;
pub use rollup_merger::RollupMerger;
pub use settings_reloader::SettingsReloader;
pub use store_follower::StoreFollower;

use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;

/// Runs all tasks on one thread, because each mostly waits.
pub struct BackgroundTasks(pub Vec<Box<dyn BackgroundService + Send + Sync>>);

#[async_trait]
impl BackgroundService for BackgroundTasks {
    async fn start(&self, shutdown: ShutdownWatch) {
        join_all(self.0.iter().map(|task| task.start(shutdown.clone()))).await;
    }
}
