//! A lock for tests that must not run at the same time: those that load the machine, and those that check
//! durations.

use tokio::sync::{Mutex, MutexGuard};

/// Waits until no other such test is running; hold the guard until the test ends.
pub(crate) async fn exclusive() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    LOCK.lock().await
}
