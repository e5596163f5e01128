//! Runs an axum router on a Pingora session: the request body is read when the router asks for it, the response body is streamed.
//!
//! Two entry points share the code: [`AxumApp`] is a service of its own (the control plane), and [`serve()`] handles a
//! request that arrived at the data plane and whose path belongs to the router. Meant for small requests: bodies
//! are read up to a limit, and only by who asks for them. Responses may be server-sent events. Upgrades are not supported: a websocket
//! handshake is handled as an ordinary request.

mod axum_app;
mod request_body;
mod serve;

pub use axum_app::{AxumApp, ConnectionLimits};
pub use serve::Departure;

use crate::net::inbound::unread_bodies::UnreadBodies;
use axum::Router;
use http::HeaderMap;
use pingora_proxy::Session;
use std::time::Duration;

/// How long a client of the data plane may take to send the body of a request for the router.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What was sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeOutcome {
    pub status: u16,
    /// Bytes of the response body that were sent.
    pub body_bytes: u64,
}

/// Serves a request of the data plane through `router` and adds `extra_headers` to the response.
///
/// The request body must not have been read yet; more than `max_body` bytes of it get a 413. The session's filter
/// modules do not run.
///
/// # Errors
/// The client left or stopped reading before the response was complete.
pub async fn serve(
    session: &mut Session,
    router: &Router,
    extra_headers: HeaderMap,
    max_body: usize,
    unread: &UnreadBodies,
) -> Result<BridgeOutcome, Box<pingora_core::Error>> {
    serve::serve(session.as_downstream_mut(), router, extra_headers, max_body, BODY_TIMEOUT, unread).await
}

#[cfg(test)]
mod tests;
