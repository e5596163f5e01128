//! One call of a tool that the model has made: a request of the client's as it would be at `/mcp`.

use super::listing::Listed;
use super::run::Run;
use crate::engine::mcp::{FoundItem, ItemKind, McpCall, NotFound, call_mcp};
use crate::engine::memory_downstream::MemoryDownstream;
use crate::engine::request_context::{CalledApi, RequestContext};
use http::Method;
use judgment::route::admission::Endpoint;
use std::sync::Arc;
use words::api::mcp::envelope::{reply_for, request};
use words::api::mcp::era::McpEra;
use words::api::mcp::message::McpMessage;
use words::api::tool_rounds::{RoundCall, RoundResult};
use words::json::Json;

/// The path that the record of a call has.
const PATH: &str = "/mcp";
/// The method of a call.
const METHOD: &str = "tools/call";

/// Calls a tool. What fails is told to the model, which may do without.
pub(super) async fn call(run: &Run<'_>, listed: &Listed, call: &RoundCall) -> RoundResult {
    let Some(tool) = listed.tools.get(call.tool) else { return RoundResult::error("There is no such tool.") };
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &*call.arguments };
    let Some(arguments) = Json::parse(arguments).filter(Json::is_object) else {
        return RoundResult::error("The arguments are no JSON object.");
    };
    let name = Json::from_value(&tool.name);
    let params = format!("{{\"name\":{},\"arguments\":{}}}", name.get(), arguments.get());
    let text = String::from_utf8(request("1", METHOD, &params)).unwrap_or_default();
    let message = match McpMessage::read(&text) {
        Ok(message) => message,
        Err(why) => return RoundResult::error(format!("The arguments cannot be sent: {why}.")),
    };
    let mut ctx = context(run, text.len());
    let found = match listed.catalog(&tool.label) {
        Some(catalog) => catalog.item(&run.planner.engine, &ctx.snapshot, ItemKind::Tool, &tool.name).await,
        None => Err(NotFound::Unknown),
    };
    match found {
        Ok(found) => send(run, &mut ctx, &found, &message, &tool.function).await,
        // It was there when it was listed; nothing is sent, and nothing is recorded.
        Err(NotFound::Unknown) => RoundResult::error(format!("There is no tool {} any more.", tool.name)),
        Err(NotFound::Unlisted(error)) => RoundResult::error(error.message),
    }
}

/// The state of the request that the call is.
fn context(run: &Run<'_>, bytes: usize) -> RequestContext {
    let mut ctx = RequestContext::new(&run.planner.engine.shared);
    ctx.api = CalledApi::of(&Endpoint::find(&Method::POST, PATH));
    ctx.snapshot = Arc::clone(&run.snapshot);
    ctx.span.trace_id = Arc::clone(&run.trace_id);
    ctx.span.parent = run.parent;
    ctx.record.client = Some(Arc::clone(&run.client));
    ctx.record.traffic.bytes_in = bytes as u64;
    ctx
}

/// Sends the call, and has it recorded.
async fn send(
    run: &Run<'_>,
    ctx: &mut RequestContext,
    found: &FoundItem,
    message: &McpMessage<'_>,
    label: &str,
) -> RoundResult {
    let call = McpCall {
        peer: &found.peer,
        message,
        kind: ItemKind::Tool,
        named: Some((ItemKind::Tool.param(), &*found.own_name)),
        label,
        headers: &run.headers,
        params: found.param_headers(message),
        leaves: run.leaves.subscribe(),
        relay: None,
    };
    let answered = call_mcp(run.planner, ctx, &call).await;
    let (result, status) = match answered {
        Ok(answer) => {
            let reply = reply_for(McpEra::Sessions, METHOD, answer.reply);
            (RoundResult::of(&reply), Some(answer.header.status))
        }
        Err(error) => {
            let result = RoundResult::error(error.message.clone());
            ctx.failure = Some(error);
            (result, None)
        }
    };
    if let Ok(downstream) = MemoryDownstream::ended(&Method::POST, PATH, status) {
        run.planner.engine.record(&downstream.with_address(run.address), ctx);
    }
    result
}
