//! Prompts and partials of files: the content of the published version, and the labels on it.
//!
//! Another content makes a version and publishes it, as the calls of the API do; older versions stay.

use super::super::call::Call;
use super::super::labels::name_of;
use super::super::prompts::CONTENT;
use super::super::records::{member, members, object, set};
use super::super::stage::{self, Part, Stage, route};
use super::kinds::Managed;
use super::members::collection;
use memory::state::stored::prompts::read as published;
use memory::store::{Catalog, Kind, Record};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use words::error::Error;

/// Alone it makes no version.
const DESCRIPTION: &str = "version_description";
pub(super) const LABELS: &str = "labels";

/// The members of a prompt or partial, with the content and the labels of its published version.
pub(super) fn of_record(catalog: &Catalog, managed: &Managed, record: &Record) -> Map<String, Value> {
    let body = members(record);
    let mut found = Map::new();
    set(&mut found, "name", member(&body, "name"));
    set(&mut found, "collection_id", collection(catalog, record, &body));
    let version = managed.numbered().and_then(|numbered| numbered.published(catalog, record));
    let content = version.map(|version| members(version)).unwrap_or_default();
    found.extend(
        content
            .into_iter()
            .filter(|(name, value)| is_content(name) && *value != Value::Bool(false) && !value.is_null()),
    );
    if managed.kind == Kind::Prompt {
        // A call that makes one has them.
        found.entry("parameters").or_insert_with(|| json!({}));
        let labels = labels(catalog, record);
        if !labels.is_empty() {
            set(&mut found, LABELS, json!(labels));
        }
    }
    found
}

/// The names of the labels on the published version.
fn labels(catalog: &Catalog, record: &Record) -> BTreeSet<String> {
    let of = published(record);
    let own = of.labels.into_iter().filter(|(_, number)| *number == of.published);
    own.filter_map(|(id, _)| name_of(catalog, id)).collect()
}

/// Whether these changes of members make a version.
pub(super) fn makes_version(update: &Map<String, Value>) -> bool {
    update.keys().any(|name| CONTENT.contains(&name.as_str()))
}

/// The body of the call that makes a version of exactly this content. `update`: what else is changed.
pub(super) fn version_body(
    managed: &Managed,
    wanted: &Map<String, Value>,
    update: &Map<String, Value>,
) -> Map<String, Value> {
    let mut body = part_of(update, false);
    if managed.kind == Kind::Partial {
        body.extend(part_of(wanted, true));
        return body;
    }
    set(&mut body, "patch", true);
    for name in CONTENT.into_iter().chain([DESCRIPTION]) {
        set(&mut body, name, member(wanted, name));
    }
    body
}

/// Whether it is a member of a version.
fn is_content(name: &str) -> bool {
    name == DESCRIPTION || CONTENT.contains(&name)
}

/// The members of this kind: of the content, or the others.
fn part_of(members: &Map<String, Value>, is_content: bool) -> Map<String, Value> {
    let mut part = members.clone();
    part.retain(|name, _| self::is_content(name) == is_content);
    part
}

/// Publishes the newest version.
///
/// # Errors
/// Those of the route.
pub(super) async fn publish(
    call: &Call,
    stage: &Arc<Mutex<Stage>>,
    managed: &Managed,
    record: &Record,
) -> Result<(), Error> {
    let path = match managed.kind {
        Kind::Prompt => "/v1/prompts/{id}/makeDefault",
        _ => "/v1/prompts/partials/{id}/makeDefault",
    };
    let catalog = Arc::clone(&stage.lock().catalog);
    let newest = managed.numbered().and_then(|numbered| numbered.newest(&catalog, record));
    let number = newest.and_then(|newest| newest.number).unwrap_or(1);
    let part = Part::new(route("PUT", path)?, Some(record.id), object(json!({"version": number})));
    stage::run(call, stage, part).await.map(drop)
}

/// Puts exactly these labels on the published version.
///
/// # Errors
/// Those of the route; 400 for what is no list of names.
pub(super) async fn set_labels(
    call: &Call,
    stage: &Arc<Mutex<Stage>>,
    record: &Record,
    wanted: &Value,
) -> Result<(), Error> {
    let names: Option<BTreeSet<String>> = wanted
        .as_array()
        .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    let wanted = names
        .ok_or_else(|| Error::invalid_request(LABELS, "labels must be a list of the names of labels."))?;
    let catalog = Arc::clone(&stage.lock().catalog);
    let Some(now) = catalog.get(record.kind, record.id) else { return Ok(()) };
    let found = labels(&catalog, now);
    if found == wanted {
        return Ok(());
    }
    let number = published(now).published.to_string();
    let path = route("PUT", "/v1/prompts/{id}/versions/{version_id}")?;
    let put = |label: Value| {
        let part = Part::new(path, Some(record.id), object(json!({"label_id": label})));
        Part { further: Some(("version_id", number.clone())), ..part }
    };
    let mut left = wanted.iter().filter(|name| !found.contains(*name)).collect::<Vec<_>>();
    if !found.is_subset(&wanted) {
        // The route takes all labels from a version.
        stage::run(call, stage, put(Value::Null)).await?;
        left = wanted.iter().collect();
    }
    for name in left {
        stage::run(call, stage, put(name.as_str().into())).await?;
    }
    Ok(())
}
