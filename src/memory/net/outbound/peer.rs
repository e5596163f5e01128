//! Builds the peer that Pingora connects to, from a checked address and never from a name.
//!
//! `HttpPeer::new` with a name resolves it with a blocking call and panics when that fails, so peers are only
//! built here, from a `SocketAddr`. Also here: the group key that separates connections in Pingora's pool. How many
//! peers clients may create is [`super::peer_limit`].

use super::origin::Origin;
use super::presented::PresentedCertificate;
use super::proxied::Proxied;
use super::proxy_connector::ProxyConnector;
use pingora_core::connectors::l4::BindTo;
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
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Maximum streams on one HTTP/2 connection. Pingora's default is 1, which opens a connection per request.
const H2_STREAMS: usize = 100;

/// Which HTTP versions an upstream is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1 only, as upgrades (websockets) need.
    H1,
    /// HTTP/2 where TLS negotiates it, HTTP/1.1 otherwise. Plain connections speak HTTP/1.1.
    H2H1,
}

/// How to connect to a peer.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    pub protocol: Protocol,
    /// For the TCP handshake and for the TLS handshake, each.
    pub connect_timeout: Duration,
    /// For both handshakes together.
    pub total_connect_timeout: Duration,
    /// Maximum idle time while reading a response; none by default, because models think for minutes.
    pub read_timeout: Option<Duration>,
    /// Maximum stall while writing a request.
    pub write_timeout: Option<Duration>,
    /// How long an idle connection stays in the pool.
    pub idle_timeout: Duration,
    /// The owner of the connections: peers of different tenants never share one.
    pub tenant: u64,
    /// Certificate authorities to trust instead of the system's.
    pub ca: Option<Arc<TrustRoots>>,
    /// The proxy whose address the peer's is, and what it is asked for.
    pub proxied: Option<Proxied>,
    /// The address of this machine that the connection comes from.
    pub source: Option<IpAddr>,
    /// The certificate that is presented to a server that asks for one.
    pub presented: Option<PresentedCertificate>,
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
            proxied: None,
            source: None,
            presented: None,
        }
    }
}

/// Certificate authorities for one peer, in place of the system's.
///
/// Each new connection of such a peer builds its TLS configuration again and resumes no session, so use it only
/// where the system's authorities are not enough.
pub struct TrustRoots {
    certificates: Arc<[WrappedX509]>,
    digest: u64,
}

impl TrustRoots {
    /// Parses one or more PEM certificates.
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
        write!(f, "TrustRoots({} certificates, {:016x})", self.certificates.len(), self.digest)
    }
}

/// Pingora's parser is stricter than rustls and panics on a certificate it cannot read. Runs at start only.
fn parse_certificate(der: Vec<u8>) -> Result<WrappedX509, String> {
    std::panic::catch_unwind(|| WrappedX509::new(der, parse_x509))
        .map_err(|_| "has a certificate that Pingora cannot read".to_owned())
}

/// The peer for `origin` at `address`, one of its checked addresses or of its proxy's.
///
/// Always sets a group key: Pingora's own pool key does not include the authorities and ALPN, so a connection
/// verified with one tenant's CA would be given to another tenant.
pub fn peer(origin: &Origin, address: SocketAddr, peer_options: &PeerOptions) -> HttpPeer {
    // Plain peers have the name, too: it is part of the pool key.
    let mut peer = HttpPeer::new(address, origin.tls, origin.sni().to_owned());
    let h2 = origin.tls
        && peer_options.protocol == Protocol::H2H1
        && peer_options.proxied.as_ref().is_none_or(Proxied::allows_h2);
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
    peer.client_cert_key = presented(origin, peer_options).map(|presented| Arc::clone(presented.pair()));
    let options = &mut peer.options;
    if let Some(proxied) = &peer_options.proxied {
        options.custom_l4 = Some(Arc::new(ProxyConnector {
            proxied: proxied.clone(),
            source: peer_options.source,
            timeout: peer_options.connect_timeout,
        }));
    } else if let Some(source) = peer_options.source {
        let mut bind_to = BindTo::default();
        bind_to.addr = Some(SocketAddr::new(source, 0));
        options.bind_to = Some(bind_to);
    }
    options.tcp_keepalive = Some(TcpKeepalive {
        idle: Duration::from_secs(30),
        interval: Duration::from_secs(10),
        count: 3,
        // The kernel detects a provider that vanished in the middle of a stream.
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
    peer_options.proxied.hash(&mut hasher);
    peer_options.source.hash(&mut hasher);
    presented(origin, peer_options).hash(&mut hasher);
    hasher.finish()
}

/// The certificate of a connection; plain ones have none.
fn presented<'p>(origin: &Origin, peer_options: &'p PeerOptions) -> Option<&'p PresentedCertificate> {
    peer_options.presented.as_ref().filter(|_| origin.tls)
}

#[cfg(test)]
mod tests;
