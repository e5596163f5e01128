//! Opens and reuses the upstream connections of attempts: Pingora's handshakes and sessions without its proxy loop.
//!
//! Hands out a new or an idle connection and takes it back when its exchange is over. What is sent and what a
//! response means is up to the caller; the HTTP version is hidden behind [`UpstreamConnection`].

use super::connection::UpstreamConnection;
use super::idle_pool::IdlePool;
use super::write_coalescing::CoalescedWrite;
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::v2::Connector as Http2;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::protocols::http::v1::client::HttpSession as Http1Session;
use pingora_core::protocols::{ALPN, Stream};
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{Error, ErrorType, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an idle connection is kept when its peer does not set `idle_timeout`.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The upstream connections of one service. A connection stays on the runtime that opened it, so services do not
/// share one.
pub struct Connector {
    /// Opens connections of both versions. A second one for HTTP/1.1 would load the system's certificate authorities
    /// once more, and keep two more copies of them.
    connector: Http2,
    idle_pool: Arc<IdlePool>,
}

impl Connector {
    /// Takes pool sizes, certificate authorities and threads from `conf`, as Pingora's own proxy does.
    pub fn new(conf: &ServerConf) -> Self {
        let options = ConnectorOptions::from_server_conf(conf);
        let idle_pool = IdlePool::new(options.keepalive_pool_size);
        Self { connector: Http2::new(Some(options)), idle_pool }
    }

    /// A connection to `peer`, and whether it is a reused one. `body`: how many bytes of the body will be sent
    /// immediately after the header.
    ///
    /// # Errors
    /// Pingora's errors: connecting failed, TLS was not trusted, or it took too long.
    pub async fn get(&self, peer: &HttpPeer, body: usize) -> Result<(UpstreamConnection, bool)> {
        let may_be_h2 = peer.options.alpn.get_max_http_version() == 2;
        if may_be_h2 && let Some(session) = self.connector.reused_http_session(peer).await? {
            return Ok((UpstreamConnection::h2(session, peer), true));
        }
        if let Some(stream) = self.idle_pool.take(peer.reuse_hash(), Instant::now()) {
            return Ok((h1(stream, peer, body), true));
        }
        // Boxed because this path is rare and the handshake futures are large: inline, they would enlarge the
        // future of every exchange.
        let connection = Box::pin(self.connect(peer, body)).await?;
        Ok((connection, false))
    }

    async fn connect(&self, peer: &HttpPeer, body: usize) -> Result<UpstreamConnection> {
        match self.connector.new_http_session::<HttpPeer, ()>(peer).await? {
            HttpSession::H2(session) => Ok(UpstreamConnection::h2(session, peer)),
            // The peer is not offered HTTP/2, or the provider negotiated HTTP/1.1.
            HttpSession::H1(session) => Ok(h1(session.into_inner(), peer, body)),
            HttpSession::Custom(()) => {
                Err(Error::explain(ErrorType::InternalError, "an unexpected protocol"))
            }
        }
    }

    /// Takes back a connection whose exchange is over. It is closed if it cannot carry another exchange.
    pub async fn release(&self, connection: UpstreamConnection, peer: &HttpPeer) {
        match connection {
            UpstreamConnection::H1(mut session) => {
                session.respect_keepalive();
                let Some(stream) = session.reuse().await else { return };
                let Ok(stream) = stream.into_any().downcast::<CoalescedWrite>() else { return };
                let now = Instant::now();
                let until = now + peer.idle_timeout().unwrap_or(DEFAULT_IDLE_TIMEOUT);
                self.idle_pool.put(peer.reuse_hash(), stream.into_inner(), until, now);
            }
            UpstreamConnection::H2(session) => {
                self.connector.release_http_session(*session, peer, peer.idle_timeout());
            }
        }
    }

    /// Stops offering HTTP/2 to `peer`, because its HTTP/2 does not work.
    pub fn prefer_h1(&self, peer: &HttpPeer) {
        if peer.get_alpn().is_none_or(|alpn| *alpn != ALPN::H2) {
            self.connector.prefer_h1(peer);
        }
    }
}

fn h1(stream: Stream, peer: &HttpPeer, body: usize) -> UpstreamConnection {
    UpstreamConnection::h1(
        Http1Session::new_with_options(Box::new(CoalescedWrite::new(stream, body)), peer),
        peer,
    )
}
