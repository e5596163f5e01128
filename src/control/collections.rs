//! Collections of prompts and partials: folders, one of them each workspace's default.
//!
//! The default collection has no record: its id is the workspace's, so that it is there from the beginning and cannot be
//! deleted.

use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::numbered::is_in;
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{member, members, set, time};
use super::resource::{Draft, Item, Resource, create, delete, list, read, stored_items, update, view};
use super::route::{Route, Shape};
use memory::store::{Catalog, Kind, Record, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// The slug of the default collection.
const DEFAULT: &str = "default";

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional("parent_collection_id", Type::Name(128), "Id or slug of the collection it is in."),
    optional(
        "slug",
        Type::Slug(2, 128),
        "May stand for the id; made of the name where absent. Not `default`.",
    ),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; needed with keys of the organisation unless it is the default one.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[not_null("name", Type::Name(255), "For people.")];

const CREATED: &[Field] = &[
    required("id", Type::Uuid, "The collection."),
    required("slug", Type::Text(128), "May stand for the id."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The collection; of the default one, the workspace's id."),
    required("slug", Type::Text(128), "May stand for the id."),
    required("name", Type::Text(255), "For people."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    nullable("parent_collection_id", Type::Uuid, "The collection it is in."),
    required("is_default", Type::Bit, "Whether it is the workspace's default collection."),
    required("status", Type::Text(20), "`active`."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`collection`."),
];

const LIST: &[Field] = &[
    optional("parent_collection_id", Type::Text(128), "Only those in this collection: id or slug."),
    page::WORKSPACE,
];

pub(super) const ROUTES: &[Route] = &[
    create::<Collection>(&[Scope::PromptsCreate], "Makes a collection", CREATE, Shape::Object(CREATED)),
    list::<Collection>(&[Scope::PromptsList], "Lists collections", LIST, ITEM),
    read::<Collection>(&[Scope::PromptsRead], "Reads a collection", ITEM),
    update::<Collection>(&[Scope::PromptsUpdate], "Renames a collection", UPDATE, Shape::Empty),
    delete::<Collection>(&[Scope::PromptsDelete], "Takes an empty collection out of use"),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Collection>("collections");

struct Collection;

impl Resource for Collection {
    const KIND: Kind = Kind::Collection;
    const NAME: &'static str = "collections";
    const PATHS: [&'static str; 2] = ["/v1/collections", "/v1/collections/{id}"];
    const PREFIX: &'static str = "co-";
    const KEPT: &'static [&'static str] = &["name"];

    /// # Errors
    /// 400 for the name of the default collection.
    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        if call.text("slug") == Some(DEFAULT) {
            return Err(Error::invalid_request(
                "slug",
                "default is the collection of each workspace. Choose another slug.",
            ));
        }
        call.new_slug(Self::KIND, workspace, Self::PREFIX, call.text("name").unwrap_or_default())
    }

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        if let Some(named) = call.text("parent_collection_id") {
            let parent = find(&*call.catalog()?, draft.record.workspace.unwrap_or_default(), named);
            let parent = parent.ok_or_else(|| unknown("parent_collection_id", named))?;
            set(&mut draft.body, "collection_id", parent.to_string());
        }
        Ok(())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let catalog = call.catalog()?;
        let workspace = call.list_workspace()?;
        let mut stored = call.list(Self::KIND)?;
        let parent = call.query_text("parent_collection_id");
        if let Some(named) = parent {
            let parent = find(&catalog, workspace.unwrap_or_default(), named);
            stored.retain(|record| parent.is_some_and(|parent| is_in(record, parent)));
        }
        let is_wanted = |record: &&Arc<Record>| {
            parent.is_none()
                && record.status == Status::Active
                && workspace.is_none_or(|own| own == record.id)
        };
        let defaults = catalog.all(Kind::Workspace).filter(is_wanted);
        let mut items: Vec<Item> = defaults.map(|workspace| Item::Unstored(default(workspace))).collect();
        items.extend(stored_items(stored));
        Ok(items)
    }

    fn unstored(call: &Call) -> Result<Option<Value>, Error> {
        Ok(named_default(call)?.map(|workspace| default(&workspace)))
    }

    /// # Errors
    /// 409 for a default collection.
    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        match named_default(call)? {
            Some(_) => {
                Err(Error::conflict("The default collection of a workspace cannot be changed or deleted."))
            }
            None => call.find(Self::KIND),
        }
    }

    async fn shown(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let parent = member(&members(record), "collection_id");
        let own = json!({"parent_collection_id": parent, "is_default": 0, "object": "collection"});
        Ok(view(ITEM, record, own))
    }

    fn check_unused(call: &Call, record: &Record) -> Result<(), Error> {
        let catalog = call.catalog()?;
        let is_used = |kind: Kind| {
            let mut active = catalog.all(kind).filter(|other| other.status == Status::Active);
            active.any(|other| is_in(other, record.id))
        };
        if [Kind::Prompt, Kind::Partial, Kind::Collection].into_iter().any(is_used) {
            let message =
                "The collection is not empty. Move or delete its prompts, partials and collections first.";
            return Err(Error::conflict(message));
        }
        Ok(())
    }
}

/// The collection of an object that is created or moved in a workspace; the default one where none is named.
///
/// # Errors
/// 400 for an unknown one.
pub(super) fn collection_of(call: &Call, workspace: Uuid, named: Option<&str>) -> Result<Uuid, Error> {
    let Some(named) = named else { return Ok(workspace) };
    find(&*call.catalog()?, workspace, named).ok_or_else(|| unknown("collection_id", named))
}

fn unknown(param: &str, named: &str) -> Error {
    Error::invalid_request(param, format!("There is no collection {named:?} in the workspace."))
        .with_unknown_name(named)
}

/// The collection of a workspace with this id or slug.
fn find(catalog: &Catalog, workspace: Uuid, named: &str) -> Option<Uuid> {
    if named == DEFAULT || Uuid::try_parse(named) == Ok(workspace) {
        return Some(workspace);
    }
    let found = match Uuid::try_parse(named) {
        Ok(id) => catalog.get(Kind::Collection, id),
        Err(_) => catalog.by_slug(Kind::Collection, Some(workspace), named),
    };
    let is_usable =
        |found: &&Arc<Record>| found.workspace == Some(workspace) && found.status == Status::Active;
    found.filter(is_usable).map(|found| found.id)
}

/// The workspace whose default collection the path names.
fn named_default(call: &Call) -> Result<Option<Arc<Record>>, Error> {
    let named = call.named();
    let catalog = call.catalog()?;
    let id = if named == DEFAULT { Some(call.new_workspace()?) } else { Uuid::try_parse(named).ok() };
    let found = id.and_then(|id| catalog.get(Kind::Workspace, id));
    let is_own = |record: &&Arc<Record>| call.own_workspace().is_none_or(|own| own == record.id);
    Ok(found.filter(is_own).cloned())
}

/// The default collection of a workspace.
fn default(workspace: &Record) -> Value {
    json!({
        "id": workspace.id,
        "slug": DEFAULT,
        "name": "Default",
        "workspace_id": workspace.id,
        "parent_collection_id": null,
        "is_default": 1,
        "status": "active",
        "origin": "store",
        "created_at": time(workspace.created_at),
        "last_updated_at": time(workspace.created_at),
        "object": "collection",
    })
}
