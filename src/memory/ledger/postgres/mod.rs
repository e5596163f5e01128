//! The ledger in PostgreSQL: two tables with a partition for each day (UTC), which several gateways share.
//!
//! Connections live on a runtime of their own; calls block the thread they are made on. Every call has a time limit: a write that takes
//! longer counts as failed, and is repeated from the spool.

mod array;
mod call;
mod read;
mod schema;
mod write;

use super::analytics::{FeedbackTally, Tally, sums};
use super::filter::Filter;
use super::log_store::{Expiry, LogError, LogStore, ReadControl};
use super::{Entry, Feedback, Row, feedback};
use crate::store::postgres::{Connections, connections};
use call::{Call, Wait};
use deadpool_postgres::Pool;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use uuid::Uuid;
use words::config::secret::Secret;

/// Of one batch.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Of making the tables, and of deleting days.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);
/// Of a read; the search of a list ends earlier.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// One writes, the others read.
const MAX_CONNECTIONS: usize = 4;
/// The server ends a search that nobody waits for any more.
const SCAN_LIMIT: &str = "SET LOCAL statement_timeout = 30000";
const COUNT_LIMIT: &str = "SET LOCAL statement_timeout = 500";
/// The table of rows; each day has a partition of it.
const ROWS: &str = "log_rows";

/// A log store in PostgreSQL.
pub struct PostgresLogs {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    pool: Pool,
    /// The days that have partitions. `None`: the tables were not looked at yet.
    days: Mutex<Option<HashSet<i64>>>,
}

impl Drop for PostgresLogs {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl PostgresLogs {
    /// The log store in the database of this URL. Connects to nothing yet.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn new(url: &Secret) -> Result<Self, String> {
        let Connections { runtime, pool, .. } =
            connections(url.expose(), "logs.url", MAX_CONNECTIONS).map_err(|why| why.to_string())?;
        Ok(Self { runtime: Some(runtime), pool, days: Mutex::default() })
    }

    /// Runs `call` in a transaction that only reads, on this thread. `limit`: sets the time limit of its statements.
    fn read<T>(
        &self,
        limit: &str,
        call: impl FnOnce(&Call<'_>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.prepare(&HashSet::new())?;
        let wait = self.wait(READ_TIMEOUT)?;
        let mut client = wait.until(self.pool.get())?;
        let transaction = wait.until(client.build_transaction().read_only(true).start())?;
        wait.until(transaction.batch_execute(limit))?;
        call(&Call { wait, transaction })
    }

    /// Runs `call` in a transaction, on this thread, and commits it.
    fn change<T>(
        &self,
        at_most: Duration,
        call: impl FnOnce(&Call<'_>) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let wait = self.wait(at_most)?;
        let mut client = wait.until(self.pool.get())?;
        let transaction = wait.until(client.transaction())?;
        let of_call = Call { wait, transaction };
        let done = call(&of_call)?;
        of_call.wait.until(of_call.transaction.commit())?;
        Ok(done)
    }

    fn wait(&self, at_most: Duration) -> Result<Wait<'_>, LogError> {
        let closed = || LogError::Unavailable("it is being closed".to_owned());
        let runtime = self.runtime.as_ref().ok_or_else(closed)?;
        Ok(Wait::new(runtime, at_most))
    }

    /// Makes tables and partitions that are missing for these days.
    fn prepare(&self, needed: &HashSet<i64>) -> Result<(), LogError> {
        if self.days.lock().as_ref().is_some_and(|days| needed.is_subset(days)) {
            return Ok(());
        }
        let days = self.change(SCHEMA_TIMEOUT, |call| schema::prepare(call, needed))?;
        *self.days.lock() = Some(days);
        Ok(())
    }
}

impl LogStore for PostgresLogs {
    fn backend_name(&self) -> &'static str {
        "postgres"
    }

    fn write(&self, entries: &[Entry]) -> Result<usize, LogError> {
        let days = entries.iter().map(|entry| super::days::day(entry.row.created_ms)).collect();
        self.prepare(&days)?;
        let written = self.change(WRITE_TIMEOUT, |call| write::rows(call, entries));
        if written.is_err() {
            // Another gateway may have deleted a partition.
            *self.days.lock() = None;
        }
        written
    }

    fn scan(
        &self,
        filter: &Filter,
        offset: u64,
        control: &Arc<ReadControl>,
        each: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        self.read(SCAN_LIMIT, |call| read::scan(call, filter, offset, control, each))
    }

    fn count(&self, filter: &Filter, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read(COUNT_LIMIT, |call| {
            let days = self.days.lock().clone().unwrap_or_default();
            read::count(call, filter, days, control)
        })
    }

    fn row(&self, id: Uuid) -> Result<Option<Row>, LogError> {
        self.read(SCAN_LIMIT, |call| read::row(call, id))
    }

    fn attempts(&self, request: &Row) -> Result<Vec<Row>, LogError> {
        self.read(SCAN_LIMIT, |call| read::attempts(call, request))
    }

    fn payload(&self, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
        self.read(SCAN_LIMIT, |call| read::payload(call, id))
    }

    fn put_feedback(&self, feedback: &[Feedback]) -> Result<(), LogError> {
        self.prepare(&HashSet::new())?;
        self.change(WRITE_TIMEOUT, |call| feedback::put(call, feedback))
    }

    fn feedback(&self, id: Uuid) -> Result<Option<Feedback>, LogError> {
        self.read(SCAN_LIMIT, |call| feedback::get(call, id))
    }

    fn sums(&self, tally: &mut Tally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read(SCAN_LIMIT, |call| sums::sums(call, tally, control))
    }

    fn feedback_sums(&self, tally: &mut FeedbackTally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.read(SCAN_LIMIT, |call| sums::feedback(call, tally, control))
    }

    fn merge_rollups(&self, now: i64) -> Result<bool, LogError> {
        self.prepare(&HashSet::new())?;
        self.change(SCHEMA_TIMEOUT, |call| write::merge_rollups(call, now))
    }

    fn expire(&self, expiry: &Expiry) -> Result<Vec<String>, LogError> {
        self.prepare(&HashSet::new())?;
        let deleted = self.change(SCHEMA_TIMEOUT, |call| schema::expire(call, expiry));
        *self.days.lock() = None;
        deleted
    }
}
