//! `mcp`: how the gateway's own MCP endpoint shows many tools.
//!
//! Not here: the servers behind it, which are stored objects.

use crate::config::members::{MemberTable, whole};

/// `mcp`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpSettings {
    /// A list of more tools than that is shown as tools that search it; `None`: every list is shown.
    pub search_above: Option<usize>,
}

impl McpSettings {
    pub(super) const DOC: &str = "The endpoint for MCP clients (docs/mcp.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let above = "A client that may use more tools than that at /mcp gets search_tools, describe_tool and call_tool in their place. Default: \
                     unset, and it gets all of them.";
        Some(Self { search_above: table.get("search_above", whole(0, 100_000), above) })
    }
}
