//! The ledger as other rooms use it: rows are handed over, and read back with a time limit.
//!
//! It opens no database by itself: the log store is opened by its own threads, so that one that is away delays no start.

use super::id::RowIds;
use super::log_store::{LogError, LogStore, ReadControl};
use super::writer::{Writer, WriterOptions};
use super::{Draft, LedgerHealth, Row};
use crate::ledger::filter::Filter;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// How long a list may look for its rows.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most exports that are sent at a time. Each holds one page of rows in memory, and uses the log store for each page.
const MAX_EXPORTS: usize = 4;
/// How long a list counts the rows that match. The count up to then is a lower bound.
const COUNT_TIMEOUT: Duration = Duration::from_millis(50);

/// The ledger of the process.
pub struct Ledger {
    store: Arc<dyn LogStore>,
    writer: Writer,
    ids: Arc<RowIds>,
    exports: Arc<Semaphore>,
}

/// A page of rows, the newest first.
#[derive(Debug, Default)]
pub struct RowPage {
    pub rows: Vec<Row>,
    /// How many match on all pages, or at least so many.
    pub total: u64,
    pub total_is_exact: bool,
}

impl Ledger {
    /// # Errors
    /// The system's: no thread.
    pub fn start(store: Arc<dyn LogStore>, options: &WriterOptions) -> std::io::Result<Self> {
        let ids = Arc::default();
        let writer = Writer::start(Arc::clone(&store), options, Arc::clone(&ids))?;
        Ok(Self { store, writer, ids, exports: Arc::new(Semaphore::new(MAX_EXPORTS)) })
    }

    /// An id for a row that began at this time, milliseconds since 1970.
    pub fn new_id(&self, created_ms: i64) -> Uuid {
        self.ids.new_id(created_ms)
    }

    /// Takes entries, or what they are made of. Returns at once; `false`: there is no room, they are dropped and counted.
    pub fn push(&self, draft: impl Draft + 'static) -> bool {
        self.writer.push(Box::new(draft))
    }

    pub fn health(&self) -> LedgerHealth {
        self.writer.health()
    }

    /// `sqlite` or `postgres`.
    pub fn backend_name(&self) -> &'static str {
        self.store.backend_name()
    }

    /// Writes what waits, or spools it when `at_most` is over. Blocks.
    pub fn close(&self, at_most: Duration) {
        self.writer.close(at_most);
    }

    /// The permit to send an export, until it is dropped. `None`: the maximum number is being sent.
    pub fn start_export(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.exports).try_acquire_owned().ok()
    }

    /// A page of the rows that match.
    ///
    /// # Errors
    /// `Unavailable`; `TooLong` where they are not found in time.
    pub async fn page(&self, filter: Filter, offset: u64, limit: usize) -> Result<RowPage, LogError> {
        let counted = filter.clone();
        let rows = self.run(PAGE_TIMEOUT, move |store, control| {
            let mut rows = Vec::with_capacity(limit.min(1000));
            if limit == 0 {
                return Ok(rows);
            }
            store.scan(&filter, offset, control, &mut |row| {
                rows.push(row);
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            Ok(rows)
        });
        let rows = rows.await?;
        let reached = offset + rows.len() as u64;
        if rows.len() < limit && !rows.is_empty() {
            return Ok(RowPage { rows, total: reached, total_is_exact: true });
        }
        let control = Arc::new(ReadControl::default());
        let counting = Arc::clone(&control);
        let done =
            self.run_controlled(COUNT_TIMEOUT, control, move |store, control| store.count(&counted, control));
        let total_is_exact = match done.await {
            Ok(()) => true,
            Err(LogError::TooLong) => false,
            Err(error) => return Err(error),
        };
        let total = counting.found.load(Ordering::Relaxed).max(reached);
        Ok(RowPage { rows, total, total_is_exact })
    }

    /// Runs a call to the log store where it may block, for so long at most.
    ///
    /// # Errors
    /// Those of the call; `TooLong`.
    pub async fn run<T: Send + 'static>(
        &self,
        at_most: Duration,
        call: impl FnOnce(&dyn LogStore, &Arc<ReadControl>) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        self.run_controlled(at_most, Arc::default(), call).await
    }

    async fn run_controlled<T: Send + 'static>(
        &self,
        at_most: Duration,
        control: Arc<ReadControl>,
        call: impl FnOnce(&dyn LogStore, &Arc<ReadControl>) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let store = Arc::clone(&self.store);
        let inside = Arc::clone(&control);
        let task = tokio::task::spawn_blocking(move || call(&*store, &inside));
        match tokio::time::timeout(at_most, task).await {
            Ok(done) => done.unwrap_or_else(|why| Err(LogError::Unavailable(why.to_string()))),
            Err(_) => {
                control.stop();
                Err(LogError::TooLong)
            }
        }
    }
}
