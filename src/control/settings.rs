//! `GET /v1/settings`: the settings in force, each with the line that gives it, or as the default that counts where none does.
//!
//! Secrets are masked: whatever the settings' tables read as a secret (`SettingsSource::secret_places`), by name as in the audit log, and of
//! each URL the user, password and query. A reference to a variable or credential is shown as it is written, and not what it stands for.
//! Settings are changed in their file.

use super::call::Call;
use super::field::{Field, Type, nullable, optional, required};
use super::masking::{MASK, mask, mask_urls};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get};
use super::work::Work;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use words::config::node::{Node, NodeKind};
use words::error::Error;
use words::settings::scopes::Scope;
use words::settings::{SettingsSource, schema};

const ITEM: &[Field] = &[
    required("path", Type::Text(1024), "`limits.max_body_bytes`, `providers.openai.custom_host`."),
    required("value", Type::Any, "What is in force; secrets masked."),
    nullable("line", Type::Integer(1, i64::MAX), "The line of the file; null: the default counts."),
    optional(
        "waiting",
        Type::Any,
        "What the file gives now, which counts after a restart; null: the default.",
    ),
];

const SHAPE: &[Field] = &[
    nullable("file", Type::Text(4096), "The file that was read."),
    required("hash", Type::Text(64), "The first twelve hex digits of the SHA-256 of its text."),
    required(
        "waiting_for_restart",
        Type::List(&Type::Text(256), 0, 1000),
        "Keys whose value in the file counts after a restart only. Where all of a key waits, its value and line are those of the start.",
    ),
    required(
        "data",
        Type::List(&Type::Object(ITEM), 0, MAX_ITEMS),
        "The settings: those of the file, then the defaults.",
    ),
    required("object", Type::Text(20), "`settings`."),
];

/// The most nodes that a file may have, and as many that wait.
const MAX_ITEMS: usize = 500_000;
/// What an item takes until it is sent, about.
const ITEM_BYTES: usize = 512;

pub(super) const ROUTES: &[Route] =
    &[get("/v1/settings", Access::Scope(&[Scope::TargetsRead]), "Shows the settings in force", |call| {
        Box::pin(show(call))
    })
    .works_at(Work::Compute)
    .replies(Shape::Object(SHAPE))
    .on_control_port_only()];

async fn show(call: Call) -> Result<Reply, Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden("Settings are of all workspaces: a key of the organisation sees them."));
    }
    let settings = Arc::clone(&call.snapshot);
    let shared = Arc::clone(&call.shared);
    let mut held = call.shared.held_bytes.holder();
    let built = tokio::task::spawn_blocking(move || {
        let settings = &settings.settings;
        let mut items = Found::of(&settings.source);
        held.set(2 * items.len() * ITEM_BYTES)?;
        let waiting = shared.waiting_for_restart.load_full();
        // Of a member of which a part waits the rest is in force.
        let whole: Vec<&str> =
            waiting.iter().map(String::as_str).filter(|path| !path.contains(' ')).collect();
        if !whole.is_empty() {
            items = with_those_of_start(items, Found::of(&shared.started_with), &whole);
        }
        let reply = Reply::from(json!({
            "file": settings.source.file.as_ref().map(|file| file.display().to_string()),
            "hash": settings.hash,
            "waiting_for_restart": waiting.as_slice(),
            "data": items,
            "object": "settings",
        }));
        drop(held);
        Ok(reply)
    });
    built.await.unwrap_or_else(|_| Err(Error::internal("The settings could not be shown.")))
}

/// The settings that were found, and the paths of those that the file gives.
struct Found<'a> {
    items: Vec<Value>,
    given: BTreeSet<String>,
    /// The places of what was read as a secret.
    secrets: &'a HashSet<(u64, u64)>,
}

impl Found<'_> {
    /// All settings that were read from `source`, and the defaults of the others.
    fn of(source: &SettingsSource) -> Vec<Value> {
        let mut shown = value(&source.written);
        mask(&mut shown);
        let secrets = source.secret_places.iter().copied().collect();
        let mut found = Found { items: Vec::new(), given: BTreeSet::new(), secrets: &secrets };
        found.add("", &source.written, &shown, false);
        found.add_defaults("", &schema::build(&[]));
        found.items
    }

    /// What the file gives, leaf by leaf. `shown`: the same, masked by names. `is_secret`: it is part of a secret.
    fn add(&mut self, path: &str, node: &Node, shown: &Value, is_secret: bool) {
        let is_secret = is_secret || node.place.is_some_and(|place| self.secrets.contains(&place));
        match (&node.kind, shown) {
            (NodeKind::Map(entries), Value::Object(members)) if !entries.is_empty() => {
                for entry in entries {
                    let path = below(path, &entry.name);
                    let shown = members.get(&entry.name).unwrap_or(&Value::Null);
                    self.add(&path, &entry.value, shown, is_secret);
                }
            }
            (NodeKind::List(items), Value::Array(values)) if items.iter().any(Node::is_object) => {
                for (index, (item, value)) in items.iter().zip(values).enumerate() {
                    self.add(&format!("{path}[{index}]"), item, value, is_secret);
                }
            }
            _ => {
                let value = match node.as_text() {
                    Some(text) if is_reference(text) => text.into(),
                    _ if is_secret || is_key_itself(path) => MASK.into(),
                    _ => {
                        let mut shown = shown.clone();
                        mask_urls(&mut shown);
                        shown
                    }
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
            let is_given = near.any(|given| is_at_or_below(given, &path));
            match property.get("default") {
                Some(default) if !is_given => {
                    self.items.push(json!({"path": path, "value": default, "line": null}));
                }
                _ => self.add_defaults(&path, property),
            }
        }
    }
}

/// The settings in force, where the members at these paths are still those of the start: `now` with the items of `started`, and beside each
/// what the file gives now.
fn with_those_of_start(now: Vec<Value>, started: Vec<Value>, waiting: &[&str]) -> Vec<Value> {
    let waits = |item: &Value| waiting.iter().any(|path| is_at_or_below(path_of(item), path));
    let (later, mut items): (Vec<_>, Vec<_>) = now.into_iter().partition(&waits);
    let mut later: BTreeMap<String, Value> = later
        .into_iter()
        .map(|item| (path_of(&item).to_owned(), item.get("value").cloned().unwrap_or_default()))
        .collect();
    for mut item in started.into_iter().filter(&waits) {
        let value = later.remove(path_of(&item)).unwrap_or_default();
        if let Value::Object(members) = &mut item {
            members.insert("waiting".to_owned(), value);
        }
        items.push(item);
    }
    // What the file did not give at the start, and has no default.
    items.extend(
        later
            .into_iter()
            .map(|(path, value)| json!({"path": path, "value": null, "line": null, "waiting": value})),
    );
    items
}

fn path_of(item: &Value) -> &str {
    item.get("path").and_then(Value::as_str).unwrap_or_default()
}

/// Whether `path` is `above` or below it.
fn is_at_or_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| matches!(rest.as_bytes().first(), None | Some(b'.' | b'[')))
}

/// Whether what stands here lets in whoever has it, and is not read as a secret: digests of keys, addresses of chats.
fn is_key_itself(path: &str) -> bool {
    path.starts_with("alerts.webhooks") || path.starts_with("auth.keys") && path.ends_with(".sha256")
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
mod tests;
