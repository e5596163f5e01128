//! Makes the objects of an import in a running gateway, by its control API: those that are not there yet.
//!
//! What is there is left as it is, so that a second import changes nothing. Checks nothing of an object: that is the gateway's.

use super::super::object_api::ObjectApi;
use super::objects::{PlannedKind, PlannedObject};
use control::object_kinds;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What became of the objects.
#[derive(Debug, Default, Serialize)]
pub struct StoreOutcome {
    /// Of each kind: how many were made, or would be.
    made: BTreeMap<&'static str, usize>,
    /// How many were there, and are as they were.
    unchanged: BTreeMap<&'static str, usize>,
    /// Keys that were revoked here, and stay so.
    revoked: Vec<String>,
    /// What the gateway has refused, and why.
    pub refused: Vec<String>,
    /// What would be made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    planned: Vec<String>,
}

/// What there is of an object.
enum Found {
    Nothing,
    Object,
    Revoked,
}

/// Where objects of a kind are made and read.
struct Paths {
    create: &'static str,
    read: &'static str,
}

/// Makes the objects; `is_dry`: only looks which are there.
///
/// # Errors
/// The gateway cannot be reached, or does not let this key look.
pub fn write(api: &ObjectApi, objects: &[PlannedObject], is_dry: bool) -> Result<StoreOutcome, String> {
    let mut outcome = StoreOutcome::default();
    let mut objects: Vec<&PlannedObject> = objects.iter().collect();
    objects.sort_by_key(|object| object.kind);
    let mut paths: BTreeMap<PlannedKind, Paths> = BTreeMap::new();
    for object in objects {
        let kind = object.kind;
        let paths = match paths.entry(kind) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(paths_of(kind)?),
        };
        match find(api, object, paths)? {
            Found::Object => *outcome.unchanged.entry(kind.name()).or_default() += 1,
            Found::Revoked => outcome.revoked.push(object.text("name").to_owned()),
            Found::Nothing if is_dry => {
                *outcome.made.entry(kind.name()).or_default() += 1;
                outcome.planned.push(described(object));
            }
            Found::Nothing => match api.call("POST", paths.create, &[], Some(&body(object))) {
                Ok(_) => *outcome.made.entry(kind.name()).or_default() += 1,
                Err(why) => outcome.refused.push(format!("{}: {why}", described(object))),
            },
        }
    }
    Ok(outcome)
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

fn find(api: &ObjectApi, object: &PlannedObject, paths: &Paths) -> Result<Found, String> {
    if object.kind == PlannedKind::Key {
        let query = [("key_sha256".to_owned(), object.text("key_sha256").to_owned())];
        let list = api.call("GET", paths.read, &query, None)?;
        let key = list.pointer("/data/0");
        return Ok(match key.and_then(|key| key.get("status")).and_then(Value::as_str) {
            None => Found::Nothing,
            Some("revoked") => Found::Revoked,
            Some(_) => Found::Object,
        });
    }
    let parameter = paths.read.find('{').unwrap_or(paths.read.len());
    let path = format!("{}{}", paths.read.get(..parameter).unwrap_or_default(), object.text("slug"));
    let found = api.find(&path)?;
    Ok(if found.is_some() { Found::Object } else { Found::Nothing })
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
    /// What a person reads. `is_dry`: as for [`write`].
    pub fn text(&self, is_dry: bool) -> String {
        let mut text = String::new();
        for line in &self.planned {
            text.push_str(&format!("would make {line}\n"));
        }
        for name in &self.revoked {
            text.push_str(&format!("left out: key {name}, which was revoked here\n"));
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
        text + "\n"
    }
}
