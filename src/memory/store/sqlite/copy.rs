//! A new SQLite file with what another database has: the backup of PostgreSQL.
//!
//! One transaction; without `finish` there is no file.

use super::super::audit::AuditEntry;
use super::super::sql::Dialect;
use super::super::{Record, StoreError, statements};
use super::run::execute;
use super::{create_new, migrations};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy that is being written.
pub(in crate::store) struct Copy {
    /// `None` when it was finished or is dropped.
    connection: Option<Connection>,
    file: PathBuf,
}

impl Copy {
    /// # Errors
    /// The file exists, or cannot be made.
    pub(in crate::store) fn create(file: &Path) -> Result<Self, StoreError> {
        create_new(file)?;
        let mut connection = Connection::open(file)?;
        migrations::run(&mut connection)?;
        connection.execute_batch("BEGIN")?;
        Ok(Self { connection: Some(connection), file: file.to_owned() })
    }

    pub(in crate::store) fn add(&mut self, records: &[Arc<Record>], position: u64) -> Result<(), StoreError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        for record in records {
            execute(connection, &statements::insert(Dialect::Sqlite, record)?)?;
        }
        execute(connection, &statements::set_position(position)?)?;
        Ok(())
    }

    pub(in crate::store) fn add_audit_entries(&mut self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        for entry in entries {
            execute(connection, &statements::add_audit_entry(Dialect::Sqlite, entry))?;
        }
        Ok(())
    }

    /// Makes it durable.
    pub(in crate::store) fn finish(mut self) -> Result<(), StoreError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        connection.execute_batch("COMMIT")?;
        self.connection = None;
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.connection.take().is_some() {
            // A part of a copy would be taken for one.
            let _ = std::fs::remove_file(&self.file);
        }
    }
}
