//! What a database must do for the ledger, the same for SQLite and PostgreSQL.
//!
//! Calls block: they are made on threads of the ledger and on threads for blocking work. Queues and retries are not here (`writer`).

use super::analytics::{FeedbackTally, Tally, Unanswered};
use super::filter::Filter;
use super::{Entry, Feedback, Row};
use parking_lot::Mutex;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uuid::Uuid;

/// Why a call to the log store failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    /// It cannot be reached or cannot write; it may later.
    Unavailable(String),
    /// It refuses what it was given, and always will.
    Refused(String),
    /// The read took longer than it may.
    TooLong,
    /// The answer does not fit into memory.
    TooMany,
    /// The process holds as much as it may of everything.
    NoMemory,
    /// As many questions run and wait as may.
    Busy,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the log store is not available: {why}"),
            Self::Refused(why) => write!(f, "the log store refuses a row: {why}"),
            Self::TooLong => f.write_str("the search took too long"),
            Self::TooMany => f.write_str("the answer is too large"),
            Self::NoMemory => f.write_str("the process holds as much as it may"),
            Self::Busy => f.write_str("as many questions wait as may"),
        }
    }
}

impl From<Unanswered> for LogError {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::TooManyGroups => Self::TooMany,
            Unanswered::NoMemory => Self::NoMemory,
            Unanswered::Damaged => Self::Unavailable("a rollup cannot be read".to_owned()),
        }
    }
}

/// The rows to delete: all that began before these times, milliseconds since 1970. `None`: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expiry {
    pub rows: Option<i64>,
    pub payloads: Option<i64>,
    pub metrics: Option<i64>,
}

/// Stops a read from another thread, and counts what it has found so far.
#[derive(Default)]
pub struct ReadControl {
    stopped: AtomicBool,
    pub found: AtomicU64,
    /// Stops the statement that the database is in.
    interrupt: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl ReadControl {
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(interrupt) = &*self.interrupt.lock() {
            interrupt();
        }
    }

    /// What stops a statement of the database. `None`: the read is over.
    pub(super) fn set_interrupt(&self, interrupt: Option<Box<dyn Fn() + Send>>) {
        *self.interrupt.lock() = interrupt;
    }

    /// # Errors
    /// `TooLong` once it was stopped.
    pub fn check(&self) -> Result<(), LogError> {
        if self.stopped.load(Ordering::Relaxed) { Err(LogError::TooLong) } else { Ok(()) }
    }
}

/// Where rows, payloads and feedback are kept.
pub trait LogStore: Send + Sync {
    /// `sqlite` or `postgres`.
    fn backend_name(&self) -> &'static str;

    /// Writes the entries that are not there yet, in one transaction, with what is summed up of them. Returns how many those were.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`: nothing was written, or it is not clear whether it was.
    fn write(&self, entries: &[Entry]) -> Result<usize, LogError>;

    /// Hands over the rows that match, the newest first, from the `offset`th on.
    ///
    /// # Errors
    /// `Unavailable`; `TooLong` after [`ReadControl::stop`].
    fn scan(
        &self,
        filter: &Filter,
        offset: u64,
        control: &Arc<ReadControl>,
        each: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), LogError>;

    /// Counts the rows that match, in `control.found`, day by day.
    ///
    /// # Errors
    /// As [`LogStore::scan`].
    fn count(&self, filter: &Filter, control: &Arc<ReadControl>) -> Result<(), LogError>;

    /// The row with this id.
    ///
    /// # Errors
    /// `Unavailable`.
    fn row(&self, id: Uuid) -> Result<Option<Row>, LogError>;

    /// The attempts of the request with this row, in their order; at most 1,000.
    ///
    /// # Errors
    /// `Unavailable`.
    fn attempts(&self, request: &Row) -> Result<Vec<Row>, LogError>;

    /// The payload of the row with this id.
    ///
    /// # Errors
    /// `Unavailable`.
    fn payload(&self, id: Uuid) -> Result<Option<Vec<u8>>, LogError>;

    /// Writes feedback, all or none; one with the id of an older one replaces it.
    ///
    /// # Errors
    /// `Unavailable`.
    fn put_feedback(&self, feedback: &[Feedback]) -> Result<(), LogError>;

    /// The feedback with this id.
    ///
    /// # Errors
    /// `Unavailable`.
    fn feedback(&self, id: Uuid) -> Result<Option<Feedback>, LogError>;

    /// Adds the sums of the requests that the query selects.
    ///
    /// # Errors
    /// As [`LogStore::scan`]; `TooMany`.
    fn sums(&self, tally: &mut Tally, control: &Arc<ReadControl>) -> Result<(), LogError>;

    /// Adds the feedback that the tally's query is about.
    ///
    /// # Errors
    /// As [`LogStore::sums`].
    fn feedback_sums(&self, tally: &mut FeedbackTally, control: &Arc<ReadControl>) -> Result<(), LogError>;

    /// Merges some pieces of rollups, in one transaction. Returns whether there may be more. `now`: milliseconds since 1970.
    ///
    /// # Errors
    /// `Unavailable`.
    fn merge_rollups(&self, now: i64) -> Result<bool, LogError>;

    /// Deletes what has expired, by whole days. Returns the names of what was deleted.
    ///
    /// # Errors
    /// `Unavailable`.
    fn expire(&self, expiry: &Expiry) -> Result<Vec<String>, LogError>;
}
