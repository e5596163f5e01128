//! How the process ends: readiness fails first, then the listeners close, streams drain, the rest is cut.
//!
//! Pingora sleeps its whole grace period even when nothing is left to wait for, and drops what still runs
//! without a word. So its sleep is only the outer bound here; the drain ends the process.

use async_trait::async_trait;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use turnpike::state::Shared;

/// Between failing readiness and closing the listeners: time for one probe to notice.
const NOTICE: Duration = Duration::from_millis(500);
/// For error events to reach their callers after the grace period.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What Pingora is told to wait beyond our own drain, should that hang.
pub const MARGIN: Duration = Duration::from_secs(5);

/// Turns signals into Pingora's words, failing readiness first.
pub struct Watch(pub Arc<Shared>);

#[async_trait]
impl ShutdownSignalWatch for Watch {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut terminate), Ok(mut quit), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::quit()), signal(SignalKind::interrupt()))
        else {
            log::error!("signals cannot be heard: this process can only be killed");
            return std::future::pending().await;
        };
        let heard = tokio::select! {
            _ = terminate.recv() => ShutdownSignal::GracefulTerminate,
            _ = quit.recv() => ShutdownSignal::GracefulUpgrade,
            _ = interrupt.recv() => {
                let _ = self.0.access_log.flush();
                return ShutdownSignal::FastShutdown;
            }
        };
        self.0.phase.drain();
        let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
        log::info!("stopping: {} requests under way", self.0.phase.in_flight());
        sleep(NOTICE).await;
        heard
    }
}

/// Waits for the requests under way, cuts what is left after the grace period, ends the process.
pub struct Drain {
    pub shared: Arc<Shared>,
    pub grace: Duration,
}

#[async_trait]
impl BackgroundService for Drain {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let _ = shutdown.wait_for(|down| *down).await;
        let deadline = Instant::now() + self.grace;
        self.until_idle(deadline).await;
        let left = self.shared.phase.in_flight();
        if left > 0 {
            log::warn!("the grace period is over: {left} requests are cut");
            self.shared.phase.cut();
            self.until_idle(Instant::now() + LAST_WORDS).await;
        }
        if let Err(error) = self.shared.access_log.flush() {
            log::error!("access lines were lost: {error}");
        }
        log::info!("stopped");
        std::process::exit(0);
    }
}

impl Drain {
    async fn until_idle(&self, deadline: Instant) {
        while self.shared.phase.in_flight() > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Resolves when the process is told to stop (for commands that serve without Pingora).
pub async fn told() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => heard(&mut signal).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}

async fn heard(signal: &mut Signal) {
    signal.recv().await;
}
