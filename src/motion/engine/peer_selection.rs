//! Which peer an attempt connects to: the provider's checked addresses in turn, and the limits of the connection.
//!
//! The one place where a provider's peer is chosen, for the engine's attempts and for requests that Pingora proxies
//! natively. Does not connect.

use super::failure;
use judgment::route::target::Target;
use knowledge::provider::mcp;
use memory::net::outbound::origin::Origin;
use memory::net::outbound::peer::{PeerOptions, Protocol};
use memory::net::outbound::presented::PresentedCertificate;
use memory::net::outbound::proxied::{Proxied, reach};
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use pingora_core::upstreams::peer::HttpPeer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::error::Error;

/// How long a connection to an MCP server is kept at most. The servers that most of them run on close idle ones after five seconds, and a
/// call that meets such an end is not sent again.
const MCP_IDLE: Duration = Duration::from_secs(3);

/// The addresses of one attempt.
#[derive(Debug, Default)]
pub struct PeerSelection {
    /// Checked addresses of the host, or those of its proxy, in the order to try them.
    addresses: Vec<SocketAddr>,
    /// The proxy that they are the addresses of.
    proxied: Option<Proxied>,
    tried: usize,
    /// Set once a dead pooled connection was met: only new connections are used from then on.
    pub bypass_pool: bool,
    /// The host of the attempt, where it is not its target's.
    pub other_origin: Option<Arc<Origin>>,
}

impl PeerSelection {
    pub fn new(bypass_pool: bool, other_origin: Option<Arc<Origin>>) -> Self {
        Self { bypass_pool, other_origin, ..Self::default() }
    }

    /// Where the attempt is sent.
    pub fn origin<'a>(&'a self, target: &'a Target) -> &'a Origin {
        self.other_origin.as_deref().unwrap_or(&target.origin)
    }

    /// The next peer to try: the first checked address, then the others. `is_upgrade`: the request switches protocols,
    /// which needs HTTP/1.
    ///
    /// # Errors
    /// The host has no address that may be connected to.
    pub async fn next(
        &mut self,
        shared: &Shared,
        target: &Target,
        snapshot: &SettingsSnapshot,
        is_upgrade: bool,
    ) -> Result<Box<HttpPeer>, Error> {
        if self.addresses.is_empty() {
            let choice = target.policies.proxy.as_ref();
            match reach(&shared.dns, self.origin(target), &snapshot.hosts, choice, is_upgrade).await {
                Ok(found) => {
                    self.addresses = found.addresses.iter().collect();
                    self.proxied = found.proxied;
                }
                Err(why) => return Err(failure::dns_error(target, why)),
            }
        }
        let index = self.tried;
        self.tried += 1;
        let address = self.address(index).ok_or_else(|| Error::internal("no address to connect to"))?;
        let limits = &snapshot.settings.limits;
        let connect = target.policies.connect_timeout(limits.connect_timeout);
        let peer_options = PeerOptions {
            // No connection is pooled under tenant 1, so the connection is a new one.
            tenant: u64::from(self.bypass_pool),
            protocol: if is_upgrade { Protocol::H1 } else { Protocol::H2H1 },
            connect_timeout: connect,
            total_connect_timeout: connect * 2,
            read_timeout: Some(limits.upstream_read_timeout),
            write_timeout: Some(limits.write_timeout),
            idle_timeout: self.idle_timeout(target, limits.upstream_idle_timeout),
            proxied: self.proxied.clone(),
            source: snapshot.hosts.outbound.source.towards(address.ip()),
            presented: presented(target, snapshot)?,
            ..PeerOptions::default()
        };
        Ok(Box::new(shared.peer_limit.peer(self.origin(target), address, &peer_options, Instant::now())))
    }

    /// How long the connection is kept after its exchange.
    fn idle_timeout(&self, target: &Target, usual: Duration) -> Duration {
        match target.provider.id() {
            _ if self.bypass_pool => Duration::ZERO,
            mcp::ID => usual.min(MCP_IDLE),
            _ => usual,
        }
    }

    /// The proxy that stands before the peer.
    pub fn proxied(&self) -> Option<&Proxied> {
        self.proxied.as_ref()
    }

    /// The address that was tried last.
    pub(crate) fn last_address(&self) -> Option<SocketAddr> {
        self.address(self.tried.checked_sub(1)?)
    }

    /// Whether there is an address that was not tried yet.
    pub(crate) fn has_untried(&self) -> bool {
        self.tried < self.addresses.len()
    }

    /// The address at `index`; after the last one it starts over.
    fn address(&self, index: usize) -> Option<SocketAddr> {
        self.addresses.get(index % self.addresses.len().max(1)).copied()
    }
}

/// The certificate that the target's provider is presented. Read with the settings; without one that could not be read nothing is sent.
fn presented(target: &Target, snapshot: &SettingsSnapshot) -> Result<Option<PresentedCertificate>, Error> {
    let Some(files) = &target.policies.client_certificate else { return Ok(None) };
    let found = snapshot.hosts.presented.get(files).cloned();
    found.ok_or_else(|| Error::internal(format!("{} could not be read", files.cert.display()))).map(Some)
}
