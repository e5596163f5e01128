//! `GET /v1/nodes`: the gateways that use this store, which version each runs and which revision of the store it has in force.
//!
//! Only shows the rows that gateways write of themselves (`memory::store::nodes`). On the control port only: see `routes`.

use super::call::Call;
use super::field::{Field, Type, nullable, required};
use super::page::{self, NameFilter, Page};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use jiff::Timestamp;
use memory::store::{ListedNode, NodeList};
use serde_json::{Value, json};
use std::time::Duration;
use words::error::Error;
use words::settings::scopes::Scope;

const NANOSECONDS: f64 = 1e9;
const DEFAULT_PAGE: usize = 50;

const LISTED: &[Field] = &[
    required("name", Type::Text(128), "`server.node`, or the name of the host."),
    required("address", Type::Text(64), "The address of its control port."),
    required("role", Type::Text(20), "`primary` or `edge`."),
    required(
        "status",
        Type::Text(20),
        "`starting`, `serving`, `draining`; `silent` where it was not heard from for 15 s; with SQLite three minutes.",
    ),
    required("version", Type::Text(40), "The version that it runs."),
    required(
        "revision",
        Type::Integer(0, i64::MAX),
        "The number of the last change of the store that it has in force.",
    ),
    required("behind", Type::Integer(0, i64::MAX), "By how many changes that is behind the store."),
    nullable("revision_since", Type::Time, "Since when it has that in force, by its own clock."),
    required("settings_hash", Type::Text(12), "The hash of its settings."),
    nullable("started_at", Type::Time, "When it was started, by its own clock."),
    required("reported_at", Type::Time, "When it was last heard from, by the clock of the database."),
    required("silent_seconds", Type::Number(0.0, 1e9), "How long ago that was."),
    required(
        "clock_ahead_seconds",
        Type::Number(-1e12, 1e12),
        "By how much its clock is ahead of that of the database; negative where it is behind.",
    ),
    required("id", Type::Uuid, "Of the process: another start has another one."),
];

pub(super) const ROUTES: &[Route] = &[get(
    "/v1/nodes",
    Access::Scope(&[Scope::MetricsRead]),
    "Lists the gateways that use this store",
    |call| Box::pin(list(call)),
)
.lists(page::NAMED)
.replies(Shape::List(LISTED))
.on_control_port_only()];

async fn list(call: Call) -> Result<Reply, Error> {
    let store = call.store()?;
    let silent_after = store.silent_after();
    let list = store.nodes().await.map_err(Error::from)?;
    let NodeList { mut nodes, position, now } = list;
    let names = NameFilter::of(&call);
    nodes.retain(|node| names.has(Some(node.report.name.as_str()), None));
    nodes.sort_by(|a, b| (&a.report.name, a.report.id).cmp(&(&b.report.name, b.report.id)));
    Ok(Page::of(&call, DEFAULT_PAGE).reply(&nodes, |node| node_json(node, position, now, silent_after)))
}

fn node_json(node: &ListedNode, position: u64, now: Timestamp, silent_after: Duration) -> Value {
    let state = &node.report.state;
    let silence = node.silence(now);
    let status = if silence > silent_after { "silent" } else { state.status.as_str() };
    let time = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": node.report.name,
        "address": node.report.address,
        "role": state.role,
        "status": status,
        "version": state.version,
        "revision": state.revision,
        "behind": position.saturating_sub(state.revision),
        "revision_since": time(&state.revision_since),
        "settings_hash": state.settings_hash,
        "started_at": time(&state.started_at),
        "reported_at": format!("{:.3}", node.reported_at),
        "silent_seconds": rounded(silence.as_secs_f64()),
        "clock_ahead_seconds": rounded(node.clock_ahead() as f64 / NANOSECONDS),
        "id": node.report.id.to_string(),
    })
}

/// To tenths.
fn rounded(seconds: f64) -> f64 {
    // Without the sign of a zero.
    (seconds * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::store::{NodeReport, NodeState};
    use uuid::Uuid;

    #[test]
    fn a_node_is_shown_with_the_age_of_its_report_by_the_clock_of_the_database() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let state = NodeState {
            role: "edge".to_owned(),
            status: "serving".to_owned(),
            version: "1.2.3".to_owned(),
            revision: 40,
            ..NodeState::default()
        };
        let report = NodeReport {
            id: Uuid::nil(),
            name: "two".to_owned(),
            address: "10.0.0.2:8788".to_owned(),
            clock: time("2026-01-01T01:00:00.25Z"),
            state,
        };
        let node = ListedNode { report, reported_at: time("2026-01-01T00:00:00Z") };
        let node_json = |node, position, now| node_json(node, position, now, Duration::from_secs(15));
        let shown = node_json(&node, 42, time("2026-01-01T00:00:05Z"));
        assert_eq!(
            (&shown["status"], &shown["behind"], &shown["silent_seconds"], &shown["clock_ahead_seconds"]),
            (&json!("serving"), &json!(2), &json!(5.0), &json!(3600.3))
        );
        assert_eq!((&shown["started_at"], &shown["role"]), (&Value::Null, &json!("edge")));
        let later = node_json(&node, 39, time("2026-01-01T00:00:16Z"));
        assert_eq!((&later["status"], &later["behind"]), (&json!("silent"), &json!(0)));
        // A clock of the database that was set back: it has not reported since.
        assert_eq!(node_json(&node, 39, time("2025-12-31T00:00:00Z"))["status"], "silent");
    }
}
