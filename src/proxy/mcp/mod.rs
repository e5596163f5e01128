//! The gateway as an MCP server: `/mcp` with the tools of all servers that the client may use, `/mcp/{server}` with those of one.
//!
//! Reads one message for each POST and responds with JSON, or with events where the server of a call sends something before its response.
//! There is no stream of the gateway's own, and nothing is kept of a session, which both eras of the protocol allow. What a client may use, and
//! how a server is called, is `engine::mcp`'s.

mod call;
mod complete;
mod introduction;
mod list;
mod reply;
mod search;
mod sessions;
mod stream;

use super::Gateway;
use super::native;
use http::StatusCode;
use introduction::{discover, initialize, versions};
use motion::engine::mcp::{ItemKind, McpCatalog};
use motion::engine::request_context::RequestContext;
use pingora_core::Result;
use pingora_proxy::Session;
use reply::Outgoing;
use sessions::{features_of, new_session, respond_to_server};
use words::api::body::Body;
use words::api::mcp::envelope::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, error, reply_for,
};
use words::api::mcp::era::{EraProblem, McpEra};
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::message::McpMessage;
use words::api::mcp::reply::McpReply;
use words::error::Error;
use words::json::Json;

/// How long a client may use a list of the gateway, milliseconds.
const LIST_TTL_MS: u64 = 60_000;

/// A message that is a request, and what it is answered with.
struct McpRequest<'a> {
    gateway: &'a Gateway,
    message: &'a McpMessage<'a>,
    era: McpEra,
    catalog: McpCatalog,
    /// What servers may request of the client, by the id of its session.
    features: ClientFeatures,
}

/// Responds to a message. `server`: the slug of the only server that is meant.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    body: &Body,
    server: Option<&str>,
) -> Result<bool> {
    if gateway.engine.shared.lifecycle.is_draining() {
        session.set_keepalive(None);
    }
    let sent = match respond(gateway, session, ctx, body, server).await {
        Ok(outgoing) => reply::send(session, ctx, outgoing).await,
        Err(error) => Err(error),
    };
    sent.map(|()| true).map_err(|error| native::fail_request(ctx, error))
}

async fn respond(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    body: &Body,
    server: Option<&str>,
) -> std::result::Result<Outgoing, Error> {
    let text = std::str::from_utf8(body.bytes()).map_err(|_| Error::bad_request("The body is not UTF-8."))?;
    let message = match McpMessage::read(text) {
        Ok(message) => message,
        Err(why) => {
            let why = format!("The body is no message of JSON-RPC: {why}.");
            ctx.failure = Some(Error::bad_request(why.clone()));
            return Ok(Outgoing::error("null", StatusCode::BAD_REQUEST, error(INVALID_REQUEST, &why, None)));
        }
    };
    let id = message.id.as_ref().map_or("null", Json::get).to_owned();
    ctx.reply.message_id = Some(id.as_str().into());
    let era = match McpEra::of(&message, &session.req_header().headers) {
        Ok(era) => era,
        Err(problem) => return Ok(refuse_era(ctx, &id, problem)),
    };
    let features = features_of(session, era, &message)?;
    if !message.is_request() {
        // What a client tells of itself changes nothing here: each of its requests stands for itself.
        if message.method.is_empty() {
            respond_to_server(gateway, ctx, text, &message);
        }
        return Ok(Outgoing::accepted());
    }
    let catalog = McpCatalog::find(&gateway.engine, ctx, server).ok_or_else(|| {
        let slug = server.unwrap_or_default();
        Error::not_found(format!("There is no MCP server {slug:?} here that this key may use."))
    })?;
    if let Some(refusal) = catalog.refusal().filter(|_| server.is_some()) {
        return Err(refusal);
    }
    // Clients of the other era read the status as the protocol has it.
    ctx.reply.hides_status = era == McpEra::Sessions;
    let request = McpRequest { gateway, message: &message, era, catalog, features };
    request.respond(session, ctx, &id).await
}

fn refuse_era(ctx: &mut RequestContext, id: &str, problem: EraProblem) -> Outgoing {
    let reply = match problem {
        EraProblem::Version(version) => {
            let why = format!("The protocol version {version:?} is not supported.");
            ctx.failure = Some(Error::bad_request(why.clone()));
            let requested = Json::from_value(&version);
            let data = format!("{{\"supported\":{},\"requested\":{}}}", versions(), requested.get());
            error(UNSUPPORTED_VERSION, &why, Some(&data))
        }
        EraProblem::Mismatch(why) => {
            let why = format!("The headers do not say what the body says: {why}.");
            ctx.failure = Some(Error::bad_request(why.clone()));
            error(HEADER_MISMATCH, &why, None)
        }
        EraProblem::Meta(name) => {
            let why = format!("params._meta must have {name}.");
            ctx.failure = Some(Error::bad_request(why.clone()));
            error(INVALID_PARAMS, &why, None)
        }
    };
    Outgoing::error(id, StatusCode::BAD_REQUEST, reply)
}

impl McpRequest<'_> {
    async fn respond(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        id: &str,
    ) -> std::result::Result<Outgoing, Error> {
        let reply = match &*self.message.method {
            "initialize" if self.era == McpEra::Sessions => {
                return Ok(Outgoing::of(id, initialize(self)).with_session(new_session(self.message)));
            }
            "server/discover" if self.era == McpEra::Stateless => discover(self),
            "ping" if self.era == McpEra::Sessions => McpReply::Result("{}".to_owned()),
            "tools/list" => list::list(self, ctx, ItemKind::Tool).await?,
            "prompts/list" => list::list(self, ctx, ItemKind::Prompt).await?,
            "resources/list" => list::list(self, ctx, ItemKind::Resource).await?,
            "resources/templates/list" => list::list(self, ctx, ItemKind::Template).await?,
            "tools/call" => return self.call(session, ctx, ItemKind::Tool).await,
            "prompts/get" => return self.call(session, ctx, ItemKind::Prompt).await,
            "resources/read" => return self.call(session, ctx, ItemKind::Resource).await,
            "completion/complete" => return complete::complete(self, session, ctx).await,
            method => {
                let why = format!("The method {method:?} is not supported.");
                ctx.failure = Some(Error::not_found(why.clone()));
                // The stateless era demands the status as well.
                let status =
                    if self.era == McpEra::Stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
                return Ok(Outgoing::error(id, status, error(METHOD_NOT_FOUND, &why, None)));
            }
        };
        Ok(Outgoing::of(id, reply_for(self.era, &self.message.method, reply)))
    }
}
