//! What differs between a stored object and what would take its place.

use super::super::call::Call;
use super::super::origin::FILE_SET;
use super::super::records::members;
use super::kinds::Managed;
use memory::store::{Catalog, Change, Kind, Record};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use words::error::Error;

/// The most paths that a plan has of one object.
const MAX_PATHS: usize = 100;

/// The paths of the members that differ; of lists and of what one of them has not, the path as a whole.
pub(super) fn paths(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    add_paths(before, after, "", &mut found);
    found.truncate(MAX_PATHS);
    found
}

fn add_paths(before: &Map<String, Value>, after: &Map<String, Value>, at: &str, found: &mut Vec<String>) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match (before.get(name), after.get(name)) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                add_paths(before, after, &path, found);
            }
            (before, after) if before != after => found.push(path),
            _ => {}
        }
    }
}

/// Whether these changes leave everything as it is, but for who has changed it and when.
///
/// # Errors
/// As [`Call::open_members`].
pub(super) fn is_nothing(
    call: &Call,
    before: &Catalog,
    managed: &Managed,
    changes: &[Change],
) -> Result<bool, Error> {
    for change in changes {
        let Change::Put(record) = change else { return Ok(false) };
        let is_same = match before.get(record.kind, record.id) {
            Some(old) => is_same(call, old, record)?,
            // A version of what did not change.
            None => match record.kind {
                Kind::ConfigVersion => true,
                Kind::PromptVersion | Kind::PartialVersion => is_published(before, managed, record),
                _ => false,
            },
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_same(call: &Call, old: &Arc<Record>, new: &Record) -> Result<bool, Error> {
    let is_in_place = old.slug == new.slug && old.status == new.status && old.parent == new.parent;
    Ok(is_in_place && content(call.open_members(old)?) == content(call.open_members(new)?))
}

/// Whether a version has the content of the published one.
fn is_published(catalog: &Catalog, managed: &Managed, version: &Record) -> bool {
    let of = version.parent.and_then(|parent| catalog.get(managed.kind, parent));
    let found = of.zip(managed.numbered()).and_then(|(of, numbered)| numbered.published(catalog, of));
    found.is_some_and(|found| members(found) == members(version))
}

/// A body without what every change changes.
fn content(mut body: Map<String, Value>) -> Map<String, Value> {
    body.retain(|name, _| {
        !matches!(name.as_str(), "updated_by" | "version" | "version_id" | FILE_SET)
            && !name.ends_with("_set_by")
    });
    body
}
