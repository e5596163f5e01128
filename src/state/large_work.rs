//! Runs work on large bodies (parsing, translation) without keeping a worker thread from its other connections.
//!
//! Small work runs in place: handing it over would cost more than the work. Does not split work: the operating system
//! shares the cores between threads.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Reading so many bytes takes well under 20 ms, whatever they are.
const SMALL: usize = 4 << 20;
/// How much more a byte costs that is translated.
const TRANSLATION_WEIGHT: usize = 16;

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
    pub async fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        if !Self::is_large(bytes) {
            return work();
        }
        // The semaphore is never closed; without a place the work is merely not bounded.
        let _place = self.places.acquire().await.ok();
        run_here(bytes, work)
    }
}

/// Runs work that takes as long as reading `bytes` bytes, at once. While large work runs, another thread takes over this worker's connections.
pub fn run_here<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // A runtime with a single thread (`server.work_stealing: false`) has no other thread to hand over to.
    let can_hand_over =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    match LargeWork::is_large(bytes) && can_hand_over() {
        true => tokio::task::block_in_place(work),
        false => work(),
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
        assert_eq!(work.run(SMALL + 1, || receive.recv().unwrap()).await, 7);
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_does_the_work_itself() {
        assert_eq!(LargeWork::default().run(SMALL + 1, || 3).await, 3);
        assert_eq!(run_here(SMALL + 1, || 4), 4);
    }
}
