//! What runs beside the listeners: the log writer, reloads, certificate renewal, systemd's watchdog, the
//! emulator.
//!
//! Each is a loop around one verb of somebody else's; nothing is decided here.

use super::certificate::Certificate;
use super::read;
use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use turnpike::emulator::Emulator;
use turnpike::settings::Settings;
use turnpike::state::Shared;
use turnpike::state::snapshot::SettingsSnapshot;

/// How long an access line may wait in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(2);
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// All of them on one thread: none has more to do than to wait.
pub struct BackgroundTasks(pub Vec<Box<dyn BackgroundService + Send + Sync>>);

#[async_trait]
impl BackgroundService for BackgroundTasks {
    async fn start(&self, shutdown: ShutdownWatch) {
        join_all(self.0.iter().map(|task| task.start(shutdown.clone()))).await;
    }
}

/// Writes access lines out.
pub struct AccessLogWriter(pub Arc<Shared>);

#[async_trait]
impl BackgroundService for AccessLogWriter {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(FLUSH_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        let mut stopping = false;
        loop {
            // It goes on after the shutdown began: lines of draining requests are still to come.
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed(), if !stopping => stopping = true,
            }
            let shared = Arc::clone(&self.0);
            let written = tokio::task::spawn_blocking(move || shared.access_log.flush()).await;
            // Where there was nothing to write, nobody knows whether it would have gone.
            let failed = match written {
                Ok(Ok(false)) => failing,
                Ok(Ok(true)) => false,
                _ => true,
            };
            if failed && !failing {
                log::error!(target: "turnpike", "access lines cannot be written: {written:?}");
            }
            failing = failed;
        }
    }
}

/// Re-reads the settings on SIGHUP and reopens the access log on SIGUSR1.
pub struct SettingsReloader {
    pub shared: Arc<Shared>,
    pub file: PathBuf,
    /// The settings the process was started with: some of them hold to its end.
    pub started: Arc<SettingsSnapshot>,
}

#[async_trait]
impl BackgroundService for SettingsReloader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let (Ok(mut sighup), Ok(mut sigusr1)) =
            (signal(SignalKind::hangup()), signal(SignalKind::user_defined1()))
        else {
            log::error!(target: "turnpike", "SIGHUP and SIGUSR1 cannot be heard");
            return;
        };
        loop {
            tokio::select! {
                Some(()) = sighup.recv() => self.reload(),
                Some(()) = sigusr1.recv() => self.reopen(),
                _ = shutdown.changed() => return,
            }
        }
    }
}

impl SettingsReloader {
    /// Puts the file in force as a whole, or leaves everything as it was and says why.
    fn reload(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
        }
        if let Err(why) = self.install() {
            self.shared.metrics.settings_refused();
            log::error!(target: "turnpike", "settings not reloaded, the last good ones stay:\n{why}");
        }
        let _ = sd_notify::notify(&[NotifyState::Ready]);
    }

    /// # Errors
    /// Why the file is not in force.
    fn install(&self) -> Result<(), String> {
        let settings = read::settings(&self.file).map_err(|error| read::report(&self.file, &error))?;
        let before = self.shared.settings_arc();
        let output = &settings.access_log;
        if *output != before.settings.access_log {
            self.shared.access_log.reopen(output).map_err(|why| format!("access_log: {why}"))?;
        }
        let unchangeable_sections = unchangeable(&settings, &self.started.settings);
        if !unchangeable_sections.is_empty() {
            log::warn!(target: "turnpike", "settings: changes of {} wait for a restart", unchangeable_sections.join(", "));
        }
        log::info!(target: "turnpike", "settings reloaded: {}", settings.hash);
        self.shared.install(SettingsSnapshot::new(settings, before.generation + 1));
        Ok(())
    }

    fn reopen(&self) {
        match self.shared.access_log.reopen(&self.shared.settings().settings.access_log) {
            Ok(()) => log::info!(target: "turnpike", "access log opened anew"),
            Err(error) => {
                log::error!(target: "turnpike", "access log not opened anew, the old one stays: {error}")
            }
        }
    }
}

/// The sections that differ and that only a start puts in force.
fn unchangeable(new: &Settings, started: &Settings) -> Vec<&'static str> {
    let sections = [
        ("server", new.server != started.server),
        ("listen", new.listen != started.listen),
        ("emulator", new.emulator != started.emulator),
        ("tls", new.tls != started.tls),
        ("log", new.log != started.log),
    ];
    sections.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
}

/// Puts renewed certificates in use.
pub struct CertificateReloader(pub Vec<Arc<Certificate>>);

#[async_trait]
impl BackgroundService for CertificateReloader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let mut tick = interval(CERTIFICATE_CHECK_INTERVAL);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = shutdown.changed() => return,
            }
            for certificate in &self.0 {
                match certificate.renew() {
                    Ok(true) => log::info!(target: "turnpike", "certificate renewed"),
                    Ok(false) => {}
                    Err(why) => {
                        log::error!(target: "turnpike", "certificate not renewed, the old one stays: {why}")
                    }
                }
            }
        }
    }
}

/// Says when the listeners accept, then keeps systemd's watchdog quiet.
pub struct ReadinessNotifier {
    pub shared: Arc<Shared>,
    pub listeners: Vec<SocketAddr>,
}

#[async_trait]
impl BackgroundService for ReadinessNotifier {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        for &address in &self.listeners {
            while !accepts(address).await {
                sleep(Duration::from_millis(10)).await;
            }
        }
        self.shared.lifecycle.serve();
        let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
        log::info!(target: "turnpike", "serving on {:?}", self.listeners);
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        loop {
            let watchdog_tick = async {
                match every {
                    Some(every) => sleep(every).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = watchdog_tick => {
                    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
                }
                // While draining the watchdog goes on: a drain is no hang.
                _ = shutdown.changed(), if every.is_none() => return,
            }
        }
    }
}

async fn accepts(address: SocketAddr) -> bool {
    matches!(timeout(Duration::from_secs(1), TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// The built-in provider inside this process.
pub struct EmulatorService {
    pub emulator: Emulator,
    pub listen: SocketAddr,
}

#[async_trait]
impl BackgroundService for EmulatorService {
    async fn start(&self, _shutdown: ShutdownWatch) {
        let mut warned = false;
        loop {
            match TcpListener::bind(self.listen).await {
                // It serves to the end of the process: draining requests still need their provider.
                Ok(listener) => return self.emulator.serve(listener, std::future::pending()).await,
                Err(error) if !warned => {
                    log::warn!(target: "turnpike", "the emulator cannot listen on {}: {error}", self.listen)
                }
                Err(_) => {}
            }
            // After a hand-over the old process has the address until its last request has ended.
            warned = true;
            sleep(BIND_RETRY_INTERVAL).await;
        }
    }
}
