//! Sessions of clients that servers may request something of, and the clients' responses to that.
//!
//! A session is its id: nothing is kept of it. What waits for a response is kept with the call that it belongs to.

use crate::proxy::Gateway;
use memory::state::mcp_pending::{CallOwner, random_number};
use motion::engine::request_context::RequestContext;
use pingora_proxy::Session;
use words::api::mcp::envelope::{INTERNAL_ERROR, error};
use words::api::mcp::era::{McpEra, SESSION_HEADER};
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::message::McpMessage;
use words::api::mcp::reply::McpReply;
use words::error::Error;

/// The longest response of a client to what a server requests, bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// What servers may request of a client, by the id of its session. Without one: nothing.
///
/// # Errors
/// The gateway has no such session: the client is to begin again.
pub(super) fn features_of(
    session: &Session,
    era: McpEra,
    message: &McpMessage<'_>,
) -> Result<ClientFeatures, Error> {
    let id = session.req_header().headers.get(SESSION_HEADER);
    let Some(id) = id.filter(|_| era == McpEra::Sessions && message.method != "initialize") else {
        return Ok(ClientFeatures::default());
    };
    let found = id.to_str().ok().and_then(ClientFeatures::of_session_id);
    found.ok_or_else(|| {
        Error::not_found(
            "There is no session with this Mcp-Session-Id here. Begin with initialize, without it.",
        )
    })
}

/// Passes the response of a client on to the call whose server waits for it. One that nobody waits for changes nothing.
pub(super) fn respond_to_server(
    gateway: &Gateway,
    ctx: &RequestContext,
    text: &str,
    message: &McpMessage<'_>,
) {
    let Some(id) = &message.id else { return };
    let reply = match text.len() > MAX_RESPONSE {
        true => error(INTERNAL_ERROR, "The client's response is too long for the gateway.", None),
        false => match McpReply::of(text, id.get()) {
            Some(Ok(reply)) => reply,
            // The server waits for one all the same.
            _ => error(INTERNAL_ERROR, "The client's response is none of JSON-RPC.", None),
        },
    };
    let owner = CallOwner::of(ctx.record.client.as_deref());
    gateway.engine.shared.mcp_pending.respond(id.get(), &owner, reply);
}

/// The id of the session of a client that servers may request something of. Others need none.
pub(super) fn new_session(message: &McpMessage<'_>) -> Option<String> {
    let features = ClientFeatures::of_capabilities(message.param("capabilities")?);
    let random = random_number().filter(|_| !features.is_empty())?;
    Some(features.session_id(random))
}
