//! The Model Context Protocol over streamable HTTP, as far as a gateway reads it: JSON-RPC messages, the protocol's eras, names of tools.
//!
//! Two eras are spoken (<https://modelcontextprotocol.io/specification>). Up to 2025-11-25 a client begins with `initialize`, and a server may
//! keep a session (`Mcp-Session-Id`). From 2026-07-28 on there is neither: each request has its version in `_meta`, and a few of its
//! members once more in headers. Pure: no connection, no server's address.

pub mod definition;
pub mod envelope;
pub mod era;
pub mod features;
pub mod input;
pub mod message;
pub mod names;
pub mod notification;
pub mod param_headers;
pub mod protected_resource;
pub mod reply;
pub mod search;
pub mod stream;
