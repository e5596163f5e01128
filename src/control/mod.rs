//! The control plane: a second Pingora service with health, metrics and the routes for operators.
//!
//! A route is one handler and one row of [`routes`]. It never sees the data plane; both meet in `Shared`.

mod error;
pub mod explain;
mod health;
mod json;
mod metrics;
mod not_implemented;
mod read_only_env;
mod routes;
mod targets;

pub use routes::{control_paths, router};
