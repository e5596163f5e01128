//! Makes and changes records of the store: ids, slugs, revisions, times.
//!
//! Knows no resource: what a body has is theirs.

use crate::store::{Change, Kind, Record, Status};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::fmt::Write;
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

/// A slug as the reference makes them: prefix, the beginning of the name, six hex digits.
pub(super) fn slug(prefix: &str, name: &str) -> String {
    let mut slug = String::from(prefix);
    for char in name.chars().filter(char::is_ascii_alphanumeric).take(6) {
        slug.push(char.to_ascii_lowercase());
    }
    let _ = write!(slug, "-{:06x}", fastrand::u32(..) & 0x00ff_ffff);
    slug
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
