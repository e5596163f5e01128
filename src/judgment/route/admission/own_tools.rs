//! The MCP servers of the gateway whose tools a request names: it is run in rounds, and the gateway calls them (`motion::tools`).
//!
//! Not which of their tools the client may use: that is looked at when they are listed.

use super::Endpoint;
use crate::route::request_mode::RequestMode;
use memory::auth::ClientIdentity;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::tool_rounds::{McpEntries, McpEntry};
use words::error::Error;
use words::settings::scopes::Scope;

/// The servers that a request names. `has_all`: the gateway calls those too that are meant for the provider.
///
/// # Errors
/// 400: an entry of `tools` cannot be read. 403: the client may call no tools.
pub fn mcp_entries(
    endpoint: &Endpoint,
    body: Option<&Body>,
    client: &ClientIdentity,
    has_all: bool,
) -> Result<McpEntries, Error> {
    let has_rounds = endpoint.mode == RequestMode::Api
        && matches!(endpoint.operation, Operation::ChatCompletions | Operation::Responses);
    let Some(body) = body.filter(|_| has_rounds) else { return Ok(McpEntries::default()) };
    let entries = McpEntry::read_all(body, has_all)?;
    if !entries.own.is_empty() {
        client.require(Scope::McpInvoke)?;
    }
    Ok(entries)
}
