//! Whether the shared store is used: after some failures in a row it is not, until a test call succeeds.
//!
//! Sends no test calls: `remote` reads the list of purges twice a second anyway, and no client's request waits for a test call.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Failures in a row that open it.
const FAILURES: u32 = 5;

/// Closed as long as the store responds in time.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    failures: AtomicU32,
    is_open: AtomicBool,
}

impl Circuit {
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// A call succeeded. While the circuit is open this changes nothing: the call was sent before it opened.
    pub(super) fn succeed(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// A call failed. Returns whether this opened the circuit.
    pub(super) fn fail(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES && self.open()
    }

    /// True: it was closed.
    pub(super) fn open(&self) -> bool {
        !self.is_open.swap(true, Ordering::Relaxed)
    }

    /// True: it was open.
    pub(super) fn close(&self) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_once() {
        let circuit = Circuit::default();
        let failed = |times: u32| (0..times).filter(|_| circuit.fail()).count();
        assert_eq!(failed(FAILURES - 1), 0);
        circuit.succeed();
        assert_eq!(failed(FAILURES - 1), 0);
        assert!(!circuit.is_open());
        assert_eq!(failed(1), 1);
        assert_eq!(failed(10), 0);
        circuit.succeed();
        assert!(circuit.is_open());
        assert!(circuit.close() && !circuit.close() && !circuit.is_open());
        assert_eq!(failed(FAILURES - 1), 0);
        assert!(circuit.open() && !circuit.open() && circuit.is_open());
    }
}
