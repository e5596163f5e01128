//! Counts connections of one kind against a limit.
//!
//! Does not close anything: whoever gets no guard refuses the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count.
#[derive(Debug, Default)]
pub struct ConnectionCount(Arc<AtomicUsize>);

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard(Arc<AtomicUsize>);

impl ConnectionCount {
    /// Counts one more connection; `None` if there are `limit` already.
    pub fn enter(&self, limit: usize) -> Option<ConnectionGuard> {
        let guard = ConnectionGuard(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::AcqRel) < limit).then_some(guard)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_ends_makes_room() {
        let count = ConnectionCount::default();
        let first = count.enter(2);
        let second = count.enter(2);
        assert!(first.is_some() && second.is_some() && count.enter(2).is_none());
        drop(first);
        assert!(count.enter(2).is_some());
    }
}
