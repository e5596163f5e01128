//! Runs batches, behind clients' requests: on threads of its own, to which the system gives less of the processor.
//!
//! What is run is `batch`'s.

use async_trait::async_trait;
use motion::batch::{self, Batches};
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use std::sync::Arc;
use tokio::sync::oneshot;

/// How much less of the processor batches get than clients' requests (nice(2)).
const NICENESS: i32 = 10;

/// Runs batches until the process stops.
pub struct BatchWorker {
    pub batches: Option<Arc<Batches>>,
    /// Of their own.
    pub threads: usize,
}

#[async_trait]
impl BackgroundService for BatchWorker {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(batches) = self.batches.clone() else { return };
        let (stop, stopped) = oneshot::channel::<()>();
        let threads = self.threads;
        let run = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("batches")
                .on_thread_start(|| {
                    if let Err(why) = rustix::process::nice(NICENESS) {
                        log::debug!(target: "turnpike", "batches: at the priority of requests: {why}");
                    }
                })
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => runtime.block_on(batch::work(batches, async { drop(stopped.await) })),
                Err(why) => log::error!(target: "turnpike", "batches: no runtime: {why}"),
            }
        };
        let worker = tokio::task::spawn_blocking(run);
        drop(shutdown.changed().await);
        drop(stop);
        // Until lines in flight have their results.
        drop(worker.await);
    }
}
