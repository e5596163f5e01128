//! The embedded database: SQLite in one file, in WAL mode.
//!
//! One thread writes (`writer`), several connections read. Every write is synced to the disk before it is acknowledged. Other
//! processes may write to the same file; their writes are noticed by the position, which every write raises. Where the file is not in its
//! place any more, nothing is written and nothing is read.

mod connect;
mod copy;
mod migrations;
mod readers;
pub(crate) mod run;
mod transactions;
mod writer;

use super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::backend::{Backend, Changes, Loaded};
use super::private_file::{check_link, make_private};
use super::sql::{Dialect, Statement};
use super::{Change, Kind, NodeList, OpenFiles, Record, Schema, StoreError, nodes, statements};
use connect::connect;
pub(super) use copy::Copy;

use async_trait::async_trait;
use jiff::Timestamp;
use readers::Readers;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use writer::Writer;

/// How long a write waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the file is looked at for changes by another process.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A database in one file, or in memory for tests.
pub(crate) struct Sqlite {
    // Closed before the writer: the last connection moves everything into the one file, and must be able to write.
    readers: Arc<Readers>,
    writer: Writer,
}

impl Sqlite {
    /// Opens or makes the database and brings its tables up to date. Blocks.
    ///
    /// # Errors
    /// `Newer`; `Damaged` for a file that is no database; `Unavailable`, `Full` for what the system refuses.
    pub fn open(file: Option<&Path>) -> Result<Self, StoreError> {
        if let Some(file) = file {
            make_private(file).map_err(|why| refused(file, &why))?;
        }
        let mut connection = connect(file, false)?;
        migrations::run(&mut connection)?;
        connection.execute_batch(nodes::table(Dialect::Sqlite))?;
        run::execute(&connection, &statements::forget_old_deletions())?;
        let files = file.map(|file| Arc::new(OpenFiles::of(file)));
        let readers = Arc::new(Readers::new(file.map(Path::to_owned), files.clone()));
        Ok(Self { writer: Writer::start(connection, files)?, readers })
    }

    /// The version of the tables of a file that is there.
    ///
    /// # Errors
    /// As [`Sqlite::open`].
    pub fn schema(file: &Path) -> Result<Schema, StoreError> {
        check_link(file).map_err(|why| refused(file, &why))?;
        // Not read-only: whoever closes such a connection last leaves the log of the file behind.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(Schema { found: migrations::version(&connection)?, newest: migrations::NEWEST })
    }

    /// As if the disk were full beyond this number of pages.
    #[cfg(test)]
    pub(super) async fn limit_pages(&self, pages: u32) {
        let limit =
            move |connection: &mut Connection| Ok(connection.pragma_update(None, "max_page_count", pages)?);
        self.writer.run(limit).await.unwrap();
    }

    /// Runs `read` on a connection for reading, or on the only one of a database in memory.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.readers.is_in_memory() {
            return self.writer.run(read).await;
        }
        let readers = Arc::clone(&self.readers);
        off_thread(move || {
            let mut connection = readers.take()?;
            let result = read(&mut connection);
            readers.put_back(connection);
            result
        })
        .await
    }
}

/// Runs blocking work on a thread for it.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|why| Err(StoreError::Unavailable(format!("the read was given up: {why}"))))
}

fn refused(file: &Path, why: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {why}", file.display()))
}

/// # Errors
/// `Unavailable` where a file of the database is not in its place.
fn check(files: Option<&OpenFiles>) -> Result<(), StoreError> {
    files.map_or(Ok(()), OpenFiles::check).map_err(StoreError::Unavailable)
}

#[async_trait]
impl Backend for Sqlite {
    async fn load(&self) -> Result<Loaded, StoreError> {
        self.read(transactions::load).await
    }

    async fn changes(&self, position: u64) -> Result<Changes, StoreError> {
        self.read(move |connection| transactions::changes(connection, position)).await
    }

    async fn write(&self, changes: Vec<Change>, audit: Vec<AuditEntry>) -> Result<u64, StoreError> {
        self.writer.write(changes, audit).await
    }

    async fn children(&self, kind: Kind, parent: Uuid) -> Result<Vec<Arc<Record>>, StoreError> {
        let statement = statements::children(Dialect::Sqlite, kind, parent);
        self.read(move |connection| transactions::records(connection, &statement)).await
    }

    async fn sealed_under_others(&self, key_id: &str, limit: u32) -> Result<Vec<Arc<Record>>, StoreError> {
        let key_id = key_id.to_owned();
        let read = move |connection: &mut Connection| {
            transactions::records(connection, &statements::sealed_under_others(&key_id, limit))
        };
        self.read(read).await
    }

    async fn audit(&self, query: AuditQuery) -> Result<AuditPage, StoreError> {
        self.read(move |connection| transactions::audit(connection, &query)).await
    }

    async fn expire_audit(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let statement = statements::expire_audit(before, limit);
        self.writer.run(move |connection| Ok(run::execute(connection, &statement)?)).await
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn change_nodes(&self, statements: Vec<Statement<'static>>) -> Result<(), StoreError> {
        self.writer.run(move |connection| transactions::change_nodes(connection, &statements)).await
    }

    async fn nodes(&self) -> Result<NodeList, StoreError> {
        self.read(transactions::nodes).await
    }

    async fn changed(&self, position: u64, at_most: Duration) {
        let end = tokio::time::Instant::now() + at_most;
        while tokio::time::Instant::now() < end && self.position().await == Ok(position) {
            let next = tokio::time::Instant::now() + POLL_INTERVAL;
            tokio::time::sleep_until(next.min(end)).await;
        }
    }

    async fn backup(&self, file: &Path) -> Result<(), StoreError> {
        let file = file.to_owned();
        self.read(move |connection| copy::back_up(connection, &file)).await
    }

    async fn verify(&self) -> Result<u64, StoreError> {
        self.read(transactions::verify).await
    }
}

impl Sqlite {
    async fn position(&self) -> Result<u64, StoreError> {
        self.read(|connection| transactions::position(connection)).await
    }
}
