//! `GET /v1/settings`: the settings in force, each with the line that gives it, or as the default that counts where none does.
//!
//! Secrets are masked: by name as in the audit log, and beyond that whatever the settings take for a secret. A reference to a variable or
//! credential is shown as it is written, and not what it stands for. Settings are changed in their file.

use super::call::Call;
use super::field::{Field, Type, nullable, required};
use super::masking::{MASK, mask};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use words::config::node::{Node, NodeKind};
use words::error::Error;
use words::settings::schema;
use words::settings::scopes::Scope;

const ITEM: &[Field] = &[
    required("path", Type::Text(1024), "`limits.max_body_bytes`, `providers.openai.custom_host`."),
    required("value", Type::Any, "What is in force; secrets masked."),
    nullable("line", Type::Integer(1, i64::MAX), "The line of the file; null: the default counts."),
];

const SHAPE: &[Field] = &[
    nullable("file", Type::Text(4096), "The file that was read."),
    required("hash", Type::Text(64), "The first twelve hex digits of the SHA-256 of its text."),
    required(
        "waiting_for_restart",
        Type::List(&Type::Text(256), 0, 1000),
        "Keys whose value in the file counts after a restart only; the value that is shown is that of the file.",
    ),
    required(
        "data",
        Type::List(&Type::Object(ITEM), 0, 100_000),
        "The settings: those of the file, then the defaults.",
    ),
    required("object", Type::Text(20), "`settings`."),
];

pub(super) const ROUTES: &[Route] =
    &[get("/v1/settings", Access::Scope(&[Scope::TargetsRead]), "Shows the settings in force", |call| {
        Box::pin(show(call))
    })
    .replies(Shape::Object(SHAPE))
    .on_control_port_only()];

/// Parts of paths below which every text is a secret, beside those that the audit log masks by name: addresses that are keys themselves,
/// keys of authorities.
const SECRET_PLACES: [&str; 4] = ["hmac_key", "alerts.webhooks", "telemetry.headers", ".sha256"];

async fn show(call: Call) -> Result<Reply, Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden("Settings are of all workspaces: a key of the organisation sees them."));
    }
    let settings = &call.snapshot.settings;
    let mut found = Found::default();
    let mut shown = value(&settings.source.written);
    mask(&mut shown);
    found.add("", &settings.source.written, &shown);
    let defaults = schema::build(&[]);
    found.add_defaults("", &defaults);
    Ok(Reply::from(json!({
        "file": settings.source.file.as_ref().map(|file| file.display().to_string()),
        "hash": settings.hash,
        "waiting_for_restart": call.shared.waiting_for_restart.load().as_slice(),
        "data": found.items,
        "object": "settings",
    })))
}

/// The settings that were found, and the paths of those that the file gives.
#[derive(Default)]
struct Found {
    items: Vec<Value>,
    given: BTreeSet<String>,
}

impl Found {
    /// What the file gives, leaf by leaf. `shown`: the same, masked.
    fn add(&mut self, path: &str, node: &Node, shown: &Value) {
        match (&node.kind, shown) {
            (NodeKind::Map(entries), Value::Object(members)) if !entries.is_empty() => {
                for entry in entries {
                    let path = below(path, &entry.name);
                    self.add(&path, &entry.value, members.get(&entry.name).unwrap_or(&Value::Null));
                }
            }
            (NodeKind::List(items), Value::Array(values)) if items.iter().any(Node::is_object) => {
                for (index, (item, value)) in items.iter().zip(values).enumerate() {
                    self.add(&format!("{path}[{index}]"), item, value);
                }
            }
            _ => {
                let is_secret = SECRET_PLACES.iter().any(|place| path.contains(place));
                let value = match node.as_text() {
                    Some(text) if is_reference(text) => text.into(),
                    _ if is_secret => MASK.into(),
                    _ => shown.clone(),
                };
                self.items
                    .push(json!({"path": path, "value": value, "line": node.place.map(|(line, _)| line)}));
                self.given.insert(path.to_owned());
            }
        }
    }

    /// The defaults of what the file does not give, by the schema. Entries of maps have none.
    fn add_defaults(&mut self, path: &str, schema: &Value) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (name, property) in properties {
            let path = below(path, name);
            let mut near = self.given.range(path.clone()..).take_while(|given| given.starts_with(&path));
            let is_given =
                near.any(|given| matches!(given.as_bytes().get(path.len()), None | Some(b'.' | b'[')));
            match property.get("default") {
                Some(default) if !is_given => {
                    self.items.push(json!({"path": path, "value": default, "line": null}));
                }
                _ => self.add_defaults(&path, property),
            }
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a text is nothing but a reference to a variable, or to a credential of systemd.
fn is_reference(text: &str) -> bool {
    let variable = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let inner = variable.or_else(|| text.strip_prefix("credential:"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    inner.is_some_and(|name| !name.is_empty() && name.chars().all(is_name))
}

/// A node as JSON. Of a name that is written twice the last counts, and the settings would have been refused.
fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Bool(flag) => (*flag).into(),
        NodeKind::Number(number) => Value::Number(number.clone()),
        NodeKind::Text(text) => text.as_str().into(),
        NodeKind::List(items) => items.iter().map(value).collect(),
        NodeKind::Map(entries) => {
            let members = entries.iter().map(|entry| (entry.name.clone(), value(&entry.value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::settings::read_yaml;

    fn found(text: &str) -> Vec<Value> {
        let (node, problems) = read_yaml(text).unwrap();
        assert!(problems.is_empty());
        let mut shown = value(&node);
        mask(&mut shown);
        let mut found = Found::default();
        found.add("", &node, &shown);
        found.add_defaults("", &schema::build(&[]));
        found.items
    }

    /// Every key of the settings that takes a secret.
    #[test]
    fn no_secret_of_the_settings_is_shown() {
        let text = "
store: {url: 'postgres://u:canary@db/x', encryption_key: canary}
logs: {url: 'postgres://u:canary@db/x'}
cache: {url: 'redis://:canary@cache'}
limits: {counters: {url: 'redis://:canary@cache'}}
acme: {external_account: {key_id: shown, hmac_key: canary}}
auth: {keys: [{name: a, key: canary}, {name: b, sha256: canary}]}
alerts:
  smtp: {host: mail, password: canary}
  webhooks: [{url: 'https://hooks.slack.com/services/canary', secret: canary}, 'https://hooks.slack.com/services/canary']
batches: {s3: {access_key_id: canary, secret_access_key: canary}}
telemetry: {headers: {authorization: canary, x-key: canary}}
outbound: {proxy: {url: 'http://u:canary@proxy:3128'}}
providers:
  openai: {provider: openai, api_key: canary}
  cloud: {provider: bedrock, cloud_a_access_key_id: canary, cloud_a_secret_access_key: canary}
  vertex: {provider: vertex-ai, cloud_b_service_account: '{\"private_key\":\"canary\"}'}
";
        let found = found(text);
        let shown = Value::from(found).to_string();
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains(MASK) && shown.contains("shown"), "{shown}");
    }

    #[test]
    fn what_the_file_gives_has_its_line_and_the_rest_is_the_default() {
        let found =
            found("limits:\n  max_body_bytes: 1000\nauth:\n  keys:\n    - {name: a, key: '${KEY_A}'}\n");
        let one =
            |path: &str| found.iter().find(|item| item["path"] == path).unwrap_or_else(|| panic!("{path}"));
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
}
