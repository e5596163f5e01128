//! `GET /metrics`, for Prometheus.
//!
//! Only renders the page; the metrics are in `state::metrics`.

use crate::state::Shared;
use axum::extract::State;
use http::header::{CONTENT_TYPE, HeaderName};
use std::sync::Arc;
use std::time::Instant;

pub(super) async fn show(State(shared): State<Arc<Shared>>) -> ([(HeaderName, &'static str); 1], Vec<u8>) {
    shared.metrics.set_in_flight(shared.lifecycle.in_flight());
    shared.metrics.set_held_bytes(shared.held_bytes.held(), shared.held_bytes.limit());
    shared.metrics.record_dropped_log_lines(shared.access_log.take_dropped());
    let page = shared.metrics.render(&shared.targets.list(Instant::now()));
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}
