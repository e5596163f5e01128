//! Stored partials: texts that prompts include by name, with versions of their own.
//!
//! Publishing one changes every prompt that names no version of it, at once.

use super::call::Call;
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::numbered::PARTIAL;
use super::origin::{ORIGIN, SET};
use super::page::{self, Page};
use super::records::{object, put, set, time};
use super::reply::Reply;
use super::resource::{Item, Resource, changed_record, create, delete, list, read, stored_items, update};
use super::route::{Access, Route, Shape, get, put as put_route};
use knowledge::prompt::Partial;
use knowledge::prompt::inclusion::{WithVersion, problems_of_partial};
use memory::state::large_work::translation;
use memory::state::stored::prompts::{PartialBody, read as published};
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::{Error, Problem};
use words::settings::scopes::Scope;

const TEXT: Type = Type::Text(1 << 20);

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it where none is chosen."),
    optional(
        "slug",
        Type::Slug(2, 64),
        "How templates name it, without dots; made of the name where absent.",
    ),
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
    ORIGIN,
    SET,
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
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`partial`."),
];

const LIST: &[Field] =
    &[optional("collection_id", Type::Text(128), "Only of this collection: id or slug."), page::WORKSPACE];

pub(super) const ROUTES: &[Route] = &[
    create::<StoredPartial>(&[Scope::PromptsCreate], "Saves a partial", CREATE, Shape::Object(CHANGED)),
    list::<StoredPartial>(&[Scope::PromptsList], "Lists partials", LIST, ITEM),
    read::<StoredPartial>(&[Scope::PromptsRead], "Reads the published version of a partial", ONE),
    update::<StoredPartial>(
        &[Scope::PromptsUpdate],
        "Changes a partial, or makes a version",
        UPDATE,
        Shape::Object(CHANGED),
    ),
    delete::<StoredPartial>(&[Scope::PromptsDelete], "Takes a partial out of use"),
    get(
        "/v1/prompts/partials/{id}/versions",
        Access::Scope(&[Scope::PromptsRead]),
        "Lists the versions of a partial",
        |call| Box::pin(versions(call)),
    )
    .lists(page::QUERY)
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
        |call| Box::pin(publish(call)),
    )
    .body(PUBLISH)
    .replies(Shape::Empty)
    .changes("partials", "publish"),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<StoredPartial>("prompts/partials");

struct StoredPartial;

impl Resource for StoredPartial {
    const KIND: Kind = Kind::Partial;
    const NAME: &'static str = "partials";
    const PATHS: [&'static str; 2] = ["/v1/prompts/partials", "/v1/prompts/partials/{id}"];
    const PREFIX: &'static str = "pp-";
    const IS_COMPILED: bool = true;
    const KEPT: &'static [&'static str] = &["name"];

    /// # Errors
    /// 400 for a slug that no template could name: a dot is for the members of variables.
    fn slug(call: &Call, workspace: Option<Uuid>) -> Result<String, Error> {
        if call.text("slug").is_some_and(|slug| slug.contains('.')) {
            return Err(Error::invalid_request("slug", "The slug of a partial has no dots."));
        }
        call.new_slug(Self::KIND, workspace, Self::PREFIX, call.text("name").unwrap_or_default())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        PARTIAL.listed(call).map(stored_items)
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let number = published(record).published.to_string();
        Ok(shown(record, PARTIAL.find_version(&*call.catalog()?, record, &number)?, false))
    }

    async fn listed(_: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(Value::Object(PARTIAL.head(record)))
    }

    /// # Errors
    /// 409 while a prompt or another partial includes it.
    fn check_unused(call: &Call, record: &Record) -> Result<(), Error> {
        let slug = record.slug.as_deref().unwrap_or_default();
        let set = call.snapshot.stored.prompts(record.workspace);
        let users = set.map(|set| set.users_of_partial(slug, 5)).unwrap_or_default();
        if users.is_empty() {
            Ok(())
        } else {
            Err(Error::conflict(format!(
                "The partial {slug} is included by {}. Change them first: their published, labelled and newest versions count.",
                users.join(", ")
            )))
        }
    }

    /// With its first version.
    async fn create(mut call: Call) -> Result<Reply, Error> {
        let workspace = call.new_workspace()?;
        let slug = Self::slug(&call, Some(workspace))?;
        let content = content_elsewhere(&call, Some(workspace), &slug, 1).await?;
        let (record, first) = PARTIAL.first(&call, workspace, slug, &json!(content))?;
        let reply = changed_reply(&record, Some(first.id));
        let slug = record.slug.clone();
        call.commit(vec![put(record), put(first)]).await?;
        compile(&call, Some(workspace), slug.as_deref()).await;
        Ok(reply)
    }

    /// A text makes a version.
    async fn update(mut call: Call) -> Result<Reply, Error> {
        let before = Self::find(&call)?;
        let catalog = call.catalog()?;
        let mut changes = vec![put(changed_record::<Self>(&call, &before)?)];
        let mut version_id = PARTIAL.published(&catalog, &before).map(|version| version.id);
        if call.text("string").is_some() {
            let number = PARTIAL.next_number(&catalog, &before);
            let slug = before.slug.as_deref().unwrap_or_default();
            let content = content_elsewhere(&call, before.workspace, slug, number).await?;
            let next = PARTIAL.version(&before, number, &json!(content), &call);
            version_id = Some(next.id);
            changes.push(put(next));
        }
        call.commit(changes).await?;
        compile(&call, before.workspace, before.slug.as_deref()).await;
        Ok(changed_reply(&before, version_id))
    }
}

async fn read_version(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial)?;
    let catalog = call.catalog()?;
    let found = PARTIAL.find_version(&catalog, &record, call.param("version_id"))?;
    Ok(Reply::from(shown(&record, found, true)))
}

async fn versions(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial)?;
    let catalog = call.catalog()?;
    let versions = PARTIAL.versions(&catalog, &record);
    Ok(Page::of(&call, 50).reply(&versions, |version| shown(&record, version, true)))
}

/// Publishes a version, unless that would make a circle.
async fn publish(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Partial)?;
    let number =
        call.body.get("version").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let slug = record.slug.as_deref().unwrap_or_default();
    let set = call.snapshot.stored.prompts(record.workspace);
    let compiled = set
        .zip(number)
        .and_then(|(set, number)| Some((set, set.partial(slug)?.versions.get(&number)?.partial().ok()?)));
    if let (Some((set, partial)), Some(number)) = (compiled, number) {
        let with = WithVersion { set, slug, number, partial, is_published: true, is_latest: false };
        refuse("version", problems_of_partial(slug, partial, &with))?;
    }
    PARTIAL.publish(call).await
}

/// # Errors
/// 400 with all `problems`.
fn refuse(path: &str, problems: Vec<String>) -> Result<(), Error> {
    let problem = |message: String| {
        let message = format!("Error in parsing prompt template: {message}");
        Problem { path: path.to_owned(), message, place: None }
    };
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::invalid_body(problems.into_iter().map(problem).collect()))
    }
}

/// Compiles what was saved, so that no request to a prompt has to.
async fn compile(call: &Call, workspace: Option<Uuid>, slug: Option<&str>) {
    let snapshot = call.shared.settings_arc();
    let partial = slug.and_then(|slug| snapshot.stored.prompts(workspace)?.partial(slug));
    let Some(newest) = partial.and_then(|partial| partial.versions.values().next_back()) else { return };
    call.shared.large_work.run(translation(newest.size()), || newest.partial().is_ok()).await;
}

/// As [`content`]; a large text on a thread of its own.
///
/// # Errors
/// As [`content`].
async fn content_elsewhere(
    call: &Call,
    workspace: Option<Uuid>,
    slug: &str,
    number: u32,
) -> Result<PartialBody, Error> {
    let work = translation(call.text("string").map_or(0, str::len));
    call.shared.large_work.run(work, || content(call, workspace, slug, number)).await
}

/// The content of a version that a request describes; `number`: of that version.
///
/// # Errors
/// 400 with everything that is wrong with its tags and the partials that it includes.
fn content(call: &Call, workspace: Option<Uuid>, slug: &str, number: u32) -> Result<PartialBody, Error> {
    let string = call.text("string").unwrap_or_default().to_owned();
    match Partial::compile(&string) {
        Err(problems) => refuse("string", problems)?,
        Ok(partial) => {
            let none = Arc::default();
            let set = call.snapshot.stored.prompts(workspace).unwrap_or(&none);
            let is_published = number == 1;
            let with = WithVersion { set, slug, number, partial: &partial, is_published, is_latest: true };
            refuse("string", problems_of_partial(slug, &partial, &with))?;
        }
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

/// A partial with one of its versions. `is_version`: the time is the version's.
fn shown(record: &Record, version: &Record, is_version: bool) -> Value {
    let content = serde_json::from_str::<PartialBody>(&version.body).unwrap_or_default();
    let mut shown = PARTIAL.head(record);
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
