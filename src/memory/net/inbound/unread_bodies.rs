//! What is read of a body that is not wanted, after its request was refused: closing at once would reset the connection, and the client
//! could lose the response.
//!
//! Reading takes a buffer of 64 KiB for each connection, so only some are read at a time: thousands of clients without a key take no more
//! memory. The others wait, with what they sent in the kernel. Does not read: both ports have their own sessions.

use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many bodies are read at a time of requests that may have come without a good key, and as many of others.
const PLACES: usize = 64;
/// How much of a body without a good key, bytes.
const STRANGER_BYTES: usize = 256 << 10;
/// How long the end of a body is waited for, a place included.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The places of both kinds.
#[derive(Debug)]
pub struct UnreadBodies {
    strangers: Semaphore,
    clients: Semaphore,
}

/// Leave to read, until it is dropped.
#[derive(Debug)]
pub struct Reading<'a> {
    _place: Option<SemaphorePermit<'a>>,
    /// How many bytes may be read.
    pub bytes: usize,
}

impl Default for UnreadBodies {
    fn default() -> Self {
        Self { strangers: Semaphore::new(PLACES), clients: Semaphore::new(PLACES) }
    }
}

impl UnreadBodies {
    /// Waits until the body of a response with `status` may be read, up to `bytes` where the key was good.
    pub async fn enter(&self, status: u16, bytes: usize) -> Reading<'_> {
        let places = match status {
            // The path and the form of a request are judged before its key.
            400 | 401 | 403 | 404 | 405 => &self.strangers,
            _ => &self.clients,
        };
        let bytes = if matches!(status, 401 | 403) { STRANGER_BYTES } else { bytes };
        // They are never closed.
        Reading { _place: places.acquire().await.ok(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn bodies_wait_for_places_of_their_kind() {
        let bodies = UnreadBodies::default();
        let enter = |status| bodies.enter(status, 1 << 20).now_or_never();
        let mut strangers: Vec<_> = (0..PLACES).map(|_| enter(401).unwrap()).collect();
        assert!(strangers.iter().all(|place| place.bytes == STRANGER_BYTES));
        assert!(enter(403).is_none() && enter(405).is_none());
        let clients: Vec<_> = (0..PLACES).map(|_| enter(413).unwrap()).collect();
        assert!(clients.iter().all(|place| place.bytes == 1 << 20));
        assert!(enter(429).is_none());
        strangers.pop();
        assert_eq!(enter(404).unwrap().bytes, 1 << 20);
    }
}
