//! A limit on the number of peers that clients can create.
//!
//! Pingora keeps state for each distinct peer: pooled connections, which would push the providers' own out of the pool
//! when clients name thousands of hosts, and on HTTP/2 a pool node and a stored preference that are not freed when an
//! attempt is dropped. Operators' origins are not counted; the settings bound their number.

use super::origin::Origin;
use super::peer::{PeerOptions, Protocol, peer};
use parking_lot::Mutex;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum number of clients' peers with pooled connections at a time.
const MAX_POOLED: usize = 4096;
/// Maximum number of clients' peers that may use HTTP/2 over the life of the process.
const MAX_H2: usize = 4096;
/// A peer unused for this long is removed; longer than a connection may be idle in the pool.
const PEER_TTL: Duration = Duration::from_secs(600);
/// Minimum interval between sweeps, because each one visits all peers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Tracks clients' peers and turns off pooling for those beyond the limit.
#[derive(Debug)]
pub struct PeerLimit {
    table: Mutex<PeerTable>,
    max_pooled: usize,
    max_h2: usize,
}

#[derive(Debug, Default)]
struct PeerTable {
    peers: HashMap<u64, PeerEntry>,
    h2_count: usize,
    swept_at: Option<Instant>,
}

#[derive(Debug)]
struct PeerEntry {
    last_used: Instant,
    h2: bool,
}

/// Which connections of a peer may be pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolingLevel {
    Full,
    /// Connections are pooled, but HTTP/1.1 only, because its pool nodes are freed.
    PooledH1,
    /// A new HTTP/1.1 connection each time.
    Unpooled,
}

impl Default for PeerLimit {
    fn default() -> Self {
        Self { table: Mutex::default(), max_pooled: MAX_POOLED, max_h2: MAX_H2 }
    }
}

impl PeerLimit {
    /// Like [`peer()`], within the limit. The first 4,096 peers of clients get what `peer_options` asks for; later ones
    /// use HTTP/1.1, and while 4,096 are in use, a new one opens a connection for each request.
    pub fn peer(
        &self,
        origin: &Origin,
        address: SocketAddr,
        peer_options: &PeerOptions,
        now: Instant,
    ) -> HttpPeer {
        let full_peer = peer(origin, address, peer_options);
        if origin.trusted {
            return full_peer;
        }
        let h2 = origin.tls && peer_options.protocol == Protocol::H2H1;
        match self.pooling_level(full_peer.reuse_hash(), h2, now) {
            PoolingLevel::Full => full_peer,
            PoolingLevel::PooledH1 => {
                peer(origin, address, &PeerOptions { protocol: Protocol::H1, ..peer_options.clone() })
            }
            PoolingLevel::Unpooled => {
                let idle = Duration::ZERO;
                peer(
                    origin,
                    address,
                    &PeerOptions { protocol: Protocol::H1, idle_timeout: idle, ..peer_options.clone() },
                )
            }
        }
    }

    fn pooling_level(&self, key: u64, h2: bool, now: Instant) -> PoolingLevel {
        let mut table = self.table.lock();
        let table = &mut *table;
        if let Some(entry) = table.peers.get_mut(&key) {
            entry.last_used = now;
            return if h2 && !entry.h2 { PoolingLevel::PooledH1 } else { PoolingLevel::Full };
        }
        if table.peers.len() >= self.max_pooled && !table.make_room(self.max_pooled, now) {
            return PoolingLevel::Unpooled;
        }
        let h2_allowed = h2 && table.h2_count < self.max_h2;
        table.h2_count += usize::from(h2_allowed);
        table.peers.insert(key, PeerEntry { last_used: now, h2: h2_allowed });
        if h2 && !h2_allowed { PoolingLevel::PooledH1 } else { PoolingLevel::Full }
    }
}

impl PeerTable {
    /// Removes peers that were not used lately. Returns whether there is room now.
    fn make_room(&mut self, max_peers: usize, now: Instant) -> bool {
        if self.swept_at.is_some_and(|swept_at| now < swept_at + SWEEP_INTERVAL) {
            return false;
        }
        self.swept_at = Some(now);
        self.peers.retain(|_, entry| now < entry.last_used + PEER_TTL);
        self.peers.len() < max_peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora_core::protocols::ALPN;

    fn limit(max_pooled: usize, max_h2: usize) -> PeerLimit {
        PeerLimit { table: Mutex::default(), max_pooled, max_h2 }
    }

    fn peer_for(limit: &PeerLimit, n: u8, trusted: bool, now: Instant) -> HttpPeer {
        let origin = Origin::parse(&format!("https://h{n}.example.com"), trusted).unwrap();
        let address = SocketAddr::from(([1, 1, 1, n], 443));
        limit.peer(&origin, address, &PeerOptions::default(), now)
    }

    fn keeps(peer: &HttpPeer) -> (bool, bool) {
        (peer.options.idle_timeout != Some(Duration::ZERO), matches!(peer.options.alpn, ALPN::H2H1))
    }

    #[test]
    fn client_peers_beyond_the_bound_keep_no_connection() {
        let limit = limit(2, 10);
        let now = Instant::now();
        assert_eq!(keeps(&peer_for(&limit, 1, false, now)), (true, true));
        assert_eq!(keeps(&peer_for(&limit, 2, false, now)), (true, true));
        assert_eq!(keeps(&peer_for(&limit, 3, false, now)), (false, false));
        assert_eq!(keeps(&peer_for(&limit, 1, false, now)), (true, true), "an existing peer keeps its place");
        for n in 10..20 {
            assert_eq!(keeps(&peer_for(&limit, n, true, now)), (true, true), "operators are not counted");
        }
        assert_eq!(limit.table.lock().peers.len(), 2);
    }

    #[test]
    fn unused_peers_make_room() {
        let limit = limit(2, 10);
        let start = Instant::now();
        peer_for(&limit, 1, false, start);
        peer_for(&limit, 2, false, start);
        let used = start + PEER_TTL - Duration::from_secs(1);
        peer_for(&limit, 2, false, used);
        let later = start + PEER_TTL;
        assert_eq!(keeps(&peer_for(&limit, 3, false, later)), (true, true));
        assert_eq!(keeps(&peer_for(&limit, 1, false, later)), (false, false), "2 and 3 are in use");
    }

    #[test]
    fn http_2_is_allowed_for_a_bounded_number_of_peers() {
        let limit = limit(10, 2);
        let now = Instant::now();
        for n in 1..=2 {
            assert_eq!(keeps(&peer_for(&limit, n, false, now)), (true, true));
        }
        for _ in 0..2 {
            assert_eq!(keeps(&peer_for(&limit, 3, false, now)), (true, false));
        }
        assert_eq!(keeps(&peer_for(&limit, 1, false, now)), (true, true));
    }
}
