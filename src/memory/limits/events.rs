//! What limits have to report to people: usage that reached the alert threshold, or the limit.
//!
//! Once per bucket and window. A bounded queue; what nobody takes from it is dropped and counted. Sending alerts is not done here.

use super::limit::Limit;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Events that may wait.
const MAX_WAITING: usize = 1024;

/// A bucket reached a mark.
#[derive(Debug, Clone)]
pub struct LimitEvent {
    pub kind: EventKind,
    pub limit: Arc<Limit>,
    pub value_key: Arc<str>,
    /// Nanodollars, tokens or requests.
    pub spent: i64,
    pub at: Timestamp,
    /// When the bucket's window ends; `None`: never.
    pub reset_at: Option<Timestamp>,
}

/// Which mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `alert_threshold`.
    Threshold,
    /// The limit.
    Exhausted,
}

impl EventKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Exhausted => "exhausted",
        }
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct EventQueue {
    sender: mpsc::Sender<LimitEvent>,
    receiver: Mutex<Option<mpsc::Receiver<LimitEvent>>>,
    dropped: AtomicU64,
}

impl Default for EventQueue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        Self { sender, receiver: Mutex::new(Some(receiver)), dropped: AtomicU64::new(0) }
    }
}

impl EventQueue {
    pub(super) fn send(&self, event: LimitEvent) {
        if self.sender.try_send(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The other end; the first call gets it.
    pub(super) fn receiver(&self) -> Option<mpsc::Receiver<LimitEvent>> {
        self.receiver.lock().take()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
