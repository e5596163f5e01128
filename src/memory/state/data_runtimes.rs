//! The runtimes that serve the data port, for work that only their threads can do.
//!
//! Pingora makes them and keeps them to itself, so they are known from the connections they take: one of many threads, or
//! with `server.work_stealing: false` one for each thread. Starts and stops none.

use parking_lot::RwLock;
use tokio::runtime::Handle;

/// Handles of the runtimes that have taken a connection.
#[derive(Debug, Default)]
pub struct DataRuntimes(RwLock<Vec<Handle>>);

impl DataRuntimes {
    /// Remembers the runtime of the caller. Call it where a connection is taken, not for each request.
    pub fn enter(&self) {
        let Ok(current) = Handle::try_current() else { return };
        let is_current = |handle: &Handle| handle.id() == current.id();
        if self.0.read().iter().any(is_current) {
            return;
        }
        let mut handles = self.0.write();
        if !handles.iter().any(is_current) {
            handles.push(current);
        }
    }

    /// Starts `work` as many times as there are threads, and does not wait. While they are idle, each thread does it about
    /// once: a thread that is woken wakes the next while there is more to do.
    pub fn on_threads(&self, work: fn()) {
        for runtime in &*self.0.read() {
            for _ in 0..runtime.metrics().num_workers() {
                runtime.spawn(async move { work() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::runtime::Builder;

    static DONE: AtomicUsize = AtomicUsize::new(0);

    fn work() {
        DONE.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn work_is_done_once_for_each_thread_of_each_runtime() {
        let runtimes = DataRuntimes::default();
        runtimes.on_threads(work);
        runtimes.enter();
        let many = Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let single = Builder::new_current_thread().build().unwrap();
        for _ in 0..2 {
            many.block_on(async { runtimes.enter() });
            single.block_on(async { runtimes.enter() });
        }
        runtimes.on_threads(work);
        single.block_on(async {
            while DONE.load(Ordering::SeqCst) < 4 {
                tokio::task::yield_now().await;
            }
        });
        drop(many);
        assert_eq!(DONE.load(Ordering::SeqCst), 4);
    }
}
