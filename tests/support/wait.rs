//! Waits for something another process does: polls it, and fails with a message if it does not happen.
//!
//! Not a sleep: it returns as soon as the value is there.

use std::time::{Duration, Instant};

/// Longer than anything takes on a busy two-core machine; a passing test never waits this long.
const MAX_WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Polls until there is a value; `what` names it in the failure.
pub(crate) async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(start.elapsed() < MAX_WAIT, "{what}: not within {MAX_WAIT:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same outside a runtime.
pub(crate) fn until_blocking<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < MAX_WAIT {
        if let Some(value) = poll() {
            return Some(value);
        }
        std::thread::sleep(PAUSE);
    }
    None
}
