//! Liveness and readiness of the process.
//!
//! Readiness is about this process only: a provider that is down does not change it.

use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

/// `GET /livez`: 200 as long as the process responds.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: 200 while serving; 503 before the listeners are up and from the start of a shutdown.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> (StatusCode, Json<Value>) {
    let in_flight = shared.lifecycle.in_flight();
    let (code, status) = match (shared.lifecycle.is_ready(), shared.lifecycle.is_draining()) {
        (true, _) => (StatusCode::OK, "ready"),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
    };
    (code, Json(json!({"status": status, "requests_in_flight": in_flight})))
}

/// `GET /v1/health`, as in the reference (section 1.2).
pub(super) async fn health() -> Json<Value> {
    Json(json!({
        "status": "success",
        "message": "Server is healthy",
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
