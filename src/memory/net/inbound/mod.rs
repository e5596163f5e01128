//! Downstream connections: an axum router on a Pingora session ([`axum_bridge`]), the paths it serves at the data port
//! ([`control_paths`]), the protocol check of a new plain connection ([`h2c_guard`]), where one request on it ends
//! ([`one_request`]), how many may do one kind of work ([`places`]), what is read of bodies that are not wanted ([`unread_bodies`]), who the
//! client is behind balancers ([`client_address`], [`proxy_protocol`]) and by its certificate ([`client_certificate`]);
//! [`checked_app`] holds a connection back until it has passed both. What a certificate authority gets that connects to verify a name
//! ([`challenge_certificates`]).
//!
//! Not here: what a request means; `proxy` and `control` read it.

pub mod axum_bridge;
pub mod challenge_certificates;
pub mod checked_app;
pub mod client_address;
pub mod client_certificate;
pub mod content_coding;
pub mod control_paths;
pub mod h2c_guard;
pub mod one_request;
pub mod places;
pub mod proxy_protocol;
pub mod unread_bodies;
