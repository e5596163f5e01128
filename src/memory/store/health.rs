//! Whether the database is available, for the log, `/readyz` and metrics.
//!
//! Logs each change once. Makes no calls of its own: it is told the outcome of every call to the database.

use super::StoreError;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The state of the store for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// `sqlite` or `postgres`.
    pub backend: &'static str,
    /// Whether the last call to the database succeeded.
    pub available: bool,
    /// When `available` last changed.
    pub since: Timestamp,
    /// Why it is not available, or why the last write found no space.
    pub why: Option<String>,
    /// The position of the catalog.
    pub position: u64,
    /// Whether the catalog is the snapshot on disk, because the database could not be read yet.
    pub from_disk: bool,
}

/// The store's health as it changes.
pub(super) struct Health(Mutex<StoreHealth>);

impl Health {
    pub(super) fn new(backend: &'static str) -> Self {
        let since = Timestamp::now();
        let why = Some("it was not opened yet".to_owned());
        Self(Mutex::new(StoreHealth { backend, available: false, since, why, position: 0, from_disk: false }))
    }

    pub(super) fn read(&self, position: u64) -> StoreHealth {
        StoreHealth { position, ..self.0.lock().clone() }
    }

    pub(super) fn set_from_disk(&self, from_disk: bool) {
        self.0.lock().from_disk = from_disk;
    }

    /// Notes the outcome of a call. Errors that are only the caller's (a slug that is taken) do not count.
    pub(super) fn note<T>(&self, outcome: &Result<T, StoreError>) {
        let why = match outcome {
            Ok(_) => None,
            Err(StoreError::Taken(_) | StoreError::Changed | StoreError::ReadsOnly) => return,
            Err(error) => Some(error),
        };
        let available = matches!(why, None | Some(StoreError::Full(_)));
        let mut health = self.0.lock();
        let was = std::mem::replace(&mut health.available, available);
        let before = std::mem::replace(&mut health.why, why.map(ToString::to_string));
        if was != available {
            health.since = Timestamp::now();
        }
        let backend = health.backend;
        match (&health.why, before) {
            (Some(why), before) if before.as_ref() != Some(why) => {
                log::error!(target: "turnpike", "{backend}: {why}");
            }
            (None, Some(_)) => log::info!(target: "turnpike", "{backend}: the store is available"),
            _ => {}
        }
    }
}
