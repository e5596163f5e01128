//! Where the process is in its life: starting, serving, draining; and how many requests are under way.
//!
//! Read by readiness and by whoever waits for the last stream to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Cheap to clone; all clones mean the same process.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    serving: AtomicBool,
    draining: AtomicBool,
    /// Set when the grace period is over: streams that still run are cut, with an error event.
    aborting: AtomicBool,
    in_flight: AtomicU64,
    abort_notify: tokio::sync::Notify,
}

/// One request under way; counted until it is dropped.
#[derive(Debug)]
pub struct InFlightGuard(Arc<Inner>);

impl Lifecycle {
    /// Listeners are up.
    pub fn serve(&self) {
        self.0.serving.store(true, Ordering::Release);
    }

    /// The process was told to stop: readiness fails from now on.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// The grace period is over.
    pub fn abort(&self) {
        self.0.aborting.store(true, Ordering::Release);
        self.0.abort_notify.notify_waiters();
    }

    pub fn is_ready(&self) -> bool {
        self.0.serving.load(Ordering::Acquire) && !self.is_draining()
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Counts a request until the answer is dropped.
    pub fn enter(&self) -> InFlightGuard {
        self.0.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(&self.0))
    }

    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Acquire)
    }

    /// Resolves when the grace period is over.
    pub async fn aborted(&self) {
        let notified = self.0.abort_notify.notified();
        if !self.0.aborting.load(Ordering::Acquire) {
            notified.await;
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_fails_as_soon_as_draining_starts() {
        let lifecycle = Lifecycle::default();
        assert!(!lifecycle.is_ready());
        lifecycle.serve();
        assert!(lifecycle.is_ready());
        let request = lifecycle.enter();
        lifecycle.drain();
        assert!(!lifecycle.is_ready());
        assert_eq!(lifecycle.in_flight(), 1);
        drop(request);
        assert_eq!(lifecycle.in_flight(), 0);
    }
}
