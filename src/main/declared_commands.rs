//! `turnpike export`, `diff`, `apply`: the stored objects of a running gateway as files, by its control API.
//!
//! What would change is found out by the gateway (`POST /v1/apply`). Not here: how files are read and written (`declared_files`).

use super::declared_files::DeclaredSet;
use super::declared_line::{DeclaredCommand, DeclaredFiles};
use super::object_api::ObjectApi;
use super::{logging, output};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Of `diff` and `apply --plan`: something would change.
const CHANGES: u8 = 2;

/// Runs a command and prints what came of it.
pub fn run(command: DeclaredCommand) -> ExitCode {
    let done = match command {
        DeclaredCommand::Export { set, only, workspace, keys, connection } => {
            let query: Vec<(String, String)> = [("set", only.clone()), ("workspace_id", workspace)]
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .chain(keys.then(|| ("keys".to_owned(), "true".to_owned())))
                .collect();
            let set = set.or(only).unwrap_or_else(|| "main".to_owned());
            ObjectApi::new(&connection)
                .and_then(|api| export(&api, set, &query))
                .map(|text| output::print(text.as_bytes()))
        }
        DeclaredCommand::Diff(files) => apply(&files, None, true),
        DeclaredCommand::Apply { plan, expect, files } => apply(&files, expect, plan),
    };
    done.unwrap_or_else(|why| logging::fatal(&why))
}

fn export(api: &ObjectApi, set: String, query: &[(String, String)]) -> Result<String, String> {
    let mut answer = api.call("GET", "/v1/export", query, None)?;
    let Some(Value::Array(objects)) = answer.get_mut("objects").map(Value::take) else {
        return Err("/v1/export: the response has no list \"objects\"".to_owned());
    };
    let mut comments = vec![
        "Stored objects of a gateway, written by turnpike export. turnpike apply makes another gateway have them.".to_owned(),
        "{from_env: NAME} is a secret: the value of the variable NAME where this is applied.".to_owned(),
    ];
    let left_out =
        answer.get("left_out").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    comments.extend(left_out.map(|what| format!("Not in this file: {what}")));
    Ok(DeclaredSet { set, objects }.write(&comments))
}

/// Plans, prints the plan, and where that is not all, has it carried out as it was planned.
fn apply(of: &DeclaredFiles, expect: Option<String>, is_plan: bool) -> Result<ExitCode, String> {
    let mut set = DeclaredSet::read(of.files.iter().map(PathBuf::as_path))?;
    // The key is for the gateway alone: no file has it put into an object.
    set.resolve(&|name| std::env::var(name).ok().filter(|_| name != "TURNPIKE_KEY"));
    let api = ObjectApi::new(&of.connection)?;
    let mut body = json!({
        "set": set.set,
        "objects": set.objects,
        "prune": of.prune,
        "take_over": of.take_over,
        "dry_run": true,
        "expect": expect,
    });
    let mut plan = api.call("POST", "/v1/apply", &[], Some(&body))?;
    let count = |plan: &Value, action: &str| {
        plan.pointer(&format!("/totals/{action}")).and_then(Value::as_u64).unwrap_or_default()
    };
    let is_refused = count(&plan, "refused") > 0;
    let changes: u64 = ["create", "update", "delete"].into_iter().map(|action| count(&plan, action)).sum();
    if !is_plan && !is_refused && changes > 0 {
        if let Some(members) = body.as_object_mut() {
            members.insert("dry_run".to_owned(), false.into());
            members.insert("expect".to_owned(), plan.get("digest").cloned().unwrap_or_default());
        }
        plan = api.call("POST", "/v1/apply", &[], Some(&body))?;
    }
    let text = if of.json {
        serde_json::to_string_pretty(&plan).map_err(|why| why.to_string())? + "\n"
    } else {
        text_of(&plan, is_plan)
    };
    let printed = output::print(text.as_bytes());
    Ok(if is_refused {
        logging::fatal("nothing is changed: objects are refused")
    } else if is_plan && changes > 0 {
        ExitCode::from(CHANGES)
    } else {
        printed
    })
}

/// A plan for people: a line for each object that is not as the file has it.
fn text_of(plan: &Value, is_plan: bool) -> String {
    let mut text = String::new();
    let part = |row: &Value, name: &str| {
        row.get(name).and_then(Value::as_str).map(super::object_table::visible).unwrap_or_default()
    };
    let rows = plan.get("changes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for row in rows {
        let action = part(row, "action");
        let notes = row.get("notes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if action == "unchanged" && notes.is_empty() {
            continue;
        }
        let workspace = part(row, "workspace_id");
        let place = if workspace.is_empty() { String::new() } else { format!(" ({workspace})") };
        // Writing into a String cannot fail.
        let _ = write!(text, "{action} {} {}{place}", part(row, "kind"), part(row, "name"));
        let changed: Vec<&str> = row
            .get("changed")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !changed.is_empty() {
            let _ = write!(text, ": {}", super::object_table::visible(&changed.join(", ")));
        }
        if let Some(why) = row.pointer("/problem/message").and_then(Value::as_str) {
            let _ = write!(text, ": {}", super::object_table::visible(why));
        }
        text.push('\n');
        for note in notes.iter().filter_map(Value::as_str) {
            let _ = writeln!(text, "  {}", super::object_table::visible(note));
        }
    }
    let totals = plan.get("totals").and_then(Value::as_object).into_iter().flatten();
    let totals: Vec<String> = totals.map(|(action, count)| format!("{action} {count}")).collect();
    let totals = if totals.is_empty() { "no objects".to_owned() } else { totals.join(", ") };
    let _ = writeln!(text, "{}: {totals}", if is_plan { "would be" } else { "done" });
    if is_plan {
        let _ = writeln!(text, "digest: {}", part(plan, "digest"));
    }
    text
}
