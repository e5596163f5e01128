//! Workspaces and their members.
//!
//! Everything a workspace has is kept apart from the others by `call`, not here.

mod members;

use super::call::{Call, by_id_or_slug};
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::guardrails;
use super::limits::{self, RATE_LIMITS, RESET_USAGE, USAGE_LIMITS};
use super::page::{self, Page};
use super::records::{archived, changed, created, member, overlay, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::used::Used;
use jiff::Timestamp;
pub(super) use members::ROUTES as MEMBER_ROUTES;
use memory::auth::DEFAULT_WORKSPACE;
use memory::auth::key_records::revoked;
use memory::limits::LimitScope;
use memory::limits::from_records::USAGE_NUMBERS;
use memory::store::{Catalog, Change, Kind, Record, Status};
use motion::batch;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

const DEFAULTS: Type = Type::Object(&[
    optional(
        "metadata",
        Type::Map(&Type::Text(512), 16),
        "Added to the metadata of every request; takes precedence.",
    ),
    optional(
        "input_guardrails",
        Type::List(&Type::Name(128), 0, 20),
        "Saved guardrails of the workspace that run on every request, before those of a config: slugs or ids.",
    ),
    optional("output_guardrails", Type::List(&Type::Name(128), 0, 20), "The same for every response."),
    optional("user_api_key_config", Type::Name(128), "The config of user keys that name none."),
]);

const VIEW: &[Field] = &[
    required("id", Type::Uuid, "The workspace."),
    required("slug", Type::Text(128), "Its name in URLs and bodies, as good as the id."),
    required("name", Type::Text(255), "For people."),
    nullable("icon", Type::Text(2048), "A picture of it, as it was given."),
    nullable("description", Type::Text(2048), "For people."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("defaults", Type::AnyObject, "What its requests have where they say nothing else."),
    required("is_default", Type::Bit, "1 for the workspace of keys that name none."),
    nullable("usage_limits", Type::List(&Type::AnyObject, 0, 10), "How much may be used."),
    nullable("rate_limits", Type::List(&Type::AnyObject, 0, 20), "How much may be used in a unit of time."),
    nullable("security_settings", Type::AnyObject, "What members and managers may see and change."),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    required(
        "status",
        Type::OneOf(&["active", "exhausted", "archived"]),
        "`exhausted`: a usage limit is reached. Archived ones are out of use.",
    ),
    required("object", Type::Text(20), "`workspace`."),
];

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional("slug", Type::Slug(2, 64), "Its name in URLs; made of the name where absent."),
    optional("description", Type::Text(2048), "For people."),
    optional("icon", Type::Text(2048), "A picture of it."),
    optional("defaults", DEFAULTS, "What its requests have where they say nothing else."),
    optional("users", Type::List(&members::USER, 0, 100), "First members."),
    optional(
        "security_settings",
        Type::Map(&Type::Flag, 64),
        "What members and managers may see and change.",
    ),
    USAGE_LIMITS,
    RATE_LIMITS,
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    optional("description", Type::Text(2048), "For people."),
    optional("icon", Type::Text(2048), "A picture of it."),
    optional("defaults", DEFAULTS, "Replaces all of them."),
    optional("security_settings", Type::Map(&Type::Flag, 64), "Replaces all of them."),
    USAGE_LIMITS,
    RATE_LIMITS,
    RESET_USAGE,
];

const DELETE: &[Field] = &[
    optional("name", Type::Text(255), "The workspace's name, to be sure; refused if it is another."),
    optional(
        "force_delete",
        Type::Flag,
        "Whether what the workspace has goes with it; else that refuses it.",
    ),
];

const LIST: &[Field] = &[
    optional(
        "status",
        Type::Names(&["active", "archived"]),
        "`active`, `archived` or both with a comma; `active` by default. Archived ones need a key of the whole organisation.",
    ),
    optional("name", Type::Text(255), "Part of the name; upper and lower case differ."),
    optional("exact_name", Type::Text(255), "The whole name."),
    page::CURRENT_PAGE,
    page::PAGE_SIZE,
];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/workspaces", LISTS, "Lists workspaces", |call| Box::pin(list(call)))
        .query(LIST)
        .replies(Shape::List(VIEW)),
    get("/v1/admin/workspaces", LISTS, "Lists workspaces", |call| Box::pin(list(call)))
        .query(LIST)
        .replies(Shape::List(VIEW)),
    post("/v1/admin/workspaces", Access::Scope(&[Scope::WorkspacesCreate]), "Creates a workspace", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(VIEW))
    .changes("workspaces", "create"),
    get("/v1/admin/workspaces/{id}", Access::Scope(&[Scope::WorkspacesRead]), "Reads a workspace", |call| {
        Box::pin(read(call))
    })
    .replies(Shape::Object(VIEW)),
    put_route(
        "/v1/admin/workspaces/{id}",
        Access::Scope(&[Scope::WorkspacesUpdate]),
        "Changes a workspace",
        |call| Box::pin(update(call)),
    )
    .body(UPDATE)
    .replies(Shape::Object(VIEW))
    .changes("workspaces", "update"),
    delete(
        "/v1/admin/workspaces/{id}",
        Access::Scope(&[Scope::WorkspacesDelete]),
        "Archives a workspace",
        |call| Box::pin(remove(call)),
    )
    .body(DELETE)
    .replies(Shape::Empty)
    .changes("workspaces", "delete"),
];

const LISTS: Access = Access::Scope(&[Scope::WorkspacesList]);

/// The kinds of objects that keep a workspace from being deleted.
const CONTENT: [Kind; 3] = [Kind::Provider, Kind::Config, Kind::ApiKey];

async fn list(call: Call) -> Result<Reply, Error> {
    let statuses = call.query_text("status").unwrap_or("active").split(',');
    let wanted: Vec<Status> = statuses.filter_map(|name| Status::parse(name.trim())).collect();
    if wanted.contains(&Status::Archived) && call.identity.is_bound {
        return Err(Error::forbidden(
            "Only keys of the whole organisation (admins and owners) list archived workspaces.",
        )
        .with_param("status"));
    }
    let own = call.own_workspace();
    let catalog = call.catalog()?;
    let name_of =
        |record: &Record| body(record).get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found: Vec<_> = catalog
        .all(Kind::Workspace)
        .filter(|record| own.is_none_or(|own| record.id == own) && wanted.contains(&record.status))
        .filter(|record| call.query_text("name").is_none_or(|part| name_of(record).contains(part)))
        .filter(|record| call.query_text("exact_name").is_none_or(|name| name_of(record) == name))
        .collect();
    let page = Page::of(&call, 50);
    let mut shown = Vec::new();
    for record in page.part(&found) {
        shown.push(view(&call, record).await);
    }
    Ok(page.reply_with(found.len(), shown))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Workspace)?;
    Ok(Reply::from(view(&call, &record).await))
}

async fn create(mut call: Call) -> Result<Reply, Error> {
    if call.identity.is_bound {
        return Err(Error::forbidden("Only keys of the whole organisation create workspaces."));
    }
    let mut body = checked(&call, None)?;
    limits::set_first_days(&mut body, &Map::new(), &limits::Today::of(&call));
    let users = body.remove("users");
    let name = call.text("name").unwrap_or_default();
    let slug = call.new_slug(Kind::Workspace, None, "ws-", name)?;
    body.remove("slug");
    let record = created(Kind::Workspace, None, slug, &Value::Object(body), call.now);
    let mut changes = vec![put(record.clone())];
    changes.extend(members::of_new_workspace(&call, record.id, users.as_ref())?);
    call.trail.workspace = Some(record.id);
    call.commit(changes).await?;
    Ok(Reply::from(view(&call, &record).await))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Workspace)?;
    let mut update = checked(&call, Some(record.id))?;
    let mut members = body(&record);
    limits::set_first_days(&mut update, &members, &limits::Today::of(&call));
    overlay(
        &mut members,
        &update,
        &[
            "name",
            "description",
            "icon",
            "defaults",
            "security_settings",
            "usage_limits",
            "rate_limits",
            USAGE_NUMBERS,
        ],
    );
    if call.flag("reset_usage") == Some(true) {
        limits::reset(&mut members, "", call.now);
    }
    let record = changed(&record, &Value::Object(members), call.now);
    call.commit(vec![put(record.clone())]).await?;
    Ok(Reply::from(view(&call, &record).await))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Workspace)?;
    let name = member(&body(&record), "name");
    if call.text("name").is_some_and(|given| name != given) {
        return Err(Error::invalid_request("name", "It is not the name of this workspace."));
    }
    if record.slug.as_deref() == Some(DEFAULT_WORKSPACE) {
        return Err(Error::conflict("The default workspace cannot be deleted."));
    }
    let is_forced = call.flag("force_delete") == Some(true);
    let now = call.now;
    call.trail.workspace = Some(record.id);
    // Its batches are written all the time while they run.
    call.commit_latest(|catalog| {
        let record = catalog.get(Kind::Workspace, record.id);
        let record = record.ok_or_else(|| Error::not_found("The workspace is gone."))?;
        removal(catalog, record, is_forced, now)
    })
    .await?;
    Ok(Reply::empty())
}

/// What is written to delete a workspace with all its objects.
///
/// # Errors
/// 409 where it has objects and the client does not force the deletion.
fn removal(
    catalog: &Catalog,
    record: &Record,
    is_forced: bool,
    now: Timestamp,
) -> Result<Vec<Change>, Error> {
    let of_it = |kind: Kind| {
        catalog.all(kind).filter(|found| found.workspace == Some(record.id) && found.status == Status::Active)
    };
    if !is_forced && let Some(kind) = CONTENT.into_iter().find(|kind| of_it(*kind).next().is_some()) {
        return Err(Error::conflict(format!(
            "The workspace has objects of the kind {}. Delete them first, or send force_delete.",
            kind.as_str()
        )));
    }
    let mut changes = vec![put(archived(record, now))];
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_in_memory()) {
        changes.extend(of_it(kind).map(|found| match kind {
            Kind::ApiKey => put(revoked(found, now)),
            Kind::Member => Change::Delete { kind, id: found.id },
            // It is archived when it has ended. Its worker deletes the files.
            Kind::Batch => put(batch::cancelled(found, now).unwrap_or_else(|| archived(found, now))),
            _ => put(archived(found, now)),
        }));
    }
    Ok(changes)
}

/// The body of a request, its limits and references checked. `workspace`: the one that is changed.
fn checked(call: &Call, workspace: Option<Uuid>) -> Result<Map<String, Value>, Error> {
    let mut body = call.body.clone();
    let problems = Problems::default();
    limits::normalise(&mut body, true, &problems);
    let config = body.get("defaults").and_then(|defaults| defaults.get("user_api_key_config")?.as_str());
    if let Some(config) = config {
        let catalog = call.catalog()?;
        let workspace = workspace.or(call.own_workspace());
        let is_stored = by_id_or_slug(&catalog, Kind::Config, workspace, config).is_some();
        if !is_stored && !call.snapshot.settings.configs.contains_key(config) {
            problems.push("defaults.user_api_key_config", None, "names no config");
        }
    }
    guardrails::check_defaults(call, workspace, body.get("defaults"), &problems);
    if problems.is_empty() { Ok(body) } else { Err(Error::invalid_body(problems.into_vec())) }
}

fn body(record: &Record) -> Map<String, Value> {
    super::records::members(record)
}

async fn view(call: &Call, record: &Record) -> Value {
    let members = body(record);
    let used = Used::of(call, record, LimitScope::Workspace).await;
    let status = match record.status {
        Status::Active => used.status(),
        Status::Archived => Status::Archived.as_str(),
    };
    json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&members, "name"),
        "icon": member(&members, "icon"),
        "description": member(&members, "description"),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "defaults": member(&members, "defaults"),
        "is_default": u8::from(record.slug.as_deref() == Some(DEFAULT_WORKSPACE)),
        "usage_limits": used.shown(member(&members, "usage_limits")),
        "rate_limits": member(&members, "rate_limits"),
        "last_reset_at": used.last_reset(&members, record.created_at),
        "security_settings": member(&members, "security_settings"),
        "status": status,
        "object": "workspace",
    })
}
