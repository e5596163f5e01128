//! The upstream connections of all requests: gives them back when an exchange is over, or drops them when it broke.
//!
//! Opens none (`opener`), and does not choose a peer (`peer_selection`).

use futures_util::FutureExt;
use memory::net::outbound::connection::UpstreamConnection;
use memory::net::outbound::connector::Connector;
use memory::state::Shared;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType};
use std::sync::Arc;

/// What an exchange needs of the process.
pub(super) struct Connections {
    pub shared: Arc<Shared>,
    pub connector: Connector,
}

/// A connection on which the request was sent.
pub(super) struct OpenConnection {
    pub connection: UpstreamConnection,
    pub peer: Box<HttpPeer>,
    /// Whether it carried other requests before.
    pub reused: bool,
    /// Why the body could not be sent whole: a provider may respond without having read it.
    pub unsent: Option<Box<PingoraError>>,
}

impl Connections {
    /// Releases the connection of a finished exchange. If that cannot be done without waiting, a task of its own does
    /// it, so that the request does not wait.
    pub fn release(self: &Arc<Self>, connection: UpstreamConnection, peer: Box<HttpPeer>) {
        let connections = Arc::clone(self);
        let mut work = Box::pin(async move { connections.connector.release(connection, &peer).await });
        if work.as_mut().now_or_never().is_none() {
            tokio::spawn(work);
        }
    }

    /// Disposes of the connection of an exchange that broke.
    pub fn discard(self: &Arc<Self>, open: OpenConnection, error: &PingoraError) {
        let OpenConnection { connection, peer, .. } = open;
        if matches!(error.etype(), ErrorType::H2Downgrade | ErrorType::InvalidH2) {
            self.connector.prefer_h1(&peer);
        }
        if matches!(connection, UpstreamConnection::H2(_)) {
            // An HTTP/2 connection carries other requests too, so it is not closed.
            self.release(connection, peer);
        }
    }
}
