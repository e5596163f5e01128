//! What of a settings file is shown: no secret wherever the schema lets one stand, lines, and what waits for a restart.

use super::*;
use words::config::Checks;
use words::settings::{Draft, SecretSources};

/// The items that a file gives, good or bad: what is read as a secret is one in either.
fn found(text: &str) -> Vec<Value> {
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let checks = Checks::NONE;
    let draft = Draft::read(text, &sources, &checks);
    let settings = draft.settings().unwrap_or_else(|| panic!("{text}"));
    Found::of(&settings.source)
}

/// A place for a text in the settings: the document that has one there.
struct Leaf {
    path: String,
    document: Value,
}

/// Every place of the schema where a text may stand. Definitions that hold themselves are followed once.
fn leaves(
    root: &Value,
    schema: &Value,
    path: &str,
    around: &[&str],
    found: &mut Vec<(String, Vec<Step>)>,
    steps: &[Step],
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        if !around.contains(&name) {
            let around = [around, &[name]].concat();
            leaves(root, &root["$defs"][name], path, &around, found, steps);
        }
        return;
    }
    for choice in ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema[*name].as_array()).flatten() {
        leaves(root, choice, path, around, found, steps);
    }
    let mut below = |step: Step, schema: &Value| {
        let path = match &step {
            Step::Member(name) if path.is_empty() => name.clone(),
            Step::Member(name) => format!("{path}.{name}"),
            Step::Item => format!("{path}[0]"),
        };
        leaves(root, schema, &path, around, found, &[steps, &[step]].concat());
    };
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        below(Step::Member(name.clone()), schema);
    }
    for (_, schema) in schema["patternProperties"].as_object().into_iter().flatten() {
        below(Step::Member("any".to_owned()), schema);
    }
    if schema["additionalProperties"].is_object() {
        below(Step::Member("any".to_owned()), &schema["additionalProperties"]);
    }
    if schema["items"].is_object() {
        below(Step::Item, &schema["items"]);
    }
    let is_text = |of: &Value| {
        of == "string" || of.as_array().is_some_and(|types| types.iter().any(|of| of == "string"))
    };
    if is_text(&schema["type"]) && schema["enum"].is_null() {
        found.push((path.to_owned(), steps.to_vec()));
    }
}

/// One step from a value to one in it.
#[derive(Clone)]
enum Step {
    Member(String),
    Item,
}

fn all_leaves(text: &str) -> Vec<Leaf> {
    let schema = schema::build(&["openai"]);
    let mut found = Vec::new();
    leaves(&schema, &schema, "", &[], &mut found, &[]);
    let document = |steps: &[Step]| {
        steps.iter().rev().fold(Value::from(text), |inner, step| match step {
            Step::Member(name) => json!({name.as_str(): inner}),
            Step::Item => json!([inner]),
        })
    };
    found.into_iter().map(|(path, steps)| Leaf { document: document(&steps), path }).collect()
}

/// What may be shown, by the last names of its path: a new member that takes a text must be listed here, or be read as a secret.
const SHOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/settings/shown.txt");

fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path).trim_end_matches("[0]")
}

#[test]
fn no_secret_of_the_settings_is_shown() {
    let listed = std::fs::read_to_string(SHOWN).unwrap();
    let shown: BTreeSet<&str> = listed.lines().collect();
    let leaves = all_leaves("canary");
    assert!(leaves.len() > 200, "{}", leaves.len());
    let mut open = BTreeSet::new();
    for Leaf { path, document } in &leaves {
        if Value::from(found(&document.to_string())).to_string().contains("canary") {
            open.insert(last_name(path));
        }
    }
    assert_eq!(open, shown);
}

#[test]
fn no_address_is_shown_with_its_user_or_query() {
    for scheme in ["redis", "https"] {
        for Leaf { path, document } in all_leaves(&format!("{scheme}://canary:canary@host/?canary=canary")) {
            let found = Value::from(found(&document.to_string())).to_string();
            assert!(!found.contains("canary"), "{path}: {found}");
        }
    }
}

/// Each that was, or might have been, shown in clear, as it is written in a file.
#[test]
fn secrets_are_masked_in_a_file_as_it_is_written() {
    let key = "11".repeat(32);
    let text = format!(
        "
store: {{url: 'postgres://u:canary@db/x', encryption_key: {key}, previous_encryption_keys: [{key}]}}
limits: {{shared: 'redis://:canary@cache:6379'}}
outbound: {{proxy: 'http://user:canary@proxy:3128'}}
batches: {{s3: {{endpoint: 'https://u:canary@s3', access_key_id: canary, secret_access_key: canary}}}}
alerts: {{webhooks: [{{url: 'https://hooks.slack.com/services/canary', secret: canary}}]}}
auth: {{keys: [{{name: shown, key: canary-0123456789}}, {{name: b, sha256: {key}}}]}}
telemetry: {{otlp: {{endpoint: 'http://127.0.0.1:4318', headers: {{authorization: canary}}}}}}
providers:
  openai: {{provider: openai, api_key: canary, custom_host: 'https://host/v1'}}
"
    );
    let found = Value::from(found(&text)).to_string();
    for secret in ["canary", &key] {
        assert!(!found.contains(secret), "{found}");
    }
    for shown in [MASK, "\"shown\"", "https://host/v1", "redis://*****@cache:6379"] {
        assert!(found.contains(shown), "{shown}: {found}");
    }
}

#[test]
fn what_the_file_gives_has_its_line_and_the_rest_is_the_default() {
    let found = found("limits:\n  max_body_bytes: 1000\nauth:\n  keys:\n    - {name: a, key: '${KEY_A}'}\n");
    let one = |path: &str| found.iter().find(|item| item["path"] == path).unwrap_or_else(|| panic!("{path}"));
    assert_eq!(
        (&one("limits.max_body_bytes")["value"], &one("limits.max_body_bytes")["line"]),
        (&json!(1000), &json!(2))
    );
    assert_eq!(
        (&one("auth.keys[0].key")["value"], &one("auth.keys[0].key")["line"]),
        (&json!("${KEY_A}"), &json!(5))
    );
    let defaults: Vec<_> = found.iter().filter(|item| item["line"].is_null()).collect();
    assert!(defaults.len() > 50, "{defaults:?}");
    assert!(!defaults.iter().any(|item| item["path"] == "limits.max_body_bytes"));
}

#[test]
fn what_waits_for_a_restart_is_shown_with_what_is_in_force() {
    let now = found("logs: {queue_max_bytes: 20000000, spool_dir: /later}\nlimits: {max_body_bytes: 1000}\n");
    let started = found("\nlogs: {queue_max_bytes: 30000000}\n");
    let items = with_those_of_start(now, started, &["logs.queue_max_bytes", "logs.spool_dir"]);
    let one = |path: &str| items.iter().find(|item| item["path"] == path).unwrap_or_else(|| panic!("{path}"));
    let queue = one("logs.queue_max_bytes");
    assert_eq!(
        (&queue["value"], &queue["line"], &queue["waiting"]),
        (&json!(30_000_000), &json!(2), &json!(20_000_000))
    );
    assert_eq!(
        (&one("logs.spool_dir")["value"], &one("logs.spool_dir")["waiting"]),
        (&Value::Null, &json!("/later"))
    );
    assert_eq!(
        (&one("limits.max_body_bytes")["value"], one("limits.max_body_bytes").get("waiting")),
        (&json!(1000), None)
    );
    let paths: Vec<&str> = items.iter().map(path_of).collect();
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len(), "each path stands once");
}
