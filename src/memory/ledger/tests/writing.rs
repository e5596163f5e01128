//! The writer before a log store that fails, is slow, refuses rows, or never responds.

use super::{entries, rows};
use crate::ledger::analytics::{FeedbackTally, Tally};
use crate::ledger::filter::Filter;
use crate::ledger::id::RowIds;
use crate::ledger::log_store::{Expiry, LogError, LogStore, ReadControl};
use crate::ledger::writer::WriterOptions;
use crate::ledger::{Draft, Entry, Feedback, Ledger, LedgerHealth, Question, Row};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// A log store in memory, whose state the test sets.
#[derive(Default)]
struct Scripted {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<Uuid, Row>,
    mode: Mode,
    attempts: usize,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Mode {
    #[default]
    Works,
    Fails,
    Stuck,
    /// It writes and then loses the connection.
    WritesAndFails,
}

impl Scripted {
    fn set(&self, mode: Mode) {
        self.state.lock().mode = mode;
        self.changed.notify_all();
    }

    fn len(&self) -> usize {
        self.state.lock().rows.len()
    }
}

impl LogStore for Scripted {
    fn backend_name(&self) -> &'static str {
        "scripted"
    }

    fn write(&self, entries: &[Entry]) -> Result<usize, LogError> {
        let mut state = self.state.lock();
        state.attempts += 1;
        self.changed.notify_all();
        while state.mode == Mode::Stuck {
            self.changed.wait(&mut state);
        }
        if state.mode == Mode::Fails {
            return Err(LogError::Unavailable("down".to_owned()));
        }
        assert!(entries.iter().all(|entry| entry.row.status != 667), "a sum that overflows");
        if entries.iter().any(|entry| entry.row.status == 666) {
            return Err(LogError::Refused("a number it does not like".to_owned()));
        }
        let before = state.rows.len();
        state.rows.extend(entries.iter().map(|entry| (entry.row.id, entry.row.clone())));
        match state.mode {
            Mode::WritesAndFails => Err(LogError::Unavailable("connection lost".to_owned())),
            _ => Ok(state.rows.len() - before),
        }
    }

    fn scan(
        &self,
        _: &Filter,
        _: u64,
        _: &Arc<ReadControl>,
        _: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        Ok(())
    }

    fn count(&self, _: &Filter, _: &Arc<ReadControl>) -> Result<(), LogError> {
        Ok(())
    }

    fn row(&self, id: Uuid) -> Result<Option<Row>, LogError> {
        Ok(self.state.lock().rows.get(&id).cloned())
    }

    fn attempts(&self, _: &Row) -> Result<Vec<Row>, LogError> {
        Ok(Vec::new())
    }

    fn payload(&self, _: Uuid) -> Result<Option<Vec<u8>>, LogError> {
        Ok(None)
    }

    fn put_feedback(&self, _: &[Feedback]) -> Result<(), LogError> {
        Ok(())
    }

    fn feedback(&self, _: Uuid) -> Result<Option<Feedback>, LogError> {
        Ok(None)
    }

    fn sums(&self, _: &mut Tally, _: &Arc<ReadControl>) -> Result<(), LogError> {
        unreachable!()
    }

    fn feedback_sums(&self, _: &mut FeedbackTally, _: &Arc<ReadControl>) -> Result<(), LogError> {
        unreachable!()
    }

    fn merge_rollups(&self, _: i64) -> Result<bool, LogError> {
        unreachable!()
    }

    fn expire(&self, _: &Expiry) -> Result<Vec<String>, LogError> {
        Ok(Vec::new())
    }
}

fn start(store: &Arc<Scripted>, folder: &Path, max_queue_bytes: usize, max_spool_bytes: u64) -> Ledger {
    let options = WriterOptions { max_queue_bytes, spool_folder: folder.to_owned(), max_spool_bytes };
    Ledger::start(Arc::clone(store) as Arc<dyn LogStore>, &options).unwrap()
}

/// Waits until the ledger's health is as wanted; it is changed by threads.
fn until(ledger: &Ledger, wanted: impl Fn(&LedgerHealth) -> bool) -> LedgerHealth {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let health = ledger.health();
        if wanted(&health) {
            return health;
        }
        assert!(Instant::now() < end, "{health:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_was_spooled_while_the_store_was_down_arrives_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let all = rows(0..600);
    let ledger = start(&store, folder.path(), 1 << 20, 64 << 20);
    store.set(Mode::WritesAndFails);
    ledger.push(entries(&all[..100]));
    until(&ledger, |health| health.why.is_some() && health.spooled == 100);
    store.set(Mode::Fails);
    ledger.push(entries(&all[100..400]));
    let health = until(&ledger, |health| health.spooled == 400 && health.queue_bytes == 0);
    assert!(health.spool_bytes > 100_000 && health.since.is_some());
    store.set(Mode::Works);
    ledger.push(entries(&all[400..]));
    let health = until(&ledger, |health| health.spool_bytes == 0 && store.len() == 600);
    assert_eq!((health.why, health.dropped.by_reason().iter().map(|(_, count)| count).sum()), (None, 0_u64));
    // The first 100 were written by the attempt that failed.
    assert_eq!(health.written, 500);
    ledger.close(Duration::from_secs(5));
}

#[test]
fn no_request_waits_for_a_store_that_never_responds_and_memory_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let all = rows(1000..5000);
    let max_queue_bytes = 400_000;
    let ledger = start(&store, folder.path(), max_queue_bytes, 64 << 20);
    store.set(Mode::Stuck);
    ledger.push(entries(&all[..10]));
    let began = Instant::now();
    while store.state.lock().attempts == 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    for chunk in all[10..].chunks(10) {
        ledger.push(entries(chunk));
        assert!(ledger.health().queue_bytes <= max_queue_bytes as u64);
        if ledger.health().queue_bytes > max_queue_bytes as u64 / 2 {
            until(&ledger, |health| health.queue_bytes < max_queue_bytes as u64 / 2);
        }
    }
    let health = ledger.health();
    assert_eq!(health.dropped.queue_full, 0);
    assert!(health.spooled > 2000, "{health:?}");
    // The store is stuck for good: what it holds is kept for the next start.
    ledger.close(Duration::from_millis(300));
    assert_eq!(ledger.health().spooled, 4000);
    drop(ledger);
    let next = Arc::new(Scripted::default());
    let ledger = start(&next, folder.path(), max_queue_bytes, 64 << 20);
    until(&ledger, |health| health.spool_bytes == 0 && health.written == 4000);
    store.set(Mode::Works);
    ledger.close(Duration::from_secs(5));
    assert_eq!(next.len(), 4000);
}

#[test]
fn beyond_the_bounds_rows_are_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let all = rows(0..1000);
    let ledger = start(&store, folder.path(), 1 << 20, 50_000);
    store.set(Mode::Fails);
    ledger.push(entries(&all[..400]));
    let health = until(&ledger, |health| health.spooled + health.dropped.spool_full == 400);
    assert!(health.spooled > 10 && health.dropped.spool_full > 100 && health.spool_bytes <= 50_000);
    let at_once = rows(0..4000);
    ledger.push(entries(&at_once));
    assert_eq!(ledger.health().dropped.queue_full, 4000);
    store.set(Mode::Works);
    let written = until(&ledger, |health| health.spool_bytes == 0).written;
    assert_eq!(written, health.spooled);
    ledger.close(Duration::from_secs(5));
}

#[test]
fn a_row_that_is_refused_keeps_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let ledger = start(&store, folder.path(), 4 << 20, 1 << 20);
    let all = rows(600..700);
    ledger.push(entries(&all));
    // One is refused, and one makes the store panic.
    let health = until(&ledger, |health| health.written == 98);
    assert_eq!((health.dropped.refused, health.why), (2, None));
    // The thread goes on.
    ledger.push(entries(&rows(0..10)));
    until(&ledger, |health| health.written == 108);
    ledger.close(Duration::from_secs(5));
}

/// What a request hands over, of which nothing can be made.
struct Broken;

impl Draft for Broken {
    fn count(&self) -> usize {
        3
    }

    fn size(&self) -> usize {
        100
    }

    fn make(self: Box<Self>, _: &RowIds, entries: &mut Vec<Entry>) {
        entries.extend(super::entries(&rows(0..1)));
        panic!("no more entries")
    }
}

#[test]
fn a_draft_that_panics_is_refused_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let ledger = start(&store, folder.path(), 4 << 20, 1 << 20);
    ledger.push(Broken);
    ledger.push(entries(&rows(0..10)));
    let health = until(&ledger, |health| health.written == 10);
    assert_eq!((health.dropped.refused, health.why), (3, None));
    ledger.close(Duration::from_secs(5));
}

/// A draft whose size cannot be told, which ends the thread that asks for it.
struct Sizeless(std::sync::atomic::AtomicUsize);

impl Draft for Sizeless {
    fn count(&self) -> usize {
        1
    }

    fn size(&self) -> usize {
        // The first time it is a request that asks.
        assert_eq!(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed), 0, "no size");
        100
    }

    fn make(self: Box<Self>, _: &RowIds, _: &mut Vec<Entry>) {}
}

#[test]
fn a_thread_that_has_ended_makes_the_ledger_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let ledger = start(&store, folder.path(), 4 << 20, 1 << 20);
    ledger.push(Sizeless(std::sync::atomic::AtomicUsize::new(0)));
    let why = until(&ledger, |health| health.why.is_some()).why.unwrap();
    assert!(why.contains("ledger-intake") && why.contains("no size"), "{why}");
    ledger.close(Duration::from_secs(5));
}

#[test]
fn what_waits_is_written_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Scripted::default());
    let ledger = start(&store, folder.path(), 4 << 20, 1 << 20);
    let all = rows(0..200);
    ledger.push(entries(&all));
    ledger.close(Duration::from_secs(10));
    assert_eq!(store.len(), 200);
    ledger.push(entries(&all[..1]));
    assert_eq!(ledger.health().dropped.queue_full, 1);
}

/// A question that runs until it is told to end, or is stopped.
fn slow(
    ends: Arc<AtomicBool>,
) -> impl FnOnce(&dyn LogStore, &Arc<ReadControl>) -> Result<(), LogError> + Send + 'static {
    move |_, control| {
        while !ends.load(Ordering::Relaxed) {
            control.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_few_questions_run_some_wait_and_the_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::<Scripted>::default();
    let ledger = Arc::new(start(&store, folder.path(), 1 << 20, 1 << 20));
    let ends = Arc::new(AtomicBool::new(false));
    let question = |number: u128| {
        let ledger = Arc::clone(&ledger);
        let question = slow(Arc::clone(&ends));
        let of_one = Question::Sums.of(Some(uuid::Uuid::from_u128(number % 2)));
        tokio::spawn(async move { ledger.run(of_one, Duration::from_secs(60), question).await })
    };
    let sums = || ledger.question_counts().into_iter().find(|counts| counts.kind == "sums").unwrap();
    let mut questions: Vec<_> = (0..150).map(question).collect();
    while sums().refused < 130 {
        tokio::task::yield_now().await;
    }
    assert_eq!((sums().running, sums().waiting, sums().refused), (4, 16, 130));
    // Others have places of their own.
    let rows = ledger.run(Question::Rows, Duration::from_secs(60), |_, _| Ok(7)).await;
    assert_eq!(rows, Ok(7));
    // One whose client leaves is stopped, and the next one gets its place.
    questions.retain(|task| !task.is_finished());
    assert_eq!(questions.len(), 20);
    questions.remove(0).abort();
    while sums().waiting == 16 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((sums().running, sums().waiting), (4, 15));
    ends.store(true, Ordering::Relaxed);
    for task in questions {
        assert_eq!(task.await.unwrap(), Ok(()));
    }
    assert_eq!((sums().running, sums().waiting, sums().refused), (0, 0, 130));
}
