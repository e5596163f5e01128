//! `GET /metrics`: what Prometheus scrapes.
//!
//! Only the page. What is counted, and where, is `state::metrics`.

use crate::state::Shared;
use axum::extract::State;
use http::header::{CONTENT_TYPE, HeaderName};
use std::sync::Arc;
use std::time::Instant;

pub(super) async fn show(State(shared): State<Arc<Shared>>) -> ([(HeaderName, &'static str); 1], Vec<u8>) {
    shared.metrics.in_flight(shared.phase.in_flight());
    shared.metrics.log_lines_dropped(shared.access_log.take_dropped());
    let page = shared.metrics.render(&shared.targets.list(Instant::now()));
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}
