//! Makes and changes records of the store: ids, slugs, revisions, times.
//!
//! Knows no resource: what a body has is theirs.

use jiff::Timestamp;
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

/// A new record of the workspace, or of the organisation for `None`.
pub(super) fn created(
    kind: Kind,
    workspace: Option<Uuid>,
    slug: String,
    body: &Value,
    now: Timestamp,
) -> Record {
    Record {
        kind,
        id: Uuid::now_v7(),
        parent: None,
        workspace,
        slug: Some(slug),
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: body.to_string().into(),
        sealed: None,
    }
}

/// A new version of `parent`.
pub(super) fn version(kind: Kind, parent: &Record, number: u32, body: &Value, now: Timestamp) -> Record {
    let record = created(kind, parent.workspace, String::new(), body, now);
    Record { parent: Some(parent.id), number: Some(number), slug: None, ..record }
}

/// The record with another body.
pub(super) fn changed(record: &Record, body: &Value, now: Timestamp) -> Record {
    Record { body: body.to_string().into(), revision: record.revision + 1, updated_at: now, ..record.clone() }
}

/// The record out of use. Its secrets are gone.
pub(super) fn archived(record: &Record, now: Timestamp) -> Record {
    Record {
        status: Status::Archived,
        revision: record.revision + 1,
        updated_at: now,
        sealed: None,
        ..record.clone()
    }
}

pub(super) fn put(record: Record) -> Change {
    Change::Put(Arc::new(record))
}

/// The members of a record's body.
pub(super) fn members(record: &Record) -> Map<String, Value> {
    serde_json::from_str(&record.body).unwrap_or_default()
}

/// A member of a body, null where it is absent.
pub(super) fn member(members: &Map<String, Value>, name: &str) -> Value {
    members.get(name).cloned().unwrap_or(Value::Null)
}

/// How often a slug is made before the last one is used, taken or not. Among a million of one name and prefix, all are taken once in
/// 10^18 times.
const SLUG_TRIES: usize = 16;

/// A free slug as Portkey makes them: prefix, the beginning of the name, six hex digits. 25,000 objects of one name would
/// have some twenty slugs twice.
pub(super) fn slug(prefix: &str, name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let start: String = name.chars().filter(char::is_ascii_alphanumeric).take(6).collect();
    let start = format!("{prefix}{}-", start.to_ascii_lowercase());
    let made = || format!("{start}{:06x}", fastrand::u32(..) & 0x00ff_ffff);
    (1..SLUG_TRIES).map(|_| made()).find(|slug| !is_taken(slug)).unwrap_or_else(made)
}

/// ISO 8601 in UTC with milliseconds.
pub(super) fn time(time: Timestamp) -> Value {
    format!("{time:.3}").into()
}

/// Sets a member.
pub(super) fn set(members: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    members.insert(name.to_owned(), value.into());
}

/// The members of what `json!` made.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Takes over the members of an update that the body has: a null clears.
pub(super) fn overlay(members: &mut Map<String, Value>, update: &Map<String, Value>, names: &[&str]) {
    for name in names {
        match update.get(*name) {
            Some(Value::Null) => drop(members.remove(*name)),
            Some(value) => drop(members.insert((*name).to_owned(), value.clone())),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashSet;

    #[test]
    fn a_slug_that_is_made_is_free() {
        let mut taken = HashSet::new();
        for _ in 0..30_000 {
            let slug = slug("pc-", "My config, \u{e9}", |slug| taken.contains(slug));
            assert!(slug.starts_with("pc-myconf-"), "{slug}");
            assert!(taken.insert(slug), "a slug was made twice");
        }
    }

    #[test]
    fn where_all_are_taken_the_last_one_made_is_left_to_the_store() {
        let refused = RefCell::new(Vec::new());
        let is_taken = |slug: &str| {
            refused.borrow_mut().push(slug.to_owned());
            true
        };
        let slug = slug("", "", is_taken);
        assert_eq!((slug.len(), refused.borrow().len()), (7, SLUG_TRIES - 1));
    }
}
