//! Liveness and readiness of the process.
//!
//! Readiness is about this process only: neither a provider nor a store that is down changes it. The state of the store and of the
//! counters of limits are details of it.

use super::call::Call;
use super::field::{Field, Type, optional, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use http::StatusCode;
use serde_json::{Value, json};
use words::error::Error;

const READY: &[Field] = &[
    required("status", Type::OneOf(&["ready", "starting", "draining"]), "`ready` with status 200, else 503."),
    required(
        "requests_in_flight",
        Type::Integer(0, i64::MAX),
        "Requests of clients that are not answered yet.",
    ),
    optional("store", Type::AnyObject, "`backend`, `available`, `since`, `from_disk`: see docs/store.md."),
    optional(
        "ledger",
        Type::AnyObject,
        "`backend`, `available`, `since`, `spool_bytes`, `rows_dropped`: see docs/logs.md.",
    ),
    required(
        "limits",
        Type::AnyObject,
        "`counters`, `available`, `gateways`, `when_memory_is_full`: see docs/limit-counters.md.",
    ),
    required(
        "waiting_for_restart",
        Type::List(&Type::Text(200), 0, 100),
        "The keys of the settings that have changed since the start, and that a reload does not take over (docs/commands.md).",
    ),
];

const HEALTH: &[Field] = &[
    required("status", Type::Text(20), "`success`."),
    required("message", Type::Text(100), "For people."),
    required("version", Type::Text(40), "The gateway's version."),
];

pub(super) const ROUTES: &[Route] = &[
    get("/livez", Access::Open, "Whether the process responds", |_| Box::pin(livez()))
        .replies(Shape::Text("text/plain; charset=utf-8")),
    get("/readyz", Access::Open, "Whether the process serves requests", |call| Box::pin(readyz(call)))
        .replies(Shape::Object(READY))
        .also("503", "Before the listeners are up, and while the process stops.", Shape::Object(READY)),
    get("/v1/health", Access::Open, "Portkey's health check", |_| Box::pin(health()))
        .replies(Shape::Object(HEALTH)),
];

/// `GET /livez`: 200 as long as the process responds.
async fn livez() -> Result<Reply, Error> {
    Ok(Reply::text("text/plain; charset=utf-8", "ok\n"))
}

/// `GET /readyz`: 200 while serving; 503 before the listeners are up and from the start of a shutdown.
async fn readyz(call: Call) -> Result<Reply, Error> {
    let lifecycle = &call.shared.lifecycle;
    let (code, status) = match (lifecycle.is_ready(), lifecycle.is_draining()) {
        (true, _) => (StatusCode::OK, "ready"),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
    };
    let counts = call.limits.counts();
    let counters = json!({
        "counters": counts.backend,
        "available": counts.is_available(),
        "gateways": counts.gateways,
        "when_memory_is_full": counts.counters_kept,
    });
    let mut body = json!({
        "status": status,
        "requests_in_flight": lifecycle.in_flight(),
        "limits": counters,
        "waiting_for_restart": call.shared.waiting_for_restart.load().as_slice(),
    });
    if let (Some(store), Value::Object(members)) = (call.shared.store(), &mut body) {
        let health = store.health();
        let detail = json!({
            "backend": health.backend,
            "available": health.available,
            "since": format!("{:.3}", health.since),
            "from_disk": health.from_disk,
        });
        members.insert("store".to_owned(), detail);
    }
    if let (Some(ledger), Value::Object(members)) = (call.shared.ledger(), &mut body) {
        let health = ledger.health();
        let dropped: u64 = health.dropped.by_reason().iter().map(|(_, count)| count).sum();
        let detail = json!({
            "backend": ledger.backend_name(),
            "available": health.why.is_none(),
            "since": health.since.map(|since| format!("{since:.3}")),
            "spool_bytes": health.spool_bytes,
            "rows_dropped": dropped,
        });
        members.insert("ledger".to_owned(), detail);
    }
    Ok(Reply::from(body).with_status(code))
}

/// `GET /v1/health`, as in Portkey's API.
async fn health() -> Result<Reply, Error> {
    Ok(Reply::from(json!({
        "status": "success",
        "message": "Server is healthy",
        "version": env!("CARGO_PKG_VERSION"),
    })))
}
