//! Runs large work (parsing and translating large bodies, making and matching many patterns) so that other requests
//! hardly notice it.
//!
//! It runs on a thread of its own, at a lower priority than the worker threads: where cores are busy, the small work of all
//! other requests comes first. A thread that did both would wait for its turn like the large work it did before.
//! Small work runs in place, because a thread costs about as much as reading 100 KB. Does not split work: the
//! operating system shares the cores between threads.

use bytes::Bytes;
use rustix::process::nice;
use std::panic::resume_unwind;
use std::thread;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Reading so many bytes takes well under 20 ms, whatever they are.
const SMALL: usize = 4 << 20;
/// How much more a byte costs that is translated.
const TRANSLATION_WEIGHT: usize = 16;
/// The work of making the patterns of a config, or of matching many, as the number of bytes whose reading takes as long.
pub const PATTERNS: usize = 2 * SMALL;
/// How much lower the priority of the threads for large work is: they get a third of a worker's share of a busy core.
const NICE: i32 = 5;

/// The places for large work.
#[derive(Debug)]
pub struct LargeWork {
    places: Semaphore,
}

impl Default for LargeWork {
    /// One place for each core: more would only divide the same time, and hold the memory of all.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { places: Semaphore::new(cores) }
    }
}

/// The work of translating so many bytes, as the number of bytes whose reading takes as long.
pub fn translation(bytes: usize) -> usize {
    bytes.saturating_mul(TRANSLATION_WEIGHT)
}

impl LargeWork {
    /// Whether it is large work to read so many bytes.
    pub fn is_large(bytes: usize) -> bool {
        bytes > SMALL
    }

    /// Runs work that takes as long as reading `bytes` bytes; large work waits for a place.
    pub async fn run<T: Send>(&self, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
        if !Self::is_large(bytes) {
            return work();
        }
        // The semaphore is never closed; without a place the work is merely not bounded.
        let _place = self.places.acquire().await.ok();
        run_here(bytes, work)
    }
}

/// Runs work that takes as long as reading `bytes` bytes, at once. While large work runs, another thread takes over this
/// worker's connections.
pub fn run_here<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    // A runtime with a single thread (`server.work_stealing: false`) has no other thread to hand over to.
    let can_hand_over =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if LargeWork::is_large(bytes) && can_hand_over() {
        tokio::task::block_in_place(|| run_nicely(work))
    } else {
        work()
    }
}

/// Runs work on a new thread of low priority, and waits for it; here if the system has no thread left.
fn run_nicely<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let ended = thread::scope(|scope| {
        let nicely = || {
            // A system that refuses leaves the priority as it is. The priority cannot be raised again, so the thread ends.
            let _ = nice(NICE);
            work.take().map(|work| work())
        };
        thread::Builder::new().spawn_scoped(scope, nicely).ok().map(|thread| thread.join())
    });
    match (ended, work) {
        (Some(Ok(Some(done))), _) => done,
        (_, Some(work)) => work(),
        (Some(Err(panic)), None) => resume_unwind(panic),
        (_, None) => resume_unwind(Box::new("large work was taken and has no result")),
    }
}

/// The same bytes; where they are many, a thread of its own gives their memory back, which takes the system a
/// millisecond for 5 MiB.
pub fn freed_elsewhere(bytes: Bytes) -> Bytes {
    if LargeWork::is_large(bytes.len()) { Bytes::from_owner(Large(bytes)) } else { bytes }
}

struct Large(Bytes);

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // At the usual priority: memory must not be freed more slowly than it is allocated. Where no thread can be made, the bytes are
        // dropped with the closure, here.
        let _ = thread::Builder::new().spawn(move || drop(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_large_work_does() {
        let work = LargeWork::default();
        let (send, receive) = mpsc::channel();
        tokio::spawn(async move { send.send(7).unwrap() });
        // The only worker thread waits here for the other task, which can run only because it was handed over.
        assert_eq!(work.run(SMALL + 1, move || receive.recv().unwrap()).await, 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_has_a_low_priority_and_workers_keep_theirs() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        assert_eq!(run_here(SMALL + 1, own), (before + NICE).min(19));
        assert_eq!((run_here(SMALL, own), own()), (before, before));
    }

    #[test]
    fn large_bytes_are_the_same_bytes() {
        for len in [0, 1, SMALL, SMALL + 1] {
            let bytes = Bytes::from(vec![b'x'; len]);
            let kept = freed_elsewhere(bytes.clone());
            assert_eq!(kept, bytes);
            // Until all parts are dropped, none is freed.
            let part = kept.slice(len / 2..);
            drop((kept, bytes));
            assert!(part.iter().all(|&byte| byte == b'x') && part.len() == len - len / 2);
        }
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_does_the_work_itself() {
        assert_eq!(LargeWork::default().run(SMALL + 1, || 3).await, 3);
        assert_eq!(run_here(SMALL + 1, || 4), 4);
    }
}
