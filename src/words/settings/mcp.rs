//! `mcp`: how the gateway's own MCP endpoint shows many tools, and how far it calls them for a model.
//!
//! Not here: the servers behind it, which are stored objects.

use crate::config::members::{MemberTable, whole};

/// Enough for an agent's task of several steps; a model that calls tools without end is stopped.
const DEFAULT_ROUNDS: usize = 10;

/// `mcp`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// A list of more tools than that is shown as tools that search it; `None`: every list is shown.
    pub search_above: Option<usize>,
    /// How often a model is asked at most for one chat or response whose tools the gateway calls.
    pub max_rounds: usize,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self { search_above: None, max_rounds: DEFAULT_ROUNDS }
    }
}

impl McpSettings {
    pub(super) const DOC: &str = "The endpoint for MCP clients (docs/mcp.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let above = "A client that may use more tools than that at /mcp gets search_tools, describe_tool and call_tool in their place. Default: \
                     unset, and it gets all of them.";
        let rounds = "How often a model is called at most for one chat or response with MCP tools that the gateway calls; in the last round it \
                      may call no tool. Default: 10.";
        Some(Self {
            search_above: table.get("search_above", whole(0, 100_000), above),
            max_rounds: table.get("max_rounds", whole(1, 100), rounds).unwrap_or(DEFAULT_ROUNDS),
        })
    }
}
