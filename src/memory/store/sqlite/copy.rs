//! A new SQLite file with what a database has: the backup of SQLite, and that of PostgreSQL ([`Copy`]).
//!
//! A copy is one transaction; without `finish` there is no file.

use super::super::audit::AuditEntry;
use super::super::private_file::{create_private, folder_of};
use super::super::sql::Dialect;
use super::super::{Record, StoreError, statements};
use super::migrations;
use super::run::execute;
use rusqlite::Connection;
use std::fs::File;
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
            // A partial file could be mistaken for a copy.
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

/// Copies the database of one moment into a new file.
pub(super) fn back_up(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let name = file.to_str().ok_or_else(|| StoreError::Unavailable("its name is not UTF-8".to_owned()))?;
    let made = create_new(file)?;
    let copied = connection.execute("VACUUM INTO ?1", [name]).map_err(StoreError::from);
    let synced = copied.and_then(|_| made.sync_all().map_err(|why| refused(file, &why)));
    if synced.is_err() {
        // A partial file could be mistaken for a copy.
        let _ = std::fs::remove_file(file);
    }
    synced
}

/// Makes an empty file that only its owner can read, where there is none.
fn create_new(file: &Path) -> Result<File, StoreError> {
    create_private(file, folder_of(file)).map_err(|why| refused(file, &why))
}

fn refused(file: &Path, why: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {why}", file.display()))
}
