//! Who an object is managed by: the API, or the files of a set, which `POST /v1/apply` has written it from.
//!
//! One owner for each object: what is a file's is changed by the file, and every other write of it is refused here, where all writes
//! pass (`Call::commit`), unless it says that it takes the object over. Where the mark is kept: in the body of the record.

use super::call::Call;
use super::declared;
use super::field::{Field, Type, optional, required};
use super::records::{members, set};
use super::stage::Staged;
use memory::store::{Catalog, Change, Kind, Record, Status};
use serde_json::{Map, Value};
use std::sync::Arc;
use words::error::Error;

/// The member of a body that has the name of the set.
pub(super) const FILE_SET: &str = "file_set";

const ORIGINS: Type = Type::OneOf(&["settings", "store", "file"]);

/// The members of an object that say who manages it.
pub(super) const ORIGIN: Field = required(
    "origin",
    ORIGINS,
    "`settings`: from the settings file, read-only. `file`: applied from a file (`file_set`), which alone changes it. `store`: of the API.",
);
pub(super) const SET: Field = optional(
    "file_set",
    Type::Text(64),
    "The set of files that the object was applied from; absent where the API manages it.",
);

/// The parameter of changes and deletions of such objects.
pub(super) const TAKE_OVER: Field = optional(
    "take_over",
    Type::Switch,
    "Changes an object that was applied from a file all the same: from then on it is one of the API. Without it that is a 409.",
);

/// Members that count usage anew and that no file has.
const RESETS: [&str; 2] = ["reset_usage", "reset_usage_for_value"];

/// The set that a record is of; `None`: the API manages it.
pub(super) fn set_of(record: &Record) -> Option<String> {
    // Most have none, and a list may have many records.
    if !record.body.contains(FILE_SET) {
        return None;
    }
    members(record).get(FILE_SET)?.as_str().map(str::to_owned)
}

/// `origin` of a stored object with these members.
pub(super) fn of_members(body: &Map<String, Value>) -> &'static str {
    if body.get(FILE_SET).is_some_and(Value::is_string) { "file" } else { "store" }
}

/// Adds `origin` and `file_set` to a view.
pub(super) fn show(body: &Map<String, Value>, shown: &mut Map<String, Value>) {
    set(shown, "origin", of_members(body));
    if let Some(of) = body.get(FILE_SET) {
        set(shown, FILE_SET, of.clone());
    }
}

/// The changes of a call as they may be written: marked with the set of an apply, without the mark where the call takes an object over.
///
/// # Errors
/// 409 for an object of a file that something else would change.
pub(super) fn checked(call: &Call, catalog: &Catalog, changes: Vec<Change>) -> Result<Vec<Change>, Error> {
    changes.into_iter().map(|change| checked_one(call, catalog, change)).collect()
}

fn checked_one(call: &Call, catalog: &Catalog, change: Change) -> Result<Change, Error> {
    let before = match &change {
        Change::Put(record) => catalog.get(record.kind, record.id),
        Change::Delete { kind, id } => catalog.get(*kind, *id),
    };
    let owner = before.and_then(|before| set_of(before));
    if let Some(staged) = &call.staged {
        return of_apply(staged, owner.as_deref(), before.map(|before| &**before), change);
    }
    let (Some(owner), Some(before)) = (owner, before) else { return Ok(change) };
    if call.query_flag("take_over") == Some(true) {
        return Ok(match change {
            Change::Put(record) => Change::Put(Arc::new(marked(&record, None))),
            delete @ Change::Delete { .. } => delete,
        });
    }
    if is_free(call) || is_of_no_file(call, catalog, before, &change)? {
        Ok(change)
    } else {
        Err(refusal(before, &owner))
    }
}

/// Whether a change is of nothing that a file has: a key that ends, with its owner, or parts of an object that files do not have.
fn is_of_no_file(call: &Call, catalog: &Catalog, before: &Record, change: &Change) -> Result<bool, Error> {
    let Change::Put(record) = change else { return Ok(false) };
    if record.status != Status::Active {
        return Ok(record.kind == Kind::ApiKey);
    }
    if before.status != Status::Active {
        return Ok(false);
    }
    declared::has_same_members(call, catalog, before, record)
}

/// Whether a call changes nothing that a file has: a key that has leaked is revoked or rotated at once, and usage is counted anew.
fn is_free(call: &Call) -> bool {
    let is_of_key = matches!(call.trail.change, Some(("api-keys", "rotate" | "delete")));
    let is_reset = !call.body.is_empty() && call.body.keys().all(|name| RESETS.contains(&name.as_str()));
    is_of_key || is_reset
}

fn of_apply(
    staged: &Staged,
    owner: Option<&str>,
    before: Option<&Record>,
    change: Change,
) -> Result<Change, Error> {
    let set = staged.set();
    if let (Some(owner), Some(before)) = (owner, before)
        && owner != set
        && staged.target() != Some(before.id)
    {
        return Err(refusal(before, owner));
    }
    if let Some(before) = before
        && ends(before, &change)
        && is_managed(before.kind)
        && owner.is_none()
        && staged.target() != Some(before.id)
    {
        return Err(not_of_set(before));
    }
    let Change::Put(record) = &change else { return Ok(change) };
    // What changes along with the object that is applied keeps its owner.
    let is_own = before.is_none_or(|before| match staged.target() {
        Some(target) => target == before.id,
        // Made anew under the id that it had.
        None => before.status != Status::Active && record.status == Status::Active,
    });
    Ok(if is_own && is_managed(record.kind) {
        Change::Put(Arc::new(marked(record, Some(&set))))
    } else {
        change
    })
}

/// Whether a change takes an object out of use.
fn ends(before: &Record, change: &Change) -> bool {
    before.status == Status::Active
        && match change {
            Change::Put(record) => record.status != Status::Active,
            Change::Delete { .. } => true,
        }
}

fn not_of_set(record: &Record) -> Error {
    let kind = record.kind.as_str().replace('_', " ");
    let slug = record.slug.as_deref().unwrap_or_default();
    Error::conflict(format!(
        "The {kind} {slug} would go with it, and is managed by the API: delete it there first, or have it in the files."
    ))
}

/// Whether objects of this kind are in files. Versions and members are parts of others.
fn is_managed(kind: Kind) -> bool {
    !matches!(kind, Kind::ConfigVersion | Kind::PromptVersion | Kind::PartialVersion | Kind::Member)
}

fn marked(record: &Record, of: Option<&str>) -> Record {
    let mut body = members(record);
    match of {
        Some(of) => set(&mut body, FILE_SET, of),
        None => drop(body.remove(FILE_SET)),
    }
    Record { body: Value::Object(body).to_string().into(), ..record.clone() }
}

/// Why a write is refused, with what to do.
pub(super) fn refusal(record: &Record, owner: &str) -> Error {
    let kind = record.kind.as_str().replace('_', " ");
    let slug = record.slug.as_deref().unwrap_or_default();
    Error::conflict(format!(
        "The {kind} {slug} is managed by the files of the set {owner:?}: change it there and apply them. With take_over=true it is changed \
         all the same, and is one of the API from then on."
    ))
    .with_param("take_over")
}
