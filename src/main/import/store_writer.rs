//! Makes the objects of an import in a running gateway, by its control API: those that are not there yet.
//!
//! What is there is left as it is, so that a second import changes nothing. An object of somebody else is never taken for one of the
//! import, and no key is made whose limits are not there. Checks nothing of an object: that is the gateway's.

use super::super::object_api::ObjectApi;
use super::objects::{PlannedKind, PlannedObject};
use super::stored_objects::{Found, StoredObjects};
use control::object_kinds;
use serde::Serialize;
use serde_json::Value;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// What became of the objects.
#[derive(Debug, Default, Serialize)]
pub struct StoreOutcome {
    /// Of each kind: how many were made, or would be.
    made: BTreeMap<&'static str, usize>,
    /// How many were there, and are as they were.
    unchanged: BTreeMap<&'static str, usize>,
    /// Keys that were revoked here, workspaces and policies that were archived, and stay so.
    revoked: Vec<String>,
    /// What the gateway has refused, or somebody else has made, and why; and the keys that would lack a limit without it.
    refused: Vec<String>,
    /// What would be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    planned: Vec<String>,
    /// Why the rest was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    /// What was not made, by file and path of what it is of, and why.
    #[serde(skip)]
    pub lost: Vec<(usize, String, String)>,
    /// The marks of what could not be made.
    #[serde(skip)]
    failed: BTreeSet<String>,
}

/// Where objects of a kind are made and read.
struct Paths {
    create: &'static str,
    read: &'static str,
}

const OF_OTHERS: &str = "an object with this slug is there, and its description is not that which an import writes: it may be of somebody \
     else, so delete it or give it back its description (docs/moving/litellm.md)";

const OTHER_PROMPT: &str = "a prompt with this slug is there and says something else; it stays as it is";

/// Makes the objects; `is_dry`: only looks which are there. An error ends it, and is in what is returned.
pub fn write(api: &ObjectApi, objects: &[PlannedObject], is_dry: bool) -> StoreOutcome {
    let mut outcome = StoreOutcome::default();
    let mut objects: Vec<&PlannedObject> = objects.iter().collect();
    objects.sort_by_key(|object| object.kind);
    let made = make(api, &objects, is_dry, &mut outcome);
    outcome.stopped = made.err();
    outcome
}

fn make(
    api: &ObjectApi,
    objects: &[&PlannedObject],
    is_dry: bool,
    outcome: &mut StoreOutcome,
) -> Result<(), String> {
    let mut paths: BTreeMap<PlannedKind, Paths> = BTreeMap::new();
    let mut stored = StoredObjects::default();
    for object in objects {
        let kind = object.kind;
        let paths = match paths.entry(kind) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let found = paths_of(kind)?;
                match kind {
                    PlannedKind::Key => {}
                    PlannedKind::Prompt => stored.read_prompts(api, list_path(found.read))?,
                    _ => stored.read(api, kind, list_path(found.read))?,
                }
                entry.insert(found)
            }
        };
        let found = match kind {
            PlannedKind::Key => key(api, object, paths)?,
            PlannedKind::Prompt => stored.find_prompt(api, list_path(paths.read), object)?,
            _ => stored.find(object),
        };
        let is_lacking = object.needs.iter().any(|mark| outcome.failed.contains(mark));
        match found {
            Found::Object => *outcome.unchanged.entry(kind.name()).or_default() += 1,
            Found::Ended => outcome.end(object),
            Found::Other if kind == PlannedKind::Prompt => outcome.refuse(object, OTHER_PROMPT),
            Found::Other => outcome.refuse(object, OF_OTHERS),
            Found::Nothing if is_lacking => {
                outcome.refuse(object, "is not made, as a limit of it could not be made, or its workspace");
            }
            Found::Nothing if is_dry => {
                *outcome.made.entry(kind.name()).or_default() += 1;
                outcome.planned.push(described(object));
            }
            Found::Nothing => match api.call("POST", paths.create, &[], Some(&body(object))) {
                Ok(_) => *outcome.made.entry(kind.name()).or_default() += 1,
                Err(why) => outcome.refuse(object, &why),
            },
        }
    }
    Ok(())
}

fn paths_of(kind: PlannedKind) -> Result<Paths, String> {
    let found = object_kinds().into_iter().find(|found| found.name == kind.object_kind());
    let create = found.as_ref().and_then(|found| found.create);
    // Keys of a workspace are made in a list of their own, and read where all are.
    let read = match kind {
        PlannedKind::Key => Some("/v1/api-keys"),
        _ => found.as_ref().and_then(|found| found.read),
    };
    create
        .zip(read)
        .map(|(create, read)| Paths { create, read })
        .ok_or_else(|| format!("there is no kind {}", kind.object_kind()))
}

/// A path without its parameter.
fn list_path(path: &str) -> &str {
    path.split("/{").next().unwrap_or(path)
}

fn key(api: &ObjectApi, object: &PlannedObject, paths: &Paths) -> Result<Found, String> {
    let query = [("key_sha256".to_owned(), object.text("key_sha256").to_owned())];
    let list = api.call("GET", paths.read, &query, None)?;
    let key = list.pointer("/data/0");
    Ok(match key.and_then(|key| key.get("status")).and_then(Value::as_str) {
        None => Found::Nothing,
        Some("revoked") => Found::Ended,
        Some(_) => Found::Object,
    })
}

fn body(object: &PlannedObject) -> Value {
    Value::Object(object.body.clone())
}

/// An object in a line, without the digest of a key.
fn described(object: &PlannedObject) -> String {
    let slug = object.text("slug");
    let name = object.text("name");
    let place = match object.kind {
        PlannedKind::Key => format!(" in the workspace {}", object.text("workspace_id")),
        _ => format!(" ({slug})"),
    };
    format!("{} {name}{place}", object.kind.name())
}

impl StoreOutcome {
    /// Nothing was tried.
    pub fn of_error(why: String) -> Self {
        Self { stopped: Some(why), ..Self::default() }
    }

    /// Whether all of it is there.
    pub fn is_good(&self) -> bool {
        self.refused.is_empty() && self.stopped.is_none()
    }

    fn refuse(&mut self, object: &PlannedObject, why: &str) {
        self.refused.push(format!("{}: {why}", described(object)));
        self.failed.insert(object.mark.clone());
        let (file, path) = object.origin.clone();
        self.lost.push((file, path, format!("{}: {why}", described(object))));
    }

    /// What was ended here stays so. Without its workspace no key can be made.
    fn end(&mut self, object: &PlannedObject) {
        if object.kind == PlannedKind::Workspace {
            self.failed.insert(object.mark.clone());
        }
        self.revoked.push(match object.kind {
            PlannedKind::Key => object.text("name").to_owned(),
            _ => described(object),
        });
    }

    /// What a person reads. `is_dry`: as for [`write`].
    pub fn text(&self, is_dry: bool) -> String {
        let mut text = String::new();
        for line in &self.planned {
            text.push_str(&format!("would make {line}\n"));
        }
        for name in &self.revoked {
            text.push_str(&format!("left out: {name}, which was revoked or archived here\n"));
        }
        for why in &self.refused {
            text.push_str(&format!("refused: {why}\n"));
        }
        let counts = |counts: &BTreeMap<&str, usize>| -> String {
            let counted: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            if counted.is_empty() { "nothing".to_owned() } else { counted.join(", ") }
        };
        let verb = if is_dry { "would make" } else { "made" };
        text.push_str(&format!("{verb}: {}; there already: {}", counts(&self.made), counts(&self.unchanged)));
        if !self.refused.is_empty() {
            text.push_str(&format!("; refused: {}", self.refused.len()));
        }
        text.push('\n');
        if let Some(why) = &self.stopped {
            text.push_str(&format!("the rest was not tried: {why}\n"));
        }
        text
    }
}
