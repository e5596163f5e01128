//! The connections of an embedded database that only read.
//!
//! Not here: the one that writes (`writer`).

use super::super::{OpenFiles, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;

/// Connections that are kept open.
const MAX_IDLE_READERS: usize = 3;

/// The connections for reading.
pub(super) struct Readers {
    /// `None`: the database is in memory, and only the writer's connection sees it.
    file: Option<PathBuf>,
    files: Option<Arc<OpenFiles>>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(file: Option<PathBuf>, files: Option<Arc<OpenFiles>>) -> Self {
        Self { file, files, idle: Mutex::default() }
    }

    pub(super) fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// A connection, while the files of the database are in their places.
    pub(super) fn take(&self) -> Result<Connection, StoreError> {
        super::check(self.files.as_deref())?;
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| super::connect(self.file.as_deref(), true), Ok)
    }

    pub(super) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE_READERS {
            idle.push(connection);
        }
    }
}
