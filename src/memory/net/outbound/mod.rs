//! Upstream connections: parsing a base URL ([`origin`]), which hosts a client may name ([`custom_host`], [`ranges`]),
//! resolving names ([`dns`]), proxies between them and us ([`proxies`], [`proxied`], [`proxy_connector`]), the peer Pingora
//! connects to ([`peer`], [`peer_limit`]), connections and their pools ([`connector`], [`connection`]), the certificate authorities that servers are verified with ([`authorities`]), the
//! clients for the gateway's own small requests ([`side_client`]), to token servers ([`token_http`]) and MCP servers ([`mcp`]),
//! and connections to Redis or Valkey ([`redis_client`]).
//!
//! Not here: which provider to call and what to send; `route` and `engine` decide that.

pub mod authorities;
pub mod connection;
pub mod connector;
pub mod custom_host;
pub mod dns;
mod idle_pool;
pub mod mcp;
pub mod origin;
pub mod peer;
pub mod peer_limit;
pub mod presented;
pub mod proxied;
pub mod proxies;
pub mod proxy_connector;
pub mod ranges;
pub(crate) mod redis_client;
pub mod side_client;
pub mod side_http;
pub(crate) mod token_http;
mod write_coalescing;
