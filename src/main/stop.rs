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
use tokio::time::{Instant, sleep, timeout};
use turnpike::state::Shared;

/// Between failing readiness and closing the listeners: time for one probe to notice.
const NOTICE: Duration = Duration::from_millis(500);
/// How long nothing may be under way before that counts as the end: a connection just taken has not shown its
/// request yet, and the last frames of an HTTP/2 answer are written behind its end.
const QUIET: Duration = Duration::from_millis(300);
/// For error events to reach their callers after the grace period.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// For the last access lines; an output that hangs must not hold up the end.
const LAST_LINES: Duration = Duration::from_secs(2);
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
            log::error!(target: "turnpike", "signals cannot be heard: this process can only be killed");
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => return self.at_once().await,
                _ = quit.recv() => {
                    if self.is_awaited() {
                        log::info!(target: "turnpike", "handing the listeners over");
                        return ShutdownSignal::GracefulUpgrade;
                    }
                }
            }
        }
        self.0.phase.drain();
        let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
        log::info!(target: "turnpike", "stopping: {} requests under way", self.0.phase.in_flight());
        match timeout(NOTICE, interrupt.recv()).await {
            Ok(_) => self.at_once().await,
            Err(_) => ShutdownSignal::GracefulTerminate,
        }
    }
}

impl Watch {
    async fn at_once(&self) -> ShutdownSignal {
        log::info!(target: "turnpike", "stopping at once");
        last_lines(&self.0).await;
        ShutdownSignal::FastShutdown
    }

    /// Whether a new process waits for our listeners. Pingora would stop in any case, and leave nobody listening.
    fn is_awaited(&self) -> bool {
        match &self.0.live().settings.server.upgrade_sock {
            Some(path) if path.exists() => return true,
            Some(path) => log::error!(
                target: "turnpike", "SIGQUIT ignored: no process waits on {}; start `turnpike run --upgrade` first",
                path.display()
            ),
            None => {
                log::error!(target: "turnpike", "SIGQUIT ignored: handing over needs server.upgrade_sock")
            }
        }
        false
    }
}

/// Writes the access lines that wait, for so long.
async fn last_lines(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let written = tokio::task::spawn_blocking(move || shared.access_log.flush());
    match timeout(LAST_LINES, written).await {
        Ok(Ok(Ok(_))) => {}
        Ok(Ok(Err(error))) => log::error!(target: "turnpike", "access lines were lost: {error}"),
        Ok(Err(error)) => log::error!(target: "turnpike", "access lines were lost: {error}"),
        Err(_) => log::error!(target: "turnpike", "access lines were lost: their output hangs"),
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
        // Said already, unless the listeners were handed over: their new owner is as ready as we were.
        self.shared.phase.drain();
        match signal(SignalKind::interrupt()) {
            Ok(mut interrupt) => {
                tokio::select! {
                    () = self.finish() => {}
                    () = heard(&mut interrupt) => log::info!(target: "turnpike", "stopping at once"),
                }
            }
            Err(_) => self.finish().await,
        }
        last_lines(&self.shared).await;
        log::info!(target: "turnpike", "stopped");
        std::process::exit(0);
    }
}

impl Drain {
    async fn finish(&self) {
        self.until_quiet(Instant::now() + self.grace).await;
        let left = self.shared.phase.in_flight();
        if left > 0 {
            log::warn!(target: "turnpike", "the grace period is over: {left} requests are cut");
            self.shared.phase.cut();
            self.until_quiet(Instant::now() + LAST_WORDS).await;
        }
    }

    /// Returns when nothing has been under way for [`QUIET`], or at the deadline when something still is.
    async fn until_quiet(&self, deadline: Instant) {
        let mut busy = Instant::now();
        loop {
            let now = Instant::now();
            if self.shared.phase.in_flight() > 0 {
                busy = now;
                if now >= deadline {
                    return;
                }
            } else if now - busy >= QUIET {
                return;
            }
            sleep(Duration::from_millis(10)).await;
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
