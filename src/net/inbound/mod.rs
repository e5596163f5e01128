//! Connections that reached us: an axum router on a Pingora session ([`axum_bridge`]), which paths it serves at the data
//! port ([`control_paths`]), and the check of what a fresh plain connection speaks ([`h2c_guard`]).
//!
//! Not here: what a request means; the doors (`proxy`, `control`) read it.

pub mod axum_bridge;
pub mod control_paths;
pub mod h2c_guard;
