//! Connects to the provider of a realtime session and asks it for a websocket.
//!
//! Peer and header are chosen as for every other attempt. What the provider answers is sent to the client elsewhere.

use crate::engine::Engine;
use crate::engine::connections::OpenConnection;
use crate::engine::failure::{self, UpstreamFailure};
use crate::engine::peer_selection::PeerSelection;
use crate::engine::request_context::RequestContext;
use http::StatusCode;
use http::header::{CONNECTION, HeaderName, UPGRADE};
use judgment::route::attempt::Attempt;
use memory::net::outbound::connection::UpstreamConnection;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::protocols::http::HttpTask;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType};
use std::time::Instant;
use words::error::Error;

/// The most connections that are tried.
const MAX_CONNECTIONS: usize = 16;

/// What no handshake has besides the hop-by-hop headers, which are removed already: a body, and extensions, since the gateway reads the
/// frames, so that nothing may compress them.
const NOT_SENT: [&str; 2] = ["sec-websocket-extensions", "content-length"];

/// Opens the connection of an attempt and sends its handshake. `header`: complete, without hop-by-hop headers.
///
/// # Errors
/// No connection could be made, or the provider gave no response.
pub async fn open(
    engine: &Engine,
    ctx: &mut RequestContext,
    attempt: &Attempt,
    mut header: RequestHeader,
) -> Result<(UpstreamConnection, Box<ResponseHeader>, bool), Error> {
    for name in NOT_SENT {
        header.remove_header(&HeaderName::from_static(name));
    }
    // Their values are valid.
    let _ = header.insert_header(CONNECTION, "Upgrade");
    let _ = header.insert_header(UPGRADE, "websocket");
    ctx.facts.state.sent_at.get_or_insert_with(Instant::now);
    let mut peers = PeerSelection::new(false, attempt.other_origin.clone());
    let target = &attempt.target;
    let mut last = None;
    for _ in 0..MAX_CONNECTIONS {
        let peer = peers.next(&engine.shared, target, &ctx.snapshot, true).await?;
        let (mut connection, reused) = match engine.connections.connector.get(&peer, 0).await {
            Ok(found) => found,
            Err(error) => {
                let error = error.into_up();
                let may_go_on = failure::may_try_next_address(&engine.shared, &error, target, &peers);
                last = Some(error);
                if may_go_on { continue } else { break }
            }
        };
        match shake_hands(&mut connection, &peer, header.clone(), &peers).await {
            Ok((response, is_end)) => {
                let status = response.status.as_u16();
                if let Some(refusal) = peers.proxied().and_then(|proxied| proxied.refusal(status)) {
                    return Err(failure::refused_by_proxy(&refusal, target));
                }
                ctx.facts.state.header_read(status);
                if response.status == StatusCode::SWITCHING_PROTOCOLS {
                    connection.switch_protocols();
                }
                return Ok((connection, response, is_end));
            }
            Err(error) => {
                let error = error.into_up();
                let state = &ctx.facts.state;
                let is_stale = failure::is_stale_connection(&error, state, &peers, reused);
                engine.connections.discard(OpenConnection { connection, peer, reused, unsent: None }, &error);
                last = Some(error);
                if !is_stale {
                    break;
                }
                peers.bypass_pool = true;
            }
        }
    }
    let error =
        last.unwrap_or_else(|| PingoraError::explain(ErrorType::ConnectError, "no connection to use"));
    Err(*UpstreamFailure::from_pingora(&error, target).error)
}

/// Returns the response's header, and whether the response ends with it.
async fn shake_hands(
    connection: &mut UpstreamConnection,
    peer: &HttpPeer,
    mut header: RequestHeader,
    peers: &PeerSelection,
) -> pingora_core::Result<(Box<ResponseHeader>, bool)> {
    if let Some(proxied) = peers.proxied() {
        proxied.apply(&mut header)?;
    }
    connection.set_read_timeout(peer.options.read_timeout);
    connection.send_header(Box::new(header), false, peer.is_tls()).await?;
    loop {
        match connection.read_task().await? {
            HttpTask::Header(response, is_end) => {
                let is_final =
                    !response.status.is_informational() || response.status == StatusCode::SWITCHING_PROTOCOLS;
                if is_final {
                    return Ok((response, is_end));
                }
            }
            _ => return Err(PingoraError::explain(ErrorType::ConnectionClosed, "no answer")),
        }
    }
}
