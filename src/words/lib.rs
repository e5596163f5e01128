//! The words of the gateway: data and pure functions.
//!
//! - [`tables`]: constants put together.
//! - [`error`]: what can go wrong, as a client sees it.
//! - [`json`]: JSON as text.
//! - [`api`]: the shapes that clients speak.
//! - [`config`]: the routing object that a request carries.
//! - [`settings`]: the process's own YAML.
//!
//! No I/O, no runtime and no clock: time is an argument. Each room uses only those listed before it.

pub mod tables;

pub mod error;

pub mod json;

pub mod api;
pub mod config;
pub mod settings;
