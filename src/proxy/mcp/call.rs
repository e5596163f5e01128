//! Calls of clients: found in the catalog, sent by the engine, and answered with what the server has sent.

use super::reply::Outgoing;
use super::{McpRequest, typed};
use crate::proxy::downstream::PingoraDownstream;
use http::StatusCode;
use motion::engine::downstream::Downstream;
use motion::engine::mcp::{FoundItem, ItemKind, McpCall, NotFound, call_mcp};
use motion::engine::request_context::RequestContext;
use pingora_proxy::Session;
use tokio::sync::watch;
use words::api::mcp::envelope::{INVALID_PARAMS, error};
use words::error::Error;
use words::json::Json;

impl McpRequest<'_> {
    /// Calls what `params` name in `member`.
    ///
    /// # Errors
    /// Those of limits and guardrails, and why the server gives no response.
    pub(super) async fn call(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        kind: ItemKind,
        member: &'static str,
    ) -> Result<Outgoing, Error> {
        let id = self.message.id.as_ref().map_or("null", Json::get);
        let Some(name) = self.message.param(member).and_then(Json::text) else {
            return Ok(refused(ctx, id, format!("params.{member} must be a string.")));
        };
        let engine = &self.gateway.engine;
        let found = match self.catalog.item(engine, &ctx.snapshot, kind, &name).await {
            Ok(found) => found,
            Err(NotFound::Unlisted(slug, why)) => {
                let message = format!("The MCP server {slug} cannot be used.");
                return Err(Error::unreachable(message, why));
            }
            Err(NotFound::Unknown) => {
                let what = match kind {
                    ItemKind::Tool => "tool",
                    ItemKind::Prompt => "prompt",
                    ItemKind::Resource | ItemKind::Template => "resource",
                };
                return Ok(refused(ctx, id, format!("Unknown {what}: {name}")));
            }
        };
        self.send(session, ctx, &found, member, &name).await
    }

    async fn send(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        found: &FoundItem,
        member: &'static str,
        name: &str,
    ) -> Result<Outgoing, Error> {
        let headers = session.req_header().headers.clone();
        let (leaves, left) = watch::channel(false);
        let call = McpCall {
            peer: &found.peer,
            message: self.message,
            named: (member, &found.own_name),
            label: name,
            headers: &headers,
            leaves: left,
        };
        let answer = {
            let running = call_mcp(&self.gateway.planner, ctx, &call);
            tokio::pin!(running);
            let mut downstream = PingoraDownstream::new(session);
            tokio::select! {
                biased;
                answer = &mut running => answer,
                () = downstream.closed() => {
                    // The engine ends the attempt, and notes why.
                    leaves.send_replace(true);
                    running.await
                }
            }
        }?;
        let id = self.message.id.as_ref().map_or("null", Json::get);
        Ok(Outgoing::of(id, typed(self.era, answer.reply))
            .with_header(*answer.header, ctx.reply.hides_status))
    }
}

/// The error for something that cannot be called, also for what the client may not use.
fn refused(ctx: &mut RequestContext, id: &str, why: String) -> Outgoing {
    let reply = error(INVALID_PARAMS, &why, None);
    ctx.failure = Some(Error::not_found(why));
    Outgoing::error(id, StatusCode::OK, reply)
}
