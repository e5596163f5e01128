//! The ledger in SQLite: one file, with a table of rows, two for finding them (marks, pairs) and one of payloads for each day (UTC).
//!
//! One connection writes, several read. The database is opened when it is used first and again after a failure, so that a disk that is
//! full or gone stops nothing else: a file that was deleted is missed with the next write, and made anew for the one after it.
//! In WAL mode without a sync for each batch: kill -9 loses nothing that was committed, a power failure may lose the last moments.

mod database;
mod key_ranges;
mod marks;
mod pairs;
mod read;
mod tables;
mod write;

use super::analytics::{FeedbackTally, Tally, sums};
use super::filter::Filter;
use super::log_store::{Expiry, LogError, LogStore, ReadControl};
use super::{Entry, Feedback, Row, feedback};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;
use write::WriteConnection;

/// How long a write waits for another process that writes, and a read for a table that is being deleted.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections for reading that are kept open.
const MAX_IDLE_READERS: usize = 3;

/// A log store in one file.
pub struct SqliteLogs {
    file: PathBuf,
    writer: Mutex<Option<WriteConnection>>,
    readers: Mutex<Vec<Connection>>,
    /// Whether the file has its tables.
    is_made: AtomicBool,
}

impl SqliteLogs {
    /// The log store in this file. Opens nothing yet.
    pub fn new(file: PathBuf) -> Self {
        Self { file, writer: Mutex::default(), readers: Mutex::default(), is_made: AtomicBool::new(false) }
    }

    /// Runs `write` with the connection that writes. After a failure it is opened anew.
    fn with_writer<T>(
        &self,
        write: impl FnOnce(&mut WriteConnection) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut writer = self.writer.lock();
        let open = match &mut *writer {
            Some(open) => open,
            none => {
                let opened = none.insert(write::open(&self.file)?);
                self.is_made.store(true, Ordering::Release);
                opened
            }
        };
        let done = open.check().and_then(|()| write(open));
        if matches!(done, Err(LogError::Unavailable(_))) {
            *writer = None;
            // Those of a file that is gone would go on reading it.
            self.readers.lock().clear();
        }
        done
    }

    /// Runs `read` with a connection of its own.
    pub(in crate::ledger) fn read<T>(
        &self,
        read: impl FnOnce(&mut Connection) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let idle = self.readers.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.open_to_read()?,
        };
        let done = read(&mut connection);
        let mut readers = self.readers.lock();
        if done.is_ok() && readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        done
    }

    /// As `read`; [`ReadControl::stop`] ends it within a statement.
    pub(in crate::ledger) fn read_controlled<T>(
        &self,
        control: &ReadControl,
        read: impl FnOnce(&mut Connection) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.read(|connection| {
            let handle = connection.get_interrupt_handle();
            control.set_interrupt(Some(Box::new(move || handle.interrupt())));
            let done = control.check().and_then(|()| read(connection));
            control.set_interrupt(None);
            done
        })
    }

    fn open_to_read(&self) -> Result<Connection, LogError> {
        // A file may be there whose tables are just being made; one on a disk that takes no writes can be read.
        if !self.is_made.load(Ordering::Acquire)
            && let Err(why) = self.with_writer(|_| Ok(()))
            && !self.file.exists()
        {
            return Err(why);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "mmap_size", 1_i64 << 30)?;
        Ok(connection)
    }
}

impl LogStore for SqliteLogs {
    fn backend_name(&self) -> &'static str {
        "sqlite"
    }

    fn write(&self, entries: &[Entry]) -> Result<usize, LogError> {
        self.with_writer(|open| write::rows(open, entries))
    }

    fn scan(
        &self,
        filter: &Filter,
        offset: u64,
        control: &Arc<ReadControl>,
        each: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.read_controlled(control, |connection| read::scan(connection, filter, offset, control, each))
    }

    fn count(&self, filter: &Filter, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read_controlled(control, |connection| read::count(connection, filter, control))
    }

    fn row(&self, id: Uuid) -> Result<Option<Row>, LogError> {
        self.read(|connection| read::row(connection, id))
    }

    fn attempts(&self, request: &Row) -> Result<Vec<Row>, LogError> {
        self.read(|connection| read::attempts(connection, request))
    }

    fn payload(&self, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
        self.read(|connection| read::payload(connection, id))
    }

    fn put_feedback(&self, feedback: &[Feedback]) -> Result<(), LogError> {
        self.with_writer(|open| write::feedback(&mut open.connection, feedback))
    }

    fn feedback(&self, id: Uuid) -> Result<Option<Feedback>, LogError> {
        self.read(|connection| feedback::get(connection, id))
    }

    fn sums(&self, tally: &mut Tally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read_controlled(control, |connection| sums::sums(connection, tally, control))
    }

    fn feedback_sums(&self, tally: &mut FeedbackTally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read_controlled(control, |connection| sums::feedback(connection, tally, control))
    }

    fn merge_rollups(&self, now: i64) -> Result<bool, LogError> {
        self.with_writer(|open| write::merge_rollups(&mut open.connection, now))
    }

    /// One table after the other, so that rows are written in between.
    fn expire(&self, expiry: &Expiry) -> Result<Vec<String>, LogError> {
        let tables = self.with_writer(|open| write::expired(open, expiry))?;
        for table in &tables {
            self.with_writer(|open| write::drop_table(open, table))?;
        }
        self.with_writer(|open| write::expire_sums(open, expiry))?;
        while self.with_writer(|open| write::give_back(open))? {}
        Ok(tables.into_iter().filter(|table| !write::is_for_finding(table)).collect())
    }
}
