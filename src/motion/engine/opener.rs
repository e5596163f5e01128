//! Opens an attempt's connection and sends its request on it. Tries other addresses when one does not connect, and
//! replaces a dead pooled connection by a new one.
//!
//! Uses Pingora's connectors and not its proxy loop, which would be a second session for each attempt. Does not read
//! the response.

use super::attempt_state::AttemptState;
use super::connections::{Connections, OpenConnection};
use super::failure::{self, UpstreamFailure};
use super::peer_selection::PeerSelection;
use bytes::Bytes;
use http::Method;
use judgment::route::target::Target;
use knowledge::provider::mcp;
use memory::net::outbound::connection::UpstreamConnection;
use memory::state::snapshot::SettingsSnapshot;
use pingora::http::RequestHeader;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType};
use std::sync::Arc;

/// The most connections one attempt may use.
const MAX_CONNECTIONS: usize = 16;

/// What it takes to send one attempt's request, more than once if a connection turns out dead.
pub(super) struct Opener {
    pub connections: Arc<Connections>,
    pub snapshot: Arc<SettingsSnapshot>,
    pub target: Arc<Target>,
    /// Complete, except for what depends on the HTTP version of the connection.
    pub header: Box<RequestHeader>,
    pub body: RequestBody,
    pub peers: PeerSelection,
    /// Whether the reader of the response bounds the wait for each part; otherwise the connection has a read timeout.
    pub reader_is_timed: bool,
    /// Connections used so far.
    pub opened: usize,
}

/// The request's body.
pub(super) enum RequestBody {
    Empty,
    Whole(Bytes),
    /// Received from the client while it is sent: it can be sent once only.
    Streamed,
}

impl Opener {
    /// Connects and sends the request; if its body is streamed, only the header.
    ///
    /// # Errors
    /// No connection could be made, or none on which the request could be sent.
    pub async fn open(&mut self) -> Result<OpenConnection, UpstreamFailure> {
        let body_len = match &self.body {
            RequestBody::Whole(body) => body.len(),
            _ => 0,
        };
        let mut last = None;
        while self.opened < MAX_CONNECTIONS {
            self.opened += 1;
            let shared = &self.connections.shared;
            let peer = self.peers.next(shared, &self.target, &self.snapshot, false).await?;
            let (mut connection, reused) = match self.connections.connector.get(&peer, body_len).await {
                Ok(found) => found,
                Err(error) => {
                    let error = error.into_up();
                    if !failure::may_try_next_address(shared, &error, &self.target, &self.peers) {
                        return Err(UpstreamFailure::from_pingora(&error, &self.target));
                    }
                    last = Some(error);
                    continue;
                }
            };
            match self.send(&mut connection, &peer, reused).await {
                Ok(unsent) => return Ok(OpenConnection { connection, peer, reused, unsent }),
                Err(error) => {
                    let error = error.into_up();
                    let state = AttemptState::default();
                    if !self.may_reopen(
                        OpenConnection { connection, peer, reused, unsent: None },
                        &state,
                        &error,
                    ) {
                        return Err(UpstreamFailure::from_pingora(&error, &self.target));
                    }
                    last = Some(error);
                }
            }
        }
        let error =
            last.unwrap_or_else(|| PingoraError::explain(ErrorType::ConnectError, "no connection to use"));
        Err(UpstreamFailure::from_pingora(&error, &self.target))
    }

    /// Sends the request on `connection`. `Some`: why the body could not be sent whole.
    async fn send(
        &mut self,
        connection: &mut UpstreamConnection,
        peer: &HttpPeer,
        reused: bool,
    ) -> pingora_core::Result<Option<Box<PingoraError>>> {
        if !self.reader_is_timed {
            connection.set_read_timeout(peer.options.read_timeout);
        }
        // Only a reused connection can turn out dead, so only then the header may be needed again.
        let mut header = if reused {
            self.header.clone()
        } else {
            std::mem::replace(&mut self.header, Box::new(empty_header()))
        };
        if let Some(proxied) = self.peers.proxied() {
            proxied.apply(&mut header)?;
        }
        let is_empty = matches!(self.body, RequestBody::Empty);
        connection.send_header(header, is_empty, peer.is_tls()).await?;
        match &self.body {
            RequestBody::Whole(body) => Ok(connection.send_body(Some(body.clone()), true).await.err()),
            RequestBody::Empty | RequestBody::Streamed => Ok(None),
        }
    }

    /// Disposes of a connection whose exchange broke. True if the request may be sent again, on a new connection.
    pub(crate) fn may_reopen(
        &mut self,
        open: OpenConnection,
        state: &AttemptState,
        error: &PingoraError,
    ) -> bool {
        let reused = open.reused;
        self.connections.discard(open, error);
        // A tool may have been carried out, and the server has only not said so. One that only reads may be called again.
        let only_reads = matches!(self.header.method, Method::GET | Method::HEAD);
        let is_repeatable = only_reads || self.target.provider.id() != mcp::ID;
        let may_reopen = is_repeatable
            && !matches!(self.body, RequestBody::Streamed)
            && failure::is_stale_connection(error, state, &self.peers, reused);
        self.peers.bypass_pool |= may_reopen;
        may_reopen
    }
}

fn empty_header() -> RequestHeader {
    let (parts, ()) = http::Request::new(()).into_parts();
    RequestHeader::from(parts)
}
