//! How we reach out, and how a router is mounted on a connection that reached us.
//!
//! What a URL may say ([`origin`]), which hosts a caller may name ([`custom_host`], [`ranges`]), which
//! addresses a name has ([`dns`]), the peer Pingora connects to ([`peer`]), an axum router on a Pingora
//! session ([`bridge`]), what a fresh connection speaks ([`doorway`]) and small requests of our own
//! ([`side_call`]). Not here: when to connect, what to send and what an answer means; that is the doors'
//! business.

pub mod axum_bridge;
pub mod connection;
pub mod connector;
pub mod custom_host;
pub mod dns;
pub mod h2c_guard;
mod idle_pool;
pub mod origin;
pub mod peer;
pub mod peer_limit;
pub mod ranges;
pub mod token_http;
mod write_coalescing;
