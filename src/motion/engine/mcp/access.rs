//! Who a client is to the rules of access to MCP servers: its key, workspace, role, and the metadata that its key sets.
//!
//! What the client says of itself, in a header or a body, gives it nothing.

use crate::engine::limit_holds::{Metadata, RequestFacts};
use crate::engine::request_context::RequestContext;
use judgment::route::admission::key_rules::KeyRules;
use memory::auth::roles::role_name;
use memory::state::stored::mcp_access::{GrantedSets, McpAccess};
use serde_json::value::RawValue;
use words::config::headers::GatewayHeaders;

/// A client, as far as its request does not show it.
pub(super) struct McpClient {
    metadata: Metadata,
    role: Option<&'static str>,
}

impl McpClient {
    pub fn new(ctx: &RequestContext) -> Self {
        let client = ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous());
        let metadata = KeyRules::new(&client, &ctx.snapshot).metadata(&GatewayHeaders::default());
        let metadata = metadata.and_then(|text| RawValue::from_string(text.into_owned()).ok());
        Self {
            metadata: Metadata::new(metadata.as_deref(), None, None),
            role: role_name(&client, ctx.snapshot.stored.catalog()),
        }
    }

    pub fn granted(&self, ctx: &RequestContext, access: &McpAccess) -> GrantedSets {
        let facts = RequestFacts { metadata: &self.metadata, ..RequestFacts::of(ctx) };
        access.granted(&facts.at(None), self.role)
    }
}
