//! Reloads the settings on SIGHUP and reopens the access log on SIGUSR1.
//!
//! Reading and checking the file is `read`'s.

use crate::start_checks::Addresses;
use crate::{read, reload, store_opening};
use async_trait::async_trait;
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use words::settings::{Listener, Settings};

/// Handles SIGHUP and SIGUSR1.
pub struct SettingsReloader {
    pub shared: Arc<Shared>,
    pub file: PathBuf,
    /// The settings the process was started with: some of them cannot change while it runs.
    pub started: Arc<SettingsSnapshot>,
}

#[async_trait]
impl BackgroundService for SettingsReloader {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let (Ok(mut sighup), Ok(mut sigusr1)) =
            (signal(SignalKind::hangup()), signal(SignalKind::user_defined1()))
        else {
            log::error!(target: "turnpike", "failed to install the handlers of SIGHUP and SIGUSR1: settings are not reloaded and the access log is not reopened");
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
    /// Puts the new settings in force as a whole, or keeps the previous ones and logs why.
    fn reload(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
        }
        let outcome = self.install();
        if let Err(why) = &outcome {
            self.shared.metrics.settings_refused();
            log::error!(target: "turnpike", "settings not reloaded, the previous settings stay in force:\n{why}");
        }
        reload::write_outcome(&outcome);
        let _ = sd_notify::notify(&[NotifyState::Ready]);
    }

    /// Reads the file and puts its settings in force, if a start with them would succeed. Returns their hash.
    ///
    /// # Errors
    /// Why the settings were rejected.
    fn install(&self) -> Result<String, String> {
        let read = read::for_start(&self.file, Addresses::Held);
        let read::Usable { settings, warnings, overlay } =
            read.map_err(|error| read::report(&self.file, &error))?;
        let before = self.shared.settings_arc();
        let output = &settings.access_log;
        if *output != before.settings.access_log {
            self.shared.access_log.reopen(output).map_err(|why| format!("access_log: {why}"))?;
        }
        if let Some(store) = self.shared.store() {
            let options = store_opening::options(&self.file, &settings);
            store.reload_keys(&options).map_err(|why| why.to_string())?;
        }
        let unchangeable_sections = unchangeable(&settings, &self.started.settings);
        if !unchangeable_sections.is_empty() {
            log::warn!(target: "turnpike", "settings: changes of {} take effect after a restart", unchangeable_sections.join(", "));
        }
        read::log_warnings(&self.file, &warnings);
        log::info!(target: "turnpike", "settings reloaded: {}", settings.hash);
        let hash = settings.hash.clone();
        self.shared.install_overlay(overlay);
        self.shared.install(SettingsSnapshot::new(settings, before.generation + 1));
        Ok(hash)
    }

    fn reopen(&self) {
        match self.shared.access_log.reopen(&self.shared.settings().settings.access_log) {
            Ok(()) => log::info!(target: "turnpike", "access log reopened"),
            Err(error) => {
                log::error!(target: "turnpike", "access log not reopened, the previous file stays in use: {error}");
            }
        }
    }
}

/// The changed sections that take effect only at a restart.
fn unchangeable(new: &Settings, started: &Settings) -> Vec<&'static str> {
    let sections = [
        ("server", new.server != started.server),
        ("listen", listeners(new) != listeners(started)),
        ("listen.control_on_data", new.listen.control_on_data != started.listen.control_on_data),
        ("emulator", new.emulator != started.emulator),
        ("store.url", new.store.url != started.store.url),
        ("tls", new.tls != started.tls),
        ("log", new.log != started.log),
        ("telemetry", new.telemetry != started.telemetry),
        (
            "outbound for telemetry.otlp and batches.s3",
            has_fixed_clients(new) && new.outbound != started.outbound,
        ),
    ];
    sections.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect()
}

/// Whether there are clients that are made once, at the start.
fn has_fixed_clients(settings: &Settings) -> bool {
    settings.telemetry.otlp.is_some() || settings.batches.s3.is_some()
}

/// The addresses that are listened on. `control_names` and `trusted_proxies` are read for every request.
fn listeners(settings: &Settings) -> (&[Listener], &Listener) {
    (&settings.listen.data, &settings.listen.control)
}
