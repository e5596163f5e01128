//! Stored partials (reference 1.7): texts that prompts include by name, with versions of their own.
//!
//! Publishing one changes every prompt that names no version of it, at once.

use super::call::{Call, by_id_or_slug};
use super::collections::collection_of;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::page::{self, Page};
use super::prompts::{find_version, is_in, matches, publish_version};
use super::records::{archived, changed, created, member, members, object, put, set, slug, time, version};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use crate::error::{Error, Problem};
use crate::prompt::Partial;
use crate::settings::scopes::Scope;
use crate::state::stored::prompts::{PartialBody, read as published};
use crate::store::{Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const TEXT: Type = Type::Text(1 << 20);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("string", TEXT, "The text, with tags as in a prompt."),
    optional("version_description", Type::Text(1024), "What this version is for."),
    optional(
        "collection_id",
        Type::Name(128),
        "Id or slug of a collection; the workspace's default one where absent.",
    ),
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; needed with keys of the organisation unless it is the default one.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people. Makes no version."),
    optional("string", TEXT, "The text of a new version, which is not published by this."),
    optional("description", Type::Text(1024), "What the new version is for."),
    optional("version_description", Type::Text(1024), "The same as `description`."),
    optional("status", Type::OneOf(&["active", "archived"]), "`archived` takes it out of use."),
];

const PUBLISH: &[Field] =
    &[required("version", Type::Integer(1, u32::MAX as i64), "The number of the version that is published.")];

const CHANGED: &[Field] = &[
    required("id", Type::Uuid, "The partial."),
    required("slug", Type::Text(128), "How templates name it."),
    nullable("version_id", Type::Uuid, "The version that was made, or the published one."),
    nullable("prompt_partial_version_id", Type::Uuid, "The same as `version_id`."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The partial."),
    required("slug", Type::Text(128), "How templates name it: `{{>slug}}`."),
    required("name", Type::Text(255), "For people."),
    required("collection_id", Type::Uuid, "Its collection."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    required("object", Type::Text(20), "`partial`."),
];

const ONE: &[Field] = &[
    required("id", Type::Uuid, "The partial."),
    required("slug", Type::Text(128), "How templates name it: `{{>slug}}`."),
    required("name", Type::Text(255), "For people."),
    required("collection_id", Type::Uuid, "Its collection."),
    nullable("workspace_id", Type::Uuid, "Its workspace."),
    required("status", Type::Text(20), "`active`."),
    required("created_at", Type::Time, "When it was made; of a version: when the version was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    required("string", TEXT, "The text."),
    required("version", Type::Integer(1, u32::MAX as i64), "The number of the version."),
    required("prompt_partial_version_id", Type::Uuid, "The version."),
    required(
        "prompt_version_status",
        Type::OneOf(&["active", "archived"]),
        "`active`: it is the published one.",
    ),
    nullable("version_description", Type::Text(1024), "What the version is for."),
    required("object", Type::Text(20), "`partial`."),
];

const LIST: &[Field] = &[
    optional("collection_id", Type::Text(128), "Only of this collection: id or slug."),
    optional("search", Type::Text(255), "Only with this text in name or slug."),
    page::WORKSPACE,
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
    page::CURRENT_PAGE_CAMEL,
    page::PAGE_SIZE_CAMEL,
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/prompts/partials", Access::Scope(&[Scope::PromptsCreate]), "Saves a partial", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(CHANGED))
    .changes("partials", "create"),
    get("/v1/prompts/partials", Access::Scope(&[Scope::PromptsList]), "Lists partials", |call| {
        Box::pin(list(call))
    })
    .query(LIST)
    .replies(Shape::List(ITEM)),
    get(
        "/v1/prompts/partials/{id}",
        Access::Scope(&[Scope::PromptsRead]),
        "Reads the published version of a partial",
        |call| Box::pin(read(call)),
    )
    .replies(Shape::Object(ONE)),
    put_route(
        "/v1/prompts/partials/{id}",
        Access::Scope(&[Scope::PromptsUpdate]),
        "Changes a partial, or makes a version",
        |call| Box::pin(update(call)),
    )
    .body(UPDATE)
    .replies(Shape::Object(CHANGED))
    .changes("partials", "update"),
    delete(
        "/v1/prompts/partials/{id}",
        Access::Scope(&[Scope::PromptsDelete]),
        "Takes a partial out of use",
        |call| Box::pin(remove(call)),
    )
    .replies(Shape::Empty)
    .changes("partials", "delete"),
    get(
        "/v1/prompts/partials/{id}/versions",
        Access::Scope(&[Scope::PromptsRead]),
        "Lists the versions of a partial",
        |call| Box::pin(versions(call)),
    )
    .query(page::QUERY)
    .replies(Shape::List(ONE)),
    get(
        "/v1/prompts/partials/{id}/versions/{version_id}",
        Access::Scope(&[Scope::PromptsRead]),
        "Reads a version of a partial, by its id or number",
        |call| Box::pin(read_version(call)),
    )
    .replies(Shape::Object(ONE)),
    put_route(
        "/v1/prompts/partials/{id}/makeDefault",
        Access::Scope(&[Scope::PromptsPublish]),
        "Publishes a version of a partial",
        |call| Box::pin(publish_version(call, Kind::Partial, Kind::PartialVersion)),
    )
    .body(PUBLISH)
    .replies(Shape::Empty)
    .changes("partials", "publish"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.new_workspace()?;
    let content = content(&call)?;
    let collection = collection_of(&call, workspace, call.text("collection_id"))?;
    let name = call.text("name").unwrap_or_default();
    let body = json!({
        "name": name,
        "collection_id": collection,
        "published": 1,
        "owner_id": call.actor(),
        "updated_by": call.actor(),
    });
    let record = created(Kind::Partial, Some(workspace), slug("pp-", name), &body, call.now);
    let first = version(Kind::PartialVersion, &record, 1, &json!(content), call.now);
    let reply = changed_reply(&record, Some(first.id));
    call.commit(vec![put(record), put(first)]).await?;
    Ok(reply)
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = call.find(Kind::Partial, "id")?;
    let catalog = call.catalog()?;
    let mut body = members(&before);
    if let Some(name) = call.text("name") {
        set(&mut body, "name", name);
    }
    set(&mut body, "updated_by", call.actor());
    let mut record = changed(&before, &Value::Object(body), call.now);
    if call.text("status") == Some("archived") {
        record.status = Status::Archived;
    }
    let mut changes = vec![put(record)];
    let versions = || catalog.children(Kind::PartialVersion, before.id);
    let now_published = published(&before).published;
    let mut version_id =
        versions().find(|version| version.number == Some(now_published)).map(|version| version.id);
    if call.text("string").is_some() {
        let number = versions().filter_map(|version| version.number).max().unwrap_or_default() + 1;
        let next = version(Kind::PartialVersion, &before, number, &json!(content(&call)?), call.now);
        version_id = Some(next.id);
        changes.push(put(next));
    }
    call.commit(changes).await?;
    Ok(changed_reply(&before, version_id))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial, "id")?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut records = call.list(Kind::Partial)?;
    if let Some(named) = call.query_text("collection_id") {
        let collection = match Uuid::try_parse(named) {
            Ok(id) => Some(id),
            Err(_) => by_id_or_slug(&*call.catalog()?, Kind::Collection, call.list_workspace()?, named)
                .map(|found| found.id),
        };
        records.retain(|record| collection.is_some_and(|id| is_in(record, id)));
    }
    if let Some(text) = call.query_text("search") {
        records.retain(|record| matches(record, text));
    }
    Ok(Page::of(&call, 50).reply(&records, |record| Value::Object(head(record))))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial, "id")?;
    let number = published(&record).published.to_string();
    let catalog = call.catalog()?;
    Ok(Reply::from(shown(&record, find_version(&catalog, Kind::PartialVersion, &record, &number)?, false)))
}

async fn read_version(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial, "id")?;
    let catalog = call.catalog()?;
    let found = find_version(&catalog, Kind::PartialVersion, &record, call.param("version_id"))?;
    Ok(Reply::from(shown(&record, found, true)))
}

async fn versions(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial, "id")?;
    let catalog = call.catalog()?;
    let mut versions: Vec<&Arc<Record>> = catalog.children(Kind::PartialVersion, record.id).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version.number));
    Ok(Page::of(&call, 50).reply(&versions, |version| shown(&record, version, true)))
}

/// The content of a version that a request describes.
///
/// # Errors
/// 400 with everything that is wrong with its tags.
fn content(call: &Call) -> Result<PartialBody, Error> {
    let string = call.text("string").unwrap_or_default().to_owned();
    if let Err(problems) = Partial::compile(&string) {
        let problem = |message: String| {
            let message = format!("Error in parsing prompt template: {message}");
            Problem { path: "string".to_owned(), message, place: None }
        };
        return Err(Error::invalid_body(problems.into_iter().map(problem).collect()));
    }
    let description = call.text("version_description").or_else(|| call.text("description"));
    Ok(PartialBody { string, version_description: description.map(str::to_owned) })
}

fn changed_reply(record: &Record, version: Option<Uuid>) -> Reply {
    Reply::from(json!({
        "id": record.id,
        "slug": record.slug,
        "version_id": version,
        "prompt_partial_version_id": version,
    }))
}

/// What a partial has without its versions.
fn head(record: &Record) -> Map<String, Value> {
    let body = members(record);
    object(json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&body, "name"),
        "collection_id": member(&body, "collection_id"),
        "workspace_id": record.workspace,
        "status": record.status.as_str(),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "object": "partial",
    }))
}

/// A partial with one of its versions. `is_version`: the time is the version's.
fn shown(record: &Record, version: &Record, is_version: bool) -> Value {
    let content = serde_json::from_str::<PartialBody>(&version.body).unwrap_or_default();
    let mut shown = head(record);
    if is_version {
        set(&mut shown, "created_at", time(version.created_at));
    }
    let is_published = version.number == Some(published(record).published);
    shown.extend(object(json!({
        "string": content.string,
        "version": version.number,
        "prompt_partial_version_id": version.id,
        "prompt_version_status": if is_published { "active" } else { "archived" },
        "version_description": content.version_description,
    })));
    Value::Object(shown)
}
