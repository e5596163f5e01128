//! MCP servers behind the gateway: sessions with them, what of them a client may use, and their calls.
//!
//! A client's call of a tool is a request that the engine runs, at the target that its server is (`call`): with the client's limits and
//! guardrails, a timeout, a circuit, a row in the log. Sessions and lists are the gateway's own (`peer`), made for all clients, or for one
//! person where the server takes tokens of persons (`sign_in`), and counted for none; `catalog` decides which of their items a client sees. Does not talk to clients (`proxy::mcp`).

mod access;
mod call;
mod catalog;
mod peer;
mod relay;
mod requests;
mod sign_in;
mod watch;

pub use call::{McpAnswer, McpCall, call_mcp};
pub use catalog::{FoundItem, ItemKind, McpCatalog, NotFound};
pub use peer::McpPeer;
pub use relay::{McpRelay, McpRelayed};
pub(in crate::engine) use watch::McpWatch;
