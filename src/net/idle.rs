//! HTTP/1 connections to providers that wait for their next request.
//!
//! Pingora's own pool has a task for each idle connection, made, woken and ended once for every request: a twelfth of
//! what a small call costs. Here they lie in a list and are looked at when they are taken, and all together every
//! few seconds by one task that ends with the last of them. HTTP/2 connections stay in Pingora's pool, where requests share them.

use parking_lot::Mutex;
use pingora_core::protocols::Stream;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};

/// How often all of them are looked at: a provider's close is noticed so much later at most.
const ROUND: Duration = Duration::from_secs(2);

/// The idle connections of one service.
pub struct Idle {
    lists: Mutex<Lists>,
    /// How many are kept.
    most: usize,
}

#[derive(Default)]
struct Lists {
    /// By the peer's reuse hash; the one used last is behind. None is empty.
    waiting: HashMap<u64, VecDeque<Waiting>>,
    count: usize,
    /// The task that looks after them runs.
    tended: bool,
}

struct Waiting {
    stream: Stream,
    until: Instant,
}

impl Idle {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { lists: Mutex::default(), most })
    }

    /// The connection used last that is still good. What is found closed or too old on the way is dropped.
    pub fn take(&self, peer: u64, now: Instant) -> Option<Stream> {
        let mut lists = self.lists.lock();
        let Lists { waiting, count, .. } = &mut *lists;
        let list = waiting.get_mut(&peer)?;
        let mut found = None;
        while let Some(mut one) = list.pop_back() {
            *count -= 1;
            if one.is_good(now) {
                found = Some(one.stream);
                break;
            }
        }
        if list.is_empty() {
            waiting.remove(&peer);
        }
        found
    }

    /// Keeps a connection until somebody takes it, its provider closes it, or `until`. Where there are too many, the
    /// one that ends soonest gives way, whosever it is.
    ///
    /// Call inside a runtime.
    pub fn put(self: &Arc<Self>, peer: u64, stream: Stream, until: Instant, now: Instant) {
        let mut one = Waiting { stream, until };
        if self.most == 0 || !one.is_good(now) {
            return;
        }
        let mut lists = self.lists.lock();
        if lists.count >= self.most {
            lists.drop_first();
        }
        lists.waiting.entry(peer).or_default().push_back(one);
        lists.count += 1;
        if !std::mem::replace(&mut lists.tended, true) {
            drop(lists);
            tokio::spawn(Arc::clone(self).tend());
        }
    }

    /// Looks after them until there are none.
    async fn tend(self: Arc<Self>) {
        loop {
            tokio::time::sleep(ROUND).await;
            let mut lists = self.lists.lock();
            lists.tidy(Instant::now());
            if lists.count == 0 {
                lists.tended = false;
                return;
            }
        }
    }
}

impl Lists {
    fn tidy(&mut self, now: Instant) {
        for list in self.waiting.values_mut() {
            list.retain_mut(|one| one.is_good(now));
        }
        self.waiting.retain(|_, list| !list.is_empty());
        self.count = self.waiting.values().map(VecDeque::len).sum();
    }

    /// Looks at the first of each list only: it waited longest there.
    fn drop_first(&mut self) {
        let until = |list: &VecDeque<Waiting>| list.front().map(|one| one.until);
        let Some(peer) = self.waiting.iter().min_by_key(|(_, list)| until(list)).map(|(peer, _)| *peer)
        else {
            return;
        };
        let Some(list) = self.waiting.get_mut(&peer) else { return };
        self.count -= usize::from(list.pop_front().is_some());
        if list.is_empty() {
            self.waiting.remove(&peer);
        }
    }
}

impl Waiting {
    /// Whether it may carry a request: in time, and silent. One that can be read was closed, or has something to
    /// say that nobody asked for.
    fn is_good(&mut self, now: Instant) -> bool {
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

    /// Puts a connection in; the other end of it.
    fn put(idle: &Arc<Idle>, peer: u64, now: Instant) -> DuplexStream {
        let (near, far) = duplex(64);
        idle.put(peer, Box::new(near), now + MINUTE, now);
        far
    }

    /// How many there are, and whether somebody looks after them.
    fn state(idle: &Idle) -> (usize, bool) {
        let lists = idle.lists.lock();
        (lists.count, lists.tended)
    }

    /// Whether `far` is the other end of what is taken.
    async fn takes(idle: &Idle, peer: u64, now: Instant, far: &mut DuplexStream) -> bool {
        let Some(mut stream) = idle.take(peer, now) else { return false };
        stream.write_all(b"x").await.unwrap();
        drop(stream);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        heard == b"x"
    }

    #[tokio::test]
    async fn the_one_used_last_is_taken_first_and_peers_are_kept_apart() {
        let (idle, now) = (Idle::new(8), Instant::now());
        let (mut one, mut other, mut strange) = (put(&idle, 1, now), put(&idle, 1, now), put(&idle, 2, now));
        assert!(takes(&idle, 1, now, &mut other).await);
        assert!(takes(&idle, 1, now, &mut one).await);
        assert!(idle.take(1, now).is_none());
        assert!(takes(&idle, 2, now, &mut strange).await);
        assert!(idle.lists.lock().waiting.is_empty());
        assert_eq!(state(&idle).0, 0);
    }

    #[tokio::test]
    async fn what_is_closed_or_late_or_speaks_unasked_is_not_taken() {
        let (idle, now) = (Idle::new(8), Instant::now());
        let mut good = put(&idle, 1, now);
        drop(put(&idle, 1, now));
        let mut speaks = put(&idle, 1, now);
        speaks.write_all(b"HTTP/1.1 408\r\n").await.unwrap();
        assert!(takes(&idle, 1, now, &mut good).await);
        assert_eq!(state(&idle).0, 0);
        let _late = put(&idle, 1, now);
        assert!(idle.take(1, now + MINUTE).is_none());
        idle.put(1, Box::new(duplex(1).0), now, now);
        assert_eq!(state(&idle).0, 0);
    }

    #[tokio::test]
    async fn there_is_a_bound_and_nobody_is_kept_out_by_others() {
        let (idle, now) = (Idle::new(2), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        let (_first, mut second) = (put(&idle, 1, now), put(&idle, 1, later(1)));
        let mut strange = put(&idle, 2, later(2));
        assert_eq!(state(&idle).0, 2);
        assert!(takes(&idle, 2, later(2), &mut strange).await);
        // The first gave way.
        assert!(takes(&idle, 1, later(2), &mut second).await);
        assert!(idle.take(1, later(2)).is_none());
        let (_old, mut new) = (put(&idle, 1, later(3)), put(&idle, 2, later(4)));
        let mut newest = put(&idle, 2, later(5));
        // A list that is empty by now is gone.
        assert_eq!(state(&idle).0, 2);
        assert_eq!(idle.lists.lock().waiting.len(), 1);
        assert!(takes(&idle, 2, later(5), &mut newest).await && takes(&idle, 2, later(5), &mut new).await);
        let none = Idle::new(0);
        let _kept = put(&none, 1, now);
        assert!(none.take(1, now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_ones_are_cleared_away_and_the_task_ends_with_the_last() {
        let (idle, now) = (Idle::new(8), Instant::now());
        let far = put(&idle, 1, now);
        tokio::time::sleep(2 * ROUND).await;
        assert_eq!(state(&idle), (1, true));
        drop(far);
        tokio::time::sleep(2 * ROUND).await;
        assert_eq!(state(&idle), (0, false));
        let mut again = put(&idle, 1, now);
        assert_eq!(state(&idle), (1, true));
        assert!(takes(&idle, 1, now, &mut again).await);
    }
}
