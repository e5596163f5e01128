//! The ledger as other rooms use it: rows are handed over, and read back with a time limit.
//!
//! It opens no database by itself: the log store is opened by its own threads, so that one that is away delays no start.

use super::id::RowIds;
use super::log_store::{LogError, LogStore, ReadControl};
use super::questions::{OwnedQuestion, Question, QuestionCounts, Questions};
use super::tail::Tail;
use super::writer::{Writer, WriterOptions};
use super::{Draft, LedgerHealth, Row};
use crate::ledger::filter::Filter;
use crate::net::inbound::places::{Place, PlaceBounds, Places};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// How long a list may look for its rows.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most exports that are sent at a time. Each holds one page of rows in memory, and uses the log store for each page.
const EXPORTS: PlaceBounds = PlaceBounds { running: 4, waiting: 0, wait: Duration::ZERO };
/// How long a list counts the rows that match. The count up to then is a lower bound.
const COUNT_TIMEOUT: Duration = Duration::from_millis(50);

/// The ledger of the process.
pub struct Ledger {
    store: Arc<dyn LogStore>,
    writer: Writer,
    ids: Arc<RowIds>,
    exports: Places,
    questions: Questions,
    tail: Arc<Tail>,
}

/// Stops a read that nobody waits for any more.
struct StopOnDrop(Arc<ReadControl>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
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
        let tail = Arc::default();
        let writer = Writer::start(Arc::clone(&store), options, Arc::clone(&ids), Arc::clone(&tail))?;
        let exports = Places::new(EXPORTS);
        Ok(Self { store, writer, ids, exports, questions: Questions::default(), tail })
    }

    /// An id for a row that began at this time, milliseconds since 1970.
    pub fn new_id(&self, created_ms: i64) -> Uuid {
        self.ids.new_id(created_ms)
    }

    /// Who follows rows as they are made.
    pub fn tail(&self) -> &Tail {
        &self.tail
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

    /// How many questions run, wait and were refused, by kind.
    pub fn question_counts(&self) -> Vec<QuestionCounts> {
        self.questions.counts()
    }

    /// The permit to send an export, until it is dropped. `None`: as many as may be are being sent. `whose`: the workspace that asks;
    /// `None`: the organisation.
    pub fn start_export(&self, whose: Option<Uuid>) -> Option<Place> {
        self.exports.take_at_once(whose)
    }

    /// A page of the rows that match. `whose`: the workspace that asks; `None`: the organisation.
    ///
    /// # Errors
    /// `Unavailable`; `TooLong` where they are not found in time; `Busy`.
    pub async fn page(
        &self,
        whose: Option<Uuid>,
        filter: Filter,
        offset: u64,
        limit: usize,
    ) -> Result<RowPage, LogError> {
        let place = Arc::new(self.questions.place(Question::Rows.of(whose)).await?);
        let counted = filter.clone();
        let rows =
            self.run_controlled(PAGE_TIMEOUT, Arc::default(), Arc::clone(&place), move |store, control| {
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
        let count = move |store: &dyn LogStore, control: &Arc<ReadControl>| store.count(&counted, control);
        let done = self.run_controlled(COUNT_TIMEOUT, control, place, count);
        let total_is_exact = match done.await {
            Ok(()) => true,
            Err(LogError::TooLong) => false,
            Err(error) => return Err(error),
        };
        let total = counting.found.load(Ordering::Relaxed).max(reached);
        Ok(RowPage { rows, total, total_is_exact })
    }

    /// Runs a call to the log store where it may block, for so long at most, when there is a place for its kind. It is stopped where the
    /// future is dropped.
    ///
    /// # Errors
    /// Those of the call; `TooLong`, `Busy`.
    pub async fn run<T: Send + 'static>(
        &self,
        question: impl Into<OwnedQuestion>,
        at_most: Duration,
        call: impl FnOnce(&dyn LogStore, &Arc<ReadControl>) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let place = Arc::new(self.questions.place(question.into()).await?);
        self.run_controlled(at_most, Arc::default(), place, call).await
    }

    async fn run_controlled<T: Send + 'static>(
        &self,
        at_most: Duration,
        control: Arc<ReadControl>,
        place: Arc<Option<Place>>,
        call: impl FnOnce(&dyn LogStore, &Arc<ReadControl>) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let store = Arc::clone(&self.store);
        let inside = Arc::clone(&control);
        let _stop = StopOnDrop(control);
        let task = tokio::task::spawn_blocking(move || {
            // The place is taken until the database is done: who does not wait any more makes no room for others.
            let _place = place;
            inside.check()?;
            call(&*store, &inside)
        });
        match tokio::time::timeout(at_most, task).await {
            Ok(done) => done.unwrap_or_else(|why| Err(LogError::Unavailable(why.to_string()))),
            Err(_) => Err(LogError::TooLong),
        }
    }
}
