//! One call of a client to an MCP server, run by the engine: its limits, guardrails, timeout, circuit and record are those of any request.
//!
//! A session that is lost is made again, and the call is sent once more: a server that does not have a session has carried nothing out. It is
//! sent again as well with the input that a server of 2026-07-28 needs, within what is held of the limits for the first.

use super::peer::{api_headers, session_headers};
use super::requests::{CallClient, MAX_ROUNDS, features, input};
use super::{ItemKind, McpPeer, McpRelay, McpWatch, relay};
use crate::engine::Engine;
use crate::engine::attempt_state::AttemptFacts;
use crate::engine::limit_holds::reserve_request;
use crate::engine::memory_downstream::MemoryDownstream;
use crate::engine::named::LogHeaders;
use crate::engine::observers::Observers;
use crate::engine::orchestrator::Admitted;
use crate::engine::planner::Planner;
use crate::engine::request_context::RequestContext;
use crate::engine::request_env::RequestEnv;
use crate::engine::response_headers::new_header;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::admission::key_rules::KeyRules;
use judgment::route::attempt::Request;
use judgment::route::compiled::CompiledConfig;
use judgment::route::mcp_target::compile_mcp;
use judgment::route::plan::Plan;
use memory::state::large_work::{run_here, translation};
use memory::state::mcp_sessions::McpSession;
use pingora::http::{RequestHeader, ResponseHeader};
use serde_json::value::RawValue;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;
use words::api::body::Body;
use words::api::mcp::envelope::{relayed_params, request};
use words::api::mcp::era::McpEra;
use words::api::mcp::input::GivenInput;
use words::api::mcp::message::McpMessage;
use words::api::mcp::reply::{McpReply, member};
use words::api::openapi::answer::refusal;
use words::api::operation::Operation;
use words::config::headers::GatewayHeaders;
use words::error::Error;

/// The largest response to a call, bytes.
const MAX_RESPONSE: usize = 16 << 20;
/// How the log and the metrics call what is no tool and has no name.
const MAX_LABEL: usize = 256;

/// A call.
#[derive(Clone)]
pub struct McpCall<'a> {
    pub peer: &'a McpPeer,
    pub message: &'a McpMessage<'a>,
    pub kind: ItemKind,
    /// The member of `params` that says what is called, and what the server calls that; `None` where no member has a name alone.
    pub named: Option<(&'static str, &'a str)>,
    /// What the client calls it: the model of its record.
    pub label: &'a str,
    /// The client's.
    pub headers: &'a HeaderMap,
    /// Headers that repeat arguments, for servers that want it.
    pub params: Vec<(String, String)>,
    /// Becomes true when the client leaves.
    pub leaves: watch::Receiver<bool>,
    /// Where the server's notifications go; `None`: the client takes nothing but the response.
    pub relay: Option<McpRelay>,
}

/// The response to a call.
pub struct McpAnswer {
    /// With the gateway's headers.
    pub header: Box<ResponseHeader>,
    pub reply: McpReply,
}

/// Runs a call to its end.
///
/// # Errors
/// Those of limits, and why there is no response.
pub async fn call_mcp(
    planner: &Planner,
    ctx: &mut RequestContext,
    call: &McpCall<'_>,
) -> Result<McpAnswer, Error> {
    if let Some(refusal) = call.peer.refusal() {
        return Err(refusal);
    }
    name_client(ctx, call.headers)?;
    ctx.api.operation = Operation::McpCall;
    ctx.record.named.model = Some(label(call));
    let snapshot = Arc::clone(&ctx.snapshot);
    let label = label(call);
    let tool =
        call.named.filter(|_| call.kind == ItemKind::Tool).map(|(_, own_name)| (own_name, label.as_str()));
    let exchange = call.peer.token_exchange();
    let config = Arc::new(compile_mcp(&snapshot, &call.peer.server, ctx.workspace(), tool, exchange)?);
    if let Some(refused) = refuse_arguments(ctx, call)? {
        return Ok(refused);
    }
    carry_out(planner, ctx, call, &config).await
}

/// Sends a call: once, again where its session was lost, and again with the input that its server needs.
async fn carry_out(
    planner: &Planner,
    ctx: &mut RequestContext,
    call: &McpCall<'_>,
    config: &Arc<CompiledConfig>,
) -> Result<McpAnswer, Error> {
    let snapshot = Arc::clone(&ctx.snapshot);
    let features = features(call, config);
    let mut is_held = false;
    let mut was_lost = false;
    let mut rounds = 0;
    let mut given: Option<GivenInput> = None;
    let mut leaves = call.leaves.clone();
    loop {
        let session = tokio::select! {
            biased;
            _ = leaves.wait_for(|leaves| *leaves) => return Err(Error::client_closed()),
            session = call.peer.session(&planner.engine, &snapshot, features) => session,
        };
        let session = match session {
            Ok(session) => session,
            Err(why) => return Err(call.peer.unusable(&planner.engine, &snapshot, why).await),
        };
        let message = given.as_ref().map(|given| given.message(call.message));
        let with_input = message.as_ref().map(|message| McpCall { message, ..call.clone() });
        let sent = with_input.as_ref().unwrap_or(call);
        let answer = send(planner, ctx, sent, config, &session, !is_held).await?;
        if answer.header.status == StatusCode::NOT_FOUND && session.id.is_some() {
            call.peer.upstream.forget(&session);
            if was_lost {
                return Ok(answer);
            }
            was_lost = true;
        } else {
            if answer.header.status == StatusCode::BAD_REQUEST {
                // It may have been replaced by a server of another era: the next call finds out.
                call.peer.upstream.forget(&session);
            }
            let client = CallClient::of(call, session.features, ctx).filter(|_| rounds < MAX_ROUNDS);
            let input = input(&planner.engine, call, config, client.as_ref(), &answer.reply).await?;
            let Some(input) = input else { return Ok(answer) };
            given = Some(input);
            rounds += 1;
            // Nothing is carried out yet: what is held for the call is for its next round.
            config.targets().iter().for_each(|target| ctx.limits.release_attempt(target));
        }
        is_held = true;
        begin_again(ctx);
    }
}

/// The result for arguments that do not fit a tool of an API: nothing is sent, and the model may correct them.
fn refuse_arguments(ctx: &mut RequestContext, call: &McpCall<'_>) -> Result<Option<McpAnswer>, Error> {
    let tool = call.named.and_then(|(_, own_name)| call.peer.server.api.as_ref()?.tool(own_name));
    let Some(tool) = tool else { return Ok(None) };
    let arguments = call.message.param("arguments");
    let bytes = arguments.map_or(0, |arguments| arguments.get().len());
    let Err(why) = run_here(translation(bytes), || tool.request_of(arguments)) else { return Ok(None) };
    ctx.failure = Some(Error::tool_failed("The arguments do not fit the tool."));
    let header = Box::new(new_header(StatusCode::OK)?);
    Ok(Some(McpAnswer { header, reply: McpReply::Result(refusal(&why)) }))
}

/// Takes what the client's headers say of its request besides the call.
fn name_client(ctx: &mut RequestContext, headers: &HeaderMap) -> Result<(), Error> {
    let snapshot = Arc::clone(&ctx.snapshot);
    let gateway_headers = GatewayHeaders::read(headers, &snapshot.settings.header_prefixes)?;
    let client = ctx.record.client.clone().unwrap_or_else(|| snapshot.service_keys.anonymous());
    let metadata = KeyRules::new(&client, &snapshot).metadata(&gateway_headers);
    ctx.record.named.metadata = metadata.and_then(|text| RawValue::from_string(text.into_owned()).ok());
    ctx.record.named.log = LogHeaders::of(&gateway_headers, snapshot.settings.logs.allow_ignore);
    Ok(())
}

/// Sends a call within a session. `is_first`: what it may use is not held yet.
async fn send(
    planner: &Planner,
    ctx: &mut RequestContext,
    call: &McpCall<'_>,
    config: &Arc<CompiledConfig>,
    session: &McpSession,
    is_first: bool,
) -> Result<McpAnswer, Error> {
    let engine = &planner.engine;
    let id = engine.shared.mcp_sessions.next_id().to_string();
    let capabilities = session.features.capabilities();
    let terms = relay::terms(call.relay.as_ref(), call.message, &id, &capabilities);
    let params = relayed_params(call.message, session.era, call.named, terms);
    let method = &*call.message.method;
    let body = Body::parse(Bytes::from(request(&id, method, &params)));
    let body = body.map_err(|why| Error::bad_request(why.to_string()))?;
    ctx.load.held.set(body.bytes().len() * 2)?;
    let uri = Uri::from_static("/mcp");
    let mut endpoint = Endpoint::find(&Method::POST, uri.path());
    endpoint.operation = Operation::McpCall;
    let mut request = Request::new(endpoint, Method::POST, uri.clone(), Some(body));
    (request.model, request.slug) = (Some(label(call)), None);
    if is_first {
        ctx.record.capture = planner.capture(ctx, &request);
    }
    let client = ctx.record.client.clone();
    let mut env = RequestEnv::plain(&engine.shared, client);
    let mut plan = Plan::new(Arc::clone(config), request.model.clone());
    let first = plan.first(&mut env).ok_or_else(|| Error::internal("a config without a target"))?;
    if is_first {
        reserve_request(engine, ctx, &mut request, config, &first.0).await?;
    }
    // What a check takes out of the arguments must not leave in a header, which no check changes.
    let is_changed = first.0.hooks.request.as_ref().is_some_and(|hooks| hooks.may_change());
    let is_judged = first.0.hooks.response.as_ref().is_some_and(|hooks| hooks.decides());
    let mut downstream = MemoryDownstream::new(head(call, session, uri, is_changed), None)
        .with_limit(MAX_RESPONSE)
        .leaving_with(call.leaves.clone());
    let admitted = Box::new(Admitted { plan, request, env, first, prepared: None });
    let notifications = relay::notifications(call.relay.clone(), call.message, &id, is_judged);
    let (watch, requests) = McpWatch::new(&id, notifications);
    // An API sends no messages.
    ctx.offline.watch = Some(Box::new(watch)).filter(|_| call.peer.server.api.is_none());
    let snapshot = Arc::clone(&ctx.snapshot);
    let client = CallClient::of(call, session.features, ctx);
    let responding = call.peer.respond_to_requests(engine, &snapshot, session, requests, client.as_ref());
    let is_complete = run(engine, &mut downstream, ctx, admitted, responding).await;
    let response = downstream.into_response().filter(|_| is_complete);
    let Some((header, chunks, true)) = response else {
        call.peer.cancel(engine, &ctx.snapshot, session, &id);
        let incomplete =
            || Error::invalid_response("The MCP server gave no complete response.", "incomplete");
        return Err(ctx.failure.take().unwrap_or_else(incomplete));
    };
    answer_of(ctx, header, &chunks.concat(), &id)
}

/// What a complete response is to the client.
fn answer_of(
    ctx: &mut RequestContext,
    header: Box<ResponseHeader>,
    body: &[u8],
    id: &str,
) -> Result<McpAnswer, Error> {
    if ctx.failure.is_none() && is_servers_own(header.status) {
        let status = header.status.as_u16().to_string();
        return Err(Error::invalid_response("The MCP server does not take the gateway's request.", status));
    }
    let reply = McpReply::find(body, id);
    let reply =
        reply.map_err(|why| Error::invalid_response("The MCP server's response cannot be used.", why))?;
    if ctx.failure.is_none() && reply.is_failure() {
        ctx.failure = Some(Error::tool_failed(failure_text(&reply)));
    }
    Ok(McpAnswer { header, reply })
}

/// The head of a call. `is_changed`: its arguments may be others than the client's.
fn head(call: &McpCall<'_>, session: &McpSession, uri: Uri, is_changed: bool) -> RequestHeader {
    let mut head = http::Request::new(());
    (*head.method_mut(), *head.uri_mut()) = (Method::POST, uri);
    *head.headers_mut() = match call.peer.server.api {
        Some(_) => api_headers(),
        None => session_headers(session, &call.message.method, call.named.map(|(_, name)| name)),
    };
    if !is_changed {
        add_params(head.headers_mut(), session, &call.params);
    }
    let (head, ()) = head.into_parts();
    RequestHeader::from(head)
}

/// Runs an attempt to its end. `responding`: responds to what the server requests meanwhile. False: its response is not complete.
async fn run(
    engine: &Arc<Engine>,
    downstream: &mut MemoryDownstream,
    ctx: &mut RequestContext,
    admitted: Box<Admitted>,
    responding: impl Future<Output = Infallible>,
) -> bool {
    // Its own errors have no id either: what the client gets is made of them.
    let message_id = ctx.reply.message_id.take();
    let hides_status = std::mem::take(&mut ctx.reply.hides_status);
    let sent = tokio::select! {
        biased;
        sent = engine.run(downstream, ctx, admitted) => sent,
        never = responding => match never {},
    };
    ctx.offline.watch = None;
    ctx.reply.message_id = message_id;
    ctx.reply.hides_status = hides_status;
    sent.is_ok()
}

/// Servers of the stateless era alone want arguments in headers.
fn add_params(headers: &mut HeaderMap, session: &McpSession, params: &[(String, String)]) {
    for (name, value) in params.iter().filter(|_| session.era == McpEra::Stateless) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
    }
}

/// Whether a status of a server is between it and the gateway: to a client it would mean its own key, or another address.
fn is_servers_own(status: StatusCode) -> bool {
    let is_refusal = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    status.is_redirection() || is_refusal || status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
}

fn label(call: &McpCall<'_>) -> String {
    call.label.chars().take(MAX_LABEL).collect()
}

/// What a failure is about: the server's own words are in the response, and not in the log.
fn failure_text(reply: &McpReply) -> String {
    match reply {
        McpReply::Result(_) => "The tool reports that it failed.".to_owned(),
        McpReply::Error(error) => {
            let code = member(error, "code").map(|code| code.get().to_owned()).unwrap_or_default();
            format!("The MCP server reports the error {code}.")
        }
    }
}

/// The response of the first attempt goes to nobody.
fn begin_again(ctx: &mut RequestContext) {
    ctx.failure = None;
    ctx.facts = AttemptFacts::default();
    ctx.observers = Observers::default();
    ctx.record.attempts.is_forwarded = false;
    ctx.record.traffic.bytes_out = 0;
    ctx.record.traffic.first_byte = None;
}
