//! The control plane: a second Pingora service with health, metrics, and the place where control routes
//! hang.
//!
//! A route is one function and one line in [`router`]. It never sees the data plane; both meet in `Shared`.

mod error;
pub mod explain;
mod health;
mod metrics;
mod not_implemented;
mod read_only_env;
mod targets;

use crate::state::Shared;
use axum::Router;
use axum::routing::{any, get, post};
use std::sync::Arc;

/// First segments below `/v1` that belong to the control plane, also when they arrive at the data port
/// (spec "Endpoints"; reference 1.2 for `health`). Not `targets` and `explain`: neither spec nor reference
/// has them, so on the data port they are some provider's paths, and what stands there is for operators only.
pub const SEGMENTS: &[&str] =
    &["health", "prompts", "policies", "analytics", "logs", "workspaces", "mcp-servers", "feedback"];

/// Paths outside `/v1` that the data port hands over. Metrics stay on the control port.
pub const PATHS: &[&str] = &["/livez", "/readyz"];

/// All control routes.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::show))
        .route("/v1/health", get(health::health))
        .route("/v1/targets", get(targets::list))
        .route("/v1/targets/reset", post(targets::reset))
        .route("/v1/explain", post(explain::route))
        .method_not_allowed_fallback(error::wrong_method)
        .fallback(any(not_implemented::respond))
        .with_state(shared)
}
