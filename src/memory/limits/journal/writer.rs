//! The one thread that writes the journal: every half second what was counted, and at once what must be on the disk before a request
//! is sent. Holds that wait are written together, because the disk is synced once for all of them.

use super::super::buckets::Buckets;
use super::{HoldRow, Journal};
use jiff::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use uuid::Uuid;

const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
const COMPACT_INTERVAL: Duration = Duration::from_secs(60);
/// Holds in one transaction.
const MAX_HOLDS: usize = 1024;

/// How the journal is doing.
#[derive(Debug, Default)]
pub(in crate::limits) struct JournalHealth {
    failures: AtomicU64,
    given_up: AtomicU64,
    is_failing: AtomicBool,
}

impl JournalHealth {
    /// Writes that failed.
    pub(in crate::limits) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Rows that were given up.
    pub(in crate::limits) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Whether the last write failed.
    pub(in crate::limits) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    fn note(&self, outcome: &Result<(), String>, given_up: u64) {
        self.given_up.store(given_up, Ordering::Relaxed);
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Err(why) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if !was_failing {
                    log::error!(target: "turnpike", "the journal of limits cannot be written; counting goes on in memory: {why}");
                }
            }
            Ok(()) if was_failing => {
                log::info!(target: "turnpike", "the journal of limits is written again");
            }
            Ok(()) => {}
        }
    }
}

type Reply = oneshot::Sender<Result<(), String>>;

enum Job {
    Hold(Vec<HoldRow>, Reply),
    Flush(Reply),
    /// The limits that there are.
    Present(HashSet<Uuid>),
}

/// Sends jobs to the thread. Dropping it waits until all is written.
#[derive(Debug)]
pub(in crate::limits) struct Writer {
    /// `None` while it is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    pub health: Arc<JournalHealth>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Writer {
    /// # Errors
    /// The system has no thread left.
    pub(in crate::limits) fn start(journal: Journal, buckets: Arc<Buckets>) -> Result<Self, String> {
        let (jobs, queue) = mpsc::channel();
        let health = Arc::new(JournalHealth::default());
        let serving = Serving { journal, buckets, health: Arc::clone(&health) };
        let thread = std::thread::Builder::new().name("limits-journal".to_owned());
        let thread = thread.spawn(move || serving.serve(&queue)).map_err(|why| why.to_string())?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), health })
    }

    /// Writes holds; when it returns `Ok`, they are on the disk.
    ///
    /// # Errors
    /// They are not.
    pub(in crate::limits) async fn write_holds(&self, holds: Vec<HoldRow>) -> Result<(), String> {
        self.run(|reply| Job::Hold(holds, reply)).await
    }

    /// Writes all that was counted so far.
    ///
    /// # Errors
    /// It could not be written, and is tried again.
    pub(in crate::limits) async fn flush(&self) -> Result<(), String> {
        self.run(Job::Flush).await
    }

    /// Has the journal note which limits are no more: all but these. Does not wait for it.
    pub(in crate::limits) fn note_present(&self, present: HashSet<Uuid>) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(Job::Present(present));
        }
    }

    async fn run(&self, job: impl FnOnce(Reply) -> Job) -> Result<(), String> {
        let (reply, done) = oneshot::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job(reply)).is_ok());
        let closed = || Err("it is being closed".to_owned());
        if sent { done.await.unwrap_or_else(|_| closed()) } else { closed() }
    }
}

/// The thread's side.
struct Serving {
    journal: Journal,
    buckets: Arc<Buckets>,
    health: Arc<JournalHealth>,
}

impl Serving {
    fn serve(mut self, queue: &Receiver<Job>) {
        let mut next_flush = Instant::now() + FLUSH_INTERVAL;
        let mut next_compaction = Instant::now() + COMPACT_INTERVAL;
        loop {
            match queue.recv_timeout(next_flush.saturating_duration_since(Instant::now())) {
                Ok(job) => self.run(job, queue),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= next_flush {
                let _ = self.flush();
                next_flush = Instant::now() + FLUSH_INTERVAL;
            }
            if Instant::now() >= next_compaction {
                let outcome = self.journal.compact(&self.buckets, now());
                self.health.note(&outcome, self.journal.given_up());
                next_compaction = Instant::now() + COMPACT_INTERVAL;
            }
        }
        let _ = self.flush();
    }

    fn flush(&mut self) -> Result<(), String> {
        let now = now();
        let written = self.journal.write(&self.buckets, &[], now);
        let outcome = written.and_then(|()| self.journal.follow_others(&self.buckets, now));
        self.health.note(&outcome, self.journal.given_up());
        outcome
    }

    /// Does a job, and those holds that wait with it. Holds for which nobody waits any more are left out: their requests were refused.
    fn run(&mut self, first: Job, queue: &Receiver<Job>) {
        let mut holds = Vec::new();
        let mut replies = Vec::new();
        let mut flushes = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Hold(_, reply) if reply.is_closed() => {}
                Job::Hold(rows, reply) => {
                    holds.extend(rows);
                    replies.push(reply);
                }
                Job::Flush(reply) => flushes.push(reply),
                Job::Present(present) => {
                    let outcome = self.journal.note_present(&present, now());
                    self.health.note(&outcome, self.journal.given_up());
                }
            }
            next = if holds.len() < MAX_HOLDS { queue.try_recv().ok() } else { None };
        }
        if !holds.is_empty() {
            let outcome = self.journal.write(&self.buckets, &holds, now());
            self.health.note(&outcome, self.journal.given_up());
            for reply in replies {
                let _ = reply.send(outcome.clone());
            }
        }
        if !flushes.is_empty() {
            let outcome = self.flush();
            for reply in flushes {
                let _ = reply.send(outcome.clone());
            }
        }
    }
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests;
