//! One at a time: tests that load the machine, and those that hold a time against a bound.

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other test of the sort is running; the guard is held to the test's end.
pub(crate) async fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    LOCK.lock().await
}
