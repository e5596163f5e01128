//! What a file has of a stored object: the members of the call that makes one, with the values that are stored.
//!
//! Secrets stand open in what is returned: it is compared, and goes to nobody as it is.

use super::super::call::Call;
use super::super::credential::{LimitedAs, has_role};
use super::super::records::{member, members, set};
use super::kinds::{KINDS, Managed, PLACES, fields};
use super::numbered;
use memory::store::{Catalog, Kind, Record};
use serde_json::{Map, Value};
use uuid::Uuid;
use words::error::Error;

/// Members of a call that say once what is done, and are not kept.
const ONCE: [&str; 5] =
    ["users", "key_sha256", "default_provider_slug", "create_default_provider", "used_before"];

/// The members of a stored object. Absent: those that it does not have.
///
/// # Errors
/// As [`Call::open_members`].
pub(super) fn of_record(
    call: &Call,
    catalog: &Catalog,
    managed: &Managed,
    record: &Record,
) -> Result<Map<String, Value>, Error> {
    let mut found = match (managed.kind, managed.role()) {
        (Kind::Provider, role) => {
            let secrets = call.store()?.unseal(record).map_err(Error::from)?;
            let body = members(record);
            match role {
                Some("is_integration") => of_integration(&body, secrets),
                _ => of_provider(catalog, record, &body, secrets),
            }
        }
        (Kind::Prompt | Kind::Partial, _) => numbered::of_record(catalog, managed, record),
        _ => plain(managed, call.open_members(record)?)?,
    };
    if managed.kind == Kind::Label {
        set(&mut found, "name", record.slug.clone());
    }
    if managed.kind == Kind::Collection {
        let parent = collection(catalog, record, &members(record));
        set(&mut found, "parent_collection_id", parent);
    }
    found.retain(|_, value| !value.is_null());
    Ok(found)
}

/// Whether a file would have the same of both records.
///
/// # Errors
/// As [`Call::open_members`].
pub(crate) fn has_same_members(
    call: &Call,
    catalog: &Catalog,
    before: &Record,
    after: &Record,
) -> Result<bool, Error> {
    let is_of = |managed: &&Managed| {
        managed.kind == before.kind && managed.role().is_none_or(|role| has_role(before, role))
    };
    let Some(managed) = KINDS.iter().find(is_of) else { return Ok(false) };
    let of = |record| of_record(call, catalog, managed, record);
    Ok(before.kind == after.kind && before.slug == after.slug && of(before)? == of(after)?)
}

/// The members of a body that a request has under the same names.
fn plain(managed: &Managed, mut body: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut found = Map::new();
    for field in fields(managed.creation(&body)?) {
        if !PLACES.contains(&field.name) && !ONCE.contains(&field.name) {
            found.extend(body.remove(field.name).map(|value| (field.name.to_owned(), value)));
        }
    }
    if managed.kind == Kind::ApiKey {
        found.extend(body.remove("type").map(|value| ("type".to_owned(), value)));
    }
    Ok(found)
}

fn of_integration(body: &Map<String, Value>, secrets: Map<String, Value>) -> Map<String, Value> {
    let mut found = Map::new();
    for name in ["name", "description", "note", "pricing_adjustments"] {
        set(&mut found, name, member(body, name));
    }
    for name in ["usage_limits", "rate_limits"] {
        set(&mut found, name, member(body, &format!("{}{name}", LimitedAs::Integration.prefix())));
    }
    if body.get("is_provider").and_then(Value::as_bool) == Some(false) {
        set(&mut found, "create_default_provider", false);
    }
    set(&mut found, "ai_provider_id", member(body, "ai_provider"));
    account(body, secrets, &mut found);
    found
}

fn of_provider(
    catalog: &Catalog,
    record: &Record,
    body: &Map<String, Value>,
    secrets: Map<String, Value>,
) -> Map<String, Value> {
    let mut found = Map::new();
    for name in ["name", "note", "usage_limits", "rate_limits", "expires_at", "allowed_models"] {
        set(&mut found, name, member(body, name));
    }
    match record.parent {
        Some(parent) => {
            let integration = catalog.get(Kind::Provider, parent).and_then(|parent| parent.slug.clone());
            set(&mut found, "integration_id", integration);
        }
        None => {
            set(&mut found, "provider", member(body, "ai_provider"));
            account(body, secrets, &mut found);
        }
    }
    found
}

/// `key` and `configurations` of an account.
fn account(body: &Map<String, Value>, secrets: Map<String, Value>, found: &mut Map<String, Value>) {
    let mut all = body.get("account").and_then(Value::as_object).cloned().unwrap_or_default();
    all.extend(secrets);
    if let Some(key) = all.remove("api_key") {
        set(found, "key", key);
    }
    if !all.is_empty() {
        set(found, "configurations", Value::Object(all));
    }
}

/// The slug of the collection that something is in; null for the default one.
pub(super) fn collection(catalog: &Catalog, record: &Record, body: &Map<String, Value>) -> Value {
    let id = body.get("collection_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    let found =
        id.filter(|id| record.workspace != Some(*id)).and_then(|id| catalog.get(Kind::Collection, id));
    found.and_then(|found| found.slug.clone()).into()
}
