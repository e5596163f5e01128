//! Which peer an attempt connects to: the provider's checked addresses in turn, and the limits of the connection.
//!
//! The one place where a provider's peer is chosen, for attempts of the engine and for what Pingora proxies natively.

use super::failure;
use crate::error::Error;
use crate::net::outbound::peer::{PeerOptions, Protocol};
use crate::route::target::Target;
use crate::state::Shared;
use crate::state::snapshot::SettingsSnapshot;
use pingora_core::upstreams::peer::HttpPeer;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The addresses of one attempt.
#[derive(Debug, Default)]
pub struct PeerSelection {
    /// Checked addresses, in the order to try them.
    addresses: Vec<SocketAddr>,
    tried: usize,
    /// A dead connection was met: what follows goes out on a new one.
    pub bypass_pool: bool,
}

impl PeerSelection {
    pub fn new(bypass_pool: bool) -> Self {
        Self { bypass_pool, ..Self::default() }
    }

    /// The peer of the next try: the first checked address, then the others. `is_upgrade`: protocols are switched.
    ///
    /// # Errors
    /// No address may be connected to.
    pub async fn next(
        &mut self,
        shared: &Shared,
        target: &Target,
        snapshot: &SettingsSnapshot,
        is_upgrade: bool,
    ) -> Result<Box<HttpPeer>, Error> {
        if self.addresses.is_empty() {
            match shared.dns.addresses(&target.origin, &snapshot.hosts).await {
                Ok(found) => self.addresses = found.iter().collect(),
                Err(why) => return Err(failure::dns_error(target, why)),
            }
        }
        let limits = &snapshot.settings.limits;
        let connect = target.policies.connect_timeout(limits.connect_timeout);
        let peer_options = PeerOptions {
            // Nothing is pooled under this key: the connection is a new one.
            tenant: u64::from(self.bypass_pool),
            protocol: if is_upgrade { Protocol::H1 } else { Protocol::H2H1 },
            connect_timeout: connect,
            total_connect_timeout: connect * 2,
            read_timeout: Some(limits.upstream_read_timeout),
            write_timeout: Some(limits.write_timeout),
            idle_timeout: if self.bypass_pool { Duration::ZERO } else { limits.upstream_idle_timeout },
            ..PeerOptions::default()
        };
        let index = self.tried;
        self.tried += 1;
        let address = self.address(index).ok_or_else(|| Error::internal("no address to connect to"))?;
        Ok(Box::new(shared.peer_limit.peer(&target.origin, address, &peer_options, Instant::now())))
    }

    /// The address tried last.
    pub fn last_address(&self) -> Option<SocketAddr> {
        self.address(self.tried.checked_sub(1)?)
    }

    /// Whether an address is left that was not tried.
    pub fn has_untried(&self) -> bool {
        self.tried < self.addresses.len()
    }

    /// Starts over at the end.
    fn address(&self, index: usize) -> Option<SocketAddr> {
        self.addresses.get(index % self.addresses.len().max(1)).copied()
    }
}
