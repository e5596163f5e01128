//! Pins every name that is visible outside: access-line keys, error codes, metrics and their labels, headers,
//! settings and config keys, reasons and outcomes, prefixes of ids and signatures that clients keep.
//!
//! It reads string literals from the sources, so that renaming an identifier cannot silently change a
//! promise. A pinned name may move between files; it may not disappear.
//! `UPDATE_GOLDEN=1 cargo test outside_names` pins names that were added since. The meaning of the names is
//! tested elsewhere.

use crate::support::command::turnpike;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PINNED: &str = "tests/outside_names.txt";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The path and text of each source below `src/`, without unit tests.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for path in entries.collect::<Vec<PathBuf>>() {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if name.ends_with("/tests") => {}
                true => folders.push(path),
                false if name.ends_with("tests.rs") || !name.ends_with(".rs") => {}
                false => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
                    found.push((name, code));
                }
            }
        }
    }
    found
}

/// The string literals of a source, without comments. Raw strings with `#` are not names.
fn literals(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut rest = line;
        while let Some(start) = rest.find('"') {
            let after = &rest[start + 1..];
            let Some(end) = after.find('"') else { break };
            found.insert(after[..end].to_owned());
            rest = &after[end + 1..];
        }
    }
    found
}

fn is_identifier(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether a literal of a file is a pinned kind of name.
fn is_promised(path: &str, name: &str) -> bool {
    let inside = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let metric = name.starts_with("turnpike_") || name.starts_with("gen_ai_");
    let header = ["x-gateway-", "x-emulator-"]
        .iter()
        .any(|prefix| name.starts_with(prefix) && name.len() > prefix.len());
    let path_of_ours =
        name.starts_with("/_emulator") || name == "/livez" || name == "/readyz" || name == "/metrics";
    let held_by_clients = inside(&["src/words/api/"])
        && (name.ends_with(':') || name.ends_with('-') || name == "call_")
        && name.len() > 3;
    let keys = inside(&[
        "src/words/config/",
        "src/words/settings/",
        "src/words/error.rs",
        "src/words/api/operation.rs",
    ]) && is_identifier(name);
    let reasons = inside(&[
        "src/judgment/route/",
        "src/memory/state/",
        "src/proxy/",
        "src/motion/engine/",
        "src/control/",
    ]) && is_identifier(name);
    metric || header || path_of_ours || held_by_clients || keys || reasons
}

/// The path of every member of a JSON value; items of lists are not numbered.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}.{name}");
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

/// The output of `turnpike explain` for a request that uses every feature, and for a refused one.
fn explained() -> BTreeSet<String> {
    let target = |provider: &str| json!({"provider": provider, "api_key": "k", "retry": {"attempts": 2}});
    let condition = json!({"strategy": {"mode": "conditional", "conditions": [{"query": {"metadata.a": "b"}, "then": "one"}],
        "default": "one"}, "targets": [{"name": "one", "provider": "openai", "api_key": "k"}]});
    let balance = json!({"strategy": {"mode": "loadbalance"}, "targets": [target("openai"), target("anthropic")],
        "cb_config": {"failure_threshold": 2, "cooldown_interval": 30000}});
    let fallback = json!({"strategy": {"mode": "fallback"}, "targets": [target("anthropic"), target("openai")],
        "hedge": {"after_ms": 50}, "request_timeout": 1000});
    let mut found = BTreeSet::new();
    for config in [fallback, balance, condition, json!({"strategy": {"mode": "never"}})] {
        let body =
            json!({"model": "m", "stream": true, "seed": 7, "messages": [{"role": "user", "content": "x"}]});
        let question = json!({"headers": {"x-gateway-config": config}, "body": body});
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("t.yaml");
        let request = folder.path().join("q.json");
        std::fs::write(&settings, "listen: {data: [{address: 127.0.0.1:0}]}\n").unwrap();
        std::fs::write(&request, question.to_string()).unwrap();
        let run = turnpike(&[
            "explain",
            "--json",
            "-c",
            settings.to_str().unwrap(),
            "--request",
            request.to_str().unwrap(),
        ]);
        let value: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        paths(&value, "explain", &mut found);
    }
    found
}

#[test]
fn no_outside_name_is_lost() {
    let mut present: BTreeSet<String> = BTreeSet::new();
    let mut promised: BTreeSet<String> = explained();
    for (path, code) in sources() {
        for name in literals(&code) {
            if is_promised(&path, &name) {
                promised.insert(name.clone());
            }
            present.insert(name);
        }
    }
    present.extend(promised.iter().cloned());
    let file = root().join(PINNED);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        // What was pinned stays pinned, also where another room has the name now.
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        let all: BTreeSet<&str> = before.lines().chain(promised.iter().map(String::as_str)).collect();
        let text: String = all.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&file, text).unwrap();
    }
    let pinned = std::fs::read_to_string(&file).unwrap();
    assert!(pinned.lines().count() > 400, "{PINNED} has lost its names");
    let lost: Vec<&str> = pinned.lines().filter(|name| !present.contains(*name)).collect();
    assert!(lost.is_empty(), "names that clients and operators rely on have disappeared: {lost:#?}");
}
