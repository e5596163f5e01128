//! An axum router on a Pingora session: the request goes in whole, the answer comes out as it is made.
//!
//! Two doors, one code: [`AxumApp`] is a service of its own (the control plane), [`answer`] serves a
//! request that arrived at the data plane and whose path belongs to the router. For small requests: bodies
//! are read whole, up to a cap. Answers may stream (server-sent events). No upgrades; a websocket handshake
//! is an ordinary request here.

mod axum_app;
mod serve;

pub use axum_app::{AxumApp, Limits};

use axum::Router;
use http::header::{HeaderName, HeaderValue};
use pingora_proxy::Session;
use std::time::Duration;

/// How long a caller of the data plane may take to send a body for the router.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the caller got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeOutcome {
    pub status: u16,
    /// Bytes of the answer's body that were sent.
    pub body_bytes: u64,
}

/// Answers a request of the data plane through `router`, and puts the header `mark` on the answer. Its body must
/// not have been read; over `max_body` bytes it is answered 413. The session's filter modules are not asked.
///
/// # Errors
/// The caller left, or stopped reading, before the answer was complete.
pub async fn serve(
    session: &mut Session,
    router: &Router,
    extra_header: Option<(HeaderName, HeaderValue)>,
    max_body: usize,
) -> Result<BridgeOutcome, Box<pingora_core::Error>> {
    serve::serve(session.as_downstream_mut(), router, extra_header, max_body, BODY_TIMEOUT).await
}

#[cfg(test)]
mod tests;
