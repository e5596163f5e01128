//! The gateway as it introduces itself to a client: the versions that it speaks, and what it has.

use super::{LIST_TTL_MS, McpRequest};
use motion::engine::mcp::ItemKind;
use words::api::mcp::envelope::own_info;
use words::api::mcp::era::{META_SERVER, STATELESS, WITH_SESSIONS};
use words::api::mcp::reply::McpReply;
use words::json::Json;

/// All versions that clients may speak, as JSON.
pub(super) fn versions() -> String {
    let all: Vec<&str> = std::iter::once(STATELESS).chain(WITH_SESSIONS).collect();
    Json::from_value(&all).get().to_owned()
}

pub(super) fn initialize(request: &McpRequest<'_>) -> McpReply {
    let wanted = request.message.param("protocolVersion").and_then(Json::text).unwrap_or_default();
    let newest = WITH_SESSIONS.first().copied().unwrap_or_default();
    let version = WITH_SESSIONS.iter().copied().find(|version| *version == wanted).unwrap_or(newest);
    McpReply::Result(format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{},\"serverInfo\":{}}}",
        capabilities(request),
        own_info()
    ))
}

pub(super) fn discover(request: &McpRequest<'_>) -> McpReply {
    McpReply::Result(format!(
        "{{\"resultType\":\"complete\",\"supportedVersions\":{},\"capabilities\":{},\"ttlMs\":{LIST_TTL_MS},\
         \"cacheScope\":\"private\",\"_meta\":{{\"{META_SERVER}\":{}}}}}",
        versions(),
        capabilities(request),
        own_info()
    ))
}

/// As JSON. Tools always: a client that finds none here would list none later either.
fn capabilities(request: &McpRequest<'_>) -> String {
    let has = |kind: ItemKind| request.catalog.may_have(kind);
    let prompts = if has(ItemKind::Prompt) { ",\"prompts\":{}" } else { "" };
    let resources = if has(ItemKind::Resource) { ",\"resources\":{}" } else { "" };
    let has_arguments = has(ItemKind::Prompt) || has(ItemKind::Template);
    let completions = if has_arguments { ",\"completions\":{}" } else { "" };
    format!("{{\"tools\":{{}}{prompts}{resources}{completions}}}")
}
