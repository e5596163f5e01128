//! Connections to a SQLite database.
//!
//! Which of them writes, and how many read, is up to `writer` and `readers`.

use super::BUSY_TIMEOUT;
use crate::store::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Opens a connection with the settings that every one has.
pub(super) fn connect(file: Option<&Path>, for_reading: bool) -> Result<Connection, StoreError> {
    let flags = if for_reading {
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX
    };
    let opened = match file {
        Some(file) => Connection::open_with_flags(file, flags),
        None => Connection::open_in_memory(),
    };
    let connection = opened?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if !for_reading {
        let settings =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 4194304;";
        connection.execute_batch(settings)?;
    }
    Ok(connection)
}
