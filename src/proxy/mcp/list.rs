//! Lists of tools, prompts, resources and templates, as a client gets them.
//!
//! What it may use is the catalog's matter (`engine::mcp`).

use super::{LIST_TTL_MS, McpRequest, search};
use motion::engine::mcp::ItemKind;
use motion::engine::request_context::RequestContext;
use words::api::mcp::era::McpEra;
use words::api::mcp::reply::McpReply;
use words::error::Error;

/// What of all servers the client may use. A server that cannot be listed is left out, and named in `x-gateway-warnings`.
///
/// # Errors
/// It is one server's, and there is no token for the client.
pub(super) async fn list(
    request: &McpRequest<'_>,
    ctx: &mut RequestContext,
    kind: ItemKind,
) -> Result<McpReply, Error> {
    let engine = &request.gateway.engine;
    let (items, failed) = request.catalog.items(engine, &ctx.snapshot, kind).await;
    if !failed.is_empty()
        && !request.catalog.is_of_several()
        && let Some(error) = request.catalog.unauthorized(engine, &ctx.snapshot).await
    {
        return Err(error);
    }
    ctx.reply.warnings.extend(failed);
    let name = match kind {
        ItemKind::Tool => "tools",
        ItemKind::Prompt => "prompts",
        ItemKind::Resource => "resources",
        ItemKind::Template => "resourceTemplates",
    };
    let cached = match request.era {
        McpEra::Stateless => format!(",\"ttlMs\":{LIST_TTL_MS},\"cacheScope\":\"private\""),
        McpEra::Sessions => String::new(),
    };
    let is_searched = kind == ItemKind::Tool && search::is_searched(request, ctx, items.len());
    let items = if is_searched { search::definitions() } else { items };
    Ok(McpReply::Result(format!("{{\"{name}\":[{}]{cached}}}", items.join(","))))
}
