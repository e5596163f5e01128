//! The MCP servers of the gateway whose tools a request names: it is run in rounds, and the gateway calls them (`motion::tools`).
//!
//! Not which of their tools the client may use: that is looked at when they are listed.

use super::Endpoint;
use crate::route::request_mode::RequestMode;
use memory::auth::ClientIdentity;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::tool_rounds::McpEntry;
use words::error::Error;
use words::settings::scopes::Scope;

/// Whether a request that can be run in rounds names MCP servers for its provider to call: its config may have the gateway call them.
pub fn names_provider_servers(endpoint: &Endpoint, body: Option<&Body>) -> bool {
    has_rounds(endpoint) && body.is_some_and(McpEntry::names_provider_servers)
}

/// The servers that a request names and the gateway calls. `has_all`: those too that are meant for the provider.
///
/// # Errors
/// 400: an entry of `tools` cannot be read. 403: the client may call no tools.
pub fn mcp_entries(
    endpoint: &Endpoint,
    body: Option<&Body>,
    client: &ClientIdentity,
    has_all: bool,
) -> Result<Vec<McpEntry>, Error> {
    let Some(body) = body.filter(|_| has_rounds(endpoint)) else { return Ok(Vec::new()) };
    let entries = McpEntry::read_all(body, has_all)?;
    if !entries.is_empty() {
        client.require(Scope::McpInvoke)?;
    }
    Ok(entries)
}

fn has_rounds(endpoint: &Endpoint) -> bool {
    endpoint.mode == RequestMode::Api
        && matches!(endpoint.operation, Operation::ChatCompletions | Operation::Responses)
}
