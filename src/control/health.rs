//! Liveness and readiness of the process.
//!
//! Readiness is about this process only: neither a provider nor a store that is down changes it, unless the client requires that. The
//! state of the store and of the counters of limits are details of it.

use super::call::Call;
use super::field::{Field, Type, nullable, optional, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use http::StatusCode;
use memory::limits::Counts;
use memory::state::Shared;
use serde_json::{Value, json};
use std::sync::Arc;
use words::error::Error;

const READY: &[Field] = &[
    required(
        "status",
        Type::OneOf(&["ready", "starting", "draining", "incomplete"]),
        "`ready` with status 200, else 503. `incomplete`: it serves, and lacks what `require` names.",
    ),
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
    optional("config", Type::Object(CONFIG), "With `verbose`: what is in force of the store."),
    optional(
        "node",
        Type::Object(NODE),
        "With `verbose`, at the control port: this gateway among those of its store.",
    ),
    required(
        "waiting_for_restart",
        Type::List(&Type::Text(200), 0, 100),
        "The keys of the settings that have changed since the start, and that a reload does not take over (docs/commands.md).",
    ),
];

const QUERY: &[Field] = &[
    optional("verbose", Type::Switch, "Also say what is in force, and since when: `config` and `node`."),
    optional(
        "require",
        Type::Names(&["store", "counters"]),
        "503 also where one of these cannot be reached: for balancers that have another gateway which can (docs/cluster.md).",
    ),
];

const CONFIG: &[Field] = &[
    required(
        "revision",
        Type::Integer(0, i64::MAX),
        "The number of the last change of the store that is in force.",
    ),
    nullable("since", Type::Time, "Since when it is in force."),
    required(
        "source",
        Type::OneOf(&["store", "memory", "sealed_copy", "settings"]),
        "`store`: it is read and followed. `memory`: it is down, and what was read last is in force. `sealed_copy`: it was down at the \
         start, and the last copy on disk is in force. `settings`: nothing of it could be read.",
    ),
    nullable("source_since", Type::Time, "Since when that is its source."),
];

const NODE: &[Field] = &[
    required("name", Type::Text(128), "Its name (`server.node`)."),
    required("role", Type::OneOf(&["primary", "edge"]), "Its role (`control.role`)."),
    required("version", Type::Text(40), "Its version."),
    required("started_at", Type::Time, "When it was started."),
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
        .query(QUERY)
        .replies(Shape::Object(READY))
        .also(
            "503",
            "Before the listeners are up, while the process stops, and without what `require` names.",
            Shape::Object(READY),
        ),
    get("/v1/health", Access::Open, "Portkey's health check", |_| Box::pin(health()))
        .replies(Shape::Object(HEALTH)),
];

/// `GET /livez`: 200 as long as the process responds.
async fn livez() -> Result<Reply, Error> {
    Ok(Reply::text("text/plain; charset=utf-8", "ok\n"))
}

/// The status of the process, and what it is called.
fn readiness(call: &Call, counts: &Counts) -> (StatusCode, &'static str) {
    let lifecycle = &call.shared.lifecycle;
    let lacks = |name: &str| match name {
        "store" => !call.shared.store().is_some_and(|store| store.health().available),
        _ => !counts.is_available(),
    };
    let required = call.query_text("require").unwrap_or_default();
    let is_incomplete = required.split(',').map(str::trim).any(|name| !name.is_empty() && lacks(name));
    match (lifecycle.is_ready(), lifecycle.is_draining()) {
        (true, _) if is_incomplete => (StatusCode::SERVICE_UNAVAILABLE, "incomplete"),
        (true, _) => (StatusCode::OK, "ready"),
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
    }
}

/// `GET /readyz`: 200 while serving; 503 before the listeners are up, from the start of a shutdown, and where something that the client
/// requires is missing.
async fn readyz(call: Call) -> Result<Reply, Error> {
    let counts = call.limits.counts();
    let (code, status) = readiness(&call, &counts);
    let counters = json!({
        "counters": counts.backend,
        "available": counts.is_available(),
        "gateways": counts.gateways,
        "when_memory_is_full": counts.counters_kept,
    });
    let mut body = json!({
        "status": status,
        "requests_in_flight": call.shared.lifecycle.in_flight(),
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
    if let (Some(true), Value::Object(members)) = (call.query_flag("verbose"), &mut body) {
        members.insert("config".to_owned(), config(&call.shared));
        // The data port may be open to anyone.
        if call.arrival.is_at_control_port {
            members.insert("node".to_owned(), node(&call.shared));
        }
    }
    Ok(Reply::from(body).with_status(code))
}

/// What is in force of the store.
fn config(shared: &Shared) -> Value {
    let stored = Arc::clone(&shared.settings().stored);
    let health = shared.store().map(|store| store.health());
    let source = match &health {
        Some(health) if health.available => "store",
        Some(health) if health.from_disk => "sealed_copy",
        _ if stored.revision() > 0 => "memory",
        _ => "settings",
    };
    json!({
        "revision": stored.revision(),
        "since": stored.revision_since().map(|since| format!("{since:.3}")),
        "source": source,
        "source_since": health.map(|health| format!("{:.3}", health.since)),
    })
}

/// This gateway among those of its store.
fn node(shared: &Shared) -> Value {
    json!({
        "name": shared.node.name,
        "role": shared.node.role.as_str(),
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": format!("{:.3}", shared.node.started_at),
    })
}

/// `GET /v1/health`, as in Portkey's API.
async fn health() -> Result<Reply, Error> {
    Ok(Reply::from(json!({
        "status": "success",
        "message": "Server is healthy",
        "version": env!("CARGO_PKG_VERSION"),
    })))
}
