//! The ledger in PostgreSQL: two tables with a partition for each day (UTC), which several gateways share.
//!
//! Connections live on a runtime of their own; calls block the thread they are made on. Every call has a time limit: a write that takes
//! longer counts as failed, and is repeated from the spool.

mod read;
mod schema;
mod sums;
mod values;
mod write;

use super::analytics::{FeedbackTally, Tally};
use super::filter::Filter;
use super::log_store::{Expiry, LogError, LogStore, ReadControl};
use super::{Entry, Feedback, Row};
use crate::store::postgres::{Connections, connections};
use deadpool_postgres::{Object, Pool, PoolError};
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

    /// Runs `call` with a connection of the pool, on this thread.
    pub(in crate::ledger) fn run<T>(
        &self,
        at_most: Duration,
        call: impl AsyncFnOnce(&mut Object) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let gone = || LogError::Unavailable("it is being closed".to_owned());
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        let late = |_| LogError::Unavailable(format!("no response within {} s", at_most.as_secs()));
        runtime.block_on(async {
            let call = async {
                let mut client = self.pool.get().await.map_err(no_connection)?;
                call(&mut client).await
            };
            tokio::time::timeout(at_most, call).await.map_err(late)?
        })
    }

    /// Makes tables and partitions that are missing for these days.
    fn prepare(&self, needed: &HashSet<i64>) -> Result<(), LogError> {
        if self.days.lock().as_ref().is_some_and(|days| needed.is_subset(days)) {
            return Ok(());
        }
        let days = self.run(SCHEMA_TIMEOUT, async |client| schema::prepare(client, needed).await)?;
        *self.days.lock() = Some(days);
        Ok(())
    }
}

/// What an error of PostgreSQL means for the ledger: the server's message, without its details, which can hold values.
fn failure(error: tokio_postgres::Error) -> LogError {
    let Some(database) = error.as_db_error() else {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        return LogError::Unavailable(
            cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
        );
    };
    let code = database.code().code();
    let why = database.message().to_owned();
    match code.get(..2) {
        // Values it cannot store, or that violate what it demands; not a partition that another gateway has just deleted.
        Some("22") => LogError::Refused(why),
        // query_canceled: the time limit of the statement.
        _ if code == "57014" => LogError::TooLong,
        _ => LogError::Unavailable(why),
    }
}

fn no_connection(error: PoolError) -> LogError {
    match error {
        PoolError::Backend(error) => failure(error),
        PoolError::Timeout(_) => LogError::Unavailable("no connection in time".to_owned()),
        error => LogError::Unavailable(error.to_string()),
    }
}

impl LogStore for PostgresLogs {
    fn backend_name(&self) -> &'static str {
        "postgres"
    }

    fn write(&self, entries: &[Entry]) -> Result<usize, LogError> {
        let days = entries.iter().map(|entry| super::days::day(entry.row.created_ms)).collect();
        self.prepare(&days)?;
        let written = self.run(WRITE_TIMEOUT, async |client| write::rows(client, entries).await);
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
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| read::scan(client, filter, offset, control, each).await)
    }

    fn count(&self, filter: &Filter, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.prepare(&HashSet::new())?;
        let days = self.days.lock().clone().unwrap_or_default();
        self.run(READ_TIMEOUT, async |client| read::count(client, filter, days, control).await)
    }

    fn row(&self, id: Uuid) -> Result<Option<Row>, LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| read::row(client, id).await)
    }

    fn attempts(&self, request: &Row) -> Result<Vec<Row>, LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| read::attempts(client, request).await)
    }

    fn payload(&self, id: Uuid) -> Result<Option<Vec<u8>>, LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| read::payload(client, id).await)
    }

    fn put_feedback(&self, feedback: &[Feedback]) -> Result<(), LogError> {
        self.prepare(&HashSet::new())?;
        self.run(WRITE_TIMEOUT, async |client| write::feedback(client, feedback).await)
    }

    fn feedback(&self, id: Uuid) -> Result<Option<Feedback>, LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| read::feedback(client, id).await)
    }

    fn sums(&self, tally: &mut Tally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| sums::sums(client, tally, control).await)
    }

    fn feedback_sums(&self, tally: &mut FeedbackTally, control: &Arc<ReadControl>) -> Result<(), LogError> {
        self.prepare(&HashSet::new())?;
        self.run(READ_TIMEOUT, async |client| sums::feedback(client, tally, control).await)
    }

    fn merge_rollups(&self, now: i64) -> Result<bool, LogError> {
        self.prepare(&HashSet::new())?;
        self.run(SCHEMA_TIMEOUT, async |client| sums::merge_rollups(client, now).await)
    }

    fn expire(&self, expiry: &Expiry) -> Result<Vec<String>, LogError> {
        self.prepare(&HashSet::new())?;
        let deleted = self.run(SCHEMA_TIMEOUT, async |client| schema::expire(client, expiry).await);
        *self.days.lock() = None;
        deleted
    }
}
