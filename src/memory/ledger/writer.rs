//! Takes entries from requests and brings them into the log store, exactly once: in batches while it works, through the spool while
//! it does not.
//!
//! Two threads. One (`ledger-store`) writes to the log store, and may have to wait for it. The other (`ledger-intake`) never waits for
//! the store: it makes the entries from the drafts of requests, hands batches to the first thread, moves entries that wait too long to the
//! spool, and hands over spooled entries when the store works again. Entries for which there is no room are dropped and counted; so is a
//! single row that makes the store's code panic. If a thread ends nevertheless, the ledger reports that it is not available.

use super::id::RowIds;
use super::log_store::{LogError, LogStore};
use super::spool::Spool;
use super::tail::Tail;
use super::{Draft, Entry, LedgerHealth};
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long entries wait for others before they are written: the most that kill -9 loses.
const BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// The most bytes of a batch, about.
const MAX_BATCH_BYTES: usize = 4 << 20;
const MAX_BATCH_ENTRIES: usize = 10_000;
/// How often the intake looks for what other processes have left in the spool.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Between attempts while the log store is not available: the first, and the longest.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// How much the writer may keep, and where.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    pub max_queue_bytes: usize,
    pub spool_folder: std::path::PathBuf,
    pub max_spool_bytes: u64,
}

/// The queue in memory and its two threads.
pub(super) struct Writer {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the intake.
    for_intake: Condvar,
    /// Wakes the thread of the store.
    for_store: Condvar,
    max_queue_bytes: usize,
    /// Entries' bytes after which a batch is written at once.
    batch_bytes: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<dyn Draft>>,
    waiting_bytes: usize,
    /// In the batch that is being written, and in what is being spooled.
    taken_bytes: usize,
    batch: Batch,
    /// The process ends: nothing more is taken, and what is not written by this time goes to the spool.
    closing: Option<Instant>,
    health: LedgerHealth,
}

/// The one batch between the two threads.
#[derive(Default)]
enum Batch {
    #[default]
    None,
    Handed(Arc<Vec<Entry>>),
    Writing,
    Done(Outcome),
    /// The threads end.
    End,
}

/// What became of a batch.
struct Outcome {
    /// New rows.
    written: usize,
    /// The store refuses them for good.
    refused: usize,
    /// It is not known that any of it was written.
    failed: Option<String>,
    refusal: Option<String>,
    took: Duration,
}

impl Writer {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's: no thread.
    pub(super) fn start(
        store: Arc<dyn LogStore>,
        options: &WriterOptions,
        ids: Arc<RowIds>,
        tail: Arc<Tail>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            for_intake: Condvar::new(),
            for_store: Condvar::new(),
            max_queue_bytes: options.max_queue_bytes,
            // A batch counts against the queue's bound while it is written.
            batch_bytes: MAX_BATCH_BYTES.min(options.max_queue_bytes / 4),
        });
        let spool = Spool::open(options.spool_folder.clone(), options.max_spool_bytes);
        let intake = Intake {
            shared: Arc::clone(&shared),
            ids,
            tail,
            spool,
            sent: None,
            next_attempt: None,
            retry: FIRST_RETRY,
            last_batch: Instant::now(),
            spooled_next: false,
            last_look: Instant::now(),
        };
        let for_store = Arc::clone(&shared);
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let threads = vec![
            named("ledger-store")
                .spawn(move || watched(&for_store, || write_batches(&for_store, &*store)))?,
            named("ledger-intake").spawn(move || watched(&Arc::clone(&intake.shared), || intake.run()))?,
        ];
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Takes the entries, all of them or none. Returns at once; `false`: there is no room, they are counted as dropped.
    pub(super) fn push(&self, draft: Box<dyn Draft>) -> bool {
        let bytes = draft.size();
        let mut state = self.shared.state.lock();
        let is_full = state.waiting_bytes + state.taken_bytes + bytes > self.shared.max_queue_bytes;
        if is_full || state.closing.is_some() {
            state.health.dropped.queue_full += draft.count() as u64;
            return false;
        }
        let before = state.waiting_bytes;
        state.waiting_bytes += bytes;
        state.waiting.push_back(draft);
        let ripe = self.shared.batch_bytes;
        if before < ripe && state.waiting_bytes >= ripe {
            self.shared.for_intake.notify_one();
        }
        true
    }

    pub(super) fn health(&self) -> LedgerHealth {
        let state = self.shared.state.lock();
        let mut health = state.health.clone();
        health.queue_bytes = (state.waiting_bytes + state.taken_bytes) as u64;
        health
    }

    /// Writes what waits, or spools it when `at_most` is over. Blocks. What is pushed from now on is dropped.
    pub(super) fn close(&self, at_most: Duration) {
        {
            let mut state = self.shared.state.lock();
            state.closing.get_or_insert(Instant::now() + at_most);
            self.shared.for_intake.notify_one();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // The store's own thread may be held up for good by the system.
            if thread.thread().name() == Some("ledger-intake") {
                let _ = thread.join();
            }
        }
    }
}

/// Runs a thread to its end. A panic ends it for good: from then on the ledger is not available.
fn watched(shared: &Shared, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let why = format!("the thread {name} has ended with a panic ({})", message(&*panic));
        shared.state.lock().health.note_end(why, Timestamp::now());
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why")
}

/// The loop of the thread that may be held up.
fn write_batches(shared: &Shared, store: &dyn LogStore) {
    loop {
        let batch = {
            let mut state = shared.state.lock();
            loop {
                match std::mem::replace(&mut state.batch, Batch::Writing) {
                    Batch::Handed(batch) => break batch,
                    Batch::End => return,
                    other => state.batch = other,
                }
                shared.for_store.wait(&mut state);
            }
        };
        let started = Instant::now();
        let mut outcome = write(store, &batch);
        outcome.took = started.elapsed();
        let mut state = shared.state.lock();
        if !matches!(state.batch, Batch::End) {
            state.batch = Batch::Done(outcome);
        }
        shared.for_intake.notify_one();
    }
}

/// Writes entries. One that makes the store's code panic counts as refused by the store, so that it does not stop the others.
fn write_part(store: &dyn LogStore, entries: &[Entry]) -> Result<usize, LogError> {
    // A transaction that the panic has left is rolled back, and the locks of the stores are free again.
    let written = catch_unwind(AssertUnwindSafe(|| store.write(entries)));
    written.unwrap_or_else(|panic| Err(LogError::Refused(format!("a panic: {}", message(&*panic)))))
}

/// Writes a batch; where the store refuses it, each half alone, until what it refuses is left out.
fn write(store: &dyn LogStore, entries: &[Entry]) -> Outcome {
    let mut outcome = Outcome { written: 0, refused: 0, failed: None, refusal: None, took: Duration::ZERO };
    let mut parts = vec![entries];
    while let Some(part) = parts.pop() {
        match write_part(store, part) {
            Ok(new) => outcome.written += new,
            Err(LogError::Refused(_)) if part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(LogError::Refused(why)) => {
                outcome.refused += 1;
                outcome.refusal = Some(why);
            }
            Err(error) => {
                outcome.failed = Some(error.to_string());
                return outcome;
            }
        }
    }
    outcome
}

/// The thread that is never held up by the log store.
struct Intake {
    shared: Arc<Shared>,
    ids: Arc<RowIds>,
    tail: Arc<Tail>,
    spool: Spool,
    /// The batch that is being written, and whether it is of the spool.
    sent: Option<(Arc<Vec<Entry>>, bool)>,
    /// The log store failed: not before this time. `None`: it works.
    next_attempt: Option<Instant>,
    retry: Duration,
    last_batch: Instant,
    /// Spooled and new entries are written in turns.
    spooled_next: bool,
    /// When it was looked for what other processes have left in the spool.
    last_look: Instant,
}

/// What the intake does next.
enum Task {
    Finish(Outcome),
    Send(Vec<Box<dyn Draft>>),
    SendSpooled,
    TakeOverSpools,
    Spool(Vec<Box<dyn Draft>>),
    End,
}

impl Intake {
    fn run(mut self) {
        loop {
            match self.next_task() {
                Task::Finish(outcome) => self.finish(outcome),
                Task::Send(drafts) => {
                    let entries = self.made(drafts);
                    self.send(entries, false);
                }
                Task::SendSpooled => self.send_spooled(),
                Task::TakeOverSpools => self.spool.take_over(),
                Task::Spool(drafts) => {
                    let entries = self.made(drafts);
                    self.add_to_spool(&entries);
                    self.release(&entries);
                }
                Task::End => return self.end(),
            }
            self.note_spool();
        }
    }

    /// Waits until there is something to do.
    fn next_task(&mut self) -> Task {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        loop {
            if let Batch::Done(_) = state.batch
                && let Batch::Done(outcome) = std::mem::take(&mut state.batch)
            {
                return Task::Finish(outcome);
            }
            let now = Instant::now();
            let closing = state.closing;
            let is_late = closing.is_some_and(|end| now >= end);
            let is_free = self.sent.is_none();
            let may_try = is_free && !is_late && self.next_attempt.is_none_or(|next| now >= next);
            let is_ripe = state.waiting_bytes >= shared.batch_bytes
                || closing.is_some()
                || now.duration_since(self.last_batch) >= BATCH_INTERVAL;
            if may_try
                && closing.is_none()
                && !self.spool.is_empty()
                && (self.spooled_next || state.waiting.is_empty())
            {
                return Task::SendSpooled;
            }
            if may_try && closing.is_none() && now.duration_since(self.last_look) >= LOOK_INTERVAL {
                self.last_look = now;
                return Task::TakeOverSpools;
            }
            if may_try && is_ripe && !state.waiting.is_empty() {
                return Task::Send(state.take(MAX_BATCH_ENTRIES));
            }
            // Beyond a quarter of the queue the log store is too slow for memory alone.
            let is_slow = !is_free && state.waiting_bytes > self.shared.max_queue_bytes / 4;
            let is_down = self.next_attempt.is_some() && is_ripe;
            if !state.waiting.is_empty() && (is_slow || is_down || is_late) {
                self.last_batch = now;
                return Task::Spool(state.take(usize::MAX));
            }
            if is_late || (closing.is_some() && is_free && state.waiting.is_empty()) {
                return Task::End;
            }
            let _ = shared.for_intake.wait_until(&mut state, now + BATCH_INTERVAL);
        }
    }

    /// Makes the entries and their payloads: not under the lock, and by no request's thread.
    fn made(&self, drafts: Vec<Box<dyn Draft>>) -> Vec<Entry> {
        let before = size_of_all(&drafts);
        let mut entries = Vec::with_capacity(drafts.len());
        let mut refused = 0;
        for draft in drafts {
            let count = draft.count() as u64;
            let first = entries.len();
            let made = catch_unwind(AssertUnwindSafe(|| {
                draft.make(&self.ids, &mut entries);
                entries.iter_mut().skip(first).for_each(Entry::pack);
            }));
            if let Err(panic) = made {
                entries.truncate(first);
                refused += count;
                let why = message(&*panic);
                log::error!(target: "turnpike::ledger", "{count} rows are left out: a panic: {why}");
            }
        }
        self.tail.publish(&entries);
        let after: usize = entries.iter().map(Entry::size).sum();
        let mut state = self.shared.state.lock();
        state.health.dropped.refused += refused;
        state.taken_bytes = (state.taken_bytes + after).saturating_sub(before);
        entries
    }

    fn send(&mut self, entries: Vec<Entry>, is_spooled: bool) {
        let batch = Arc::new(entries);
        self.sent = Some((Arc::clone(&batch), is_spooled));
        self.last_batch = Instant::now();
        self.spooled_next = !is_spooled;
        let mut state = self.shared.state.lock();
        if is_spooled {
            state.taken_bytes += batch.iter().map(Entry::size).sum::<usize>();
        }
        state.batch = Batch::Handed(batch);
        self.shared.for_store.notify_one();
    }

    /// Sends the next batch of the spool. A file of which all was written is deleted here.
    fn send_spooled(&mut self) {
        match self.spool.read(self.shared.batch_bytes) {
            Ok(entries) if !entries.is_empty() => return self.send(entries, true),
            Ok(_) => {}
            Err(why) => {
                log::error!(target: "turnpike::ledger", "a file of the spool cannot be read and is left out: {why}");
            }
        }
        if let Err(why) = self.spool.forget() {
            log::error!(target: "turnpike::ledger", "a file of the spool cannot be deleted: {why}");
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        let Some((batch, is_spooled)) = self.sent.take() else { return };
        {
            let mut state = self.shared.state.lock();
            let health = &mut state.health;
            health.written += outcome.written as u64;
            health.dropped.refused += outcome.refused as u64;
            health.last_batch = outcome.took;
            health.note(outcome.failed.clone(), Timestamp::now());
        }
        if let Some(why) = outcome.refusal {
            log::error!(target: "turnpike::ledger", "{} rows are left out: {why}", outcome.refused);
        }
        if outcome.failed.is_none() {
            (self.next_attempt, self.retry) = (None, FIRST_RETRY);
        } else {
            self.next_attempt = Some(Instant::now() + self.retry);
            self.retry = (self.retry * 2).min(LAST_RETRY);
            if is_spooled { self.spool.rewind() } else { self.add_to_spool(&batch) }
        }
        self.release(&batch);
    }

    /// These entries are no longer in memory.
    fn release(&self, entries: &[Entry]) {
        let bytes: usize = entries.iter().map(Entry::size).sum();
        let mut state = self.shared.state.lock();
        state.taken_bytes = state.taken_bytes.saturating_sub(bytes);
    }

    fn add_to_spool(&mut self, entries: &[Entry]) {
        let added = self.spool.add(entries);
        let failed = entries.len() - added.kept - added.beyond_bound;
        let mut state = self.shared.state.lock();
        let health = &mut state.health;
        health.spooled += added.kept as u64;
        health.dropped.spool_full += added.beyond_bound as u64;
        health.dropped.spool_failed += failed as u64;
        health.note_spool_failure(added.failed);
    }

    fn note_spool(&self) {
        self.shared.state.lock().health.spool_bytes = self.spool.bytes();
    }

    /// The batch that the store did not write in time is kept for the next start.
    fn end(&mut self) {
        if let Some((batch, false)) = self.sent.take() {
            self.add_to_spool(&batch);
            self.release(&batch);
        }
        self.note_spool();
        self.shared.state.lock().batch = Batch::End;
        self.shared.for_store.notify_one();
    }
}

impl State {
    /// Takes what waits longest, until that is so many entries; it counts against the bound until it is written or spooled.
    fn take(&mut self, entries: usize) -> Vec<Box<dyn Draft>> {
        let mut before = 0;
        let fitting = self.waiting.iter().take_while(|draft| {
            let fits = before < entries;
            before += draft.count();
            fits
        });
        let count = fitting.count();
        let taken: Vec<Box<dyn Draft>> = self.waiting.drain(..count).collect();
        let bytes = size_of_all(&taken);
        self.waiting_bytes -= bytes.min(self.waiting_bytes);
        self.taken_bytes += bytes;
        taken
    }
}

fn size_of_all(drafts: &[Box<dyn Draft>]) -> usize {
    drafts.iter().map(|draft| draft.size()).sum()
}
