//! The connections to providers that attempts use: Pingora's handshakes and sessions, without its proxy loop.
//!
//! Opens a connection or takes one that is open already, and takes it back when its exchange is over. What is sent and
//! what an answer means is the caller's business; which version is spoken is not: see [`Connection`].

use super::connection::UpstreamConnection;
use super::idle_pool::IdlePool;
use super::write_coalescing::CoalescedWrite;
use pingora_core::connectors::http::v2::Connector as Http2;
use pingora_core::connectors::{ConnectorOptions, TransportConnector};
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::protocols::http::v1::client::HttpSession as Http1Session;
use pingora_core::protocols::{ALPN, Stream};
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::{HttpPeer, Peer};
use pingora_core::{Error, ErrorType, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a connection stays whose peer says nothing of it.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// All of them, for one service: what is idle waits on the runtime that opened it.
pub struct Connector {
    h1: TransportConnector,
    h2: Http2,
    idle_pool: Arc<IdlePool>,
}

impl Connector {
    /// Pool sizes, authorities and threads as Pingora's own proxy would have them.
    pub fn new(conf: &ServerConf) -> Self {
        let options = ConnectorOptions::from_server_conf(conf);
        let idle_pool = IdlePool::new(options.keepalive_pool_size);
        Self { h1: TransportConnector::new(Some(options.clone())), h2: Http2::new(Some(options)), idle_pool }
    }

    /// A connection to `peer`, and whether it was used before. `body`: how many bytes will follow the head at once.
    ///
    /// # Errors
    /// Pingora's: no connection, no trusted TLS, none in time.
    pub async fn get(&self, peer: &HttpPeer, body: usize) -> Result<(UpstreamConnection, bool)> {
        let may_be_h2 = peer.options.alpn.get_max_http_version() == 2;
        if may_be_h2 && let Some(session) = self.h2.reused_http_session(peer).await? {
            return Ok((UpstreamConnection::h2(session, peer), true));
        }
        if let Some(stream) = self.idle_pool.take(peer.reuse_hash(), Instant::now()) {
            return Ok((h1(stream, peer, body), true));
        }
        // Rare, and the handshakes' futures are large: every exchange would have room for them.
        let connection = Box::pin(self.connect(peer, body, may_be_h2)).await?;
        Ok((connection, false))
    }

    async fn connect(&self, peer: &HttpPeer, body: usize, may_be_h2: bool) -> Result<UpstreamConnection> {
        if !may_be_h2 {
            return Ok(h1(self.h1.new_stream(peer).await?, peer, body));
        }
        match self.h2.new_http_session::<HttpPeer, ()>(peer).await? {
            HttpSession::H2(session) => Ok(UpstreamConnection::h2(session, peer)),
            // The provider chose.
            HttpSession::H1(session) => Ok(h1(session.into_inner(), peer, body)),
            HttpSession::Custom(()) => {
                Err(Error::explain(ErrorType::InternalError, "a protocol nobody asked for"))
            }
        }
    }

    /// Takes a connection back whose exchange is over; one that cannot carry another is closed.
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
                self.h2.release_http_session(*session, peer, peer.idle_timeout());
            }
        }
    }

    /// This provider's HTTP/2 is none: from now on it is not asked for.
    pub fn prefer_h1(&self, peer: &HttpPeer) {
        if peer.get_alpn().is_none_or(|alpn| *alpn != ALPN::H2) {
            self.h2.prefer_h1(peer);
        }
    }
}

fn h1(stream: Stream, peer: &HttpPeer, body: usize) -> UpstreamConnection {
    UpstreamConnection::h1(
        Http1Session::new_with_options(Box::new(CoalescedWrite::new(stream, body)), peer),
        peer,
    )
}
