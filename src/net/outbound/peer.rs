//! The peer Pingora connects to: made of a checked address, never of a name.
//!
//! `HttpPeer::new` on a name resolves with a blocking call and panics when that fails, so a peer is only
//! ever made here, from a `SocketAddr`. Also here: what keeps connections apart in Pingora's pool. How many
//! peers callers may create is [`super::peer_book`].

use super::origin::Origin;
use pingora_core::protocols::ALPN;
use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::utils::tls::{WrappedX509, parse_x509};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Streams on one HTTP/2 connection. Pingora's default is 1, which opens a connection per request.
const H2_STREAMS: usize = 100;

/// Which HTTP versions an upstream is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 only; what upgrades (websockets) need.
    H1,
    /// HTTP/2 where TLS negotiates it, HTTP/1.1 otherwise. Plain connections speak HTTP/1.1.
    H2H1,
}

/// How to dial a peer.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    pub protocol: Protocol,
    /// For the TCP handshake, and again for the TLS handshake.
    pub connect_timeout: Duration,
    /// For both handshakes together.
    pub total_connect_timeout: Duration,
    /// Longest silence while reading an answer; none by default, models think for minutes.
    pub read_timeout: Option<Duration>,
    /// Longest stall while writing a request.
    pub write_timeout: Option<Duration>,
    /// How long an idle connection stays in the pool.
    pub idle_timeout: Duration,
    /// Whose connections these are: peers of different tenants never share one.
    pub tenant: u64,
    /// Trusted instead of the system's authorities.
    pub ca: Option<Arc<TrustRoots>>,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            protocol: Protocol::H2H1,
            connect_timeout: Duration::from_secs(5),
            total_connect_timeout: Duration::from_secs(10),
            read_timeout: None,
            write_timeout: Some(Duration::from_secs(60)),
            idle_timeout: Duration::from_secs(60),
            tenant: 0,
            ca: None,
        }
    }
}

/// Certificate authorities for one peer, in place of the system's.
///
/// Each new connection of such a peer builds its TLS settings anew and resumes no session; use it where
/// the system's authorities do not do.
pub struct TrustRoots {
    certificates: Arc<[WrappedX509]>,
    digest: u64,
}

impl TrustRoots {
    /// Reads one or more PEM certificates.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        let mut certificates = Vec::new();
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        for der in CertificateDer::pem_slice_iter(pem) {
            let der = der.map_err(|error| format!("is not valid PEM: {error}"))?;
            roots.add(der.clone()).map_err(|error| format!("has an unusable certificate: {error}"))?;
            digest.update(&der);
            certificates.push(parse_certificate(der.to_vec())?);
        }
        if certificates.is_empty() {
            return Err("has no certificate".to_owned());
        }
        let mut hasher = DefaultHasher::new();
        digest.finish().as_ref().hash(&mut hasher);
        Ok(Self { certificates: certificates.into(), digest: hasher.finish() })
    }
}

impl fmt::Debug for TrustRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ca({} certificates, {:016x})", self.certificates.len(), self.digest)
    }
}

/// Pingora's parser panics on what it cannot read, and is pickier than rustls; this runs at start only.
fn parse_certificate(der: Vec<u8>) -> Result<WrappedX509, String> {
    std::panic::catch_unwind(|| WrappedX509::new(der, parse_x509))
        .map_err(|_| "has a certificate that Pingora cannot read".to_owned())
}

/// The peer for `origin` at `address`, one of the addresses that were checked for it.
///
/// Always with a group key: Pingora's own pool key leaves out the authorities and ALPN, so a connection
/// verified with one tenant's CA would be handed to another tenant.
pub fn peer(origin: &Origin, address: SocketAddr, peer_options: &PeerOptions) -> HttpPeer {
    // The name stands in plain peers, too: it is part of the pool key.
    let mut peer = HttpPeer::new(address, origin.tls, origin.sni().to_owned());
    let h2 = origin.tls && peer_options.protocol == Protocol::H2H1;
    peer.group_key = group_key(origin, peer_options, h2);
    let options = &mut peer.options;
    options.alpn = if h2 { ALPN::H2H1 } else { ALPN::H1 };
    options.max_h2_streams = if h2 { H2_STREAMS } else { 1 };
    options.connection_timeout = Some(peer_options.connect_timeout);
    options.total_connection_timeout = Some(peer_options.total_connect_timeout);
    options.read_timeout = peer_options.read_timeout;
    options.write_timeout = peer_options.write_timeout;
    options.idle_timeout = Some(peer_options.idle_timeout);
    if origin.tls {
        options.ca = peer_options.ca.as_ref().map(|ca| Arc::clone(&ca.certificates));
    }
    options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        // A provider that vanished mid-stream is noticed by the kernel, not by the caller.
        #[cfg(target_os = "linux")]
        user_timeout: Duration::from_secs(60),
    });
    peer
}

fn group_key(origin: &Origin, peer_options: &PeerOptions, h2: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    origin.trusted.hash(&mut hasher);
    h2.hash(&mut hasher);
    peer_options.tenant.hash(&mut hasher);
    peer_options.ca.as_ref().filter(|_| origin.tls).map(|ca| ca.digest).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
