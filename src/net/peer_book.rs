//! A bound on the peers that callers can create.
//!
//! Pingora keeps something for each distinct peer: pooled connections, which cost the providers theirs
//! when callers name thousands of hosts, and on HTTP/2 a pool node and a remembered preference that are
//! not given back when an attempt is dropped. Operators' origins are not counted: their number is the
//! settings' business.

use super::origin::Origin;
use super::peer::{Dial, Protocol, peer};
use parking_lot::Mutex;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most callers' peers that may keep connections at a time.
const MOST_POOLED: usize = 4096;
/// Most callers' peers that may ever speak HTTP/2 in this process.
const MOST_H2: usize = 4096;
/// A peer unused for this long makes room; longer than any connection idles in the pool.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Looking for room takes a walk over all peers: not more often than this.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// Remembers callers' peers and makes those beyond the bound un-poolable.
#[derive(Debug)]
pub struct PeerBook {
    known: Mutex<Known>,
    most_pooled: usize,
    most_h2: usize,
}

#[derive(Debug, Default)]
struct Known {
    peers: HashMap<u64, Seen>,
    h2_granted: usize,
    walked: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    last: Instant,
    h2: bool,
}

/// What a peer may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    Everything,
    /// Connections are pooled, on HTTP/1.1 only: its pool nodes are given back.
    PooledH1,
    /// A new HTTP/1.1 connection each time.
    Nothing,
}

impl Default for PeerBook {
    fn default() -> Self {
        Self { known: Mutex::default(), most_pooled: MOST_POOLED, most_h2: MOST_H2 }
    }
}

impl PeerBook {
    /// Like [`peer`], within the bound. The first 4,096 peers of callers get all they ask for; beyond, they
    /// speak HTTP/1.1, and while 4,096 are in use a new one gets a fresh connection for each request.
    pub fn peer(&self, origin: &Origin, address: SocketAddr, dial: &Dial, now: Instant) -> HttpPeer {
        let wanted = peer(origin, address, dial);
        if origin.trusted {
            return wanted;
        }
        let h2 = origin.tls && dial.protocol == Protocol::H2H1;
        match self.grant(wanted.reuse_hash(), h2, now) {
            Grant::Everything => wanted,
            Grant::PooledH1 => peer(origin, address, &Dial { protocol: Protocol::H1, ..dial.clone() }),
            Grant::Nothing => {
                let idle = Duration::ZERO;
                peer(origin, address, &Dial { protocol: Protocol::H1, idle, ..dial.clone() })
            }
        }
    }

    fn grant(&self, key: u64, h2: bool, now: Instant) -> Grant {
        let mut known = self.known.lock();
        let known = &mut *known;
        if let Some(seen) = known.peers.get_mut(&key) {
            seen.last = now;
            return if h2 && !seen.h2 { Grant::PooledH1 } else { Grant::Everything };
        }
        if known.peers.len() >= self.most_pooled && !known.make_room(self.most_pooled, now) {
            return Grant::Nothing;
        }
        let h2_granted = h2 && known.h2_granted < self.most_h2;
        known.h2_granted += usize::from(h2_granted);
        known.peers.insert(key, Seen { last: now, h2: h2_granted });
        if h2 && !h2_granted { Grant::PooledH1 } else { Grant::Everything }
    }
}

impl Known {
    /// Forgets peers nobody used lately; whether there is room now.
    fn make_room(&mut self, most: usize, now: Instant) -> bool {
        if self.walked.is_some_and(|walked| now < walked + WALK_EVERY) {
            return false;
        }
        self.walked = Some(now);
        self.peers.retain(|_, seen| now < seen.last + FORGET_AFTER);
        self.peers.len() < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora_core::protocols::ALPN;

    fn book(most_pooled: usize, most_h2: usize) -> PeerBook {
        PeerBook { known: Mutex::default(), most_pooled, most_h2 }
    }

    fn dial(book: &PeerBook, n: u8, trusted: bool, now: Instant) -> HttpPeer {
        let origin = Origin::parse(&format!("https://h{n}.example.com"), trusted).unwrap();
        let address = SocketAddr::from(([1, 1, 1, n], 443));
        book.peer(&origin, address, &Dial::default(), now)
    }

    fn kept(peer: &HttpPeer) -> (bool, bool) {
        (peer.options.idle_timeout != Some(Duration::ZERO), matches!(peer.options.alpn, ALPN::H2H1))
    }

    #[test]
    fn callers_peers_beyond_the_bound_keep_no_connection() {
        let book = book(2, 10);
        let now = Instant::now();
        assert_eq!(kept(&dial(&book, 1, false, now)), (true, true));
        assert_eq!(kept(&dial(&book, 2, false, now)), (true, true));
        assert_eq!(kept(&dial(&book, 3, false, now)), (false, false));
        assert_eq!(kept(&dial(&book, 1, false, now)), (true, true), "a known peer keeps its place");
        for n in 10..20 {
            assert_eq!(kept(&dial(&book, n, true, now)), (true, true), "operators are not counted");
        }
        assert_eq!(book.known.lock().peers.len(), 2);
    }

    #[test]
    fn unused_peers_make_room() {
        let book = book(2, 10);
        let start = Instant::now();
        dial(&book, 1, false, start);
        dial(&book, 2, false, start);
        let used = start + FORGET_AFTER - Duration::from_secs(1);
        dial(&book, 2, false, used);
        let later = start + FORGET_AFTER;
        assert_eq!(kept(&dial(&book, 3, false, later)), (true, true));
        assert_eq!(kept(&dial(&book, 1, false, later)), (false, false), "2 and 3 are in use");
    }

    #[test]
    fn http_2_is_granted_so_many_times_in_a_life() {
        let book = book(10, 2);
        let now = Instant::now();
        for n in 1..=2 {
            assert_eq!(kept(&dial(&book, n, false, now)), (true, true));
        }
        for _ in 0..2 {
            assert_eq!(kept(&dial(&book, 3, false, now)), (true, false));
        }
        assert_eq!(kept(&dial(&book, 1, false, now)), (true, true));
    }
}
