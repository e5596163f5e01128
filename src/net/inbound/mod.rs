//! Downstream connections: an axum router on a Pingora session ([`axum_bridge`]), the paths it serves at the data port
//! ([`control_paths`]), and the protocol check of a new plain connection ([`h2c_guard`]).
//!
//! Not here: what a request means; `proxy` and `control` read it.

pub mod axum_bridge;
pub mod control_paths;
pub mod h2c_guard;
