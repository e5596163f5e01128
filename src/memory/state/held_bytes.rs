//! The bytes of request bodies and responses that the process holds in memory, counted against one limit
//! (`limits.max_held_bytes`).
//!
//! Counts only: whoever holds bytes says how many, and what is refused when the limit is reached. Not an allocator:
//! what a connection itself costs is bounded by `limits.max_connections`.
//!
//! There is a `Hold` for each that holds some: the request's (its body, and what is sent in its place) and each attempt's (its
//! response until the client has taken it). Small ones (under 16 KiB) touch no counter. What translating takes grows with the
//! number of values of a body, not with its size: `Body::check_values` bounds them, `provider::translation::working_memory`
//! counts them, and the tests of `provider::working_memory` measure many shapes of bodies at every format. A new format is added
//! to their targets.

use crate::net::inbound::unread_bodies::UnreadBodies;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use words::error::Error;

/// Holders are counted in steps of this many bytes, rounded down: most requests and responses are smaller, and cost
/// nothing.
const STEP: usize = 16 << 10;

/// The count of all holders, and the limit.
#[derive(Debug, Clone)]
pub struct HeldBytes(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    held: AtomicUsize,
    limit: AtomicUsize,
    unread: UnreadBodies,
}

/// What one holder holds. Dropping it gives the bytes back.
#[derive(Debug)]
pub struct Hold {
    counts: Arc<Counts>,
    /// Counted for this holder, a multiple of [`STEP`].
    counted: usize,
}

impl Default for HeldBytes {
    /// Without a limit.
    fn default() -> Self {
        Self(Arc::new(Counts {
            held: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            unread: UnreadBodies::default(),
        }))
    }
}

impl HeldBytes {
    /// Sets the limit in bytes. Bytes that are already held are not taken back.
    pub fn set_limit(&self, bytes: usize) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }

    /// The limit in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// The bodies of refused requests.
    pub fn unread_bodies(&self) -> &UnreadBodies {
        &self.0.unread
    }

    /// The bytes held now, by all holders.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// A holder that holds nothing yet.
    pub fn holder(&self) -> Hold {
        Hold { counts: Arc::clone(&self.0), counted: 0 }
    }
}

impl Hold {
    /// The bodies of refused requests, those of all holders.
    pub fn unread_bodies(&self) -> &UnreadBodies {
        &self.counts.unread
    }

    /// Another holder of the same process, which holds nothing yet.
    pub fn another(&self) -> Self {
        Self { counts: Arc::clone(&self.counts), counted: 0 }
    }

    /// Counts `bytes` for this holder, in place of what was counted before.
    ///
    /// # Errors
    /// 503 if all holders together would hold more than the limit. What was counted before stays counted.
    pub fn set(&mut self, bytes: usize) -> Result<(), Error> {
        let wanted = bytes - bytes % STEP;
        if wanted <= self.counted {
            self.release(wanted);
            return Ok(());
        }
        let more = wanted - self.counted;
        let limit = self.counts.limit.load(Ordering::Relaxed);
        let before = self.counts.held.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > limit {
            self.counts.held.fetch_sub(more, Ordering::Relaxed);
            return Err(Error::memory_limit(limit));
        }
        self.counted = wanted;
        Ok(())
    }

    /// As [`Hold::set`], for bytes that are held already and cannot be refused.
    pub fn set_anyway(&mut self, bytes: usize) {
        let wanted = bytes - bytes % STEP;
        if wanted > self.counted {
            self.counts.held.fetch_add(wanted - self.counted, Ordering::Relaxed);
            self.counted = wanted;
        } else {
            self.release(wanted);
        }
    }

    fn release(&mut self, wanted: usize) {
        if wanted < self.counted {
            self.counts.held.fetch_sub(self.counted - wanted, Ordering::Relaxed);
            self.counted = wanted;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_share_one_limit_and_give_back_what_they_held() {
        let bytes = HeldBytes::default();
        bytes.set_limit(10 * STEP);
        let mut one = bytes.holder();
        let mut two = bytes.holder();
        assert!(one.set(6 * STEP + 1).is_ok() && two.set(4 * STEP).is_ok());
        assert_eq!(bytes.held(), 10 * STEP);
        assert_eq!(one.set(7 * STEP).unwrap_err().status(), 503);
        // A refusal changes nothing.
        assert_eq!(bytes.held(), 10 * STEP);
        two.set(0).unwrap();
        assert!(one.set(7 * STEP).is_ok());
        drop(one);
        assert_eq!(bytes.held(), 0);
    }

    #[test]
    fn bytes_that_are_there_already_are_counted_above_the_limit() {
        let bytes = HeldBytes::default();
        bytes.set_limit(STEP);
        let mut hold = bytes.holder();
        hold.set_anyway(5 * STEP);
        assert_eq!(bytes.held(), 5 * STEP);
        assert!(bytes.holder().set(STEP).is_err());
        hold.set_anyway(0);
        assert_eq!(bytes.held(), 0);
    }

    #[test]
    fn small_bodies_are_not_counted() {
        let bytes = HeldBytes::default();
        bytes.set_limit(0);
        assert!(bytes.holder().set(STEP - 1).is_ok());
        assert_eq!(bytes.held(), 0);
    }
}
