//! Collections of prompts and partials: folders, one of them each workspace's default.
//!
//! The default collection has no record: its id is the workspace's, so that it is there from the beginning and cannot be
//! deleted.

use super::call::Call;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::numbered::{is_in, matches};
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, put, set, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
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
    required("object", Type::Text(20), "`collection`."),
];

const LIST: &[Field] = &[
    optional("search", Type::Text(255), "Only with this text in name or slug."),
    optional("parent_collection_id", Type::Text(128), "Only those in this collection: id or slug."),
    page::WORKSPACE,
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
    page::CURRENT_PAGE_CAMEL,
    page::PAGE_SIZE_CAMEL,
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/collections", Access::Scope(&[Scope::PromptsCreate]), "Makes a collection", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(CREATED))
    .changes("collections", "create"),
    get("/v1/collections", Access::Scope(&[Scope::PromptsList]), "Lists collections", |call| {
        Box::pin(list(call))
    })
    .query(LIST)
    .replies(Shape::List(ITEM)),
    get("/v1/collections/{id}", Access::Scope(&[Scope::PromptsRead]), "Reads a collection", |call| {
        Box::pin(read(call))
    })
    .replies(Shape::Object(ITEM)),
    put_route(
        "/v1/collections/{id}",
        Access::Scope(&[Scope::PromptsUpdate]),
        "Renames a collection",
        |call| Box::pin(update(call)),
    )
    .body(UPDATE)
    .replies(Shape::Empty)
    .changes("collections", "update"),
    delete(
        "/v1/collections/{id}",
        Access::Scope(&[Scope::PromptsDelete]),
        "Takes an empty collection out of use",
        |call| Box::pin(remove(call)),
    )
    .replies(Shape::Empty)
    .changes("collections", "delete"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.new_workspace()?;
    let parent = match call.text("parent_collection_id") {
        None => None,
        Some(named) => Some(
            find(&*call.catalog()?, workspace, named)
                .ok_or_else(|| unknown("parent_collection_id", named))?,
        ),
    };
    let name = call.text("name").unwrap_or_default();
    let body = json!({"name": name, "collection_id": parent, "owner_id": call.actor()});
    let slug = call.new_slug(Kind::Collection, Some(workspace), "co-", name)?;
    let record = created(Kind::Collection, Some(workspace), slug, &body, call.now);
    let reply = json!({"id": record.id, "slug": record.slug});
    call.commit(vec![put(record)]).await?;
    Ok(Reply::from(reply))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    check_own(&call)?;
    let before = call.find(Kind::Collection)?;
    let mut body = members(&before);
    if let Some(name) = call.text("name") {
        set(&mut body, "name", name);
    }
    call.commit(vec![put(changed(&before, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    check_own(&call)?;
    let record = call.find(Kind::Collection)?;
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
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let catalog = call.catalog()?;
    let workspace = call.list_workspace()?;
    let mut records = call.list(Kind::Collection)?;
    if let Some(text) = call.query_text("search") {
        records.retain(|record| matches(record, text));
    }
    let parent = call.query_text("parent_collection_id");
    if let Some(named) = parent {
        let parent = find(&catalog, workspace.unwrap_or_default(), named);
        records.retain(|record| parent.is_some_and(|parent| is_in(record, parent)));
    }
    let is_wanted = |workspace: &&Arc<Record>| workspace.status == Status::Active && parent.is_none();
    let workspaces = catalog.all(Kind::Workspace).filter(is_wanted);
    let workspaces = workspaces.filter(|record| workspace.is_none_or(|own| own == record.id));
    let is_searched = call.query_text("search").is_none_or(|text| DEFAULT.contains(&text.to_lowercase()));
    let mut items: Vec<Value> =
        workspaces.filter(|_| is_searched).map(|workspace| default(workspace)).collect();
    items.extend(records.iter().map(|record| item(record)));
    Ok(Page::of(&call, 50).reply(&items, Value::clone))
}

async fn read(call: Call) -> Result<Reply, Error> {
    match named_default(&call)? {
        Some(workspace) => Ok(Reply::from(default(&workspace))),
        None => Ok(Reply::from(item(&*call.find(Kind::Collection)?))),
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

/// # Errors
/// 409 for a default collection.
fn check_own(call: &Call) -> Result<(), Error> {
    match named_default(call)? {
        Some(_) => {
            Err(Error::conflict("The default collection of a workspace cannot be changed or deleted."))
        }
        None => Ok(()),
    }
}

fn item(record: &Record) -> Value {
    let body = members(record);
    json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&body, "name"),
        "workspace_id": record.workspace,
        "parent_collection_id": member(&body, "collection_id"),
        "is_default": 0,
        "status": record.status.as_str(),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "object": "collection",
    })
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
        "created_at": time(workspace.created_at),
        "last_updated_at": time(workspace.created_at),
        "object": "collection",
    })
}
