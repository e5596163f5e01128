//! How the process stops: readiness fails first, after a delay the listeners close, open requests drain, the rest is aborted. After a
//! hand-over (`hand_over`) the listeners are another process's, and only the drain is left.
//!
//! Pingora sleeps its whole grace period even when no request is left, and then drops running requests silently.
//! So its sleep is only the outer bound here; the drain ends the process.

use super::demo::Demo;
use super::hand_over::{Predecessor, Successor};
use super::log_queue::LogQueue;
use async_trait::async_trait;
use memory::limits::{CountersFailure, Limits};
use memory::state::Shared;
use motion::engine::caching::Caching;
use pingora_core::server::{ShutdownSignal, ShutdownSignalWatch, ShutdownWatch};
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};

/// The least time between failing readiness and closing the listeners: what was connected until then sends its request.
const READINESS_DELAY: Duration = Duration::from_millis(500);
/// The drain is complete after this long without a request in flight: a connection accepted just now has not sent its
/// request yet, and the last frames of an HTTP/2 response are written after its end.
const QUIET_PERIOD: Duration = Duration::from_millis(300);
/// The same after a hand-over, when clients still have connections to this process, or open one at this moment: those that they use until
/// then are closed with a response, and not under a request.
const QUIET_PERIOD_OF_PREDECESSOR: Duration = Duration::from_secs(5);
/// Time after the grace period for error events to reach their clients, and for what was used until then to be counted and recorded: a busy
/// machine takes a second to make the tokenizer.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the cache's shared store may take for what was cached last.
const CACHE_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the last access lines; an output that hangs must not delay the exit.
pub const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How much longer than our own drain Pingora waits, in case the drain hangs.
pub const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// Maps Unix signals to Pingora's shutdown kinds. Readiness fails first.
pub struct ShutdownSignals {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    pub log: Arc<LogQueue>,
    pub predecessor: Arc<Predecessor>,
    /// Where this process took over from another.
    pub successor: Option<Arc<Successor>>,
    /// How long connections are still accepted after readiness has failed, for balancers to notice.
    pub delay: Duration,
    /// A demo is not handed over: its folder goes with this process.
    pub is_demo: bool,
}

#[async_trait]
impl ShutdownSignalWatch for ShutdownSignals {
    async fn recv(&self) -> ShutdownSignal {
        let (Ok(mut terminate), Ok(mut quit), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::quit()), signal(SignalKind::interrupt()))
        else {
            log::error!(target: "turnpike", "failed to install signal handlers: this process can only be killed");
            self.shared.lifecycle.receive_signals();
            return std::future::pending().await;
        };
        self.shared.lifecycle.receive_signals();
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => return self.stop_immediately().await,
                _ = quit.recv() => tokio::select! {
                    has_successor = self.hand_over() => {
                        if has_successor {
                            return ShutdownSignal::GracefulTerminate;
                        }
                    }
                    _ = terminate.recv() => {
                        self.predecessor.give_up();
                        break;
                    }
                    _ = interrupt.recv() => {
                        self.predecessor.give_up();
                        return self.stop_immediately().await;
                    }
                },
            }
        }
        self.shared.lifecycle.drain();
        if let Some(own) = &self.successor {
            own.stop_predecessor();
        }
        let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
        let delay = self.delay.max(READINESS_DELAY);
        log::info!(
            target: "turnpike", "stopping: {} requests in flight; connections are accepted for {} s more",
            self.shared.lifecycle.in_flight(), delay.as_secs_f32()
        );
        match timeout(delay, interrupt.recv()).await {
            Ok(_) => self.stop_immediately().await,
            Err(_) => ShutdownSignal::GracefulTerminate,
        }
    }
}

impl ShutdownSignals {
    async fn stop_immediately(&self) -> ShutdownSignal {
        log::info!(target: "turnpike", "stopping immediately");
        flush_limits(&self.limits).await;
        flush_access_log(&self.shared).await;
        close_ledger(&self.shared).await;
        self.log.flush(FINAL_FLUSH_TIMEOUT);
        ShutdownSignal::FastShutdown
    }

    /// Starts another process that serves in place of this one. `false`: it could not, and this one serves on.
    async fn hand_over(&self) -> bool {
        let outcome = if self.is_demo {
            Err("a demo ends with its process. Stop it, and start another".to_owned())
        } else {
            log::info!(target: "turnpike", "starting a process to hand over to");
            let predecessor = Arc::clone(&self.predecessor);
            let outcome = tokio::task::spawn_blocking(move || predecessor.hand_over()).await;
            outcome.unwrap_or_else(|why| Err(why.to_string()))
        };
        match &outcome {
            Ok(successor) => {
                let _ =
                    sd_notify::notify(&[NotifyState::MainPid(*successor), NotifyState::Status("serving")]);
                self.shared.lifecycle.hand_over();
                let left = self.shared.lifecycle.in_flight();
                log::info!(target: "turnpike", "process {successor} serves now; {left} requests end here");
                self.predecessor.report_metrics_while_draining();
            }
            Err(why) => log::error!(target: "turnpike", "not handed over, this process serves on: {why}"),
        }
        self.predecessor.report(&outcome);
        outcome.is_ok()
    }
}

/// Writes what limits have counted, and returns what was borrowed of shared counters.
async fn flush_limits(limits: &Limits) {
    let written = timeout(FINAL_FLUSH_TIMEOUT, limits.flush()).await;
    let late = || CountersFailure("it could not be written in time".to_owned());
    if let Err(CountersFailure(why)) = written.unwrap_or_else(|_| Err(late())) {
        log::error!(target: "turnpike", "usage of limits was lost: {why}");
    }
}

/// Writes the queued access lines, for at most [`FINAL_FLUSH_TIMEOUT`].
async fn flush_access_log(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let written = tokio::task::spawn_blocking(move || shared.access_log.flush());
    match timeout(FINAL_FLUSH_TIMEOUT, written).await {
        Ok(Ok(Ok(_))) => {}
        Ok(Ok(Err(error))) => log::error!(target: "turnpike", "access lines were lost: {error}"),
        Ok(Err(error)) => log::error!(target: "turnpike", "access lines were lost: {error}"),
        Err(_) => {
            log::error!(target: "turnpike", "access lines were lost: their output does not accept writes");
        }
    }
}

/// Writes the rows that wait, or spools them. A disk that hangs must not delay the exit for long.
async fn close_ledger(shared: &Arc<Shared>) {
    let Some(ledger) = shared.ledger().cloned() else { return };
    let closed = tokio::task::spawn_blocking(move || ledger.close(FINAL_FLUSH_TIMEOUT));
    if timeout(2 * FINAL_FLUSH_TIMEOUT, closed).await.is_err() {
        log::error!(target: "turnpike", "rows of the ledger were lost: their disk does not accept writes");
    }
}

/// Waits for requests in flight, aborts what is left after the grace period, ends the process.
pub struct Drain {
    pub shared: Arc<Shared>,
    pub log: Arc<LogQueue>,
    pub caching: Arc<Caching>,
    pub limits: Arc<Limits>,
    pub grace: Duration,
    /// How long requests may continue after a hand-over.
    pub drain: Duration,
    pub predecessor: Arc<Predecessor>,
    /// Where this process took over from another.
    pub successor: Option<Arc<Successor>>,
    /// What is removed at the end.
    pub demo: Option<Demo>,
}

#[async_trait]
impl BackgroundService for Drain {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let _ = shutdown.wait_for(|down| *down).await;
        // Already done after SIGTERM and after a hand-over.
        self.shared.lifecycle.drain();
        match signal(SignalKind::interrupt()) {
            Ok(mut interrupt) => {
                tokio::select! {
                    () = self.finish() => {}
                    () = received(&mut interrupt) => log::info!(target: "turnpike", "stopping immediately"),
                }
            }
            Err(_) => self.finish().await,
        }
        flush_limits(&self.limits).await;
        self.caching.store.flush(CACHE_FLUSH_TIMEOUT).await;
        flush_access_log(&self.shared).await;
        close_ledger(&self.shared).await;
        self.predecessor.send_last_metrics();
        if let Some(demo) = self.demo.iter().find(|_| !self.predecessor.has_handed_over()) {
            demo.remove();
        }
        log::info!(target: "turnpike", "stopped");
        log::logger().flush();
        self.log.flush(FINAL_FLUSH_TIMEOUT);
        std::process::exit(0);
    }
}

impl Drain {
    async fn finish(&self) {
        if self.predecessor.has_handed_over() {
            self.finish_after_hand_over().await;
        } else {
            self.until_quiet(Instant::now() + self.grace, false).await;
        }
        let left = self.shared.lifecycle.in_flight();
        if left > 0 {
            log::warn!(target: "turnpike", "the time for requests in flight is over: {left} are aborted");
            self.shared.lifecycle.abort();
        }
        if left > 0 || self.follows_another() {
            self.until_quiet(Instant::now() + ABORT_TIMEOUT, false).await;
        }
    }

    /// Waits for `server.drain_seconds` at most; after a SIGTERM for the grace period at most, as the process that serves now does.
    async fn finish_after_hand_over(&self) {
        let stopped = async {
            match signal(SignalKind::terminate()) {
                Ok(mut terminate) => received(&mut terminate).await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.until_quiet(Instant::now() + self.drain, true) => {}
            () = stopped => {
                if let Some(own) = &self.successor {
                    own.stop_predecessor();
                }
                self.until_quiet(Instant::now() + self.grace, true).await;
            }
        }
    }

    /// Whether a process before this one has requests yet. What it counts passes through here, and systemd would end it with this one.
    fn follows_another(&self) -> bool {
        self.successor.as_ref().is_some_and(|own| own.has_predecessor())
    }

    /// Returns when no request has been in flight for a while, here or in a process before this one, or at the deadline. `lingers`: clients
    /// may use their connections yet.
    async fn until_quiet(&self, deadline: Instant, lingers: bool) {
        let mut busy = Instant::now();
        loop {
            let now = Instant::now();
            if self.shared.lifecycle.in_flight() > 0 || self.follows_another() {
                busy = now;
                if now >= deadline {
                    return;
                }
            } else if now - busy >= if lingers { QUIET_PERIOD_OF_PREDECESSOR } else { QUIET_PERIOD } {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Resolves at SIGTERM or SIGINT, for commands that serve without Pingora.
pub async fn shutdown_requested() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => received(&mut signal).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}

async fn received(signal: &mut Signal) {
    signal.recv().await;
}
