//! Chats and responses whose MCP tools the gateway calls: rounds with the model, and the calls between them, for one response to the client.
//!
//! Each round is a request as any other: planned by the client's config, under its limits and guardrails, with a record of its own. So is
//! each call of a tool (`engine::mcp`). What the bodies say is `words::api::tool_rounds`' matter.

mod call;
mod listing;
mod round;
mod run;

pub use run::{ToolsCall, run};
