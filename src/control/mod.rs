//! The control plane: a second Pingora service with health, metrics and the routes for operators.
//!
//! A route is a handler and a row of the table in [`routes`]. Handlers do not use the data plane; both planes share
//! state only through `Shared`.

mod dialect;
mod error;
pub mod explain;
mod health;
mod json;
mod metrics;
mod origin_guard;
mod read_only_env;
mod routes;
mod targets;
mod unserved;

pub use routes::{Port, control_paths, router};
