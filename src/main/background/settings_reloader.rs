//! Reloads the settings on SIGHUP and reopens the access log on SIGUSR1.
//!
//! Reading and checking the file is `read`'s.

use crate::logging::ProcessLog;
use crate::reload::Reloaded;
use crate::start_checks::Addresses;
use crate::{read, reload, store_opening};
use async_trait::async_trait;
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use words::settings::restart;

/// Handles SIGHUP and SIGUSR1.
pub struct SettingsReloader {
    shared: Arc<Shared>,
    file: PathBuf,
    /// The settings the process was started with: some of them cannot change while it runs.
    started: Arc<SettingsSnapshot>,
    log: ProcessLog,
}

impl SettingsReloader {
    /// To be made before the first reload: the settings in force are those of the start.
    pub fn new(shared: &Arc<Shared>, file: &Path, log: &ProcessLog) -> Self {
        let started = shared.settings_arc();
        Self { shared: Arc::clone(shared), file: file.to_owned(), started, log: log.clone() }
    }
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

    /// Reads the file and puts its settings in force, if a start with them would succeed.
    ///
    /// # Errors
    /// Why the settings were rejected.
    fn install(&self) -> Result<Reloaded, String> {
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
        self.log.reload(&settings.log);
        let waiting = restart::waiting(&self.started.settings, &settings);
        if !waiting.is_empty() {
            log::warn!(target: "turnpike", "settings: changes of {} take effect after a restart", waiting.join(", "));
        }
        self.shared.waiting_for_restart.store(Arc::new(waiting.clone()));
        read::log_warnings(&self.file, &warnings);
        log::info!(target: "turnpike", "settings reloaded: {}", settings.hash);
        let hash = settings.hash.clone();
        self.shared.install_overlay(overlay);
        self.shared.install(SettingsSnapshot::new(settings, before.generation + 1));
        Ok(Reloaded { hash, waiting })
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
