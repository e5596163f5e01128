//! `turnpike nodes`: the gateways that use one store, from the control API of one of them, as a table.
//!
//! For people: programs take `--json`. What is shown is `control::nodes`'.

use super::object_api::ObjectApi;
use super::object_line::Connection;
use super::object_table::{aligned, clipped, visible};
use super::{logging, output};
use serde_json::Value;
use std::process::ExitCode;

/// As many as the API has on a page.
const PAGE: &str = "1000";
/// Seconds by which a clock may differ before it is pointed out.
const CLOCK_TOLERANCE: f64 = 2.0;
const HEAD: [&str; 10] =
    ["NAME", "ADDRESS", "ROLE", "STATUS", "VERSION", "REVISION", "SINCE", "SETTINGS", "STARTED", "REPORTED"];

/// Prints the gateways.
pub fn run(json: bool, connection: &Connection) -> ExitCode {
    let found = ObjectApi::new(connection).and_then(|api| {
        let query = [("page_size".to_owned(), PAGE.to_owned())];
        let mut list = api.call("GET", "/v1/nodes", &query, None)?;
        match list.get_mut("data").map(Value::take) {
            Some(Value::Array(nodes)) => Ok(nodes),
            _ => Err("/v1/nodes: the response has no list \"data\"".to_owned()),
        }
    });
    match found {
        Err(why) => logging::fatal(&why),
        Ok(nodes) if json => match serde_json::to_string_pretty(&nodes) {
            Ok(text) => output::print((text + "\n").as_bytes()),
            Err(why) => logging::fatal(&why.to_string()),
        },
        Ok(nodes) => {
            let printed = output::print(table(&nodes).as_bytes());
            notes(&nodes).iter().for_each(|note| logging::note(note));
            printed
        }
    }
}

fn table(nodes: &[Value]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(|node| {
        let reported = number(node, "silent_seconds").unwrap_or_default();
        let reported = if reported < 1.0 { "now".to_owned() } else { format!("{reported:.0} s ago") };
        let members = [
            "name",
            "address",
            "role",
            "status",
            "version",
            "revision",
            "revision_since",
            "settings_hash",
            "started_at",
        ];
        members.iter().map(|member| clipped(&text(node, member))).chain([reported]).collect()
    }));
    aligned(&rows)
}

/// What an operator should look at, a line each.
fn notes(nodes: &[Value]) -> Vec<String> {
    let mut notes = Vec::new();
    for node in nodes {
        let name = format!("{} ({})", text(node, "name"), text(node, "address"));
        if text(node, "status") == "silent" {
            notes.push(format!("{name} has last reported at {}", text(node, "reported_at")));
            continue;
        }
        let behind = number(node, "behind").unwrap_or_default();
        if behind > 0.0 {
            let changes = if behind > 1.0 { "changes" } else { "change" };
            notes.push(format!("{name} is {behind} {changes} behind the store"));
        }
        let ahead = number(node, "clock_ahead_seconds").unwrap_or_default();
        if ahead.abs() >= CLOCK_TOLERANCE {
            notes.push(format!("{name}: its clock differs by {ahead:+} s from that of the database"));
        }
    }
    notes
}

fn number(node: &Value, member: &str) -> Option<f64> {
    node.get(member)?.as_f64()
}

fn text(node: &Value, member: &str) -> String {
    match node.get(member) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => visible(text),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_pointed_out() {
        let nodes = [
            json!({"name": "one", "address": "10.0.0.1:8788", "role": "primary", "status": "serving", "version": "1", "revision": 7,
                   "behind": 0, "silent_seconds": 0.4, "clock_ahead_seconds": 0.1}),
            json!({"name": "two\u{1b}", "address": "10.0.0.2:8788", "role": "edge", "status": "serving", "revision": 5, "behind": 2,
                   "silent_seconds": 3.0, "clock_ahead_seconds": -3600.0}),
            json!({"name": "three", "address": "a", "status": "silent", "behind": 9, "reported_at": "2026", "silent_seconds": 99.0}),
        ];
        let table = table(&nodes);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("NAME ") && lines[0].ends_with(" REPORTED"), "{table}");
        assert!(lines[1].contains(" primary  serving  1 ") && lines[1].ends_with("  now"), "{table}");
        assert!(lines[2].starts_with("two\\u{1b}  ") && lines[2].ends_with("  3 s ago"), "{table}");
        assert_eq!(
            notes(&nodes),
            [
                "two\\u{1b} (10.0.0.2:8788) is 2 changes behind the store",
                "two\\u{1b} (10.0.0.2:8788): its clock differs by -3600 s from that of the database",
                "three (a) has last reported at 2026",
            ]
        );
    }
}
