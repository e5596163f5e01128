//! `GET /metrics`, for Prometheus.
//!
//! Only renders the page; the metrics are in `state::metrics`.

use super::call::Call;
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use jiff::Timestamp;
use memory::limits::{Counts, Limits};
use memory::state::Shared;
use memory::state::metrics::CountersState;
use std::time::Instant;
use words::error::Error;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) const ROUTES: &[Route] =
    &[get("/metrics", Access::Metrics, "Metrics, for Prometheus", |call| Box::pin(show(call)))
        .replies(Shape::Text(CONTENT_TYPE))
        .on_control_port_only()];

async fn show(call: Call) -> Result<Reply, Error> {
    refresh(&call.shared, &call.limits, call.now);
    let targets = call.shared.targets.list(Instant::now());
    Ok(match call.arrival.prefers_open_metrics {
        true => Reply::text(OPEN_METRICS, call.shared.metrics.render_open_metrics(&targets)),
        false => Reply::text(CONTENT_TYPE, call.shared.metrics.render(&targets)),
    })
}

/// The page as it is now, in text format.
pub fn page(shared: &Shared, limits: &Limits, now: Timestamp) -> Vec<u8> {
    refresh(shared, limits, now);
    shared.metrics.render(&shared.targets.list(Instant::now()))
}

/// Sets what is read where it is, and not counted here.
fn refresh(shared: &Shared, limits: &Limits, now: Timestamp) {
    shared.metrics.set_in_flight(shared.lifecycle.in_flight());
    shared.metrics.set_held_bytes(shared.held_bytes.held(), shared.held_bytes.limit());
    shared.metrics.set_places(&shared.slots.list());
    shared.metrics.set_hosts(&shared.settings().hosts_of);
    shared.metrics.set_engines(&shared.engine_loads.list(Instant::now()));
    shared.metrics.set_prices_age(shared.price_feed.age(now));
    let settings = shared.settings();
    shared.metrics.retain_changed_tools(settings.stored.approving_mcp_servers());
    let store = shared.store();
    let records = store.map_or(0, |store| store.catalog().len());
    let revision = settings.stored.revision();
    shared.metrics.set_store(store.is_some_and(|store| store.health().available), records, revision);
    if let Some(ledger) = shared.ledger() {
        shared.metrics.set_ledger(&ledger.health());
        shared.metrics.set_ledger_questions(&ledger.question_counts());
        shared.metrics.set_ledger_tail(ledger.tail());
    }
    shared.metrics.set_counters(&counters(&limits.counts()));
    shared.metrics.record_dropped_log_lines(shared.access_log.take_dropped());
}

fn counters(counts: &Counts) -> CountersState {
    CountersState {
        buckets: counts.live_buckets,
        bucket_bytes: counts.bucket_bytes,
        is_available: counts.is_available(),
        are_evicted: counts.counters_kept == "evicted",
        gateways: counts.gateways,
        leases: counts.leases,
        served_by_leases: counts.served_by_leases,
        failures: counts.journal_failures.saturating_add(counts.store_failures),
        overflowed: counts.overflowed,
        given_up: counts.journal_given_up.saturating_add(counts.dropped_settlements),
        dropped_alerts: counts.dropped_events,
    }
}
