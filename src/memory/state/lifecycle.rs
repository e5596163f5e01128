//! The state of the process (starting, serving, draining) and the number of requests in flight.
//!
//! Read by the readiness route and by the drain at shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The lifecycle of this process. Cheap to clone; all clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Whether signals are received: before that, one that stops the process would kill it.
    receives_signals: AtomicBool,
    serving: AtomicBool,
    draining: AtomicBool,
    /// Another process serves at the same addresses.
    handed_over: AtomicBool,
    /// Set when the grace period is over: running streams are then ended with an error event.
    aborting: AtomicBool,
    in_flight: AtomicU64,
    abort_notify: tokio::sync::Notify,
    drain_notify: tokio::sync::Notify,
}

/// Counts one request in flight until it is dropped.
#[derive(Debug)]
pub struct InFlightGuard(Arc<Inner>);

impl Lifecycle {
    /// A signal stops the process from here on, and does not kill it.
    pub fn receive_signals(&self) {
        self.0.receives_signals.store(true, Ordering::Release);
    }

    pub fn receives_signals(&self) -> bool {
        self.0.receives_signals.load(Ordering::Acquire)
    }

    /// The listeners are up.
    pub fn serve(&self) {
        self.0.serving.store(true, Ordering::Release);
    }

    /// The process is stopping: readiness fails from now on.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.drain_notify.notify_waiters();
    }

    /// Another process serves in place of this one, which only ends its requests. Whoever still has a connection to this one, such as a
    /// balancer, gets the readiness of the service.
    pub fn hand_over(&self) {
        self.0.handed_over.store(true, Ordering::Release);
        self.drain();
    }

    /// The grace period is over.
    pub fn abort(&self) {
        self.0.aborting.store(true, Ordering::Release);
        self.0.abort_notify.notify_waiters();
    }

    pub fn is_ready(&self) -> bool {
        self.0.handed_over.load(Ordering::Acquire)
            || self.0.serving.load(Ordering::Acquire) && !self.is_draining()
    }

    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Counts a request until the guard is dropped.
    pub fn enter(&self) -> InFlightGuard {
        self.0.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(&self.0))
    }

    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Acquire)
    }

    /// Resolves when the process is stopping.
    pub async fn drained(&self) {
        let notified = self.0.drain_notify.notified();
        if !self.is_draining() {
            notified.await;
        }
    }

    /// Resolves when the grace period is over.
    pub async fn aborted(&self) {
        let notified = self.0.abort_notify.notified();
        if !self.is_aborting() {
            notified.await;
        }
    }

    /// Whether the grace period is over.
    pub fn is_aborting(&self) -> bool {
        self.0.aborting.load(Ordering::Acquire)
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

    #[tokio::test]
    async fn who_waits_for_the_drain_is_woken() {
        let lifecycle = Lifecycle::default();
        let waiting = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.drained().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        lifecycle.drain();
        waiting.await.unwrap();
        lifecycle.drained().await;
    }

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
        lifecycle.hand_over();
        assert!(lifecycle.is_ready() && lifecycle.is_draining(), "another process serves");
    }
}
