//! How we reach out, and how a router is mounted on a connection that reached us.
//!
//! What a URL may say ([`origin`]), which hosts a caller may name ([`custom_host`], [`ranges`]), which
//! addresses a name has ([`dns`]), the peer Pingora connects to ([`peer`]), an axum router on a Pingora
//! session ([`bridge`]), what a fresh connection speaks ([`doorway`]) and small requests of our own
//! ([`side_call`]). Not here: when to connect, what to send and what an answer means; that is the doors'
//! business.

pub mod bridge;
pub mod connection;
pub mod connections;
pub mod custom_host;
pub mod dns;
pub mod doorway;
mod idle;
mod one_write;
pub mod origin;
pub mod peer;
pub mod peer_book;
pub mod ranges;
pub mod side_call;
