//! Writes that no request waits for: a bounded queue.
//!
//! Not here: what is done with them (`store`).

use super::entry::{CacheKey, CachedResponse, Scope};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Writes that wait at most, and the bytes of their bodies.
const MAX_WRITES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;
/// The most writes of one batch, and the bytes after which no other is added.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// What is to be written.
#[derive(Debug)]
pub(super) enum Write {
    Put {
        key: CacheKey,
        response: Arc<CachedResponse>,
        /// The last purge that this gateway had read when the response was put. `None`: it had not read the stream yet.
        position: Option<Arc<String>>,
    },
    Remove {
        key: CacheKey,
        scope: Scope,
    },
}

impl Write {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { response, .. } => response.body.len(),
            Self::Remove { .. } => 0,
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    writes: VecDeque<Write>,
    bytes: usize,
    /// Taken from the queue, and not written yet.
    unfinished: usize,
}

/// Writes that wait.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    waiting: Mutex<Waiting>,
    added: Notify,
}

impl WriteQueue {
    /// `false`: there is no room.
    pub(super) fn push(&self, write: Write) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + write.bytes();
        if waiting.writes.len() >= MAX_WRITES || bytes > MAX_BYTES {
            return false;
        }
        waiting.bytes = bytes;
        waiting.writes.push_back(write);
        drop(waiting);
        self.added.notify_one();
        true
    }

    /// The next ones, when there are some.
    pub(super) async fn next(&self) -> Vec<Write> {
        loop {
            let batch = self.take();
            if !batch.is_empty() {
                return batch;
            }
            self.added.notified().await;
        }
    }

    fn take(&self) -> Vec<Write> {
        let mut waiting = self.waiting.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(write) = waiting.writes.pop_front() else { break };
            bytes += write.bytes();
            batch.push(write);
        }
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        waiting.unfinished = batch.len();
        batch
    }

    /// The last batch is done.
    pub(super) fn done(&self) {
        self.waiting.lock().unfinished = 0;
    }

    fn is_done(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.writes.is_empty() && waiting.unfinished == 0
    }

    /// Waits until the queue is empty, at most this long. `false`: it is not.
    pub(super) async fn flush(&self, at_most: Duration) -> bool {
        let end = tokio::time::Instant::now() + at_most;
        loop {
            let is_done = self.is_done();
            if is_done || tokio::time::Instant::now() >= end {
                return is_done;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::{entry, key};

    fn put(number: u8, body: &str) -> Write {
        Write::Put { key: key(number), response: Arc::new(entry(body)), position: None }
    }

    #[test]
    fn it_is_bounded_by_number_and_by_bytes() {
        let queue = WriteQueue::default();
        assert!((0..MAX_WRITES).all(|_| queue.push(put(1, ""))));
        assert!(!queue.push(put(1, "")));
        assert_eq!(queue.take().len(), BATCH);
        assert!((0..BATCH).all(|_| queue.push(put(1, ""))));
        assert!(!queue.push(put(1, "")));

        let queue = WriteQueue::default();
        let large = "x".repeat(MAX_BYTES / 2);
        assert!(queue.push(put(1, &large)) && queue.push(put(2, &large)));
        assert!(!queue.push(put(3, "x")));
        assert_eq!(queue.take().len(), 1, "a batch ends with what exceeds its bytes");
        assert!(queue.push(put(3, "x")));
    }

    #[tokio::test]
    async fn flush_waits_for_what_is_taken() {
        let queue = WriteQueue::default();
        assert!(queue.flush(Duration::ZERO).await);
        queue.push(put(1, ""));
        assert!(!queue.flush(Duration::ZERO).await);
        assert_eq!(queue.next().await.len(), 1);
        assert!(!queue.flush(Duration::ZERO).await);
        queue.done();
        assert!(queue.flush(Duration::ZERO).await);
    }
}
