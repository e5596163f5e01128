//! The one thread that writes to a SQLite database.
//!
//! Joins writes that wait into one transaction (see [`QueuedWrite`]).

use super::super::audit::AuditEntry;
use super::super::queued_write::{MAX_BATCH, QUEUE, QueuedWrite, is_of_one_write};
use super::super::{Change, OpenFiles, StoreError};
use super::transactions;
use rusqlite::{Connection, TransactionBehavior};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

type Work = Box<dyn FnOnce(Result<&mut Connection, StoreError>) + Send>;

enum Job {
    Write(QueuedWrite),
    /// Anything else that needs this connection: reads of a database in memory.
    Run(Work),
}

/// Sends writes to the thread. Dropping it waits until what is queued is written and the file is closed.
pub(super) struct Writer {
    /// `None` while it is dropped.
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Writer {
    /// `files`: of the database, where it is not in memory.
    pub(super) fn start(connection: Connection, files: Option<Arc<OpenFiles>>) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let started = thread.spawn(move || serve(Open { connection, files }, jobs));
        let thread = started.map_err(|why| StoreError::Unavailable(format!("no thread: {why}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) async fn write(
        &self,
        changes: Vec<Change>,
        audit: Vec<AuditEntry>,
    ) -> Result<u64, StoreError> {
        let (reply, done) = oneshot::channel();
        self.send(Job::Write(QueuedWrite { changes, audit, reply })).await?;
        done.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, done) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let _ = reply.send(connection.and_then(work));
        });
        self.send(Job::Run(work)).await?;
        done.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn send(&self, job: Job) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(job).await.map_err(|_| gone())
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the thread that writes has ended".to_owned())
}

/// The connection that writes.
struct Open {
    connection: Connection,
    files: Option<Arc<OpenFiles>>,
}

fn serve(mut open: Open, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        let mut batch = Vec::new();
        let mut next = Some(job);
        let mut work = None;
        while let Some(job) = next.take() {
            match job {
                Job::Write(write) => batch.push(write),
                Job::Run(run) => work = Some(run),
            }
            if work.is_none() && batch.len() < MAX_BATCH {
                next = jobs.try_recv().ok();
            }
        }
        write_all(&mut open, batch);
        if let Some(work) = work {
            let in_place = super::check(open.files.as_deref());
            work(in_place.map(|()| &mut open.connection));
        }
    }
}

/// Writes a batch in one transaction; where that fails as a whole, each of it in one of its own.
fn write_all(open: &mut Open, batch: Vec<QueuedWrite>) {
    if batch.is_empty() {
        return;
    }
    let results = match try_together(open, &batch) {
        Ok(results) => results,
        Err(error) if batch.len() == 1 => vec![Err(error)],
        Err(_) => batch.iter().map(|write| write_alone(open, write)).collect(),
    };
    for (write, result) in batch.into_iter().zip(results) {
        // A caller that stopped waiting reads the write with the next changes.
        let _ = write.reply.send(result);
    }
}

fn write_alone(open: &mut Open, write: &QueuedWrite) -> Result<u64, StoreError> {
    try_together(open, std::slice::from_ref(write))?.pop().unwrap_or_else(|| Err(gone()))
}

/// The outcome of each write, all of them durable.
///
/// # Errors
/// What stopped the transaction as a whole: nothing of it was written.
fn try_together(open: &mut Open, batch: &[QueuedWrite]) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
    super::check(open.files.as_deref())?;
    let mut transaction = open.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut results = Vec::with_capacity(batch.len());
    for write in batch {
        let savepoint = transaction.savepoint()?;
        let result = transactions::write(&savepoint, &write.changes, &write.audit);
        match &result {
            Ok(_) => savepoint.commit()?,
            // Dropped: rolled back to where this write began.
            Err(error) if is_of_one_write(error) => drop(savepoint),
            Err(error) => return Err(error.clone()),
        }
        results.push(result);
    }
    transaction.commit()?;
    Ok(results)
}
