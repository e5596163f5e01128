//! The control plane: a second Pingora service with health, metrics and the routes for operators.
//!
//! A route is a handler and a row of the table in [`routes`]. Handlers do not use the data plane; both planes share
//! state only through `Shared`.

mod error;
pub mod explain;
mod health;
mod json;
mod metrics;
mod not_implemented;
mod origin_guard;
mod read_only_env;
mod routes;
mod targets;

pub use routes::{control_paths, router};
