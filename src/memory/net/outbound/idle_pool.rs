//! The pool of idle HTTP/1 connections to providers.
//!
//! Pingora's own pool runs a task per idle connection, which is spawned, woken and ended once per request: a twelfth
//! of the cost of a small request. Here idle connections are in lists. They are checked when they are taken, and one
//! task sweeps them all every few seconds; it ends when the pool is empty. HTTP/2 connections stay in Pingora's pool,
//! where requests share them.

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use pingora_core::protocols::Stream;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};

/// How often all idle connections are checked: the maximum delay until a provider's close is noticed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);

/// The idle connections of one service.
pub(crate) struct IdlePool {
    inner: Mutex<PoolInner>,
    /// Maximum number of connections, over all peers.
    max_size: usize,
}

#[derive(Default)]
struct PoolInner {
    /// By the peer's reuse hash, the most recently used one at the back. No list is empty.
    connections: HashMap<u64, VecDeque<IdleConnection>, RandomState>,
    count: usize,
    /// The sweep task is running.
    sweeping: bool,
}

struct IdleConnection {
    stream: Stream,
    until: Instant,
}

impl IdlePool {
    pub fn new(max_size: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), max_size })
    }

    /// Takes the most recently used connection that is still usable, and drops the closed and expired ones found
    /// before it.
    pub fn take(&self, peer: u64, now: Instant) -> Option<Stream> {
        let mut inner = self.inner.lock();
        let PoolInner { connections, count, .. } = &mut *inner;
        let list = connections.get_mut(&peer)?;
        let mut found = None;
        while let Some(mut connection) = list.pop_back() {
            *count -= 1;
            if connection.is_usable(now) {
                found = Some(connection.stream);
                break;
            }
        }
        if list.is_empty() {
            connections.remove(&peer);
        }
        found
    }

    /// Keeps a connection until it is taken, its provider closes it, or `until`. A full pool first drops the
    /// connection that expires soonest, of whatever peer.
    ///
    /// Must be called inside a runtime.
    pub fn put(self: &Arc<Self>, peer: u64, stream: Stream, until: Instant, now: Instant) {
        let mut connection = IdleConnection { stream, until };
        if self.max_size == 0 || !connection.is_usable(now) {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.count >= self.max_size {
            inner.evict_soonest_expiring();
        }
        inner.connections.entry(peer).or_default().push_back(connection);
        inner.count += 1;
        if !std::mem::replace(&mut inner.sweeping, true) {
            drop(inner);
            tokio::spawn(Arc::clone(self).sweep_loop());
        }
    }

    /// Sweeps at intervals until the pool is empty.
    async fn sweep_loop(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let mut inner = self.inner.lock();
            inner.sweep(Instant::now());
            if inner.count == 0 {
                inner.sweeping = false;
                return;
            }
        }
    }
}

impl PoolInner {
    fn sweep(&mut self, now: Instant) {
        for list in self.connections.values_mut() {
            list.retain_mut(|connection| connection.is_usable(now));
        }
        self.connections.retain(|_, list| !list.is_empty());
        self.count = self.connections.values().map(VecDeque::len).sum();
    }

    /// Compares only the first connection of each list, which has been idle longest.
    fn evict_soonest_expiring(&mut self) {
        let until = |list: &VecDeque<IdleConnection>| list.front().map(|connection| connection.until);
        let Some(peer) = self.connections.iter().min_by_key(|(_, list)| until(list)).map(|(peer, _)| *peer)
        else {
            return;
        };
        let Some(list) = self.connections.get_mut(&peer) else { return };
        self.count -= usize::from(list.pop_front().is_some());
        if list.is_empty() {
            self.connections.remove(&peer);
        }
    }
}

impl IdleConnection {
    /// Whether it may carry a request: not expired and with nothing to read. A readable connection was closed or
    /// received bytes that belong to no request.
    fn is_usable(&mut self, now: Instant) -> bool {
        let mut byte = [0; 1];
        let read = Pin::new(&mut self.stream)
            .poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
        now < self.until && matches!(read, Poll::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const MINUTE: Duration = Duration::from_secs(60);

    /// Puts a connection in and returns its other end.
    fn put(pool: &Arc<IdlePool>, peer: u64, now: Instant) -> DuplexStream {
        let (near, far) = duplex(64);
        pool.put(peer, Box::new(near), now + MINUTE, now);
        far
    }

    /// The number of connections, and whether the sweep task runs.
    fn state(pool: &IdlePool) -> (usize, bool) {
        let inner = pool.inner.lock();
        (inner.count, inner.sweeping)
    }

    /// Whether `far` is the other end of the connection that `take` returns.
    async fn takes(pool: &IdlePool, peer: u64, now: Instant, far: &mut DuplexStream) -> bool {
        let Some(mut stream) = pool.take(peer, now) else { return false };
        stream.write_all(b"x").await.unwrap();
        drop(stream);
        let mut received = Vec::new();
        far.read_to_end(&mut received).await.unwrap();
        received == b"x"
    }

    #[tokio::test]
    async fn the_most_recent_connection_is_taken_first_and_peers_are_kept_apart() {
        let pool = IdlePool::new(8);
        let now = Instant::now();
        let mut one = put(&pool, 1, now);
        let mut other = put(&pool, 1, now);
        let mut other_peer = put(&pool, 2, now);
        assert!(takes(&pool, 1, now, &mut other).await);
        assert!(takes(&pool, 1, now, &mut one).await);
        assert!(pool.take(1, now).is_none());
        assert!(takes(&pool, 2, now, &mut other_peer).await);
        assert!(pool.inner.lock().connections.is_empty());
        assert_eq!(state(&pool).0, 0);
    }

    #[tokio::test]
    async fn closed_expired_and_readable_connections_are_not_taken() {
        let pool = IdlePool::new(8);
        let now = Instant::now();
        let mut good = put(&pool, 1, now);
        drop(put(&pool, 1, now));
        let mut with_data = put(&pool, 1, now);
        with_data.write_all(b"HTTP/1.1 408\r\n").await.unwrap();
        assert!(takes(&pool, 1, now, &mut good).await);
        assert_eq!(state(&pool).0, 0);
        let _late = put(&pool, 1, now);
        assert!(pool.take(1, now + MINUTE).is_none());
        pool.put(1, Box::new(duplex(1).0), now, now);
        assert_eq!(state(&pool).0, 0);
    }

    #[tokio::test]
    async fn the_pool_is_bounded_across_all_peers() {
        let pool = IdlePool::new(2);
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let _first = put(&pool, 1, now);
        let mut second = put(&pool, 1, later(1));
        let mut other_peer = put(&pool, 2, later(2));
        assert_eq!(state(&pool).0, 2);
        assert!(takes(&pool, 2, later(2), &mut other_peer).await);
        // The first one was dropped, because it expired soonest.
        assert!(takes(&pool, 1, later(2), &mut second).await);
        assert!(pool.take(1, later(2)).is_none());
        let _old = put(&pool, 1, later(3));
        let mut new = put(&pool, 2, later(4));
        let mut newest = put(&pool, 2, later(5));
        // The list of a peer without connections is removed.
        assert_eq!(state(&pool).0, 2);
        assert_eq!(pool.inner.lock().connections.len(), 1);
        assert!(takes(&pool, 2, later(5), &mut newest).await && takes(&pool, 2, later(5), &mut new).await);
        let none = IdlePool::new(0);
        let _kept = put(&none, 1, now);
        assert!(none.take(1, now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_connections_are_swept_and_the_task_ends_with_the_last() {
        let pool = IdlePool::new(8);
        let now = Instant::now();
        let far = put(&pool, 1, now);
        tokio::time::sleep(2 * SWEEP_INTERVAL).await;
        assert_eq!(state(&pool), (1, true));
        drop(far);
        tokio::time::sleep(2 * SWEEP_INTERVAL).await;
        assert_eq!(state(&pool), (0, false));
        let mut second = put(&pool, 1, now);
        assert_eq!(state(&pool), (1, true));
        assert!(takes(&pool, 1, now, &mut second).await);
    }
}
