//! Calls of clients: found in the catalog, sent by the engine, and answered with what the server has sent.

use super::reply::Outgoing;
use super::search::{SearchCall, search_call};
use super::stream::{CallStream, accepts_events};
use super::{McpRequest, refuse_era};
use http::StatusCode;
use motion::engine::mcp::{FoundItem, ItemKind, McpAnswer, McpCall, McpRelay, NotFound, call_mcp};
use motion::engine::request_context::RequestContext;
use pingora_proxy::Session;
use tokio::sync::{oneshot, watch};
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::api::mcp::envelope::{INVALID_PARAMS, error, reply_for, response, with_id};
use words::api::mcp::era::McpEra;
use words::api::mcp::message::McpMessage;
use words::api::mcp::notification::LogLevel;
use words::api::mcp::param_headers::check_params;
use words::error::Error;
use words::json::Json;

/// The least severe log messages that clients up to 2025-11-25 get: there is no session in which one could set another.
const LEVEL: LogLevel = LogLevel::Info;

/// What a message calls.
pub(super) struct Naming<'a> {
    pub kind: ItemKind,
    /// The member of `params` that has the name, and what the server calls it.
    pub named: Option<(&'static str, &'a str)>,
    /// What the client calls it.
    pub label: &'a str,
}

impl McpRequest<'_> {
    /// Calls what `params` name.
    ///
    /// # Errors
    /// Those of limits and guardrails, and why the server gives no response.
    pub(super) async fn call(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        kind: ItemKind,
    ) -> Result<Outgoing, Error> {
        let id = self.message.id.as_ref().map_or("null", Json::get);
        let member = kind.param();
        let Some(name) = self.message.param(member).and_then(Json::text) else {
            return Ok(refused(ctx, id, format!("params.{member} must be a string.")));
        };
        let found = match kind {
            ItemKind::Tool => search_call(self, ctx, &name).await,
            _ => None,
        };
        match found {
            None => self.call_named(session, ctx, self.message, kind, &name).await,
            Some(Ok(SearchCall::Reply(reply))) => {
                Ok(Outgoing::of(id, reply_for(self.era, &self.message.method, reply)))
            }
            Some(Ok(SearchCall::Tool(message, tool))) => {
                self.call_named(session, ctx, &message, kind, &tool).await
            }
            Some(Err(why)) => Ok(refused(ctx, id, why)),
        }
    }

    /// Calls what the client calls so.
    async fn call_named(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        message: &McpMessage<'_>,
        kind: ItemKind,
        name: &str,
    ) -> Result<Outgoing, Error> {
        match self.find(ctx, kind, name).await? {
            Ok(found) => {
                let naming = Naming { kind, named: Some((kind.param(), &*found.own_name)), label: name };
                self.send(session, ctx, &found, message, naming).await
            }
            Err(refused) => Ok(refused),
        }
    }

    /// What the client calls so. The inner error: it may use nothing of that name.
    ///
    /// # Errors
    /// The server that may have it cannot be used.
    pub(super) async fn find(
        &self,
        ctx: &mut RequestContext,
        kind: ItemKind,
        name: &str,
    ) -> Result<Result<FoundItem, Outgoing>, Error> {
        let id = self.message.id.as_ref().map_or("null", Json::get);
        match self.catalog.item(&self.gateway.engine, &ctx.snapshot, kind, name).await {
            Ok(found) => Ok(Ok(found)),
            Err(NotFound::Unlisted(error)) => Err(error),
            Err(NotFound::Unknown) => {
                let what = match kind {
                    ItemKind::Tool => "tool",
                    ItemKind::Prompt => "prompt",
                    ItemKind::Resource | ItemKind::Template => "resource",
                };
                let is_uri = matches!(kind, ItemKind::Resource | ItemKind::Template);
                let data = is_uri.then(|| format!("{{\"uri\":{}}}", Json::from_value(&name).get()));
                Ok(Err(refused_with(ctx, id, format!("Unknown {what}: {name}"), data.as_deref())))
            }
        }
    }

    /// Sends a message to the server of what it calls.
    pub(super) async fn send(
        &self,
        session: &mut Session,
        ctx: &mut RequestContext,
        found: &FoundItem,
        message: &McpMessage<'_>,
        naming: Naming<'_>,
    ) -> Result<Outgoing, Error> {
        let headers = session.req_header().headers.clone();
        let Naming { kind, named, label } = naming;
        let params = found.param_headers(message);
        // A call within `call_tool` has no headers of its own.
        if self.era == McpEra::Stateless
            && std::ptr::eq(message, self.message)
            && let Err(problem) = check_params(&headers, &params)
        {
            let id = self.message.id.as_ref().map_or("null", Json::get);
            return Ok(refuse_era(ctx, id, problem));
        }
        let (leaves, left) = watch::channel(false);
        let (relay, relayed) =
            accepts_events(&headers).then(|| McpRelay::new(self.log_level(), self.features)).unzip();
        let call = McpCall {
            peer: &found.peer,
            message,
            kind,
            named,
            label,
            headers: &headers,
            params,
            leaves: left,
            relay,
        };
        let mut stream = CallStream::new(session, ctx)?;
        let (ends, ended) = oneshot::channel();
        let running = async {
            let answer = call_mcp(&self.gateway.planner, ctx, &call).await;
            drop(ends);
            answer
        };
        let forwarding = async {
            let forwarded = stream.forward(relayed, ended).await;
            if forwarded.is_err() {
                // The engine ends the attempt, and notes why.
                leaves.send_replace(true);
            }
            forwarded
        };
        let (answer, forwarded) = tokio::join!(running, forwarding);
        match (stream.begun(), forwarded) {
            (None, _) => self.document(ctx, answer?),
            (Some(bytes), Ok(())) => Ok(self.last_event(ctx, answer, bytes)),
            (Some(_), Err(left)) => Err(left),
        }
    }

    /// The least severe log messages that the client gets.
    fn log_level(&self) -> Option<LogLevel> {
        match self.era {
            McpEra::Stateless => LogLevel::of_request(self.message),
            McpEra::Sessions => Some(LEVEL),
        }
    }

    /// The response where nothing went before it.
    fn document(&self, ctx: &RequestContext, answer: McpAnswer) -> Result<Outgoing, Error> {
        let id = self.message.id.as_ref().map_or("null", Json::get);
        Ok(Outgoing::of(id, reply_for(self.era, &self.message.method, answer.reply))
            .with_header(*answer.header, ctx.reply.hides_status))
    }

    /// The response as the last event of a stream, also where there is none: a stream without it would be one that was cut off. `bytes`: how
    /// many went before it.
    fn last_event(&self, ctx: &mut RequestContext, answer: Result<McpAnswer, Error>, bytes: u64) -> Outgoing {
        let id = self.message.id.as_ref().map_or("null", Json::get);
        let message = match answer {
            Ok(answer) => response(id, &reply_for(self.era, &self.message.method, answer.reply)),
            Err(error) => {
                let view = ErrorView::from(&error).with_request_id(&ctx.span.trace_id);
                let body = with_id(view.body(Dialect::Mcp), id);
                ctx.failure = Some(error);
                body
            }
        };
        Outgoing::last_event(&message, bytes)
    }
}

/// The error for something that cannot be called, also for what the client may not use.
pub(super) fn refused(ctx: &mut RequestContext, id: &str, why: String) -> Outgoing {
    refused_with(ctx, id, why, None)
}

/// The same. `data`: JSON text.
fn refused_with(ctx: &mut RequestContext, id: &str, why: String, data: Option<&str>) -> Outgoing {
    let reply = error(INVALID_PARAMS, &why, data);
    ctx.failure = Some(Error::not_found(why));
    Outgoing::error(id, StatusCode::OK, reply)
}
