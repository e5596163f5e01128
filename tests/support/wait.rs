//! Waiting for something another process does: asked again and again, and given up loudly.
//!
//! Not a sleep: it returns as soon as the answer is there.

use std::time::{Duration, Instant};

/// Longer than anything takes on a busy two-core machine; a passing test never waits this long.
const LONGEST: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer; `what` says in the failure what never came.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < LONGEST, "{what}: not within {LONGEST:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same outside a runtime.
pub(crate) fn until_blocking<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        std::thread::sleep(PAUSE);
    }
    None
}
