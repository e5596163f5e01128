//! The websocket mode of `/v1/responses`, which ends here: each `response.create` on it is a request of its own, admitted, limited, judged,
//! cached, retried, priced and logged as the streamed POST that asks for the same. So it works with every provider that chats.
//!
//! ```text
//! handshake ── 101 ── connection: frames ──> event ──> turn: admission, engine ──> parts ──> answer: one message each
//! ```
//!
//! What the events say is read and written in `api::responses::socket`. The websockets of other paths are proxied natively.

mod answer;
mod connection;
mod frames;
mod handshake;
mod turn;
mod turn_downstream;

use super::Gateway;
use super::downstream::PingoraDownstream;
use super::native;
use connection::Connection;
use handshake::Handshake;
use motion::engine::downstream::Downstream;
use motion::engine::request_context::RequestContext;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;

/// Accepts the websocket, and serves it to its end.
///
/// # Errors
/// The handshake is refused.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<bool> {
    let is_upgrade = session.is_upgrade_req();
    // A client of a websocket may be silent: the connection has its own timers.
    session.set_read_timeout(None);
    session.set_keepalive(None);
    let mut downstream = PingoraDownstream::new(session);
    let accepted = Handshake::read(downstream.request(), downstream.peer_address(), ctx, is_upgrade);
    let accepted = accepted.and_then(|handshake| Ok((handshake.response(ctx)?, handshake)));
    let (response, handshake) = match accepted {
        Ok(accepted) => accepted,
        Err(error) => return Err(native::fail_request(ctx, error)),
    };
    let sent = downstream.send(vec![HttpTask::Header(Box::new(response), false)]).await;
    sent.map_err(|error| native::fail_request(ctx, error))?;
    // A connection that waits for its client keeps no process from its end. Each turn is in flight by itself.
    ctx.load.in_flight = None;
    Connection::new(gateway, downstream, ctx, handshake).serve().await;
    Ok(true)
}
