//! `mcp_tools`: who calls the MCP servers that a request names by their URL (a key of our own).
//!
//! Not here: servers that a request names without one, which are always the gateway's, and the calls (`motion::tools`).

use super::{DescribeContext, Policies, PolicyKey, inherit_value};
use crate::config::members::Choice;
use serde_json::Value;

pub(super) const KEY: PolicyKey = PolicyKey {
    members: |policies, table| {
        let doc = "Who calls the MCP servers that a request names by server_url.";
        policies.mcp_tools = table.get("mcp_tools", Choice(&McpToolCaller::VARIANTS), doc);
    },
    inherit: |policies, above| inherit_value(&mut policies.mcp_tools, &above.mcp_tools),
    describe: Some(describe),
    ..PolicyKey::NONE
};

/// Who calls the MCP servers that a request names by their URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpToolCaller {
    /// The provider, which gets the entry as it is.
    Provider,
    /// The gateway, as it calls those that it has saved.
    Gateway,
}

impl McpToolCaller {
    const VARIANTS: [(&'static str, Self); 2] = [("provider", Self::Provider), ("gateway", Self::Gateway)];
}

impl Policies {
    /// Who calls MCP servers, as it holds.
    pub fn mcp_tools(&self) -> McpToolCaller {
        self.mcp_tools.unwrap_or(McpToolCaller::Provider)
    }
}

fn describe(policies: &Policies, _: &DescribeContext) -> (&'static str, Value) {
    let caller = policies.mcp_tools();
    let name = McpToolCaller::VARIANTS.iter().find(|(_, variant)| *variant == caller);
    ("mcp_tools", name.map(|(name, _)| Value::from(*name)).unwrap_or_default())
}
